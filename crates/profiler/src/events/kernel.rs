//! What the kernel is asked: counters that write samples, and the memory it writes them to.
//!
//! Unsafe, because neither has a safe binding. The layouts are those of `include/uapi/linux/perf_event.h`,
//! as of Linux 3.19, which everything since reads.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sample::Tid;

/// `perf_event_attr` up to its third extension.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_watermark: u32,
    breakpoint: u32,
    config1: u64,
    config2: u64,
    branches: u64,
    registers: u64,
    stack: u32,
    clock: i32,
}

const _: () = assert!(size_of::<Attributes>() == 96, "PERF_ATTR_SIZE_VER3");

const SOFTWARE: u32 = 1;
const TASK_CLOCK: u64 = 1;

const WITH_TID: u64 = 1 << 1;
const WITH_ID: u64 = 1 << 6;
const WITH_PERIOD: u64 = 1 << 8;
const WITH_REGISTERS: u64 = 1 << 12;
const WITH_STACK: u64 = 1 << 13;

const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const TELL_OF_THREADS: u64 = 1 << 13;
const WATERMARK: u64 = 1 << 14;
const INHERIT_IN_PROCESS: u64 = 1 << 35;

/// For descriptors that programs started by `exec` do not get.
const CLOSE_ON_EXEC: u64 = 1 << 3;

const ENABLE: libc::c_ulong = 0x2400;
const DISABLE: libc::c_ulong = 0x2401;
const SET_OUTPUT: libc::c_ulong = 0x2405;
const GET_ID: libc::c_ulong = 0x8008_2407;

/// Which registers are wanted, by the kernel's numbers, which is also the order in a sample.
#[cfg(target_arch = "x86_64")]
pub(super) const REGISTERS: [u32; 3] = [FP, SP, PC];
#[cfg(target_arch = "x86_64")]
const FP: u32 = 6;
#[cfg(target_arch = "x86_64")]
const SP: u32 = 7;
#[cfg(target_arch = "x86_64")]
const PC: u32 = 8;

#[cfg(target_arch = "aarch64")]
pub(super) const REGISTERS: [u32; 4] = [29, 30, 31, 32];

/// What a counter samples. What the kernel does not know or allow is taken off as it refuses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// Nanoseconds of processor time between samples.
    pub(super) period: u64,
    /// Bytes of stack in a sample; a multiple of 8.
    pub(super) stack: u32,
    /// The bytes after which the reader is woken.
    pub(super) watermark: u32,
    flags: u64,
}

impl Wanted {
    pub(super) fn new(period: u64, stack: u32, watermark: u32) -> Self {
        let flags = INHERIT | INHERIT_IN_PROCESS | EXCLUDE_HYPERVISOR | TELL_OF_THREADS | WATERMARK;
        Wanted { period, stack, watermark, flags }
    }

    /// Whether time in the kernel has samples of its own.
    pub(super) fn has_kernel(&self) -> bool {
        self.flags & EXCLUDE_KERNEL == 0
    }

    /// What to ask for after `error`: time in the kernel is for the privileged, and threads without child
    /// processes for Linux 5.13. False if there is nothing left to take off.
    pub(super) fn settle_for_less(&mut self, error: &io::Error) -> bool {
        let flags = match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => self.flags | EXCLUDE_KERNEL,
            Some(libc::EINVAL) => self.flags & !INHERIT_IN_PROCESS,
            _ => self.flags,
        };
        let less = flags != self.flags;
        self.flags = flags;
        less
    }
}

/// A counter of one thread on one processor, and of the threads it starts. Closed when dropped.
#[derive(Debug)]
pub(super) struct Counter(OwnedFd);

impl Counter {
    /// Opens and starts it.
    pub(super) fn open(tid: Tid, processor: i32, wanted: &Wanted) -> io::Result<Counter> {
        let attributes = Attributes {
            kind: SOFTWARE,
            size: size_of::<Attributes>() as u32,
            config: TASK_CLOCK,
            sample_period: wanted.period,
            sample_type: WITH_TID | WITH_ID | WITH_PERIOD | WITH_REGISTERS | WITH_STACK,
            flags: wanted.flags,
            wakeup_watermark: wanted.watermark,
            registers: REGISTERS.iter().map(|&register| 1 << register).sum(),
            stack: wanted.stack,
            ..Attributes::default()
        };
        // SAFETY: the structure says its own size, and is there during the call.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                tid.0,
                processor,
                -1,
                CLOSE_ON_EXEC,
            )
        };
        if answer < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor that was just made and nobody else has.
        Ok(Counter(unsafe { OwnedFd::from_raw_fd(answer as i32) }))
    }

    /// The number that its samples carry, and those of the threads that inherited it.
    pub(super) fn id(&self) -> io::Result<u64> {
        let mut id = 0_u64;
        // SAFETY: it writes 8 bytes to the place given.
        check(unsafe { libc::ioctl(self.0.as_raw_fd(), GET_ID as _, &raw mut id) })?;
        Ok(id)
    }

    /// Writes its samples where `other`, of the same processor, writes them.
    pub(super) fn write_to(&self, other: &Counter) -> io::Result<()> {
        // SAFETY: it takes a descriptor by value.
        check(unsafe { libc::ioctl(self.0.as_raw_fd(), SET_OUTPUT as _, other.0.as_raw_fd()) })
    }

    /// Starts or stops it, for the threads that inherited it, too. (A new period would not reach those.)
    pub(super) fn switch(&self, on: bool) -> io::Result<()> {
        let switch = if on { ENABLE } else { DISABLE };
        // SAFETY: it takes a number: 0 for this counter and not its group.
        check(unsafe { libc::ioctl(self.0.as_raw_fd(), switch as _, 0) })
    }
}

impl AsRawFd for Counter {
    fn as_raw_fd(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

fn check(answer: i32) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Where in the first page the kernel says how far it wrote; behind it is how far was read.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// The memory that counters of a processor write to.
#[derive(Debug)]
pub(super) struct Ring {
    start: NonNull<u8>,
    page: usize,
    /// A power of two.
    data: usize,
}

// SAFETY: the mapping belongs to the ring alone, wherever that is.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps `data` bytes, a power of two of whole pages, for `counter`.
    pub(super) fn map(counter: &Counter, data: usize) -> io::Result<Ring> {
        // SAFETY: it takes a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let length = page + data;
        // SAFETY: a new mapping where the kernel likes.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                counter.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Ring { start, page, data })
    }

    /// Calls `found` with each record that was written since the last time. `scratch` is for those that
    /// go around the ring's end. *Steady* once `scratch` has the room of a record.
    pub(super) fn read(&mut self, scratch: &mut Vec<u8>, mut found: impl FnMut(&[u8])) {
        let head = self.place(HEAD).load(Ordering::Acquire);
        let mut tail = self.place(TAIL).load(Ordering::Relaxed);
        while head.wrapping_sub(tail) >= 8 {
            let at = tail as usize & (self.data - 1);
            // The header: kind, flags, and in the last two bytes the length. It never goes around the end,
            // since all lengths are multiples of 8.
            let length = match self.part(at, 8).get(6..8) {
                Some(&[low, high]) => usize::from(u16::from_ne_bytes([low, high])),
                _ => 0,
            };
            if length < 8 || length as u64 > head.wrapping_sub(tail) {
                // Not what the kernel writes; what there is cannot be told apart any more.
                tail = head;
                break;
            }
            let first = length.min(self.data - at);
            if first == length {
                found(self.part(at, length));
            } else {
                scratch.clear();
                scratch.extend_from_slice(self.part(at, first));
                scratch.extend_from_slice(self.part(0, length - first));
                found(scratch);
            }
            tail = tail.wrapping_add(length as u64);
            // After each, so that there is room soon.
            self.place(TAIL).store(tail, Ordering::Release);
        }
        self.place(TAIL).store(tail, Ordering::Release);
    }

    fn place(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: within the first page, which lives as long as `self`; aligned to 8; shared with the
        // kernel, which reads and writes it at once.
        unsafe { &*self.start.as_ptr().add(offset).cast() }
    }

    /// Bytes that the kernel wrote and leaves alone until they count as read.
    fn part(&self, at: usize, length: usize) -> &[u8] {
        assert!(at <= self.data && length <= self.data - at);
        // SAFETY: within the mapping, by the assertion; nobody writes between tail and head.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(self.page + at), length) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping that `map` made, which nothing refers to any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.page + self.data) };
    }
}

/// Waits until one of `descriptors` has something to read, for `milliseconds` at most. Those that never will
/// again become -1.
pub(super) fn wait(descriptors: &mut [libc::pollfd], milliseconds: i32) {
    // SAFETY: as many as there are.
    let ready = unsafe {
        libc::poll(descriptors.as_mut_ptr(), descriptors.len() as libc::nfds_t, milliseconds)
    };
    if ready <= 0 {
        return;
    }
    for descriptor in descriptors {
        // The thread that the counter was opened for is gone; others may still write to its ring, which
        // is looked at regularly.
        if descriptor.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0 {
            descriptor.fd = -1;
        }
        descriptor.revents = 0;
    }
}

/// What may be open at once.
pub(super) fn most_descriptors() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a place for the answer.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
}
