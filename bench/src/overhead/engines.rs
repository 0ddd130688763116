//! The child's side: what is profiled, and by whom.

use std::cell::RefCell;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use bench::Failure;
use bench::engine::answer;
use bench::options::Options;
use bench::protocol::Line;
use profiler::Profiler;
use profiler::profile::{Limits, Tables};

use crate::busy::{Busy, compute};
use crate::heap;
use crate::pairs::{self, Subject};

/// Builds the engine and serves the parent.
pub fn child(name: &str, options: &Options) -> Result<(), Failure> {
    let size = (options.count("pairs")?, Duration::from_millis(options.count("slice_ms")? as u64));
    let measure = match name {
        "unladen" => unladen,
        "heap" => heap_profile,
        "pprof_rs" | "pprof_rs_fp" => peer::measure,
        _ => return Err(format!("there is no engine {name}").into()),
    };
    answer(&Line::new(name), |command| {
        let what = command.replace(' ', "_");
        Ok(pairs::line(name, &what, &measure(command, size)?))
    })
}

type Pairs = Result<Vec<[f64; 3]>, Failure>;

fn threads(command: &str) -> Result<usize, Failure> {
    let count = command.strip_prefix("busy ").ok_or("the commands are busy and a number")?;
    Ok(count.parse()?)
}

/// Different stacks of each thread; each of them allocates at 30 places, which are as many stacks again.
const WAYS: u64 = 64;
const HEAP_WAYS: u64 = 2;

/// How long the heap is sampled before that counts, in slices.
const WARMING: u32 = 8;

/// Those of the process: they outlive the commands, because what they know is known to a program that runs
/// for long.
fn tables() -> Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(|| Tables::new(Limits::default())).clone()
}

/// Wall-clock and CPU profiles at the usual settings, the tables being kept as a profiler that runs all
/// the time keeps them.
fn unladen(command: &str, (pairs, slice): (usize, Duration)) -> Pairs {
    let busy = Busy::start(threads(command)?, WAYS, compute)?;
    let tables = tables();
    let profiler = RefCell::new(None);
    let mut on = || {
        *profiler.borrow_mut() = Some(Profiler::builder().tables(&tables).start()?);
        Ok(())
    };
    let mut off = || drop(profiler.borrow_mut().take());
    let units = || busy.units();
    pairs::measure(&mut Subject { on: &mut on, off: &mut off, units: &units }, pairs, slice)
}

/// The allocator's wrapper against the allocator alone: while nothing is sampled, and while it is.
fn heap_profile(command: &str, (pairs, slice): (usize, Duration)) -> Pairs {
    let (is_sampled, work): (bool, fn(u64)) = match command {
        "idle" => (false, heap::service),
        "sampled" => (true, heap::service),
        "idle pure" => (false, heap::request),
        "sampled pure" => (true, heap::request),
        _ => {
            return Err(format!("{command}: the commands are idle, sampled, and these pure").into());
        }
    };
    let busy = Busy::start(4, HEAP_WAYS, work)?;
    let before = profiler::heap::statistics().samples;
    if is_sampled {
        // It wants to have been seen at work, and its stacks are new to it once.
        heap::wrap(true);
        let started = profiler::heap::start(profiler::heap::Options::default(), &tables());
        thread::sleep(slice * WARMING);
        heap::wrap(false);
        started?;
    }
    let mut on = || {
        heap::wrap(true);
        Ok(())
    };
    let mut off = || heap::wrap(false);
    let units = || busy.units();
    let found =
        pairs::measure(&mut Subject { on: &mut on, off: &mut off, units: &units }, pairs, slice);
    if is_sampled {
        // What was sampled and then freed the other way stays in the profile: it ends here.
        profiler::heap::stop();
        let samples = profiler::heap::statistics().samples - before;
        println!("{samples} blocks were sampled; the program did {} units", busy.units());
    }
    found
}

#[cfg(feature = "overhead-pprof-rs")]
mod peer {
    use super::*;

    /// As its documentation has it: 100 Hz, and the libraries in which its own unwinder could not stop.
    pub(super) fn measure(command: &str, (pairs, slice): (usize, Duration)) -> Pairs {
        let busy = Busy::start(threads(command)?, WAYS, compute)?;
        let guard = RefCell::new(None);
        let mut on = || {
            let builder = pprof::ProfilerGuardBuilder::default().frequency(100);
            let builder = builder.blocklist(&["libc", "libgcc", "pthread", "vdso"]);
            *guard.borrow_mut() = Some(builder.build()?);
            Ok(())
        };
        let mut off = || drop(guard.borrow_mut().take());
        let units = || busy.units();
        pairs::measure(&mut Subject { on: &mut on, off: &mut off, units: &units }, pairs, slice)
    }
}

#[cfg(not(feature = "overhead-pprof-rs"))]
mod peer {
    use super::*;

    pub(super) fn measure(_: &str, _: (usize, Duration)) -> Pairs {
        Err("this build is without pprof-rs".into())
    }
}
