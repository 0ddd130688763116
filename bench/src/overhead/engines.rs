//! The child's side: what is profiled, and by whom.

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

type Pairs = Result<Vec<[f64; 2]>, Failure>;

fn threads(command: &str) -> Result<usize, Failure> {
    let count = command.strip_prefix("busy ").ok_or("the commands are busy and a number")?;
    Ok(count.parse()?)
}

/// Wall-clock and CPU profiles at the usual settings, the tables being kept as a profiler that runs all
/// the time keeps them.
fn unladen(command: &str, (pairs, slice): (usize, Duration)) -> Pairs {
    let busy = Busy::start(threads(command)?, compute)?;
    let tables = Tables::new(Limits::default());
    let mut profiler = None;
    let found = {
        let profiler = std::cell::RefCell::new(&mut profiler);
        let mut on = || {
            **profiler.borrow_mut() = Some(Profiler::builder().tables(&tables).start()?);
            Ok(())
        };
        let mut off = || **profiler.borrow_mut() = None;
        let units = || busy.units();
        pairs::measure(&mut Subject { on: &mut on, off: &mut off, units: &units }, pairs, slice)
    };
    drop(profiler);
    found
}

/// The allocator's wrapper against the allocator alone: while nothing is sampled, and while it is.
fn heap_profile(command: &str, (pairs, slice): (usize, Duration)) -> Pairs {
    let busy = Busy::start(2, heap::request)?;
    let tables = Tables::new(Limits::default());
    if command == "sampled" {
        profiler::heap::start(profiler::heap::Options::default(), &tables)?;
    }
    let mut on = || {
        heap::wrap(true);
        Ok(())
    };
    let mut off = || heap::wrap(false);
    let units = || busy.units();
    let found =
        pairs::measure(&mut Subject { on: &mut on, off: &mut off, units: &units }, pairs, slice);
    if command == "sampled" {
        // What was sampled and then freed the other way stays in the profile: it ends here.
        profiler::heap::stop();
    }
    found
}

#[cfg(feature = "overhead-pprof-rs")]
mod peer {
    use super::*;

    /// As its documentation has it: 100 Hz, and the libraries in which its own unwinder could not stop.
    pub(super) fn measure(command: &str, (pairs, slice): (usize, Duration)) -> Pairs {
        let busy = Busy::start(threads(command)?, compute)?;
        let guard = std::cell::RefCell::new(None);
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
