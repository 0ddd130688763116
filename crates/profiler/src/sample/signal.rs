//! The signal: installed once, sent to one thread at a time, handled without touching anything but a slot.
//!
//! 1. The handler keeps `errno`, asks whether the signal is one of ours, and if so walks the stack into
//!    the slot that the signal names. Another's signal goes on to the handler that was there before.
//! 2. It is installed for good. After the profiler stopped, a late signal finds no slot that waits for it.
//! 3. The usual signal is `SIGURG`, which a program without a handler for it ignores. So one that is still
//!    pending when a thread replaces the program (`exec`) does no harm; `SIGPROF` would end it.
//! 4. System calls that can be begun again are (`SA_RESTART`), and the handler runs on a thread's alternate
//!    stack where it has one.
//!
//! Unsafe for the calls to the system and for what it hands to a handler.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use super::slots::{self, Cookie, Place};
use super::tasks::Tid;
use crate::unwind::Registers;

/// What was installed before, for signals that are not ours.
struct Before {
    /// The address of a handler, or one of the words for none.
    handler: AtomicUsize,
    /// Whether it takes three arguments.
    takes_information: AtomicBool,
}

/// By the signal's number.
static BEFORE: [Before; 65] =
    [const { Before { handler: AtomicUsize::new(0), takes_information: AtomicBool::new(false) } };
        65];

/// What a thread does to itself: nothing that can wait, or be sent for another purpose.
const FAULTS: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP];

/// For which signals the handler is installed.
static INSTALLED: Mutex<[bool; 65]> = Mutex::new([false; 65]);

/// Installs the handler for `signal`, unless it is.
pub(crate) fn install(signal: i32) -> io::Result<()> {
    let unknown = || io::Error::from_raw_os_error(libc::EINVAL);
    let index = usize::try_from(signal).ok().filter(|&s| s < BEFORE.len()).ok_or_else(unknown)?;
    if FAULTS.contains(&signal) {
        return Err(unknown());
    }
    let mut installed = INSTALLED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: asks only; the place is there.
    check(unsafe { libc::sigaction(signal, ptr::null(), before.as_mut_ptr()) })?;
    // SAFETY: the system has written it, and zeros are a value of it.
    let before = unsafe { before.assume_init() };
    let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = on_signal;
    // Somebody else may have come since, and may hand on what is ours: to be put in front of them would make
    // each call the other, without end.
    if installed[index] && (before.sa_sigaction == handler as usize || is_reached(signal)) {
        return Ok(());
    }
    // Known before the first signal can come.
    BEFORE[index].handler.store(before.sa_sigaction, Relaxed);
    BEFORE[index].takes_information.store(before.sa_flags & libc::SA_SIGINFO != 0, Relaxed);
    // SAFETY: zeros are a value of it: no flags, no signals blocked.
    let mut action = unsafe { MaybeUninit::<libc::sigaction>::zeroed().assume_init() };
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
    // Alternate stacks are small, some with little more room than the registers of one signal need: no other
    // handler is to run on top of this one. Faults can't wait.
    // SAFETY: the set is filled before signals are taken from it.
    unsafe {
        libc::sigfillset(&raw mut action.sa_mask);
        for fault in FAULTS {
            libc::sigdelset(&raw mut action.sa_mask, fault);
        }
    }
    // SAFETY: the handler does only what a handler may, see there.
    check(unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) })?;
    installed[index] = true;
    Ok(())
}

fn check(answer: i32) -> io::Result<()> {
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What is sent along: the layout of the kernel's `siginfo_t` for signals with a value.
#[repr(C)]
struct Queued {
    signal: i32,
    errno: i32,
    code: i32,
    padding: i32,
    pid: i32,
    uid: u32,
    value: u64,
    rest: [u64; 12],
}

const _: () = assert!(size_of::<Queued>() == size_of::<libc::siginfo_t>());

/// Who sends: asked once, since both are system calls. A child of `fork` is another one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    pid: i32,
    /// Told to who is interrupted, as is usual. The system does not ask it of a thread of the same process,
    /// so that it need not be the latest.
    uid: u32,
}

impl Sender {
    /// This process.
    pub(crate) fn own() -> Sender {
        // SAFETY: these take nothing and can't fail.
        let (pid, uid) = unsafe { (libc::getpid(), libc::getuid()) };
        Sender { pid, uid }
    }

    /// Sends `signal` with `value` to a thread of this process. `ESRCH` if it is gone, `EAGAIN` if the
    /// system has no room for another.
    pub(crate) fn send(self, tid: Tid, signal: i32, value: u64) -> io::Result<()> {
        let Sender { pid, uid } = self;
        let code = libc::SI_QUEUE;
        let queued = Queued { signal, errno: 0, code, padding: 0, pid, uid, value, rest: [0; 12] };
        // SAFETY: the structure is laid out as the call wants it and outlives it.
        let answer = unsafe {
            libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid.0, signal, &raw const queued)
        };
        check(answer as i32)
    }
}

/// Keeps all signals away from the threads that `spawn` starts: what is sent to the process is for the
/// program's own threads.
pub(crate) fn without_signals<T>(spawn: impl FnOnce() -> T) -> T {
    let mut all = MaybeUninit::<libc::sigset_t>::zeroed();
    let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: both places are there, and are filled before they are read.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let spawned = spawn();
    // SAFETY: `before` is the mask as it was.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    spawned
}

/// The handler.
extern "C" fn on_signal(
    signal: i32,
    information: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the place of this thread's errno, which is there for as long as the thread runs code.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let kept = unsafe { *errno };
    // SAFETY: the system hands both to a handler that was installed with SA_SIGINFO.
    let (code, value) = unsafe {
        let information = &*information;
        (information.si_code, information.si_value().sival_ptr as u64)
    };
    let cookie = if code == libc::SI_QUEUE { Cookie::read(value) } else { None };
    match cookie {
        Some(cookie) => {
            let context = context.cast::<libc::ucontext_t>();
            // SAFETY: the context that the system made for this handler.
            let (registers, place) = unsafe { (Registers::of_context(context), place_of(context)) };
            slots::write(cookie, &registers, place);
        }
        None => pass_on(signal, information, context),
    }
    // SAFETY: as above.
    unsafe { *errno = kept };
}

/// Where the signal found the thread. Entering a call leaves the address behind it in `rcx`; one that will
/// be begun again has its instruction, of two bytes, ahead of it, and one that gave up says so in `rax`.
///
/// # Safety
/// `context` is the one that the system made for a handler that has not returned.
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn place_of(context: *const libc::ucontext_t) -> Place {
    // SAFETY: the caller has it from the system.
    let registers = unsafe { &(*context).uc_mcontext.gregs };
    let (pc, rcx) = (registers[libc::REG_RIP as usize], registers[libc::REG_RCX as usize]);
    if rcx == pc.wrapping_add(2) {
        Place::Wait
    } else if rcx != pc {
        Place::Program
    } else if registers[libc::REG_RAX as usize] == -i64::from(libc::EINTR) {
        Place::Wait
    } else {
        Place::Call
    }
}

/// A system call leaves no trace in the registers here: nothing is said.
///
/// # Safety
/// None is needed: it reads nothing.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
unsafe fn place_of(_context: *const libc::ucontext_t) -> Place {
    Place::Program
}

/// Hands a signal of somebody else to the handler that was there before ours. Where there was none it is
/// ignored, as the usual signal would be.
fn pass_on(signal: i32, information: *mut libc::siginfo_t, context: *mut libc::c_void) {
    type Plain = extern "C" fn(i32);
    type Informed = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);
    let Some(before) = usize::try_from(signal).ok().and_then(|signal| BEFORE.get(signal)) else {
        return;
    };
    let handler = before.handler.load(Relaxed);
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
        return;
    }
    if before.takes_information.load(Relaxed) {
        // SAFETY: somebody installed this address as a handler of three arguments.
        let handler = unsafe { std::mem::transmute::<usize, Informed>(handler) };
        handler(signal, information, context);
    } else {
        // SAFETY: somebody installed this address as a handler of one argument.
        let handler = unsafe { std::mem::transmute::<usize, Plain>(handler) };
        handler(signal);
    }
}

/// Whether a signal of ours still comes to the handler.
fn is_reached(signal: i32) -> bool {
    let before = slots::probes();
    let sent = with_signal(signal, || Sender::own().send(Tid::own(), signal, Cookie::probe()));
    sent.is_ok() && slots::probes() != before
}

/// What a signal costs besides what the handler measures, in nanoseconds: sending it, the way into the
/// handler and out again. Measured on the calling thread; the least of several, since whatever interrupts
/// makes it more.
///
/// # Errors
/// What the system says where such signals can't be sent.
pub(crate) fn cost(signal: i32) -> io::Result<u64> {
    const BATCHES: usize = 8;
    const EACH: u64 = 8;
    let (own, sender) = (Tid::own(), Sender::own());
    with_signal(signal, || {
        let mut least = u64::MAX;
        for _ in 0..BATCHES {
            let begun = super::clock::own_cpu();
            for _ in 0..EACH {
                sender.send(own, signal, Cookie::probe())?;
            }
            least = least.min((super::clock::own_cpu() - begun) / EACH);
        }
        Ok(least)
    })
}

/// Does `work` with the signal let through, which the calling thread may have blocked.
fn with_signal<T>(signal: i32, work: impl FnOnce() -> T) -> T {
    let mut one = MaybeUninit::<libc::sigset_t>::zeroed();
    let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: both places are there, and are filled before they are read.
    unsafe {
        libc::sigemptyset(one.as_mut_ptr());
        libc::sigaddset(one.as_mut_ptr(), signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, one.as_ptr(), before.as_mut_ptr());
    }
    let result = work();
    // SAFETY: `before` is the mask as it was.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    result
}
