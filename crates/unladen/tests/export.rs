//! The thread of exports, and what exporters are given.

use std::io::{self, Write};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use parking_lot::Mutex;
use unladen::export::{Data, Error, Exporter, MemoryMode, PeriodicReader, Reason, TextExporter};
use unladen::reader::{Points, Snapshot, Temporalities};
use unladen::{Buckets, Registry, Scope, Spec};

const NEVER: Duration = Duration::from_secs(3600);

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Without times, which differ.
fn undated(text: &str) -> Vec<String> {
    let is_ours = |line: &&str| !line.is_empty() && !line.contains(" unladen_");
    let line = |line: &str| {
        let (_, rest) = line.split_once(' ').unwrap();
        match (rest.find(" since "), rest.find(" of ")) {
            (Some(at), _) => format!("{})", &rest[..at]),
            (_, Some(at)) => format!("{} of)", &rest[..at]),
            _ => rest.to_owned(),
        }
    };
    text.lines().filter(is_ours).map(line).collect()
}

#[test]
fn a_line_for_each_point() {
    let registry = Registry::new();
    let scope = registry.scope(Scope::new("shop"));
    let spec = Spec::new("sold_bytes_total", "").unit("bytes");
    scope.counter(spec, ["item"]).unwrap().with(["a \"b\""]).add(7);
    registry.gauge(("level", ""), []).unwrap().with([]).set(-0.5);
    let explicit = registry.histogram(("took", ""), [], [1.0, 2.0]).unwrap().with([]);
    let native = registry.histogram(("n", ""), [], Buckets::native_with(0, 0.0, 20)).unwrap();
    for value in [1.5, 3.0, 3.0] {
        explicit.record(value);
        native.with([]).record(value);
    }
    native.with([]).record(-1.5);
    native.with([]).record(0.0);
    let lines = Lines::default();
    let reader = PeriodicReader::builder(TextExporter::new(lines.clone())).interval(NEVER);
    reader.start(&registry).unwrap().shutdown().unwrap();
    let expected = [
        "sold_bytes_total{item=\"a \\\"b\\\"\"} 7 bytes (sum)",
        "level -0.5 (gauge)",
        "took 3 values, sum 7.5: ≤2: 1 ≤inf: 2 (histogram)",
        "n 5 values, sum 6: ≤-1.0000e0: 1 0: 1 ≤2.0000e0: 1 ≤4.0000e0: 2 (native histogram)",
    ];
    assert_eq!(undated(&lines.text()), expected);
    assert!(lines.text().contains(", shop)\n"));
}

/// Does as it is told.
struct Scripted {
    mode: MemoryMode,
    results: Vec<Result<(), Reason>>,
    seen: mpsc::Sender<f64>,
    kept: Arc<Mutex<Vec<Arc<Snapshot>>>>,
}

impl Exporter for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }
    fn temporalities(&self) -> Temporalities {
        Temporalities::CUMULATIVE
    }
    fn memory_mode(&self) -> MemoryMode {
        self.mode
    }
    fn export(&mut self, data: Data<'_>) -> Result<(), Error> {
        let sum = data.batch().metrics().find(|metric| metric.name() == "a_total");
        let Some(Points::Sum { mut points, .. }) = sum.map(|metric| metric.points()) else {
            panic!("no a_total")
        };
        self.seen.send(points.next().unwrap().value.as_f64()).unwrap();
        match (&data, self.mode) {
            (Data::Leased(_), MemoryMode::Reusable) => {}
            (Data::Shared(snapshot), MemoryMode::Immutable) => {
                self.kept.lock().push(snapshot.clone());
            }
            _ => panic!("not the mode that was asked for"),
        }
        match self.results.pop() {
            Some(Err(Reason::Panic)) => panic!("told to"),
            Some(Err(reason)) => Err(Error::new("scripted", reason, "told to")),
            _ => Ok(()),
        }
    }
}

#[test]
fn failures_are_told_and_lose_nothing_cumulative() {
    for mode in [MemoryMode::Reusable, MemoryMode::Immutable] {
        let registry = Registry::new();
        let counter = registry.counter(("a_total", ""), []).unwrap().with([]);
        let (seen, sums) = mpsc::channel();
        let results = vec![Ok(()), Err(Reason::Panic), Err(Reason::Refused), Ok(())];
        let kept = Arc::default();
        let exporter = Scripted { mode, results, seen, kept: Arc::clone(&kept) };
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hear = heard.clone();
        let reader = PeriodicReader::builder(exporter)
            .interval(NEVER)
            .on_error(move |error| hear.lock().push(error.to_string()))
            .start(&registry)
            .unwrap();
        let mut results = Vec::new();
        for _ in 0..4 {
            counter.add(5);
            results.push(reader.force_flush().map_err(|error| error.reason()));
        }
        let expected = [Ok(()), Err(Reason::Refused), Err(Reason::Panic), Ok(())];
        assert_eq!(results, expected);
        reader.shutdown().unwrap();
        assert_eq!(sums.iter().collect::<Vec<_>>(), [5.0, 10.0, 15.0, 20.0, 20.0]);
        assert_eq!(
            *heard.lock(),
            ["scripted export: told to", "scripted export: the exporter panicked: told to",]
        );
        let text = registry.write(Default::default(), String::new(), |mut body, chunk| {
            body.push_str(std::str::from_utf8(chunk).unwrap());
            body
        });
        for reason in ["refused", "panic"] {
            let line = format!(
                "unladen_export_failures_total{{exporter=\"scripted\",reason=\"{reason}\"}} 1\n"
            );
            assert!(text.contains(&line), "{text}");
        }
        // What was kept is what it was, whatever came after.
        let kept: Vec<f64> = kept
            .lock()
            .iter()
            .map(|snapshot: &Arc<Snapshot>| {
                let Points::Sum { mut points, .. } =
                    snapshot.batch().metrics().next().unwrap().points()
                else {
                    unreachable!()
                };
                points.next().unwrap().value.as_f64()
            })
            .collect();
        let all =
            if mode == MemoryMode::Immutable { vec![5.0, 10.0, 15.0, 20.0, 20.0] } else { vec![] };
        assert_eq!(kept, all);
    }
}

#[test]
fn exports_come_by_themselves() {
    let registry = Registry::new();
    registry.counter(("a_total", ""), []).unwrap().with([]).add(1);
    let (seen, sums) = mpsc::channel();
    let exporter =
        Scripted { mode: MemoryMode::Reusable, results: Vec::new(), seen, kept: Arc::default() };
    let reader = PeriodicReader::builder(exporter).interval(Duration::from_millis(5));
    let reader = reader.start(&registry).unwrap();
    for _ in 0..3 {
        sums.recv().unwrap();
    }
    drop(reader);
    assert!(sums.iter().count() >= 1, "a last one when it ends");
}

/// Never comes back until it is let go.
struct Stuck(mpsc::Receiver<()>);

impl Exporter for Stuck {
    fn name(&self) -> &'static str {
        "stuck"
    }
    fn export(&mut self, _: Data<'_>) -> Result<(), Error> {
        let _ = self.0.recv();
        Ok(())
    }
}

#[test]
fn nobody_waits_for_ever() {
    let registry = Registry::new();
    let (let_go, stuck) = mpsc::channel();
    let reader = PeriodicReader::builder(Stuck(stuck)).interval(NEVER);
    let reader = reader.timeout(Duration::from_millis(20)).start(&registry).unwrap();
    assert_eq!(reader.force_flush().unwrap_err().reason(), Reason::Timeout);
    assert_eq!(reader.shutdown().unwrap_err().reason(), Reason::Timeout);
    drop(let_go);
}
