//! Ours: addresses in, tables that stay.

use std::io::Write as _;
use std::time::Instant;

use bench::Failure;
use profiler::profile::{
    Label, LabelValue, Limits, Mapping, Profile, Stack, Symbol, Symbolize, Tables, ValueType,
    Window, WriteOptions,
};
use profiler::unwind::End;

use super::{Cost, Engine, Half};
use crate::workload::{CODE, Workload};

const LIMITS: Limits = Limits { stacks: 1 << 20, bytes: 1 << 30, labels: 1 << 16 };
const COLUMNS: [ValueType; 2] =
    [ValueType { kind: "samples", unit: "count" }, ValueType { kind: "wall", unit: "nanoseconds" }];

pub struct Unladen {
    /// The program's stacks: addresses, as an unwinder gives them.
    stacks: Vec<Vec<u64>>,
    tables: Option<(Profile, Window)>,
}

struct Names<'w>(&'w Workload);

impl Symbolize for Names<'_> {
    fn symbolize(
        &mut self,
        address: u64,
        _mapping: Option<&Mapping>,
        found: &mut dyn FnMut(Symbol<'_>),
    ) {
        let function = &self.0.functions[((address - CODE) / 64) as usize];
        let (name, file, line) = (&*function.name, &*function.file, function.line);
        found(Symbol { name, system_name: name, file, line, start_line: 0 });
    }
}

impl Unladen {
    pub fn new(workload: &Workload) -> Self {
        let address = |&f: &u32| workload.functions[f as usize].address;
        let stacks = workload.stacks.iter().map(|stack| stack.iter().map(address).collect());
        Unladen { stacks: stacks.collect(), tables: None }
    }

    fn begin(workload: &Workload) -> (Profile, Window) {
        let tables = Tables::new(LIMITS);
        let mapping = Mapping {
            start: CODE,
            limit: CODE + 64 * workload.size.functions as u64,
            offset: 0,
            file: "/usr/bin/program".to_owned(),
            build_id: "0123456789abcdef".to_owned(),
        };
        tables.set_mappings(vec![mapping], false);
        let profile = Profile::new(&tables, &COLUMNS, 1, COLUMNS[1], 10_000_000);
        let window = profile.window();
        (profile, window)
    }

    /// As the sampler does it: one lock per sample, labels looked up each time.
    fn record(&self, profile: &Profile, workload: &Workload) {
        for sample in workload.samples() {
            let mut recording = profile.lock();
            let text = |text| LabelValue::Text(text);
            let thread = text(&workload.threads[sample.thread]);
            let endpoint = text(&workload.endpoints[sample.endpoint]);
            let thread = recording.labels(&[Label { key: "thread", value: thread }]);
            let endpoint = recording.labels(&[Label { key: "endpoint", value: endpoint }]);
            let stack = Stack { addresses: &self.stacks[sample.stack], end: End::Root };
            recording.record(stack, thread, endpoint, &sample.values);
        }
    }

    fn encode<S>(
        window: &mut Window,
        workload: &Workload,
        state: S,
        fold: impl FnMut(S, &[u8]) -> S,
    ) -> S {
        let mut names = Names(workload);
        let options = WriteOptions {
            time_nanos: 1,
            duration_nanos: 1,
            symbolizer: Some(&mut names),
            ..WriteOptions::default()
        };
        window.write(options, state, fold)
    }
}

impl Engine for Unladen {
    fn cold(&mut self, workload: &Workload) -> Result<Cost, Failure> {
        self.tables = None;
        let ((profile, mut window), record) = Half::of(|| {
            let (profile, window) = Self::begin(workload);
            self.record(&profile, workload);
            (profile, window)
        });
        let (_, encode) =
            Half::of(|| Self::encode(&mut window, workload, 0, |bytes, chunk| bytes + chunk.len()));
        self.tables = Some((profile, window));
        Ok(Cost { record, encode })
    }

    fn again(&mut self, workload: &Workload) -> Result<Cost, Failure> {
        let (profile, mut window) = self.tables.take().ok_or("again comes after cold")?;
        let ((), record) = Half::of(|| self.record(&profile, workload));
        let (_, encode) =
            Half::of(|| Self::encode(&mut window, workload, 0, |bytes, chunk| bytes + chunk.len()));
        self.tables = Some((profile, window));
        Ok(Cost { record, encode })
    }

    fn profile(&mut self, workload: &Workload) -> Result<Vec<u8>, Failure> {
        let (profile, mut window) = self.tables.take().ok_or("nothing was recorded")?;
        self.record(&profile, workload);
        let append = |mut all: Vec<u8>, chunk: &[u8]| {
            all.extend_from_slice(chunk);
            all
        };
        let bytes = Self::encode(&mut window, workload, Vec::new(), append);
        self.tables = Some((profile, window));
        Ok(bytes)
    }

    /// With gzip as a sink, and how long the lock was kept at most, seen by somebody who wants it.
    fn more(&mut self, workload: &Workload) -> Result<Vec<(&'static str, f64)>, Failure> {
        let (profile, mut window) = self.tables.take().ok_or("nothing was recorded")?;
        self.record(&profile, workload);
        let level = flate2::Compression::new(1);
        let sink = flate2::write::GzEncoder::new(Vec::new(), level);
        let (sink, gzip) = Half::of(|| {
            Self::encode(&mut window, workload, sink, |mut sink, chunk| {
                // A `Vec` takes everything.
                let _ = sink.write_all(chunk);
                sink
            })
        });
        let compressed = sink.finish()?.len();
        self.record(&profile, workload);
        let waited = longest_wait(&profile, || {
            Self::encode(&mut window, workload, 0, |bytes, chunk| bytes + chunk.len());
        });
        self.tables = Some((profile, window));
        Ok(vec![
            ("gzip_ms", gzip.cpu_ns / 1e6),
            ("gzip_bytes", compressed as f64),
            ("wait_p99_us", waited),
        ])
    }
}

/// Takes the lock again and again on another thread while `work` runs, and gives the time of the waits, in
/// microseconds, below which 99% are: the longest are those in which the system ran somebody else.
fn longest_wait(profile: &Profile, work: impl FnOnce()) -> f64 {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut waits = Vec::with_capacity(1 << 20);
            while !done.load(Relaxed) && waits.len() < 1 << 20 {
                let asked = Instant::now();
                drop(profile.lock());
                waits.push(asked.elapsed().as_nanos() as f64);
                std::thread::yield_now();
            }
            waits.sort_unstable_by(f64::total_cmp);
            waits.get(waits.len() * 99 / 100).copied().unwrap_or(0.0) / 1e3
        });
        work();
        done.store(true, Relaxed);
        waiting.join().unwrap_or(f64::NAN)
    })
}
