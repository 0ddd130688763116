//! A program that interrupts itself some thousand times a second, wherever it is, and walks the stack each
//! time. It says where walks ended; a few of them not at the root make it fail.
//!
//! Arguments: how many milliseconds, and a library to load and unload.
use std::cell::{Cell, UnsafeCell};
use std::collections::{BTreeMap, HashMap};
use std::ffi::{CString, c_int, c_void};
use std::hint::black_box;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use profiler::unwind::{self, End, Registers};

/// Walks that ended at the root, for want of room, and lost.
static ENDS: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
/// How often a walk passed another signal's frame.
static NESTED: AtomicU64 = AtomicU64::new(0);
static ERRNO_CHANGED: AtomicU64 = AtomicU64::new(0);
static STOP: AtomicBool = AtomicBool::new(false);

const KEPT: usize = 256;
const FRAMES: usize = 24;
/// The first lost walks: depth, then the last addresses, outermost last.
static LOST: [[AtomicU64; FRAMES + 1]; KEPT] =
    [const { [const { AtomicU64::new(0) }; FRAMES + 1] }; KEPT];
static LOST_NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static SLOT: UnsafeCell<[u64; 1024]> = const { UnsafeCell::new([0; 1024]) };
}

/// The signals below are a function of the program that is interrupted in turn.
static HANDLER: AtomicU64 = AtomicU64::new(0);

extern "C" fn interrupted(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    let errno = unsafe { *libc::__errno_location() };
    let registers = unsafe { Registers::of_context(context.cast()) };
    // Alternate stacks are small.
    let frames = unsafe { &mut *SLOT.with(UnsafeCell::get) };
    let walk = unwind::walk(&registers, frames);
    ENDS[walk.end as usize].fetch_add(1, Relaxed);
    let handler = HANDLER.load(Relaxed);
    if frames[..walk.depth].iter().any(|&pc| handler <= pc && pc < handler + 64) {
        NESTED.fetch_add(1, Relaxed);
    }
    if walk.end == End::Lost {
        let next = LOST_NEXT.fetch_add(1, Relaxed);
        if let Some(kept) = LOST.get(next) {
            kept[0].store(walk.depth as u64, Relaxed);
            let tail = &frames[walk.depth.saturating_sub(FRAMES)..walk.depth];
            for (slot, &pc) in kept[1..].iter().zip(tail) {
                slot.store(pc, Relaxed);
            }
        }
    }
    if unsafe { *libc::__errno_location() } != errno {
        ERRNO_CHANGED.fetch_add(1, Relaxed);
    }
}

/// Interrupts the calling thread from now on.
fn arm(micros: i64) -> libc::timer_t {
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGPROF;
        event.sigev_notify_thread_id = libc::syscall(libc::SYS_gettid) as i32;
        let mut timer: libc::timer_t = std::mem::zeroed();
        assert_eq!(libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer), 0);
        let every = libc::timespec { tv_sec: 0, tv_nsec: micros * 1000 };
        let times = libc::itimerspec { it_interval: every, it_value: every };
        assert_eq!(libc::timer_settime(timer, 0, &times, std::ptr::null_mut()), 0);
        timer
    }
}

fn disarm(timer: libc::timer_t) {
    unsafe { libc::timer_delete(timer) };
}

fn install(signal: c_int, handler: usize, flags: c_int) {
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | flags;
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
}

fn fibonacci(n: u32) -> u64 {
    if n < 2 { u64::from(black_box(n)) } else { fibonacci(n - 1) + fibonacci(n - 2) }
}

/// Backtracks as regular expressions do.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', rest @ ..] => (0..=text.len()).any(|skip| matches(rest, &text[skip..])),
        [first, rest @ ..] => text.first() == Some(first) && matches(rest, &text[1..]),
    }
}

fn texts() {
    let mut words: Vec<String> =
        (0..300_u64).map(|n| format!("{:x}-{:?}-{}", n * 7919 % 301, n as f64 / 7.0, n)).collect();
    words.sort();
    words.sort_by_key(|word| word.len());
    let counts: HashMap<&str, usize> =
        words.iter().map(|word| (word.as_str(), word.len())).collect();
    let tree: BTreeMap<String, u128> = words
        .iter()
        .map(|word| (word.to_uppercase(), u128::from(u64::MAX) / word.len() as u128))
        .collect();
    black_box((counts, tree.values().map(|n| n / 3).sum::<u128>()));
    black_box(matches(b"*a*b*c*", b"aaaaaaaaaaaaabbbbbbbbbbbbbbcccccccccccd"));
    black_box(fibonacci(14));
    black_box("3.14159265358979e-20".parse::<f64>().ok());
}

fn blocks() {
    let source = vec![7_u8; 3 << 20];
    let mut target = vec![0_u8; 3 << 20];
    for size in [64, 300, 5_000, 70_000, 3 << 20] {
        target[..size].copy_from_slice(&source[..size]);
        target[..size].fill(size as u8);
        black_box(target[..size] == source[..size]);
    }
    black_box(&mut target);
}

fn system_calls() {
    let mut null = std::fs::OpenOptions::new().write(true).open("/dev/null").unwrap();
    for _ in 0..200 {
        null.write_all(b"x").unwrap();
        black_box(Instant::now());
        black_box(std::time::SystemTime::now());
    }
    black_box(std::fs::read_to_string("/proc/self/stat").unwrap());
    unsafe {
        libc::usleep(50);
        libc::sched_yield();
        libc::poll(std::ptr::null_mut(), 0, 1);
    }
}

thread_local! {
    static WITH_DESTRUCTOR: Cell<Option<Box<u64>>> = const { Cell::new(None) };
}

/// Threads that are interrupted from their first instruction of ours to their last.
fn threads() {
    let (send, receive) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        send.send(arm(40) as usize).unwrap();
        WITH_DESTRUCTOR.set(Some(Box::new(1)));
        black_box(fibonacci(12));
    });
    let timer = receive.recv().unwrap() as libc::timer_t;
    thread.join().unwrap();
    disarm(timer);
}

#[inline(never)]
fn large_frame(n: usize) -> u8 {
    let mut bytes = [0_u8; 200_000];
    bytes[n] = 1;
    black_box(&mut bytes)[n / 2]
}

#[repr(align(128))]
struct Aligned([u8; 128]);

#[inline(never)]
fn aligned_frame(n: usize) -> u8 {
    let mut bytes = Aligned([0; 128]);
    black_box(&mut bytes).0[n % 128] = 3;
    if n > 0 { aligned_frame(n - 1) + bytes.0[n % 127] } else { large_frame(5) }
}

fn panics() {
    if cfg!(panic = "abort") {
        return;
    }
    fn deep(n: u32) -> String {
        let text = n.to_string();
        if n == 0 {
            std::panic::resume_unwind(Box::new(7));
        }
        deep(n - 1) + &text
    }
    black_box(std::panic::catch_unwind(|| deep(30)).is_err());
}

#[inline(never)]
extern "C" fn handler(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    black_box(fibonacci(13));
}

/// Handlers of the program's own, one of them on a stack of its own.
fn signals() {
    thread_local! {
        static STACK: Box<[u8; 1 << 16]> = alternate_stack();
    }
    STACK.with(|_| ());
    for _ in 0..20 {
        unsafe {
            libc::raise(libc::SIGUSR1);
            libc::raise(libc::SIGUSR2);
        }
    }
}

/// The one that threads have is too small for a signal upon another.
fn alternate_stack() -> Box<[u8; 1 << 16]> {
    let mut stack = Box::new([0; 1 << 16]);
    let new = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: stack.len() };
    assert_eq!(unsafe { libc::sigaltstack(&new, std::ptr::null_mut()) }, 0);
    stack
}

extern "C" fn from_library() -> u64 {
    fibonacci(12)
}

#[cfg(not(target_feature = "crt-static"))]
fn load(path: &str) {
    let path = CString::new(path).unwrap();
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        assert!(!library.is_null(), "{path:?}");
        assert_ne!(unwind::refresh(), unwind::Refreshed::Same);
        let function = libc::dlsym(library, c"descend".as_ptr());
        let descend: extern "C" fn(u32, extern "C" fn() -> u64) -> u64 =
            std::mem::transmute(function);
        black_box(descend(40, from_library));
        assert_eq!(libc::dlclose(library), 0);
    }
    assert_eq!(unwind::refresh(), unwind::Refreshed::Unloaded);
}

#[cfg(target_feature = "crt-static")]
fn load(path: &str) {
    black_box(CString::new(path).unwrap());
}

fn work(what: &[fn()]) {
    let timer = arm(230);
    while !STOP.load(Relaxed) {
        for part in what {
            part();
        }
    }
    disarm(timer);
}

fn name(pc: u64, modules: &[unwind::Module]) -> String {
    match modules.iter().find(|module| (module.start..module.end).contains(&pc)) {
        Some(module) => {
            format!("{}+{:#x}", module.path.rsplit('/').next().unwrap(), pc - module.bias)
        }
        None => format!("{pc:#x}"),
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let millis = arguments.next().map_or(1_000, |text| text.parse().unwrap());
    let library = arguments.next();
    unwind::refresh();
    HANDLER.store(handler as extern "C" fn(_, _, _) as usize as u64, Relaxed);
    install(libc::SIGPROF, interrupted as extern "C" fn(_, _, _) as usize, libc::SA_ONSTACK);
    install(libc::SIGUSR1, handler as extern "C" fn(_, _, _) as usize, 0);
    install(libc::SIGUSR2, handler as extern "C" fn(_, _, _) as usize, libc::SA_ONSTACK);
    let until = Instant::now() + Duration::from_millis(millis);
    let workers: Vec<std::thread::JoinHandle<()>> = vec![
        std::thread::spawn(|| {
            work(&[texts, signals, blocks, || {
                black_box(aligned_frame(9));
            }])
        }),
        std::thread::spawn(|| work(&[system_calls, signals, panics, threads])),
    ];
    let timer = arm(310);
    let mut rounds = 0;
    while Instant::now() < until {
        // What a library does before its loading is known can't be walked; so it is a small part here.
        if let Some(path) = library.as_deref().filter(|_| rounds % 20 == 0) {
            load(path);
        }
        rounds += 1;
        texts();
        threads();
        black_box(large_frame(9));
    }
    STOP.store(true, Relaxed);
    for worker in workers {
        worker.join().unwrap();
    }
    disarm(timer);
    report();
}

fn report() {
    let [root, truncated, lost] = [0, 1, 2].map(|end: usize| ENDS[end].load(Relaxed));
    let modules = unwind::modules();
    let kept = &LOST[..KEPT.min(LOST_NEXT.load(Relaxed))];
    let mut places: BTreeMap<String, u64> = BTreeMap::new();
    for walk in kept {
        let frames: Vec<String> = walk[1..]
            .iter()
            .map(|pc| pc.load(Relaxed))
            .filter(|&pc| pc != 0)
            .map(|pc| name(pc, &modules))
            .collect();
        let last = frames[frames.len().saturating_sub(4)..].join(" < ");
        *places.entry(format!("depth {}: {last}", walk[0].load(Relaxed))).or_default() += 1;
    }
    for (place, count) in &places {
        println!("lost {count}: {place}");
    }
    println!("{:?}", unwind::statistics());
    let nested = NESTED.load(Relaxed);
    println!("RESULT root={root} truncated={truncated} lost={lost} nested={nested}");
    assert!(modules.iter().any(|module| module.path == "[vdso]"), "no vdso: {modules:?}");
    assert_eq!(ERRNO_CHANGED.load(Relaxed), 0, "errno changed");
    assert!(nested > 0, "no handler was interrupted");
    assert!(root > 100, "too few walks: {root}");
    // One more, for a short run that meets the dynamic linker resolving a function: it keeps its caller in a
    // register that walks don't follow.
    assert!((truncated + lost) * 1000 <= root + 1000, "more than one in a thousand isn't complete");
}
