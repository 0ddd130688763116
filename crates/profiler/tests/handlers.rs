//! The signal is shared with handlers that were there before, and survives those that come later. All in one
//! function: there is one handler for a signal in a process.

use std::hint::black_box;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use profiler::Profiler;

static EARLIER: AtomicU32 = AtomicU32::new(0);
static LATER: AtomicU32 = AtomicU32::new(0);
/// The handler that the later one hands on to.
static NEXT: AtomicUsize = AtomicUsize::new(0);

extern "C" fn earlier(_: i32) {
    EARLIER.fetch_add(1, Relaxed);
}

extern "C" fn later(signal: i32, information: *mut libc::siginfo_t, context: *mut libc::c_void) {
    type Informed = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);
    LATER.fetch_add(1, Relaxed);
    // SAFETY: the handler that was there, which took three arguments.
    let next = unsafe { std::mem::transmute::<usize, Informed>(NEXT.load(Relaxed)) };
    next(signal, information, context);
}

/// Installs a handler, and says which was there.
fn install(handler: usize, flags: i32) -> usize {
    // SAFETY: zeros are a value of it; the handlers do only what handlers may.
    unsafe {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        let mut before = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        action.sa_sigaction = handler;
        action.sa_flags = flags | libc::SA_RESTART | libc::SA_ONSTACK;
        assert_eq!(libc::sigaction(libc::SIGURG, &raw const action, &raw mut before), 0);
        before.sa_sigaction
    }
}

fn raise() {
    // SAFETY: a signal for this thread, for which there is a handler.
    assert_eq!(unsafe { libc::raise(libc::SIGURG) }, 0);
}

/// Waits until more signals were answered.
fn is_answered(profiler: &Profiler) -> bool {
    let before = profiler.statistics().complete;
    let until = Instant::now() + Duration::from_secs(30);
    while Instant::now() < until {
        if profiler.statistics().complete > before + 3 {
            return true;
        }
        std::thread::park_timeout(Duration::from_millis(5));
    }
    false
}

#[test]
fn a_signal_is_shared() {
    let stop = Arc::new(AtomicBool::new(false));
    let its_own = stop.clone();
    let busy = std::thread::spawn(move || {
        while !its_own.load(Relaxed) {
            black_box(0);
        }
    });

    // One that was there before gets what isn't ours.
    install(earlier as extern "C" fn(i32) as usize, 0);
    let profiler = Profiler::start().unwrap();
    assert!(is_answered(&profiler));
    assert_eq!(EARLIER.load(Relaxed), 0, "signals of ours are not handed on");
    raise();
    assert_eq!(EARLIER.load(Relaxed), 1);

    // One that comes later and hands on is in front of us for good: a second start does not change that.
    type Informed = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);
    NEXT.store(install(0, 0), Relaxed);
    install(later as Informed as usize, libc::SA_SIGINFO);
    assert!(is_answered(&profiler));
    drop(profiler);
    let profiler = Profiler::start().unwrap();
    assert!(is_answered(&profiler));
    let before = LATER.load(Relaxed);
    raise();
    assert_eq!(EARLIER.load(Relaxed), 2);
    assert!(LATER.load(Relaxed) > before);

    // One that does not hand on takes signals that are waited for, until it goes.
    let handler = install(libc::SIG_IGN, 0);
    std::thread::park_timeout(Duration::from_millis(100));
    assert_eq!(install(handler, libc::SA_SIGINFO), libc::SIG_IGN);
    assert!(is_answered(&profiler), "{:?}", profiler.statistics());
    assert!(profiler.statistics().skipped_swallowed > 0);

    // A fault is nobody's to send.
    drop(profiler);
    for fault in [libc::SIGSEGV, libc::SIGTRAP, 0, -1, 65, 1000] {
        Profiler::builder().signal(fault).start().unwrap_err();
    }
    stop.store(true, Relaxed);
    busy.join().unwrap();

    // The place of a handler that was taken away altogether is taken again.
    assert_ne!(ptr::null::<u8>() as usize, install(libc::SIG_DFL, 0));
    let profiler = Profiler::start().unwrap();
    assert!(
        !profiler
            .threads()
            .iter()
            .any(|thread| thread.name == "a_signal_is_shared" && thread.addresses.is_empty())
    );
}
