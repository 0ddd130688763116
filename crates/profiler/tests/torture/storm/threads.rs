//! Threads: born and dying, deaf to signals, with signals of their own, counting on their registers and
//! on system calls that nobody interrupts.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use std::{io, mem, ptr, thread};

use super::{Actor, Storm, pause, spin};

/// No more at once of each actor's.
const ALIVE: usize = 60;

/// A thread's last deed: what a destructor of a thread-local does when half of the thread is gone.
struct LastWords(Vec<u8>);

impl Drop for LastWords {
    fn drop(&mut self) {
        let more: Vec<u8> = self.0.iter().map(|byte| byte ^ 0xff).collect();
        std::hint::black_box(more);
        spin(Duration::from_micros(50));
    }
}

thread_local! {
    static LAST_WORDS: RefCell<LastWords> = const { RefCell::new(LastWords(Vec::new())) };
}

/// Threads that live from no time to a few milliseconds, joined or left to themselves.
pub(super) fn births(actor: &Actor, storm: &Storm) -> Result<(), String> {
    let mut random = actor.random(storm);
    let alive = Arc::new(AtomicUsize::new(0));
    while storm.goes_on() {
        actor.step("spawning");
        let mut joined = Vec::new();
        for _ in 0..=random.below(15) {
            if alive.load(Relaxed) >= ALIVE {
                break;
            }
            alive.fetch_add(1, Relaxed);
            storm.counts.births.fetch_add(1, Relaxed);
            let (kind, time, alive) = (random.below(5), random.below(3000), alive.clone());
            let life = move || {
                live(kind, Duration::from_micros(time));
                alive.fetch_sub(1, Relaxed);
            };
            let named = thread::Builder::new().name(format!("child-{kind}"));
            let thread = named.spawn(life).map_err(|error| format!("a thread: {error}"))?;
            if random.below(2) == 0 {
                joined.push(thread);
            }
        }
        actor.step("joining");
        for thread in joined {
            thread.join().map_err(|_| "a thread panicked")?;
        }
        pause(Duration::from_micros(random.below(2000)));
    }
    actor.step("waiting for those left to themselves");
    while alive.load(Relaxed) > 0 {
        pause(Duration::from_millis(1));
    }
    Ok(())
}

fn live(kind: u64, time: Duration) {
    match kind {
        0 => {}
        1 => {
            spin(time);
        }
        2 => pause(time),
        3 => LAST_WORDS.with_borrow_mut(|words| words.0.resize(1000, 1)),
        _ => {
            let _stage = profiler::stage("torture-births");
            let _scope = profiler::scope("torture", "births");
            let many: Vec<String> = (0..200).map(|number| number.to_string()).collect();
            std::hint::black_box(many);
        }
    }
}

/// Threads that block every signal for a while; some never let one in again.
pub(super) fn blocked(actor: &Actor, storm: &Storm) -> Result<(), String> {
    let mut random = actor.random(storm);
    while storm.goes_on() {
        actor.step("blocking");
        let is_for_good = random.below(4) == 0;
        let time = Duration::from_micros(random.below(20_000));
        let life = move || {
            // SAFETY: the set is filled before it is used, and this thread's mask is its own.
            let mut before: libc::sigset_t = unsafe { mem::zeroed() };
            // SAFETY: as above.
            unsafe {
                let mut all: libc::sigset_t = mem::zeroed();
                libc::sigfillset(&mut all);
                libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            }
            spin(time / 2);
            pause(time / 2);
            if !is_for_good {
                // SAFETY: the mask is the one from before.
                unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut()) };
                spin(time / 4);
            }
        };
        let thread = thread::Builder::new().name("deaf".to_owned()).spawn(life);
        let thread = thread.map_err(|error| format!("a thread: {error}"))?;
        thread.join().map_err(|_| "a thread panicked")?;
    }
    Ok(())
}

/// A handler as a program might have it: some calls deep, and polite to errno.
extern "C" fn on_timer(_: libc::c_int) {
    #[inline(never)]
    fn deep(left: u64) -> u64 {
        if left == 0 { 1 } else { deep(left - 1) + std::hint::black_box(left) }
    }
    // SAFETY: errno's address is valid for as long as the thread runs.
    let errno = unsafe { *libc::__errno_location() };
    std::hint::black_box(deep(5));
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// The program's own handlers and timers, and the profiler's signal sent by others.
pub(super) fn signals(actor: &Actor, storm: &Storm) -> Result<(), String> {
    let mut random = actor.random(storm);
    let timers = [(libc::SIGALRM, libc::ITIMER_REAL), (libc::SIGPROF, libc::ITIMER_PROF)];
    for (signal, _) in timers {
        install(signal, on_timer as *const () as usize, libc::SA_RESTART)?;
    }
    while storm.goes_on() {
        actor.step("timers on");
        for (_, timer) in timers {
            set_timer(timer, 1000 + random.below(4000));
        }
        for _ in 0..100 {
            spin(Duration::from_micros(random.below(300)));
            // SAFETY: sends the signal that profiles use; it has a handler, or is ignored by default.
            unsafe { libc::kill(libc::getpid(), libc::SIGURG) };
        }
        actor.step("timers off");
        for (_, timer) in timers {
            set_timer(timer, 0);
        }
        pause(Duration::from_millis(random.below(10)));
    }
    Ok(())
}

/// Keeps the timers' signals from this thread, whose own stack will have no room for their handler.
pub(super) fn without_timers() {
    // SAFETY: the set is emptied before it is filled, and this thread's mask is its own.
    unsafe {
        let mut timers: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&mut timers);
        libc::sigaddset(&mut timers, libc::SIGALRM);
        libc::sigaddset(&mut timers, libc::SIGPROF);
        libc::pthread_sigmask(libc::SIG_BLOCK, &timers, ptr::null_mut());
    }
}

/// Installs a handler that takes the signal's number alone. While it runs only the profiler's signal comes.
pub(super) fn install(signal: i32, handler: usize, flags: i32) -> Result<(), String> {
    // SAFETY: the action is complete, and the handler takes what such a handler is given.
    let result = unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        libc::sigfillset(&mut action.sa_mask);
        libc::sigdelset(&mut action.sa_mask, libc::SIGURG);
        libc::sigaction(signal, &action, ptr::null_mut())
    };
    if result == 0 {
        return Ok(());
    }
    Err(format!("sigaction for signal {signal}: {}", io::Error::last_os_error()))
}

fn set_timer(timer: i32, every_us: u64) {
    let every = libc::timeval { tv_sec: 0, tv_usec: every_us.cast_signed() };
    let value = libc::itimerval { it_interval: every, it_value: every };
    // SAFETY: the value is complete; the old one is not asked for.
    unsafe { libc::setitimer(timer, &value, ptr::null_mut()) };
}

/// What a thread has in errno and in its registers is there after a signal.
pub(super) fn registers(actor: &Actor, storm: &Storm) -> Result<(), String> {
    const MARK: i32 = 4711;
    let expected = mix();
    while storm.goes_on() {
        actor.step("computing");
        let until = Instant::now() + Duration::from_millis(5);
        while Instant::now() < until {
            // SAFETY: errno's address is valid for as long as the thread runs.
            unsafe { *libc::__errno_location() = MARK };
            let found = mix();
            // SAFETY: as above.
            let errno = unsafe { *libc::__errno_location() };
            if errno != MARK {
                return Err(format!("errno was {MARK} and became {errno}"));
            }
            if found != expected {
                return Err(format!("{found:?} was computed instead of {expected:?}"));
            }
        }
    }
    Ok(())
}

/// A sum that needs many registers, integers' and floating ones.
#[inline(never)]
fn mix() -> [u64; 8] {
    let mut whole = [1u64, 2, 3, 5, 7, 11, 13, 17];
    let mut real = [1.0f64, 1.5, 2.25, 3.5, 0.75, 0.125, 9.0, 2.0];
    for round in 0..400u64 {
        for place in 0..8 {
            whole[place] =
                whole[place].rotate_left(7).wrapping_mul(0x9e37_79b9) ^ whole[(place + 3) & 7];
            real[place] = (real[place] * 1.000_1 + real[(place + 5) & 7] / 3.0) % 1e9;
        }
        whole[(round & 7) as usize] ^= real[(round & 7) as usize].to_bits();
    }
    std::hint::black_box(whole)
}

/// Reads and writes that block are not cut short, and sleeps are as long as asked for.
pub(super) fn system_calls(actor: &Actor, storm: &Storm) -> Result<(), String> {
    let (here, there) = (Pipe::new()?, Pipe::new()?);
    let (mut random, rounds) = (actor.random(storm), 50);
    while storm.goes_on() {
        actor.step("asking and answering");
        let answers = thread::scope(|scope| {
            let echo = scope.spawn(|| {
                for _ in 0..rounds {
                    let number = here.receive()?;
                    there.send(number ^ 0xff)?;
                }
                Ok::<(), String>(())
            });
            for number in 0..rounds {
                pause(Duration::from_micros(random.below(500)));
                here.send(number)?;
                let answer = there.receive()?;
                if answer != number ^ 0xff {
                    return Err(format!("{number} was answered by {answer}"));
                }
            }
            echo.join().map_err(|_| "the other side panicked")?
        });
        answers?;
        let began = Instant::now();
        pause(Duration::from_millis(20));
        if began.elapsed() < Duration::from_millis(20) {
            return Err(format!("a sleep of 20 ms was over after {:?}", began.elapsed()));
        }
    }
    Ok(())
}

/// A pipe whose calls are raw ones: `std` would hide that a call was interrupted.
struct Pipe([i32; 2]);

impl Pipe {
    fn new() -> Result<Pipe, String> {
        let mut ends = [0; 2];
        // SAFETY: there is room for both ends.
        match unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } {
            0 => Ok(Pipe(ends)),
            _ => Err(format!("a pipe: {}", io::Error::last_os_error())),
        }
    }

    fn send(&self, byte: u8) -> Result<(), String> {
        // SAFETY: one byte is there.
        let sent = unsafe { libc::write(self.0[1], (&raw const byte).cast(), 1) };
        Self::check("write", sent)
    }

    fn receive(&self) -> Result<u8, String> {
        let mut byte = 0u8;
        // SAFETY: there is room for one byte.
        let received = unsafe { libc::read(self.0[0], (&raw mut byte).cast(), 1) };
        Self::check("read", received).map(|()| byte)
    }

    fn check(what: &str, result: isize) -> Result<(), String> {
        if result == 1 {
            return Ok(());
        }
        Err(format!("a blocking {what} gave {result}: {}", io::Error::last_os_error()))
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        for end in self.0 {
            // SAFETY: both ends are ours and closed once.
            unsafe { libc::close(end) };
        }
    }
}
