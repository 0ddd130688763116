//! What differs between processors, as plain code over [`Memory`]: both are compiled and tested on either.
use gimli::{Register, Vendor};

use super::Registers;
use super::memory::Memory;

/// A processor.
pub(super) trait Architecture {
    /// DWARF's number of the stack pointer.
    const SP: Register;
    /// That of the frame pointer.
    const FP: Register;
    /// That of the return address.
    const RA: Register;
    /// Whose extensions the tables may contain.
    const VENDOR: Vendor;
    /// Whether calls leave the return address in a register. A function that calls nothing may keep it
    /// there, and then the frame's address is the stack pointer itself.
    const LINK: bool;

    /// The address in a word that was stored as a return address.
    fn address(word: u64) -> u64;

    /// Whether an entry of the tables that is marked as a signal's describes what the kernel puts on the
    /// stack. Assemblers mark other things so, too.
    fn is_signal(cfa: &[u8]) -> bool;

    /// The limit within 16 bytes from where on an entry of the table of procedures has pushed a word, if
    /// `cfa` is the expression that linkers write for it.
    fn procedures(cfa: &[u8]) -> Option<i8>;

    /// How far into a `ucontext` the register of this DWARF's number is.
    fn saved(register: u16) -> Option<u64>;

    /// What a signal interrupted, where `sp` is what the handler returned with.
    fn interrupted<M: Memory>(sp: u64, memory: &mut M) -> Option<Registers>;

    /// Whether `pc` is the code that a signal's handler returns to, where no table says so.
    fn returns_from_signal<M: Memory>(pc: u64, memory: &mut M) -> bool;

    /// Whether `pc` keeps no frame: it is in an entry of the linker's table of procedures, or there is no
    /// code at all.
    fn is_stub<M: Memory>(pc: u64, memory: &mut M) -> bool;

    /// What may be the callers of an instruction that keeps no frame or hardly any: all but `pc` is right
    /// if `pc` is one.
    fn callers<M: Memory>(at: &Registers, memory: &mut M) -> [Option<Registers>; 3];

    /// Whether the call before `pc` is the one that a thread or a program begins with, as C libraries without
    /// tables write it.
    fn begins_thread<M: Memory>(pc: u64, memory: &mut M) -> bool;

    /// Whether the instruction before `address` is a call.
    fn follows_call<M: Memory>(address: u64, memory: &mut M) -> bool;
}

/// The one that this is compiled for.
#[cfg(target_arch = "x86_64")]
pub(super) type Native = super::x86_64::X86_64;
/// The one that this is compiled for.
#[cfg(target_arch = "aarch64")]
pub(super) type Native = super::aarch64::Aarch64;
