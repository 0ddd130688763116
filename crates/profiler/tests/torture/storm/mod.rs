//! The storm: many actors at once, each doing again and again something that has killed a profiler, while
//! profilers start and stop, sample at 1,000 Hz and are read.
//!
//! 1. The program starts itself again with `--storm`, so that a crash is a sentence of the parent's.
//! 2. The child starts every actor on a thread of its own and watches: an actor that makes no step for
//!    [`STALL`] hangs; the state of all threads is printed and the child aborts.
//! 3. What is resident, open and alive is noted every second, and compared at the end.
//!
//! The test in `crates/profiler` and `make bench-torture` share these files.

mod crash;
mod memory;
mod modules;
mod processes;
mod profiles;
mod stacks;
mod threads;
mod watch;

use std::io::{Write, stderr, stdout};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{env, thread};

use testkit::random::Random;

/// Without a step for so long, an actor hangs. A machine that is busy with other things delays, not stops.
pub(crate) const STALL: Duration = Duration::from_secs(30);

type Play = fn(&Actor, &Storm) -> Result<(), String>;

/// Who plays; several threads play a role that is named twice.
const ACTORS: [(&str, Play); 20] = [
    ("restarts", profiles::restart),
    ("windows", profiles::write),
    ("windows", profiles::write),
    ("passes", profiles::threads),
    ("births", threads::births),
    ("births", threads::births),
    ("blocked", threads::blocked),
    ("signals", threads::signals),
    ("registers", threads::registers),
    ("system-calls", threads::system_calls),
    ("recursion", stacks::recursion),
    ("alternate", stacks::alternate),
    ("coroutines", stacks::coroutines),
    ("generated", stacks::generated),
    ("memory", memory::churn),
    ("memory", memory::churn),
    ("memory-far", memory::pass_on),
    ("forks", processes::forks),
    ("execs", processes::execs),
    ("modules", modules::load),
];

/// What the command line and the environment ask for.
struct Options {
    seconds: u64,
    seed: u64,
    only: Option<Vec<String>>,
    is_storm: bool,
}

impl Options {
    fn read(seconds: u64) -> Result<Options, String> {
        let mut options = Options { seconds, seed: 1, only: None, is_storm: false };
        let number = |name: &str, text: String| {
            text.parse().map_err(|error| format!("{name} {text}: {error}"))
        };
        if let Ok(text) = env::var("UNLADEN_TORTURE_SECONDS") {
            options.seconds = number("UNLADEN_TORTURE_SECONDS", text)?;
        }
        let mut arguments = env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument}: a value is missing"));
            match &*argument {
                "--storm" => options.is_storm = true,
                "--smoke" => options.seconds = 3,
                "--seconds" => options.seconds = number("--seconds", value()?)?,
                "--seed" => options.seed = number("--seed", value()?)?,
                "--only" => {
                    options.only = Some(value()?.split(',').map(str::to_owned).collect());
                }
                // What `cargo test` hands to every test program means nothing to this one.
                _ => {}
            }
        }
        Ok(options)
    }

    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.iter().any(|known| known == name))
    }
}

/// What was counted, for the last line.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) samples: AtomicU64,
    pub(crate) complete: AtomicU64,
    pub(crate) truncated: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) forks: AtomicU64,
    pub(crate) execs: AtomicU64,
    pub(crate) loads: AtomicU64,
    pub(crate) births: AtomicU64,
    pub(crate) restarts: AtomicU64,
    pub(crate) windows: AtomicU64,
    /// Bytes of the profilers' own tables, which may grow up to their bound.
    pub(crate) tables: AtomicU64,
}

/// What the actors share.
pub(crate) struct Storm {
    is_over: AtomicBool,
    failure: Mutex<Option<String>>,
    pub(crate) counts: Counts,
    pub(crate) current: profiles::Current,
    seed: u64,
}

impl Storm {
    pub(crate) fn goes_on(&self) -> bool {
        !self.is_over.load(Relaxed)
    }

    /// The first failure ends the storm.
    fn fail(&self, what: String) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(what);
        self.is_over.store(true, Relaxed);
    }
}

/// One who plays a role: how far, and what it does just now.
pub(crate) struct Actor {
    pub(crate) name: &'static str,
    number: u64,
    steps: AtomicU64,
    doing: Mutex<&'static str>,
}

impl Actor {
    /// Says what is done next; the watchdog looks at this.
    pub(crate) fn step(&self, doing: &'static str) {
        self.steps.fetch_add(1, Relaxed);
        *self.doing.lock().unwrap_or_else(PoisonError::into_inner) = doing;
    }

    /// Chances of its own, the same for the same seed.
    pub(crate) fn random(&self, storm: &Storm) -> Random {
        Random::new(storm.seed.wrapping_mul(0x1_0000) + self.number)
    }
}

/// Runs the storm for so many seconds unless something else is asked for.
pub(crate) fn main(seconds: u64) -> ExitCode {
    let run = || {
        let options = Options::read(seconds)?;
        if options.is_storm { rage(&options) } else { watch_over_child(&options) }
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(stderr(), "torture: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The parent: a crash of the storm becomes a sentence.
fn watch_over_child(options: &Options) -> Result<(), String> {
    let program = env::current_exe().map_err(|error| format!("this program: {error}"))?;
    let mut command = Command::new(program);
    command.args(env::args().skip(1)).arg("--storm");
    let began = Instant::now();
    let mut child = command.spawn().map_err(|error| format!("the storm: {error}"))?;
    let last = Duration::from_secs(options.seconds) + 4 * STALL;
    loop {
        match child.try_wait().map_err(|error| format!("waiting for the storm: {error}"))? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => {
                let after = began.elapsed().as_secs_f64();
                return Err(format!("the storm ended after {after:.1} s with {status}"));
            }
            None if began.elapsed() > last => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("the storm was not over after {} s", last.as_secs()));
            }
            None => pause(Duration::from_millis(50)),
        }
    }
}

/// The child.
fn rage(options: &Options) -> Result<(), String> {
    crash::report_crashes();
    let actors = ACTORS.iter().enumerate().filter(|(_, (name, _))| options.wants(name));
    let actors: Vec<(Arc<Actor>, Play)> = actors
        .map(|(number, &(name, play))| {
            let (steps, doing) = (AtomicU64::new(0), Mutex::new("begins"));
            (Arc::new(Actor { name, number: number as u64, steps, doing }), play)
        })
        .collect();
    if actors.is_empty() {
        return Err("--only names none of the actors".to_owned());
    }
    let storm = Arc::new(Storm {
        is_over: AtomicBool::new(false),
        failure: Mutex::new(None),
        counts: Counts::default(),
        current: profiles::Current::start()?,
        seed: options.seed,
    });
    let before = watch::Held::now();
    let playing: Vec<_> = actors
        .iter()
        .map(|(actor, play)| {
            let (actor, storm, play) = (actor.clone(), storm.clone(), *play);
            let named = thread::Builder::new().name(actor.name.to_owned());
            named.spawn(move || {
                if let Err(error) = play(&actor, &storm) {
                    storm.fail(format!("{}: {error}", actor.name));
                }
                actor.step("has ended");
            })
        })
        .collect::<Result<_, _>>()
        .map_err(|error| format!("an actor's thread: {error}"))?;
    let actors: Vec<Arc<Actor>> = actors.into_iter().map(|(actor, _)| actor).collect();
    let history = watch::watch(&actors, &storm, Duration::from_secs(options.seconds));
    storm.is_over.store(true, Relaxed);
    watch::wait(&actors, &playing);
    for playing in playing {
        if playing.join().is_err() {
            storm.fail("an actor panicked".to_owned());
        }
    }
    storm.current.stop();
    if let Some(failure) = storm.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(failure);
    }
    let leaked = history.leaked(&before, storm.current.tables())?;
    print(&storm.counts, options.seconds, leaked);
    if options.wants("restarts") && storm.counts.complete.load(Relaxed) == 0 {
        return Err("no profiler has seen a whole stack".to_owned());
    }
    Ok(())
}

fn print(counts: &Counts, seconds: u64, leaked: i64) {
    let number = |count: &AtomicU64| count.load(Relaxed);
    let samples = number(&counts.samples);
    let complete = number(&counts.complete) as f64 / samples.max(1) as f64;
    let _ = writeln!(
        stdout(),
        "births {}, windows {}, execs {}, truncated {}, lost {}\n\
         RESULT torture seconds={seconds} samples={samples} complete={complete:.4} forks={} \
         dlopens={} restarts={} leaked_bytes={leaked}",
        number(&counts.births),
        number(&counts.windows),
        number(&counts.execs),
        number(&counts.truncated),
        number(&counts.lost),
        number(&counts.forks),
        number(&counts.loads),
        number(&counts.restarts),
    );
}

/// Sleeps; the storm is about time.
#[allow(clippy::disallowed_methods, reason = "what happens in between is what is tested")]
pub(crate) fn pause(time: Duration) {
    thread::sleep(time);
}

/// Keeps a CPU busy for about that long.
#[inline(never)]
pub(crate) fn spin(time: Duration) -> u64 {
    let until = Instant::now() + time;
    let mut state = 1u64;
    while Instant::now() < until {
        for _ in 0..200 {
            state = std::hint::black_box(state.wrapping_mul(6_364_136_223_846_793_005) + 1);
        }
    }
    state
}
