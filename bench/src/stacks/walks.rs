//! What one frame costs: deep threads are interrupted in turn, and the walk is timed in the handler.
//!
//! A handler of the bench's own, on a signal of its own, calls the walk that the profiler calls. The
//! threads take turns, so that a walk finds neither its stack nor its tables in the nearest cache only
//! because it was there a moment ago.

use std::cell::UnsafeCell;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bench::Failure;
use bench::statistics::median;
use profiler::unwind::{End, Registers, walk};

use crate::threads::Threads;

const SIGNAL: i32 = libc::SIGUSR2;

/// As deep as the profiler's own default.
const MOST: usize = 512;

struct Frames(UnsafeCell<[u64; MOST]>);

// SAFETY: one thread at a time has the signal: the next one is sent when the last has answered.
unsafe impl Sync for Frames {}

static FRAMES: Frames = Frames(UnsafeCell::new([0; MOST]));
static WALKED_NS: AtomicU64 = AtomicU64::new(0);
static DEPTH: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);
static ANSWERS: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_signal(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: errno's address is valid for as long as the thread runs.
    let errno = unsafe { *libc::__errno_location() };
    let began = now_ns();
    // SAFETY: the kernel hands the context over; nobody else has the frames now.
    let walked = unsafe {
        let registers = Registers::of_context(context.cast_const().cast());
        walk(&registers, &mut *FRAMES.0.get())
    };
    WALKED_NS.store(now_ns() - began, Relaxed);
    DEPTH.store(walked.depth, Relaxed);
    END.store(walked.end as usize, Relaxed);
    ANSWERS.fetch_add(1, std::sync::atomic::Ordering::Release);
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for the time; the call is safe in a handler.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// What the walks came to.
pub struct Walks {
    /// The middle one.
    pub ns_per_frame: f64,
    pub depth: f64,
    /// The share that came down to the thread's start.
    pub complete: f64,
}

/// Interrupts the threads in turn, so many times altogether.
pub fn measure(threads: &Threads, times: usize) -> Result<Walks, Failure> {
    install()?;
    profiler::unwind::refresh();
    let (mut ns, mut depths, mut complete) = (Vec::new(), Vec::new(), 0);
    for number in 0..times + times / 10 {
        let before = ANSWERS.load(Relaxed);
        let thread = threads.ids()[number % threads.ids().len()];
        // SAFETY: the signal has a handler, and the thread lives.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, SIGNAL) };
        if sent != 0 {
            return Err(format!("tgkill: {}", std::io::Error::last_os_error()).into());
        }
        let until = Instant::now() + Duration::from_secs(10);
        while ANSWERS.load(std::sync::atomic::Ordering::Acquire) == before {
            if Instant::now() > until {
                return Err("a thread did not answer a signal for 10 s".into());
            }
            std::thread::yield_now();
        }
        // The first walks fill tables.
        if number >= times / 10 {
            let depth = DEPTH.load(Relaxed);
            ns.push(WALKED_NS.load(Relaxed) as f64 / depth.max(1) as f64);
            depths.push(depth as f64);
            complete += usize::from(END.load(Relaxed) == End::Root as usize);
        }
    }
    Ok(Walks {
        ns_per_frame: median(&ns).unwrap_or(f64::NAN),
        depth: median(&depths).unwrap_or(0.0),
        complete: complete as f64 / times as f64,
    })
}

fn install() -> Result<(), Failure> {
    // SAFETY: the action is complete; the handler takes three arguments, as SA_SIGINFO says.
    let result = unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigaction(SIGNAL, &action, ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().into()) }
}
