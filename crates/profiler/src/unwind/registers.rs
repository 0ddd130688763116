//! Where a walk begins.
//!
//! Unsafe: reads the processor's registers, and what the kernel hands to a signal's handler.

/// The registers that a walk begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// The instruction.
    pub pc: u64,
    /// The stack.
    pub sp: u64,
    /// `rbp` on x86-64, `x29` on aarch64.
    pub fp: u64,
    /// `x30` on aarch64; 0 on x86-64, which keeps return addresses on the stack.
    pub lr: u64,
    /// Where the kernel put all others; 0 for nowhere.
    pub(crate) context: u64,
}

impl Registers {
    /// Those named. A few instructions need others to find their caller, such as those that make room for
    /// large frames; for the first call of a walk only [`Registers::of_context`] has them.
    #[must_use]
    pub const fn new(pc: u64, sp: u64, fp: u64, lr: u64) -> Registers {
        Registers { pc, sp, fp, lr, context: 0 }
    }

    /// Those of the function that this is written in. Valid until that function returns.
    #[inline(always)]
    #[must_use]
    pub fn here() -> Registers {
        let (pc, sp, fp): (u64, u64, u64);
        #[cfg(target_arch = "x86_64")]
        let lr = 0;
        #[cfg(target_arch = "x86_64")]
        // SAFETY: only reads registers.
        unsafe {
            std::arch::asm!(
                "lea {pc}, [rip]",
                "mov {sp}, rsp",
                "mov {fp}, rbp",
                pc = out(reg) pc,
                sp = out(reg) sp,
                fp = out(reg) fp,
                options(nomem, nostack, preserves_flags),
            );
        }
        #[cfg(target_arch = "aarch64")]
        let lr: u64;
        #[cfg(target_arch = "aarch64")]
        // SAFETY: only reads registers.
        unsafe {
            std::arch::asm!(
                "adr {pc}, .",
                "mov {sp}, sp",
                "mov {fp}, x29",
                "mov {lr}, x30",
                pc = out(reg) pc,
                sp = out(reg) sp,
                fp = out(reg) fp,
                lr = out(reg) lr,
                options(nomem, nostack, preserves_flags),
            );
        }
        Registers::new(pc, sp, fp, lr)
    }

    /// Those that a signal interrupted. Async-signal-safe.
    ///
    /// # Safety
    /// `context` is what a handler installed with `SA_SIGINFO` was given as its third argument, and the
    /// handler has not returned.
    #[must_use]
    pub unsafe fn of_context(context: *const libc::ucontext_t) -> Registers {
        // SAFETY: as this function's.
        let machine = unsafe { &(*context).uc_mcontext };
        #[cfg(target_arch = "x86_64")]
        let registers = Registers {
            pc: machine.gregs[libc::REG_RIP as usize] as u64,
            sp: machine.gregs[libc::REG_RSP as usize] as u64,
            fp: machine.gregs[libc::REG_RBP as usize] as u64,
            lr: 0,
            context: context as u64,
        };
        #[cfg(target_arch = "aarch64")]
        let registers = Registers {
            pc: machine.pc,
            sp: machine.sp,
            fp: machine.regs[29],
            lr: machine.regs[30],
            context: context as u64,
        };
        registers
    }
}
