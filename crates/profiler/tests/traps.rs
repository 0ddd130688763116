//! What profilers by signal have done to programs, and this one must not.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{env, io, ptr, thread};

use profiler::Profiler;

/// There is one profiler in a process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One that interrupts every thread a thousand times a second, whether it sleeps or not.
fn eager() -> Profiler {
    let builder = Profiler::builder().tick(Duration::from_millis(1)).budget(10.0);
    builder.recognise_sleepers(false).start().unwrap()
}

/// Waits until a profiler has walked so many more stacks.
fn await_samples(profiler: &Profiler, more: u64) {
    let walked = || {
        let statistics = profiler.statistics();
        statistics.complete + statistics.truncated + statistics.lost
    };
    let (from, began) = (walked(), Instant::now());
    while walked() < from + more {
        assert!(began.elapsed() < Duration::from_secs(60), "there are no samples");
        thread::yield_now();
    }
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

#[test]
fn errno_is_kept() {
    let _alone = alone();
    let (profiler, is_over) = (eager(), AtomicBool::new(false));
    thread::scope(|scope| {
        let changed = scope.spawn(|| {
            while !is_over.load(Relaxed) {
                // SAFETY: errno's address is valid for as long as the thread runs.
                unsafe { *libc::__errno_location() = 4711 };
                for _ in 0..10_000 {
                    std::hint::spin_loop();
                }
                if errno() != 4711 {
                    return Some(errno());
                }
            }
            None
        });
        await_samples(&profiler, 300);
        is_over.store(true, Relaxed);
        assert_eq!(changed.join().unwrap(), None, "errno was changed");
    });
}

/// A call that blocks until `finish`; gives its result and errno.
fn interrupted(call: impl FnOnce() -> i64 + Send, finish: impl FnOnce()) -> (i64, i32) {
    let profiler = eager();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let result = call();
            (result, errno())
        });
        await_samples(&profiler, 100);
        finish();
        waiting.join().unwrap()
    })
}

#[test]
fn a_read_is_begun_again() {
    let _alone = alone();
    let mut ends = [0; 2];
    // SAFETY: there is room for both ends.
    assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    let mut byte = [0u8];
    let place = byte.as_mut_ptr() as usize;
    // SAFETY: there is room for one byte, and it is not looked at before the thread has ended.
    let read = move || unsafe { libc::read(ends[0], place as *mut libc::c_void, 1) as i64 };
    // SAFETY: one byte is there.
    let write = || assert_eq!(unsafe { libc::write(ends[1], c"x".as_ptr().cast(), 1) }, 1);
    let (result, errno) = interrupted(read, write);
    assert_eq!((result, byte[0]), (1, b'x'), "errno {errno}");
    // SAFETY: the ends are ours.
    ends.iter().for_each(|end| assert_eq!(unsafe { libc::close(*end) }, 0));
}

#[test]
fn a_wait_for_a_futex_is_begun_again() {
    let _alone = alone();
    let word = AtomicI32::new(0);
    // SAFETY: the word outlives the thread; no time is given, so that nothing else is read.
    let wait = || unsafe {
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        libc::syscall(libc::SYS_futex, word.as_ptr(), operation, 0, ptr::null::<libc::timespec>())
    };
    let wake = || {
        word.store(1, Relaxed);
        // SAFETY: as above.
        unsafe {
            let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
            libc::syscall(libc::SYS_futex, word.as_ptr(), operation, 1);
        }
    };
    let (result, errno) = interrupted(wait, wake);
    // The word may have changed between two attempts, which the second one is told.
    assert!(result == 0 || errno == libc::EAGAIN, "errno {errno}");
}

/// The kernel never begins a sleep again when a handler ran, whatever the handler's flags; it says how much
/// is left, which `std` and every careful program goes on with.
#[test]
fn a_sleep_that_is_cut_short_says_what_is_left() {
    let _alone = alone();
    let profiler = eager();
    let asked = Duration::from_millis(300);
    let began = Instant::now();
    let mut left = libc::timespec { tv_sec: 0, tv_nsec: asked.as_nanos() as i64 };
    let mut cuts = 0;
    loop {
        let wanted = left;
        // SAFETY: both are there.
        if unsafe { libc::nanosleep(&wanted, &mut left) } == 0 {
            break;
        }
        assert_eq!(errno(), libc::EINTR);
        assert!((left.tv_sec, left.tv_nsec) <= (wanted.tv_sec, wanted.tv_nsec));
        cuts += 1;
    }
    assert!(began.elapsed() >= asked, "{:?} after {cuts} cuts", began.elapsed());
    assert!(cuts > 0, "{:?}", profiler.statistics());
}

#[test]
fn files_are_not_leaked() {
    let _alone = alone();
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    drop(eager());
    // Tests that wait for their turn open files as well, though none while one has it.
    let before = open();
    for _ in 0..20 {
        let profiler = eager();
        await_samples(&profiler, 5);
    }
    assert_eq!(open(), before);
}

#[test]
fn a_signal_after_the_stop_is_harmless() {
    let _alone = alone();
    let profiler = eager();
    await_samples(&profiler, 50);
    profiler.stop();
    let before = profiler.statistics();
    for value in 0..1000usize {
        let value = libc::sigval { sival_ptr: (value << 2) as *mut libc::c_void };
        // SAFETY: the signal has a handler, or is ignored.
        unsafe {
            libc::raise(libc::SIGURG);
            libc::sigqueue(libc::getpid(), libc::SIGURG, value);
        }
    }
    assert_eq!(profiler.statistics(), before);
}

const REPLACED: &str = "UNLADEN_TRAPS_REPLACED";

/// A thread replaces the program while signals are on their way to it: one that is still pending then finds
/// no handler. By default it is ignored; `SIGPROF` would end the new program.
#[test]
fn a_signal_across_exec_is_harmless() {
    if env::var_os(REPLACED).is_some() {
        let profiler = eager();
        await_samples(&profiler, 20);
        let error = Command::new("sh").args(["-c", "sleep 0.01; exit 42"]).exec();
        panic!("{error}");
    }
    let _alone = alone();
    let name = "a_signal_across_exec_is_harmless";
    for _ in 0..10 {
        let mut command = Command::new(env::current_exe().unwrap());
        let output = command.args(["--exact", name]).env(REPLACED, "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(42), "{}: {said}", output.status);
    }
}

#[test]
fn a_child_of_fork_lets_go_of_the_profiler() {
    let _alone = alone();
    let profiler = eager();
    await_samples(&profiler, 20);
    for _ in 0..20 {
        // SAFETY: the child calls nothing that takes a lock which another thread might have held.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_right = !profiler.is_running();
            profiler.settle();
            profiler.stop();
            // SAFETY: ends this process at once; should something above hang, the alarm does.
            unsafe { libc::_exit(i32::from(!is_right)) }
        }
        assert!(child > 0, "{}", io::Error::last_os_error());
        let began = Instant::now();
        let mut status = 0;
        // SAFETY: our child; there is room for its status.
        while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == 0 {
            if began.elapsed() > Duration::from_secs(30) {
                // SAFETY: our child, which has not been waited for.
                unsafe { libc::kill(child, libc::SIGKILL) };
                panic!("a child hung");
            }
            thread::yield_now();
        }
        assert_eq!(status, 0);
    }
}
