//! aarch64: a call leaves the return address in `x30`, perhaps signed; `x29` is the frame pointer.
//!
//! Sources: Procedure Call Standard for the Arm 64-bit Architecture; DWARF for the same; Linux'
//! `struct rt_sigframe` and `struct sigcontext`; the entries that linkers write for the table of procedures.
use gimli::{Register, Vendor};

use super::Registers;
use super::architecture::Architecture;
use super::memory::Memory;

/// The processor.
#[derive(Debug)]
pub(super) struct Aarch64;

/// Before the `ucontext` stands the `siginfo`.
const SIGINFO_BYTES: u64 = 128;
/// Of the `ucontext`: flags, link, alternate stack (24 bytes), 128 bytes for the mask, 8 so that what follows
/// is aligned; then the fault's address, x0 to x30, sp, pc.
const UCONTEXT_X0: u64 = 8 + 8 + 24 + 128 + 8 + 8;
const UCONTEXT_X29: u64 = UCONTEXT_X0 + 29 * 8;
const UCONTEXT_X30: u64 = UCONTEXT_X29 + 8;
const UCONTEXT_SP: u64 = UCONTEXT_X30 + 8;
const UCONTEXT_PC: u64 = UCONTEXT_SP + 8;

/// The bits of an address in user space; those above may be a signature of it.
const ADDRESS: u64 = (1 << 48) - 1;

/// `mov x8, #139; svc #0`.
const SIGRETURN: u64 = 0xd400_0001_d280_1168;

impl Architecture for Aarch64 {
    const SP: Register = Register(31);
    const FP: Register = Register(29);
    const RA: Register = Register(30);
    const VENDOR: Vendor = Vendor::AArch64;
    const LINK: bool = true;

    #[inline(always)]
    fn address(word: u64) -> u64 {
        word & ADDRESS
    }

    /// Only the kernel's code is marked so.
    fn is_signal(_: &[u8]) -> bool {
        true
    }

    /// The table's entries push nothing here.
    fn procedures(_: &[u8]) -> Option<i8> {
        None
    }

    fn saved(register: u16) -> Option<u64> {
        (register < 32).then(|| UCONTEXT_X0 + u64::from(register) * 8)
    }

    /// `sp` is what the kernel set it to, at the `siginfo`.
    fn interrupted<M: Memory>(sp: u64, memory: &mut M) -> Option<Registers> {
        let context = sp.checked_add(SIGINFO_BYTES)?;
        Some(Registers {
            pc: memory.word(context.checked_add(UCONTEXT_PC)?)?,
            sp: memory.word(context.checked_add(UCONTEXT_SP)?)?,
            fp: memory.word(context.checked_add(UCONTEXT_X29)?)?,
            lr: memory.word(context.checked_add(UCONTEXT_X30)?)?,
            context,
        })
    }

    fn returns_from_signal<M: Memory>(pc: u64, memory: &mut M) -> bool {
        memory.code(pc) == Some(SIGRETURN)
    }

    fn is_stub<M: Memory>(pc: u64, memory: &mut M) -> bool {
        let Some(code) = memory.code(pc) else { return true };
        let code = code as u32;
        code & 0x9f00_001f == 0x9000_0010 // adrp x16
            || code & 0xffc0_03ff == 0xf940_0211 // ldr x17, [x16, #]
            || code & 0xffc0_03ff == 0x9100_0210 // add x16, x16, #
            || code == 0xd61f_0220 // br x17
            || code == 0xd503_245f // bti c
    }

    fn callers<M: Memory>(at: &Registers, _: &mut M) -> [Option<Registers>; 3] {
        [Some(Registers::new(Self::address(at.lr), at.sp, at.fp, 0)), None, None]
    }

    fn begins_thread<M: Memory>(pc: u64, memory: &mut M) -> bool {
        // Of musl's clone: mov x8, #93; svc #0.
        memory.code(pc) == Some(0xd400_0001_d280_0ba8)
    }

    fn follows_call<M: Memory>(address: u64, memory: &mut M) -> bool {
        let Some(code) = address.checked_sub(4).and_then(|before| memory.code(before)) else {
            return false;
        };
        let code = code as u32;
        code & 0xfc00_0000 == 0x9400_0000 // bl
            || code & 0xffff_fc1f == 0xd63f_0000 // blr
            || code & 0xfeff_f800 == 0xd63f_0800 // blraa, blrab and their kin
    }
}
