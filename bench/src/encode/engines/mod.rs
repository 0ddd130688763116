//! The engines: ours and the peers that are Rust.

mod libdd;
mod pprof_rs;
mod unladen;

use bench::Failure;

use crate::workload::Workload;

/// Nanoseconds of the CPU and calls of the allocator, frees included, of the two halves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    pub record: Half,
    pub encode: Half,
}

/// One of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Half {
    pub cpu_ns: f64,
    pub calls: u64,
}

impl Half {
    /// Does it and measures it.
    pub fn of<T>(work: impl FnOnce() -> T) -> (T, Half) {
        let mut done = None;
        let mut cpu_ns = 0.0;
        let count = testkit::allocations::count(|| {
            let (value, elapsed) = bench::clock::measure(work);
            cpu_ns = elapsed.cpu_ns;
            done = Some(value);
        });
        let calls = count.allocations + count.reallocations + count.frees;
        (done.expect("it was done"), Half { cpu_ns, calls: calls as u64 })
    }
}

/// A library, with what it keeps from one profile to the next.
pub trait Engine {
    /// Records all samples and encodes them, as it goes when this was not done before.
    fn cold(&mut self, workload: &Workload) -> Result<Cost, Failure>;

    /// The same again, for a library that [`keeps`] something.
    fn again(&mut self, workload: &Workload) -> Result<Cost, Failure> {
        self.cold(workload)
    }

    /// What was written last, not compressed.
    fn profile(&mut self, workload: &Workload) -> Result<Vec<u8>, Failure>;

    /// The labels that it can carry, and how many columns of ours.
    fn carries(&self) -> (&'static [&'static str], usize) {
        (&["endpoint", "thread"], 2)
    }

    /// More to be told, by key: measured now.
    fn more(&mut self, workload: &Workload) -> Result<Vec<(&'static str, f64)>, Failure> {
        let _ = workload;
        Ok(Vec::new())
    }
}

/// The names of all.
pub const NAMES: [&str; 3] = ["unladen", "libdd_profiling", "pprof_rs"];

/// Whether a library keeps anything from one profile to the next: the others begin anew each time, so that
/// one measurement is both.
pub fn keeps(name: &str) -> bool {
    name == "unladen"
}

/// Makes one.
pub fn new(name: &str, workload: &Workload) -> Result<Box<dyn Engine>, Failure> {
    Ok(match name {
        "unladen" => Box::new(unladen::Unladen::new(workload)),
        "libdd_profiling" => Box::new(libdd::Libdd::default()),
        "pprof_rs" => Box::new(pprof_rs::PprofRs::default()),
        _ => return Err(format!("{name}: there are {}", NAMES.join(", ")).into()),
    })
}
