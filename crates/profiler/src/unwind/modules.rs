//! Which modules are loaded, as the dynamic linker lists them.
//!
//! Unsafe: reads what the linker lists, in memory that it keeps while it lists.
//!
//! What is needed of a module is copied while the linker's lock is held, so that no other thread can
//! unload it; reading the tables takes a hundred times as long, and is done without the lock, so that
//! nobody who loads a library or unwinds an exception waits for it. A thread that is sampled while it holds
//! the lock does no harm: a walk does not need it.
use std::ffi::{CStr, c_int, c_void};
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

use super::Module;
use super::table::{Section, extent};

const PAGE: u64 = 4096;

/// How often modules were loaded and unloaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    loaded: u64,
    unloaded: u64,
}

/// What makes a module the same as one that was seen before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    bias: u64,
    name: Vec<u8>,
    build_id: Vec<u8>,
    header: u64,
    code: Vec<(u64, u64)>,
}

/// A module as listed.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) identity: Identity,
    /// One for each segment with code.
    pub(super) modules: Vec<Module>,
    /// A copy of the unwind tables; None if it was known, or has none.
    pub(super) frames: Option<Frames>,
}

/// A module's `.eh_frame`.
#[derive(Debug)]
pub(super) struct Frames {
    bytes: Vec<u8>,
    address: u64,
    header: u64,
    start: u64,
    end: u64,
}

impl Frames {
    pub(super) fn section(&self) -> Section<'_> {
        Section {
            bytes: &self.bytes,
            address: self.address,
            header: self.header,
            start: self.start,
            end: self.end,
        }
    }
}

/// How often modules came and went until now. About 100 ns.
pub(super) fn changes() -> Changes {
    unsafe extern "C" fn first(
        info: *mut libc::dl_phdr_info,
        size: usize,
        found: *mut c_void,
    ) -> c_int {
        // SAFETY: the linker's description of a module, and the variable that is handed through below.
        unsafe { *found.cast::<Changes>() = changes_of(&*info, size) };
        1
    }
    let mut changes = Changes::default();
    // SAFETY: the function has the type that is called, and the variable outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut changes).cast()) };
    changes
}

fn changes_of(info: &libc::dl_phdr_info, size: usize) -> Changes {
    // Older C libraries end before.
    if size < std::mem::offset_of!(libc::dl_phdr_info, dlpi_subs) + 8 {
        return Changes::default();
    }
    Changes { loaded: info.dlpi_adds, unloaded: info.dlpi_subs }
}

struct Listing<'a> {
    changes: Changes,
    vdso: u64,
    program: String,
    known: &'a dyn Fn(&Identity) -> bool,
    listed: Vec<Listed>,
}

/// All modules. The tables of those that `known` recognises are not copied. *Setup*.
pub(super) fn list(known: &dyn Fn(&Identity) -> bool) -> (Changes, Vec<Listed>) {
    unsafe extern "C" fn each(
        info: *mut libc::dl_phdr_info,
        size: usize,
        listing: *mut c_void,
    ) -> c_int {
        // SAFETY: the linker's description of a module, and the variable that is handed through below.
        let (info, listing) = unsafe { (&*info, &mut *listing.cast::<Listing<'_>>()) };
        listing.changes = changes_of(info, size);
        // SAFETY: the linker holds the module while it calls.
        unsafe { listing.add(info) };
        0
    }
    let mut listing = Listing {
        changes: Changes::default(),
        // SAFETY: reads what the kernel told this process at its start.
        vdso: unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) },
        program: program(),
        known,
        listed: Vec::new(),
    };
    // SAFETY: the function has the type that is called, and the variable outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut listing).cast()) };
    listing.add_vdso();
    (listing.changes, listing.listed)
}

/// The path of the program's file.
fn program() -> String {
    let path = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    String::from_utf8_lossy(&path.into_os_string().into_vec()).into_owned()
}

impl Listing<'_> {
    /// # Safety
    /// `info` describes a module that stays in memory until this returns.
    unsafe fn add(&mut self, info: &libc::dl_phdr_info) {
        if info.dlpi_phdr.is_null() {
            return;
        }
        // SAFETY: the linker says how many there are.
        let segments =
            unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let name = if info.dlpi_name.is_null() {
            Vec::new()
        } else {
            // SAFETY: a string of the linker's.
            unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes().to_vec()
        };
        // SAFETY: as this function's.
        unsafe { self.add_segments(info.dlpi_addr, name, segments) };
    }

    /// Programs without a dynamic linker may not list it.
    fn add_vdso(&mut self) {
        let within = |module: &Module| module.start <= self.vdso && self.vdso < module.end;
        if self.vdso == 0 || self.listed.iter().any(|listed| listed.modules.iter().any(within)) {
            return;
        }
        // SAFETY: the kernel put an ELF image there, which stays as long as the process; its addresses are
        // relative to its start.
        unsafe {
            let header = &*(self.vdso as *const libc::Elf64_Ehdr);
            let first = (self.vdso + header.e_phoff) as *const libc::Elf64_Phdr;
            let segments = std::slice::from_raw_parts(first, usize::from(header.e_phnum));
            self.add_segments(self.vdso, Vec::new(), segments);
        }
    }

    /// # Safety
    /// `segments` are those of a module that is in memory `bias` bytes above its addresses, and stays
    /// until this returns.
    unsafe fn add_segments(&mut self, bias: u64, name: Vec<u8>, segments: &[libc::Elf64_Phdr]) {
        let place = |segment: &libc::Elf64_Phdr| bias.wrapping_add(segment.p_vaddr);
        let code: Vec<&libc::Elf64_Phdr> = segments
            .iter()
            .filter(|segment| segment.p_type == libc::PT_LOAD && segment.p_flags & libc::PF_X != 0)
            .collect();
        let header = segments.iter().find(|segment| segment.p_type == libc::PT_GNU_EH_FRAME);
        let identity = Identity {
            bias,
            // SAFETY: as this function's.
            build_id: unsafe { build_id(bias, segments) },
            header: header.map_or(0, place),
            code: code.iter().map(|segment| (place(segment), segment.p_memsz)).collect(),
            name,
        };
        let path = self.path(&identity, segments);
        let modules: Vec<Module> = code
            .iter()
            .map(|segment| Module {
                path: path.clone(),
                build_id: identity.build_id.clone(),
                start: place(segment) & !(PAGE - 1),
                end: (place(segment) + segment.p_memsz).next_multiple_of(PAGE),
                offset: segment.p_offset & !(PAGE - 1),
                bias,
            })
            .collect();
        let mut frames = None;
        if let (Some(first), Some(last)) = (modules.first(), modules.last())
            && !(self.known)(&identity)
        {
            // SAFETY: as this function's.
            frames = unsafe { frames_of(bias, segments, identity.header, first.start, last.end) };
        }
        self.listed.push(Listed { identity, modules, frames });
    }

    fn path(&self, identity: &Identity, segments: &[libc::Elf64_Phdr]) -> String {
        let within = |segment: &libc::Elf64_Phdr| {
            let start = identity.bias.wrapping_add(segment.p_vaddr);
            segment.p_type == libc::PT_LOAD && self.vdso.wrapping_sub(start) < segment.p_memsz
        };
        if self.vdso != 0 && segments.iter().any(within) {
            "[vdso]".into()
        } else if identity.name.is_empty() {
            self.program.clone()
        } else {
            String::from_utf8_lossy(&identity.name).into_owned()
        }
    }
}

/// # Safety
/// As [`Listing::add_segments`].
unsafe fn frames_of(
    bias: u64,
    segments: &[libc::Elf64_Phdr],
    header: u64,
    start: u64,
    end: u64,
) -> Option<Frames> {
    // SAFETY: as this function's.
    let loaded = |address| unsafe { loaded(bias, segments, address) };
    let address = eh_frame(loaded(header)?, header)?;
    let bytes = loaded(address)?;
    let bytes = bytes.get(..extent(bytes))?.to_vec();
    Some(Frames { bytes, address, header, start, end })
}

/// Where the header at `address` says that the tables begin.
fn eh_frame(header: &[u8], address: u64) -> Option<u64> {
    let slice = gimli::EndianSlice::new(header, gimli::NativeEndian);
    let bases = gimli::BaseAddresses::default().set_eh_frame_hdr(address);
    match gimli::EhFrameHdr::from(slice).parse(&bases, 8).ok()?.eh_frame_ptr() {
        gimli::Pointer::Direct(address) => Some(address),
        gimli::Pointer::Indirect(_) => None,
    }
}

/// What a module has in memory from `address` to the end of the segment.
///
/// # Safety
/// As [`Listing::add_segments`]; what is returned must not be used when the module may be gone.
unsafe fn loaded<'a>(bias: u64, segments: &[libc::Elf64_Phdr], address: u64) -> Option<&'a [u8]> {
    segments.iter().find_map(|segment| {
        let start = bias.wrapping_add(segment.p_vaddr);
        let readable = segment.p_type == libc::PT_LOAD && segment.p_flags & libc::PF_R != 0;
        let left =
            segment.p_filesz.checked_sub(address.wrapping_sub(start)).filter(|&left| left > 0);
        let left = usize::try_from(left.filter(|_| readable)?).ok()?;
        // SAFETY: the segment is in memory as long as the module is.
        Some(unsafe { std::slice::from_raw_parts(address as *const u8, left) })
    })
}

/// # Safety
/// As [`Listing::add_segments`].
unsafe fn build_id(bias: u64, segments: &[libc::Elf64_Phdr]) -> Vec<u8> {
    for segment in segments.iter().filter(|segment| segment.p_type == libc::PT_NOTE) {
        let address = bias.wrapping_add(segment.p_vaddr);
        // SAFETY: as this function's.
        let Some(notes) = (unsafe { loaded(bias, segments, address) }) else { continue };
        let length = usize::try_from(segment.p_filesz).map_or(notes.len(), |n| n.min(notes.len()));
        if let Some(id) = build_id_note(&notes[..length], segment.p_align) {
            return id.to_vec();
        }
    }
    Vec::new()
}

/// The build id among the notes of a segment.
fn build_id_note(mut notes: &[u8], align: u64) -> Option<&[u8]> {
    const BUILD_ID: u32 = 3;
    const HEADER: usize = 12;
    let align = if align == 8 { 8 } else { 4 };
    loop {
        let word = |at: usize| Some(u32::from_ne_bytes(*notes.get(at..)?.first_chunk::<4>()?));
        let (name, description) = (word(0)? as usize, word(4)? as usize);
        let kind = word(8)?;
        let start = HEADER.checked_add(name)?.checked_next_multiple_of(align)?;
        let end = start.checked_add(description)?;
        if kind == BUILD_ID && notes.get(HEADER..HEADER + name)? == b"GNU\0" {
            return notes.get(start..end);
        }
        notes = notes.get(end.checked_next_multiple_of(align)?..)?;
    }
}

/// The modules of all that is listed, by address.
pub(super) fn by_address<'a>(listed: impl Iterator<Item = &'a Arc<[Module]>>) -> Vec<Module> {
    let mut all: Vec<Module> = listed.flat_map(|modules| modules.iter().cloned()).collect();
    all.sort_by_key(|module| module.start);
    all
}
