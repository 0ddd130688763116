//! Debug information that compilers leave beside the program: in one `.dwo` file per unit, or all of them
//! in a package, `PROGRAM.dwp`. Opened for a unit and dropped after it.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use gimli::{DwarfPackage, DwarfPackageSections};
use object::Object;

use super::dwarf::{Dwarf, Unit};
use super::image::{self, Image, Slice};
use super::source;

/// Finds the split parts of a file's units.
pub(super) struct SplitFiles<'i> {
    /// Beside these a package may be.
    images: [&'i Image; 2],
    package: OnceCell<Option<Image>>,
}

impl<'i> SplitFiles<'i> {
    pub(super) fn beside(images: [&'i Image; 2]) -> Self {
        SplitFiles { images, package: OnceCell::new() }
    }

    /// Calls `use_it` with the part that `skeleton` stands for, if there is one.
    pub(super) fn with<'a>(
        &self,
        parent: &Dwarf<'a>,
        skeleton: &Unit<'a>,
        use_it: &mut dyn FnMut(&Dwarf<'_>),
    ) {
        let package = || self.images.into_iter().find_map(source::package);
        let packaged = match self.package.get_or_init(package) {
            Some(package) => of_package(package, parent, skeleton, use_it),
            None => None,
        };
        if packaged.is_none() {
            let _ = of_file(parent, skeleton, use_it);
        }
    }
}

fn of_package(
    package: &Image,
    parent: &Dwarf<'_>,
    skeleton: &Unit<'_>,
    use_it: &mut dyn FnMut(&Dwarf<'_>),
) -> Option<()> {
    let elf = package.elf()?;
    let mut left = image::INFLATED_MAX;
    let sections = DwarfPackageSections::load(|id| match id.dwo_name() {
        // All of them: the index says where in each a unit has its part.
        Some(name) => image::section(&elf, name, &mut left).ok_or(gimli::Error::TypeMismatch),
        None => Ok(Default::default()),
    });
    let (sections, endian) = (sections.ok()?, endian(&elf));
    let package: DwarfPackage<Slice<'_>> =
        sections.borrow(|bytes| Slice::new(bytes, endian), Slice::new(&[], endian)).ok()?;
    let unit = package.find_cu(skeleton.dwo_id?, parent).ok()??;
    use_it(&unit);
    Some(())
}

fn of_file(
    parent: &Dwarf<'_>,
    skeleton: &Unit<'_>,
    use_it: &mut dyn FnMut(&Dwarf<'_>),
) -> Option<()> {
    let path = |bytes: Slice<'_>| PathBuf::from(OsStr::from_bytes(bytes.slice()));
    let name = parent.attr_string(skeleton, skeleton.dwo_name().ok()??).ok()?;
    let directory = skeleton.comp_dir.map(path).unwrap_or_default();
    let file = Image::open(&Path::new(&directory).join(path(name))).ok()?;
    let elf = file.elf()?;
    let (sections, endian) = (image::sections(&elf, true)?, endian(&elf));
    let mut unit: Dwarf<'_> = sections.borrow(|bytes| Slice::new(bytes, endian));
    unit.make_dwo(parent);
    use_it(&unit);
    Some(())
}

pub(super) fn endian(elf: &object::File<'_>) -> gimli::RunTimeEndian {
    if elf.is_little_endian() { gimli::RunTimeEndian::Little } else { gimli::RunTimeEndian::Big }
}
