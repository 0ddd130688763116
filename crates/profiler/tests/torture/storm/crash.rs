//! What a crash says before the process ends: the signal, the address, the thread, the stack and what is
//! mapped. Raw writes only: it runs in a handler.

use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use std::{fs, mem, ptr};

use profiler::unwind::{Registers, walk};

use super::pause;

/// Asks a thread for its stack; not one of those that the storm is about.
const TELL: i32 = libc::SIGIO;

static TOLD: AtomicUsize = AtomicUsize::new(0);

/// Has crashes of any thread reported.
pub(super) fn report_crashes() {
    for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, TELL] {
        // SAFETY: the action is complete; the handler takes three arguments as SA_SIGINFO says.
        unsafe {
            let mut action: libc::sigaction = mem::zeroed();
            action.sa_sigaction = on_crash as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
            libc::sigaction(signal, &action, ptr::null_mut());
        }
    }
}

/// Has every thread print where it is, one after the other.
pub(super) fn print_all_stacks() {
    for task in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let Ok(thread) = task.file_name().to_string_lossy().parse::<libc::pid_t>() else {
            continue;
        };
        let before = TOLD.load(Relaxed);
        // SAFETY: the signal has a handler.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, TELL) };
        // One that blocks it does not answer.
        for _ in 0..20 {
            if TOLD.load(Relaxed) != before {
                break;
            }
            pause(Duration::from_millis(1));
        }
    }
    print_maps();
}

extern "C" fn on_crash(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let mut name = [0u8; 17];
    // SAFETY: the kernel hands both over; the name has room for the 16 bytes it may have.
    let (address, registers) = unsafe {
        libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr());
        ((*info).si_addr() as u64, Registers::of_context(context.cast()))
    };
    let mut text = Text::new();
    text.add(b"thread ");
    text.add(CStr::from_bytes_until_nul(&name).unwrap_or_default().to_bytes());
    text.add(b": signal ");
    text.decimal(signal as u64);
    for (what, value) in [
        (&b" at "[..], address),
        (&b", pc "[..], registers.pc),
        (&b", sp "[..], registers.sp),
        (&b", fp "[..], registers.fp),
    ] {
        text.add(what);
        text.hexadecimal(value);
    }
    text.add(b"\n");
    text.print();
    if signal != TELL {
        // First, because walking may crash again.
        print_maps();
    }
    let mut frames = [0u64; 60];
    let walked = walk(&registers, &mut frames);
    for frame in &frames[..walked.depth] {
        let mut text = Text::new();
        text.add(b"  ");
        text.hexadecimal(*frame);
        text.add(b"\n");
        text.print();
    }
    if signal == TELL {
        TOLD.fetch_add(1, Relaxed);
        return;
    }
    // SAFETY: back to what the signal does by default; it comes again when this returns.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// Which addresses of code belong to which file.
fn print_maps() {
    let mut line = Text::new();
    // SAFETY: plain calls on a file of our own and a buffer that is there.
    unsafe {
        let file = libc::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        let mut buffer = [0u8; 1024];
        loop {
            let length = libc::read(file, buffer.as_mut_ptr().cast(), buffer.len());
            if length <= 0 {
                break;
            }
            for byte in &buffer[..length as usize] {
                line.add(&[*byte]);
                if *byte == b'\n' {
                    if line.0.windows(4).any(|word| word == b"r-xp") {
                        line.print();
                    }
                    line = Text::new();
                }
            }
        }
        libc::close(file);
    }
}

/// A line without an allocation.
struct Text([u8; 256], usize);

impl Text {
    fn new() -> Self {
        Text([0; 256], 0)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().take(self.0.len() - self.1) {
            self.0[self.1] = *byte;
            self.1 += 1;
        }
    }

    fn decimal(&mut self, number: u64) {
        self.digits(number, 10);
    }

    fn hexadecimal(&mut self, number: u64) {
        self.add(b"0x");
        self.digits(number, 16);
    }

    fn digits(&mut self, mut number: u64, base: u64) {
        let mut digits = [0u8; 20];
        let mut place = digits.len();
        loop {
            place -= 1;
            digits[place] = b"0123456789abcdef"[(number % base) as usize];
            number /= base;
            if number == 0 {
                break;
            }
        }
        self.add(&digits[place..]);
    }

    fn print(&self) {
        // SAFETY: so many bytes are there.
        unsafe { libc::write(2, self.0.as_ptr().cast(), self.1) };
    }
}
