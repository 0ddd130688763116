//! Stacks: nearly full ones, alternate ones, ones that a program switches to, and code that nobody has
//! described.

use std::cell::Cell;
use std::time::Duration;
use std::{io, mem, ptr, thread};

use super::threads::{install, without_timers};
use super::{Actor, Storm, spin};

/// What is left of a stack at the deepest: a signal's frame with the largest registers there are (about
/// 11 KiB with AMX, 3 KiB with AVX-512) goes to the alternate stack that `std` gives its threads; what is
/// called here needs the rest.
const LEFT: usize = 4 * 1024;
const STACK: usize = 256 * 1024;

/// Calls itself until the stack is nearly used up.
pub(super) fn recursion(actor: &Actor, storm: &Storm) -> Result<(), String> {
    while storm.goes_on() {
        actor.step("recursing");
        let life = || {
            without_timers();
            let end = stack_end();
            for _ in 0..10 {
                dive(end);
            }
        };
        let builder = thread::Builder::new().name("diver".to_owned()).stack_size(STACK);
        let thread = builder.spawn(life).map_err(|error| format!("a thread: {error}"))?;
        thread.join().map_err(|_| "a thread panicked")?;
    }
    Ok(())
}

#[inline(never)]
fn dive(end: usize) -> u64 {
    let here = [0u64; 12];
    let address = std::hint::black_box(&here).as_ptr() as usize;
    if address < end + LEFT {
        return spin(Duration::from_micros(300));
    }
    dive(end) + std::hint::black_box(here)[0]
}

/// The lowest address of this thread's stack, its guard left out.
fn stack_end() -> usize {
    // SAFETY: the attributes are filled by the call before they are read, and destroyed once.
    unsafe {
        let mut attributes: libc::pthread_attr_t = mem::zeroed();
        assert_eq!(libc::pthread_getattr_np(libc::pthread_self(), &mut attributes), 0);
        let (mut address, mut size, mut guard) = (ptr::null_mut(), 0, 0);
        libc::pthread_attr_getstack(&attributes, &mut address, &mut size);
        libc::pthread_attr_getguardsize(&attributes, &mut guard);
        libc::pthread_attr_destroy(&mut attributes);
        // Some versions of glibc count the guard in.
        address as usize + guard
    }
}

/// The program's handler on an alternate stack: the profiler's signal comes while it runs.
extern "C" fn on_alternate(_: libc::c_int) {
    spin(Duration::from_micros(700));
}

/// Runs most of the time in a handler on a stack of its own.
pub(super) fn alternate(actor: &Actor, storm: &Storm) -> Result<(), String> {
    const SIZE: usize = 64 * 1024;
    let flags = libc::SA_ONSTACK | libc::SA_RESTART;
    install(libc::SIGUSR2, on_alternate as *const () as usize, flags)?;
    let mut memory = vec![0u8; SIZE];
    let stack = libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: SIZE };
    // SAFETY: filled by the call.
    let mut before: libc::stack_t = unsafe { mem::zeroed() };
    // SAFETY: the memory outlives its use: the old stack is set again below.
    if unsafe { libc::sigaltstack(&stack, &mut before) } != 0 {
        return Err(format!("sigaltstack: {}", io::Error::last_os_error()));
    }
    while storm.goes_on() {
        actor.step("raising");
        for _ in 0..10 {
            // SAFETY: the signal has a handler.
            unsafe { libc::raise(libc::SIGUSR2) };
        }
    }
    // SAFETY: the old stack is still there.
    unsafe { libc::sigaltstack(&before, ptr::null_mut()) };
    Ok(())
}

thread_local! {
    /// The context to go back to and the one that was entered.
    static CONTEXTS: Cell<[*mut libc::ucontext_t; 2]> = const { Cell::new([ptr::null_mut(); 2]) };
}

extern "C" fn coroutine() {
    loop {
        spin(Duration::from_micros(200));
        let [back, own] = CONTEXTS.get();
        // SAFETY: both are the live contexts of `coroutines`.
        unsafe { libc::swapcontext(own, back) };
    }
}

/// Switches between stacks by hand; the memory of the other one is unmapped and comes anew.
pub(super) fn coroutines(actor: &Actor, storm: &Storm) -> Result<(), String> {
    const SIZE: usize = 128 * 1024;
    while storm.goes_on() {
        actor.step("switching stacks");
        // SAFETY: the contexts are filled by the calls; the stack is mapped before it is entered and
        // unmapped when nobody is on it.
        unsafe {
            let memory = map(SIZE, libc::PROT_READ | libc::PROT_WRITE)?;
            let mut contexts: [libc::ucontext_t; 2] = mem::zeroed();
            let [back, own] = &mut contexts;
            libc::getcontext(own);
            own.uc_stack = libc::stack_t { ss_sp: memory, ss_flags: 0, ss_size: SIZE };
            own.uc_link = ptr::null_mut();
            libc::makecontext(own, coroutine, 0);
            let [back, own] = [ptr::from_mut(back), ptr::from_mut(own)];
            CONTEXTS.set([back, own]);
            for _ in 0..20 {
                libc::swapcontext(back, own);
            }
            libc::munmap(memory, SIZE);
        }
    }
    Ok(())
}

/// SAFETY: memory of its own, to be unmapped by the caller.
unsafe fn map(size: usize, protection: i32) -> Result<*mut libc::c_void, String> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: no address is asked for.
    match unsafe { libc::mmap(ptr::null_mut(), size, protection, flags, -1, 0) } {
        libc::MAP_FAILED => Err(format!("mmap: {}", io::Error::last_os_error())),
        memory => Ok(memory),
    }
}

/// Code made at run time: nothing says how to walk out of it, and its page goes away again. It counts
/// down with a stack pointer that is off and a frame pointer that means nothing.
#[cfg(target_arch = "x86_64")]
pub(super) fn generated(actor: &Actor, storm: &Storm) -> Result<(), String> {
    const CODE: [u8; 19] = [
        0x55, // push rbp
        0x48, 0x8d, 0x6f, 0x05, // lea rbp, [rdi + 5]
        0x50, 0x50, // push rax; push rax
        0x48, 0xff, 0xcf, // again: dec rdi
        0x75, 0xfb, // jne again
        0x48, 0x83, 0xc4, 0x10, // add rsp, 16
        0x5d, // pop rbp
        0xc3, // ret
        0xcc,
    ];
    while storm.goes_on() {
        actor.step("running generated code");
        // SAFETY: the page holds a whole function that keeps the registers a caller counts on.
        unsafe {
            let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
            let page = map(4096, all)?;
            ptr::copy_nonoverlapping(CODE.as_ptr(), page.cast(), CODE.len());
            let count_down: extern "C" fn(u64) = mem::transmute(page);
            for _ in 0..10 {
                count_down(500_000);
            }
            libc::munmap(page, 4096);
        }
    }
    Ok(())
}

/// There is no such code for other machines here.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn generated(actor: &Actor, _: &Storm) -> Result<(), String> {
    actor.step("has no generated code for this machine");
    Ok(())
}
