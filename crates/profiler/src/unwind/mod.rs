//! From a thread's registers to the addresses of its calls.
//!
//! [`refresh`] prepares tables for every loaded module, on a normal thread; [`walk`] then needs neither
//! memory nor locks, and runs in a signal handler or inside an allocator.

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
}

/// Where a walk ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum End {
    /// At the thread's start: the stack is complete.
    Root = 0,
    /// There was no room for more; what is there are the innermost calls.
    Truncated = 1,
    /// At an address for which nothing says how to go on, or at memory that is not there.
    #[default]
    Lost = 2,
}

/// How far a walk came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// The addresses written.
    pub depth: usize,
    /// Why there are no more.
    pub end: End,
}

/// Writes the addresses of the calls that `registers` stand in, innermost first, to `frames`. Each lies
/// within its instruction: a return address is written less one.
pub fn walk(registers: &Registers, frames: &mut [u64]) -> Walk {
    let _ = (registers, frames);
    Walk::default()
}

/// A loaded module's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The file; the name in brackets for what has none, such as `[vdso]`.
    pub path: String,
    /// The linker's build id.
    pub build_id: Vec<u8>,
    /// The first address of its code.
    pub start: u64,
    /// Behind the last.
    pub end: u64,
    /// Where in the file `start` is.
    pub offset: u64,
    /// What to subtract from an address in memory for the address in the file's symbols and DWARF.
    pub bias: u64,
}

/// What [`refresh`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refreshed {
    /// The same modules as before.
    Same,
    /// New ones, and none gone.
    Loaded,
    /// Some are gone: addresses may mean something else now.
    Unloaded,
}

/// Looks for modules that were loaded or unloaded and prepares their tables. Cheap where nothing changed.
/// On normal threads only.
pub fn refresh() -> Refreshed {
    Refreshed::Same
}

/// The modules as of the last [`refresh`], by address.
pub fn modules() -> Vec<Module> {
    Vec::new()
}
