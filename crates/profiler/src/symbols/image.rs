//! A file with code, debug information or both, mapped into memory for as long as it is read.
//!
//! This file holds `unsafe`: the mapping. What is mapped may be cut short by another process while it is
//! read, which is a SIGBUS; so it is for the program's own code, which is mapped the same way. Package
//! managers and linkers write a new file and rename it, which is harmless.
//!
//! What is refused: anything but regular files and ELF; compressed sections beyond [`INFLATED_MAX`] bytes
//! in all, and those compressed by zstd: names then come from the symbol table.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use flate2::{Decompress, FlushDecompress, Status};
use gimli::{DwarfSections, RunTimeEndian, SectionId};
use object::{CompressionFormat, Object, ObjectSection, ObjectSegment};

/// The bytes that compressed sections of a file may take together: a program whose memory is counted is
/// better off with fewer names than without memory.
pub(super) const INFLATED_MAX: u64 = 96 << 20;

/// A section's bytes.
pub(super) type Slice<'a> = gimli::EndianSlice<'a, RunTimeEndian>;
/// The debug sections of a file.
pub(super) type Sections<'a> = DwarfSections<Cow<'a, [u8]>>;

/// The bytes of a file.
pub(super) struct Image {
    bytes: Bytes,
    /// Where it was found.
    pub(super) path: PathBuf,
}

enum Bytes {
    Mapped(memmap2::Mmap),
    Copied(Vec<u8>),
}

impl Image {
    /// Maps the file.
    pub(super) fn open(path: &Path) -> io::Result<Image> {
        // Looked at first, because opening a pipe waits for who writes to it.
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let file = File::open(path)?;
        // SAFETY: nothing of this process writes to the file; see the head for other processes.
        let bytes = unsafe { memmap2::Mmap::map(&file)? };
        Ok(Image { bytes: Bytes::Mapped(bytes), path: path.to_path_buf() })
    }

    /// What stands in this process' memory, for what has no file.
    pub(super) fn of_memory(start: u64, end: u64) -> io::Result<Image> {
        const MOST: u64 = 1 << 20;
        let length = end.saturating_sub(start);
        if length == 0 || length > MOST {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no image of a sensible size"));
        }
        let mut bytes = vec![0; length as usize];
        File::open("/proc/self/mem")?.read_exact_at(&mut bytes, start)?;
        Ok(Image { bytes: Bytes::Copied(bytes), path: PathBuf::new() })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Mapped(map) => map,
            Bytes::Copied(bytes) => bytes,
        }
    }

    /// The file as ELF.
    pub(super) fn elf(&self) -> Option<object::File<'_>> {
        object::File::parse(self.bytes()).ok()
    }
}

/// The build id as hexadecimal digits; empty where there is none.
pub(super) fn build_id(elf: &object::File<'_>) -> String {
    elf.build_id().ok().flatten().map(hexadecimal).unwrap_or_default()
}

/// `bytes` as lower-case hexadecimal digits.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// A stretch of a file that is loaded as code or data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    file: u64,
    length: u64,
    address: u64,
}

/// The loaded stretches of a file.
pub(super) struct Segments(Vec<Segment>);

impl Segments {
    pub(super) fn of(elf: &object::File<'_>) -> Self {
        let segments = elf.segments().filter_map(|segment| {
            let (file, length) = segment.file_range();
            (length > 0).then(|| Segment { file, length, address: segment.address() })
        });
        Segments(segments.take(1024).collect())
    }

    /// The address that symbols and debug information use for what stands at `offset` of the file.
    pub(super) fn address(&self, offset: u64) -> Option<u64> {
        let segment = self.0.iter().find(|s| offset.wrapping_sub(s.file) < s.length)?;
        segment.address.checked_add(offset - segment.file)
    }
}

/// Where code begins: ranges below are of functions that the linker left out, for which it wrote zero.
pub(super) fn first_code(elf: &object::File<'_>) -> u64 {
    let code = elf.sections().filter(|s| s.kind() == object::SectionKind::Text && s.address() > 0);
    code.map(|section| section.address()).min().unwrap_or(1)
}

/// Whether there is debug information.
pub(super) fn has_debug_info(elf: &object::File<'_>) -> bool {
    let section = |name| elf.section_by_name(name).and_then(|s| s.compressed_file_range().ok());
    // A stripped file may keep the section's header without its bytes.
    section(".debug_info").is_some_and(|range| range.compressed_size > 0)
}

/// The sections that names and lines need; `dwo` for those of a split file. None if one of them cannot be
/// had: half the sections would give wrong names.
pub(super) fn sections<'a>(elf: &object::File<'a>, dwo: bool) -> Option<Sections<'a>> {
    let mut left = INFLATED_MAX;
    DwarfSections::load(|id| {
        let name = if dwo { id.dwo_name() } else { needed(id).then(|| id.name()) };
        match name.filter(|_| needed(id)) {
            Some(name) => section(elf, name, &mut left).ok_or(()),
            None => Ok(Cow::default()),
        }
    })
    .ok()
}

/// Whether a section has to do with names and lines. Locations of variables are half of debug information.
fn needed(id: SectionId) -> bool {
    use SectionId::{
        DebugAbbrev, DebugAddr, DebugInfo, DebugLine, DebugLineStr, DebugRanges, DebugRngLists,
        DebugStr, DebugStrOffsets,
    };
    matches!(
        id,
        DebugAbbrev
            | DebugAddr
            | DebugInfo
            | DebugLine
            | DebugLineStr
            | DebugRanges
            | DebugRngLists
            | DebugStr
            | DebugStrOffsets
    )
}

/// A section's bytes, decompressed; empty for one that is not there. `left` bounds what decompression takes.
pub(super) fn section<'a>(
    elf: &object::File<'a>,
    name: &str,
    left: &mut u64,
) -> Option<Cow<'a, [u8]>> {
    let Some(section) = elf.section_by_name(name) else { return Some(Cow::default()) };
    let compressed = section.compressed_data().ok()?;
    match compressed.format {
        CompressionFormat::None => Some(Cow::Borrowed(compressed.data)),
        CompressionFormat::Zlib => {
            *left = left.checked_sub(compressed.uncompressed_size)?;
            inflate(compressed.data, compressed.uncompressed_size as usize).map(Cow::Owned)
        }
        _ => None,
    }
}

fn inflate(data: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).ok()?;
    let status =
        Decompress::new(true).decompress_vec(data, &mut bytes, FlushDecompress::Finish).ok()?;
    (status == Status::StreamEnd && bytes.len() == length).then_some(bytes)
}
