//! x86-64: a call pushes the return address, `rbp` is the frame pointer or not.
//!
//! Sources: System V ABI for AMD64 (3.2.2 the stack frame, 3.6.2 DWARF's register numbers); Linux'
//! `struct rt_sigframe` and `struct sigcontext`; the entries that linkers write for the table of procedures.
use gimli::{Register, Vendor};

use super::Registers;
use super::architecture::Architecture;
use super::memory::Memory;

/// The processor.
#[derive(Debug)]
pub(super) struct X86_64;

/// Where the kernel's `ucontext` holds `rbp`, `rsp` and `rip`: 40 bytes of flags and alternate stack, then
/// r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip.
const UCONTEXT_R8: u64 = 40;
const UCONTEXT_RBP: u64 = 120;
const UCONTEXT_RSP: u64 = 160;
const UCONTEXT_RIP: u64 = 168;

/// `mov $15, %rax; syscall`, as all C libraries write it: nine bytes, of which these are the first eight,
const SIGRETURN: u64 = 0x0f00_0000_0fc0_c748;
/// and these the last.
const SIGRETURN_END: u64 = 0x050f_0000_000f_c0c7;

impl Architecture for X86_64 {
    const SP: Register = Register(7);
    const FP: Register = Register(6);
    const RA: Register = Register(16);
    const VENDOR: Vendor = Vendor::Default;
    const LINK: bool = false;

    #[inline(always)]
    fn address(word: u64) -> u64 {
        word
    }

    /// `*(rsp + 160)`: the stack pointer within the `ucontext` that begins at `rsp`.
    fn is_signal(cfa: &[u8]) -> bool {
        cfa == [0x77, 0xa0, 0x01, 0x06]
    }

    /// `rsp + 8 + ((rip & 15) >= limit) << 3`.
    fn procedures(cfa: &[u8]) -> Option<i8> {
        match cfa {
            [0x77, 8, 0x80, 0, 0x3f, 0x1a, limit @ 0x30..0x40, 0x2a, 0x33, 0x24, 0x22] => {
                i8::try_from(limit - 0x30).ok()
            }
            _ => None,
        }
    }

    fn saved(register: u16) -> Option<u64> {
        // rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp; then r8 to r15.
        const FIRST: [u64; 8] = [144, 136, 152, 128, 112, 104, UCONTEXT_RBP, UCONTEXT_RSP];
        match register {
            0..8 => FIRST.get(usize::from(register)).copied(),
            8..16 => Some(u64::from(register - 8) * 8 + UCONTEXT_R8),
            _ => None,
        }
    }

    /// The return took the address of the code off the stack, so that `sp` is at the `ucontext`.
    fn interrupted<M: Memory>(sp: u64, memory: &mut M) -> Option<Registers> {
        Some(Registers {
            pc: memory.word(sp.checked_add(UCONTEXT_RIP)?)?,
            sp: memory.word(sp.checked_add(UCONTEXT_RSP)?)?,
            fp: memory.word(sp.checked_add(UCONTEXT_RBP)?)?,
            lr: 0,
            context: sp,
        })
    }

    fn returns_from_signal<M: Memory>(pc: u64, memory: &mut M) -> bool {
        memory.code(pc) == Some(SIGRETURN) && memory.code(pc + 1) == Some(SIGRETURN_END)
    }

    fn is_stub<M: Memory>(pc: u64, memory: &mut M) -> bool {
        let Some(code) = memory.code(pc) else { return true };
        matches!(code & 0xffff, 0x25ff | 0x35ff) // jmp, push of a word of the module
            || code & 0xff_ffff == 0x25_fff2 // bnd jmp
            || matches!(code & 0xff, 0x68 | 0xe9) // push of an index, jmp
            || code & 0xffff_ffff == 0xfa1e_0ff3 // endbr64
    }

    /// The first instruction has pushed nothing, the last of a long entry two words.
    fn callers<M: Memory>(at: &Registers, memory: &mut M) -> [Option<Registers>; 3] {
        [0, 8, 16].map(|pushed| {
            let slot = at.sp.checked_add(pushed)?;
            Some(Registers::new(memory.word(slot)?, slot.checked_add(8)?, at.fp, 0))
        })
    }

    fn begins_thread<M: Memory>(pc: u64, memory: &mut M) -> bool {
        // Of musl's clone: mov %eax, %edi; xor %eax, %eax; mov $60, %al; syscall.
        const EXIT: u64 = 0x050f_3cb0_c031_c789;
        // Of its _start: and $-16, %rsp; call. The call's operand follows.
        const START: u64 = 0xe8_f0e4_8348;
        memory.code(pc) == Some(EXIT)
            || pc
                .checked_sub(9)
                .and_then(|before| memory.code(before))
                .is_some_and(|code| code & 0xff_ffff_ffff == START)
    }

    fn follows_call<M: Memory>(address: u64, memory: &mut M) -> bool {
        let Some(code) = address.checked_sub(8).and_then(|start| memory.code(start)) else {
            return false;
        };
        let [_, b1, b2, b3, b4, b5, b6, b7] = code.to_le_bytes();
        // ff /2 in its lengths: register; byte displacement; with index; four bytes; with index.
        let indirect =
            |modrm: u8, kinds: &[u8]| modrm & 0x38 == 0x10 && kinds.contains(&(modrm >> 6));
        b3 == 0xe8
            || (b6 == 0xff && indirect(b7, &[0, 3]))
            || (b5 == 0xff && indirect(b6, &[0, 1]))
            || (b4 == 0xff && indirect(b5, &[1]))
            || (b2 == 0xff && indirect(b3, &[0, 2]))
            || (b1 == 0xff && indirect(b2, &[2]))
    }
}
