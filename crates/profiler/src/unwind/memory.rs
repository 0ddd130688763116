//! Reading a stack that may be damaged: nothing is read before it is known to be there.
//!
//! Unsafe: asks the kernel whether a page can be read, and reads from it.

#[cfg(test)]
use std::collections::BTreeMap;

/// A page as it is checked. Where the system's are larger this is merely more careful.
const PAGE: u64 = 4096;

/// What a walk reads from.
pub(super) trait Memory {
    /// What can be read without asking for it first.
    fn known(&self) -> impl Known + use<Self>;

    /// The word at `address` on the stack. None where there is none, or where `address` is not a
    /// multiple of eight: no stack slot is.
    fn word(&mut self, address: u64) -> Option<u64>;

    /// Eight bytes of code at any address.
    fn code(&mut self, address: u64) -> Option<u64>;
}

/// Memory that is there for certain.
pub(super) trait Known: Copy {
    /// As [`Memory::word`], of what is known.
    fn peek(&self, address: u64) -> Option<u64>;

    /// Says that memory up from `address` will soon be asked for.
    #[inline(always)]
    fn announce(&self, _address: u64) {}
}

/// The memory of this process. *Steady*; async-signal-safe; leaves errno alone. Each page is checked
/// once, pages that follow each other grow the range that is known.
///
/// Between the check and the reading another thread may unmap the page. No thread does that to a stack in
/// use; and addresses that are not of the stack are only met where the stack is damaged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Own {
    low: u64,
    /// From `low` to what lies behind, whole pages.
    bytes: u64,
}

impl Known for Own {
    #[inline(always)]
    fn peek(&self, address: u64) -> Option<u64> {
        // What begins within whole pages and at a multiple of eight ends within them.
        if address & 7 != 0 || address.wrapping_sub(self.low) >= self.bytes {
            return None;
        }
        // SAFETY: the pages could be read a moment ago, and the word lies within them.
        Some(unsafe { std::ptr::read_volatile(address as *const u64) })
    }

    /// A step needs the word that the last one read, so that nothing overlaps by itself: on a stack that is in
    /// no cache each step would wait for memory.
    #[inline(always)]
    fn announce(&self, address: u64) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a hint; it reads nothing, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(address as *const i8) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = address;
    }
}

impl Own {
    /// Asks for the page of `address`.
    fn check(&mut self, address: u64) -> Option<()> {
        let page = address & !(PAGE - 1);
        if !readable(page) {
            return None;
        }
        if page == self.low.wrapping_add(self.bytes) {
            self.bytes += PAGE;
        } else {
            (self.low, self.bytes) = (page, PAGE);
        }
        Some(())
    }
}

impl Memory for Own {
    #[inline(always)]
    fn known(&self) -> impl Known + use<> {
        *self
    }

    fn word(&mut self, address: u64) -> Option<u64> {
        if let Some(word) = self.peek(address) {
            return Some(word);
        }
        if address & 7 != 0 {
            return None;
        }
        self.check(address)?;
        self.peek(address)
    }

    fn code(&mut self, address: u64) -> Option<u64> {
        let last = address.checked_add(7)?;
        if !readable(address & !(PAGE - 1)) || !readable(last & !(PAGE - 1)) {
            return None;
        }
        // SAFETY: both pages that the eight bytes touch could be read a moment ago.
        Some(unsafe { (address as *const u64).read_unaligned() })
    }
}

/// A copy of a stack, from the stack pointer upwards; code is read where it is. *Steady*.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copied<'a> {
    /// Where the copy's first byte came from.
    pub(super) start: u64,
    pub(super) stack: &'a [u8],
}

impl Known for Copied<'_> {
    #[inline(always)]
    fn peek(&self, address: u64) -> Option<u64> {
        if address & 7 != 0 {
            return None;
        }
        let at = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let word = self.stack.get(at..)?.first_chunk::<8>()?;
        Some(u64::from_ne_bytes(*word))
    }
}

impl<'a> Memory for Copied<'a> {
    #[inline(always)]
    fn known(&self) -> impl Known + use<'a> {
        *self
    }

    fn word(&mut self, address: u64) -> Option<u64> {
        self.peek(address)
    }

    fn code(&mut self, address: u64) -> Option<u64> {
        Own::default().code(address)
    }
}

/// Whether the page can be read: the kernel is handed it as a set of signals, with an operation that does
/// not exist. It reads the set first, and refuses then: EFAULT without the page, EINVAL with it; nothing
/// changes either way. No program's filter of system calls can do without this one.
fn readable(page: u64) -> bool {
    const NO_OPERATION: u64 = 0x7fff_ffff;
    const SET_BYTES: u64 = 8;
    let result: i64;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the system call has no effect but its result; it keeps all registers but those named.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") libc::SYS_rt_sigprocmask => result,
            in("rdi") NO_OPERATION,
            in("rsi") page,
            in("rdx") 0u64,
            in("r10") SET_BYTES,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack, preserves_flags),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") libc::SYS_rt_sigprocmask,
            inlateout("x0") NO_OPERATION => result,
            in("x1") page,
            in("x2") 0u64,
            in("x3") SET_BYTES,
            options(nostack, preserves_flags),
        );
    }
    result == -i64::from(libc::EINVAL)
}

/// A stack and code that a test writes down.
#[cfg(test)]
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) words: BTreeMap<u64, u64>,
}

/// Every other word has to be asked for, so that both ways to step are taken.
#[cfg(test)]
impl Known for &BTreeMap<u64, u64> {
    fn peek(&self, address: u64) -> Option<u64> {
        self.get(&address).copied().filter(|_| address.is_multiple_of(8) && address & 8 == 0)
    }
}

#[cfg(test)]
impl Memory for Written {
    fn known(&self) -> impl Known + use<> {
        &*Box::leak(Box::new(self.words.clone()))
    }

    fn word(&mut self, address: u64) -> Option<u64> {
        self.words.get(&address).copied().filter(|_| address.is_multiple_of(8))
    }

    fn code(&mut self, address: u64) -> Option<u64> {
        self.words.get(&address).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three pages, of which the middle one is taken away.
    #[test]
    fn what_is_not_there_is_not_read_and_errno_stays() {
        const SIZE: usize = PAGE as usize;
        // SAFETY: a new mapping, whose middle is unmapped again.
        let start = unsafe {
            let start = libc::mmap(
                std::ptr::null_mut(),
                SIZE * 3,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(start, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(start.add(SIZE), SIZE, libc::PROT_NONE), 0);
            *start.cast::<u64>() = 17;
            *start.add(SIZE * 2).cast::<u64>() = 18;
            start as u64
        };
        // SAFETY: errno of this thread.
        unsafe { *libc::__errno_location() = 77 };
        let mut own = Own::default();
        assert_eq!(own.word(start), Some(17));
        assert_eq!(own.word(start + PAGE - 8), Some(0));
        assert_eq!(own.word(start + PAGE), None);
        assert_eq!(own.word(start + PAGE * 2), Some(18));
        assert_eq!(own.word(start + 1), None, "no slot");
        assert_eq!(own.word(0), None);
        assert_eq!(own.word(u64::MAX - 7), None);
        assert_eq!(own.word(1 << 63), None);
        assert_eq!(own.code(start + PAGE - 4), None, "half of it is missing");
        assert_eq!(own.code(u64::MAX - 3), None);
        assert_eq!(own.code(start + PAGE * 2), Some(18));
        // SAFETY: errno of this thread.
        assert_eq!(unsafe { *libc::__errno_location() }, 77);
        // SAFETY: the mapping from above, which nothing refers to any more.
        unsafe { libc::munmap(start as *mut libc::c_void, SIZE * 3) };
    }

    #[test]
    fn a_copy_ends_where_it_ends() {
        let mut copy = Copied { start: 0x1000, stack: &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0] };
        assert_eq!(copy.word(0x1000), Some(1));
        for outside in [0xff8, 0x1001, 0x1008, 0x1010, u64::MAX - 7] {
            assert_eq!(copy.word(outside), None, "{outside:x}");
        }
    }
}
