//! Where the files are that addresses belong to, and the files with their debug information.
//!
//! A file may have been replaced since the program started: it is the one that runs only if it has the same
//! build id or, without one, the same code. Debug files are known by build id or by checksum. Names of
//! another version would look right and be wrong; without names the build id still says which they are.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::{ffi::OsStr, fs};

use object::Object;

use super::image::{self, Image};
use crate::profile::Mapping;

/// Where distributions put the debug information of what they ship.
pub(super) const DEBUG_DIRECTORY: &str = "/usr/lib/debug";
/// The bytes of code compared, per address, where there is no build id.
const COMPARED: usize = 64;
/// The addresses that are compared.
const COMPARISONS: usize = 64;

/// The file of this process' `mapping`; none if it is not there as it was when it was mapped. `addresses`
/// are those asked for.
pub(super) fn of_process(mapping: &Mapping, addresses: &[u64]) -> Option<Image> {
    if mapping.file == "[vdso]" {
        let range = map_line(|line| line.path == b"[vdso]")?;
        return Image::of_memory(range.0, range.1).ok();
    }
    let path = Path::new(mapping.file.strip_suffix(" (deleted)").unwrap_or(&mapping.file));
    // Asked last, because only privileged processes may.
    let mapped = || {
        let at = addresses.first()?;
        let (start, end) = map_line(|line| line.start <= *at && *at < line.end)?;
        Some(PathBuf::from(format!("/proc/self/map_files/{start:x}-{end:x}")))
    };
    let is_program = fs::read_link("/proc/self/exe")
        .is_ok_and(|exe| exe == Path::new(&mapping.file) || without_deleted(&exe) == path);
    let candidates: [&dyn Fn() -> Option<PathBuf>; 3] = [
        &|| path.is_absolute().then(|| path.to_path_buf()),
        &|| is_program.then(|| PathBuf::from("/proc/self/exe")),
        &mapped,
    ];
    candidates.iter().find_map(|candidate| {
        let mut image = Image::open(&candidate()?).ok()?;
        if !runs(&image, mapping, addresses) {
            return None;
        }
        // What lies beside the file is looked for where the file was.
        image.path = path.to_path_buf();
        Some(image)
    })
}

fn without_deleted(path: &Path) -> &Path {
    let bytes = path.as_os_str().as_bytes();
    Path::new(OsStr::from_bytes(bytes.strip_suffix(b" (deleted)").unwrap_or(bytes)))
}

/// Whether `image` is what is mapped.
fn runs(image: &Image, mapping: &Mapping, addresses: &[u64]) -> bool {
    let Some(elf) = image.elf() else { return false };
    let build_id = image::build_id(&elf);
    if !mapping.build_id.is_empty() || !build_id.is_empty() {
        return mapping.build_id == build_id;
    }
    let Ok(memory) = File::open("/proc/self/mem") else { return false };
    let every = addresses.len().div_ceil(COMPARISONS).max(1);
    let mut code = [0; COMPARED];
    addresses.iter().step_by(every).all(|&address| {
        let from = address.saturating_sub(COMPARED as u64 / 2).max(mapping.start);
        let length = COMPARED.min(mapping.limit.saturating_sub(from) as usize);
        let offset = (from - mapping.start).saturating_add(mapping.offset) as usize;
        memory.read_exact_at(&mut code[..length], from).is_ok()
            && image.bytes().get(offset..).and_then(|rest| rest.get(..length))
                == Some(&code[..length])
    })
}

/// A line of `/proc/self/maps`.
struct MapLine<'a> {
    start: u64,
    end: u64,
    path: &'a [u8],
}

/// The addresses of the first mapping that `is_it`.
fn map_line(is_it: impl Fn(&MapLine<'_>) -> bool) -> Option<(u64, u64)> {
    let mut lines = BufReader::new(File::open("/proc/self/maps").ok()?);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).ok()? > 0 {
        let text = line.trim_ascii();
        // Address, rights, offset, device, inode, and the path, which may have spaces.
        let mut parts = text.splitn(6, |&byte| byte == b' ');
        let range = std::str::from_utf8(parts.next()?).ok()?.split_once('-')?;
        let path = parts.nth(4).unwrap_or_default().trim_ascii();
        let start = u64::from_str_radix(range.0, 16).ok()?;
        let end = u64::from_str_radix(range.1, 16).ok()?;
        if is_it(&MapLine { start, end, path }) {
            return Some((start, end));
        }
        line.clear();
    }
    None
}

/// The file with the debug information of `image`, which has none itself.
pub(super) fn debug_file(
    image: &Image,
    elf: &object::File<'_>,
    directories: &[PathBuf],
) -> Option<Image> {
    by_build_id(&image::build_id(elf), directories).or_else(|| by_link(image, elf, directories))
}

/// `DIRECTORY/.build-id/xx/yyyy.debug`.
fn by_build_id(build_id: &str, directories: &[PathBuf]) -> Option<Image> {
    let (first, rest) = build_id.split_at_checked(2).filter(|(_, rest)| !rest.is_empty())?;
    directories.iter().find_map(|directory| {
        let image = Image::open(&directory.join(format!(".build-id/{first}/{rest}.debug"))).ok()?;
        (image::build_id(&image.elf()?) == build_id).then_some(image)
    })
}

/// The file that `.gnu_debuglink` names: beside the program, in `.debug`, or below the debug directories.
fn by_link(image: &Image, elf: &object::File<'_>, directories: &[PathBuf]) -> Option<Image> {
    let (name, checksum) = elf.gnu_debuglink().ok()??;
    let name = OsStr::from_bytes(name);
    if Path::new(name).file_name() != Some(name) {
        return None;
    }
    let beside = image.path.parent()?;
    let below =
        |directory: &PathBuf| directory.join(beside.strip_prefix("/").unwrap_or(beside)).join(name);
    let places = [beside.join(name), beside.join(".debug").join(name)]
        .into_iter()
        .chain(directories.iter().map(below));
    let build_id = image::build_id(elf);
    places.into_iter().find_map(|place| {
        let debug = Image::open(&place).ok()?;
        let found = image::build_id(&debug.elf()?);
        let same = if build_id.is_empty() || found.is_empty() {
            crc32(debug.bytes()) == checksum
        } else {
            found == build_id
        };
        same.then_some(debug)
    })
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// The file that several debug files share, as dwz makes them: named by `.gnu_debugaltlink`.
pub(super) fn shared_debug_file(
    debug: &Image,
    elf: &object::File<'_>,
    directories: &[PathBuf],
) -> Option<Image> {
    let (path, build_id) = elf.gnu_debugaltlink().ok()??;
    let build_id = image::hexadecimal(build_id);
    by_build_id(&build_id, directories).or_else(|| {
        let image = Image::open(&debug.path.parent()?.join(OsStr::from_bytes(path))).ok()?;
        (image::build_id(&image.elf()?) == build_id).then_some(image)
    })
}

/// Split debug information in one file beside the program or its debug file: `program.dwp`.
pub(super) fn package(image: &Image) -> Option<Image> {
    let mut path = image.path.clone().into_os_string();
    path.push(".dwp");
    Image::open(Path::new(&path)).ok()
}

/// Names that a compiler at run time wrote for perf, for the sorted addresses `wanted`; `found` is called
/// with the place in them. The file lies where anybody may write: only our own user's counts.
pub(super) fn perf_map(wanted: &[u64], found: &mut dyn FnMut(usize, &str)) {
    /// The bytes that are read of it.
    const MOST: u64 = 64 << 20;
    let path = format!("/tmp/perf-{}.map", std::process::id());
    let Ok(file) = File::open(&path) else { return };
    let owner =
        |of: std::io::Result<fs::Metadata>| of.ok().filter(fs::Metadata::is_file).map(|m| m.uid());
    let ours = fs::metadata("/proc/self").map(|m| m.uid()).ok();
    if ours.is_none() || owner(file.metadata()) != ours {
        return;
    }
    let mut lines = BufReader::new(file.take(MOST));
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        if let Some((start, size, name)) = perf_line(line.trim_ascii()) {
            let from = wanted.partition_point(|&address| address < start);
            for (at, address) in wanted.iter().enumerate().skip(from) {
                if address - start >= size {
                    break;
                }
                found(at, &name);
            }
        }
        line.clear();
    }
}

/// `START SIZE NAME`, both numbers in hexadecimal digits.
fn perf_line(line: &[u8]) -> Option<(u64, u64, String)> {
    let mut parts = line.splitn(3, |&byte| byte == b' ');
    let mut number = || u64::from_str_radix(std::str::from_utf8(parts.next()?).ok()?, 16).ok();
    let (start, size) = (number()?, number()?);
    Some((start, size, String::from_utf8_lossy(parts.next()?).into_owned()))
}
