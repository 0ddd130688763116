//! The blocks of a data directory: which there are, what a crash left over, and how one goes.
//!
//! A block is a directory whose name is a ULID. Directories with a ULID and a temporary ending are
//! left over from a crash, of ours or of Prometheus', and hold nothing that anybody refers to.
//! Everything else in the data directory is somebody else's.

use ulid::Ulid;

use super::meta::Meta;
use crate::Error;
use crate::disk::Disk;

/// Ending of the directory of a block that is being written.
pub(crate) const CREATION: &str = ".tmp-for-creation";
/// Ending of the directory of a block that is being removed.
pub(crate) const DELETION: &str = ".tmp-for-deletion";
/// What Prometheus before 2.21 called both.
const LEGACY: &str = ".tmp";

/// The ULID that a directory's name spells.
fn parse(name: &str) -> Option<Ulid> {
    // ULIDs are read in either case, but only one of them is the name that was written.
    Ulid::from_string(name).ok().filter(|ulid| ulid.to_string() == name)
}

/// The blocks, ordered by their names, which is the order in which they were made.
///
/// # Errors
/// The data directory cannot be listed.
pub fn list(disk: &dyn Disk) -> Result<Vec<Ulid>, Error> {
    let names = disk.list("").map_err(|error| Error::io("data directory", error))?;
    Ok(names.iter().filter_map(|name| parse(name)).collect())
}

/// Removes what a crash left over of blocks that were being written or removed; gives their names.
///
/// # Errors
/// The disk refused. What could not be removed is harmless, and tried again at the next start.
pub fn clean(disk: &dyn Disk) -> Result<Vec<String>, Error> {
    let mut names = disk.list("").map_err(|error| Error::io("data directory", error))?;
    names.retain(|name| {
        [CREATION, DELETION, LEGACY]
            .iter()
            .any(|ending| name.strip_suffix(ending).is_some_and(|stem| parse(stem).is_some()))
    });
    for name in &names {
        disk.remove_dir(name).map_err(|error| Error::io(name.as_str(), error))?;
    }
    Ok(names)
}

/// Removes a block: its name goes at once, so that no crash leaves half of it under that name, and
/// its files after that. Who holds it open reads on.
///
/// # Errors
/// The disk refused.
pub fn remove(disk: &dyn Disk, ulid: Ulid) -> Result<(), Error> {
    let name = ulid.to_string();
    let leaving = format!("{name}{DELETION}");
    disk.rename(&name, &leaving).map_err(|error| Error::io(name, error))?;
    disk.sync_dir("").map_err(|error| Error::io("data directory", error))?;
    disk.remove_dir(&leaving).map_err(|error| Error::io(leaving, error))
}

/// The blocks that retention by time lets go: as in Prometheus, those that end `retention_ms` or more
/// before the end of the newest one, and those that are marked as deletable. Keeps all of the former
/// where `retention_ms` is 0.
pub fn beyond_retention<'a>(
    blocks: impl IntoIterator<Item = &'a Meta> + Clone,
    retention_ms: i64,
) -> Vec<Ulid> {
    let newest = blocks.clone().into_iter().map(|meta| meta.max_time).max().unwrap_or(i64::MIN);
    let goes = |meta: &&Meta| {
        let old = retention_ms > 0 && newest.saturating_sub(meta.max_time) >= retention_ms;
        old || meta.compaction.deletable
    };
    blocks.into_iter().filter(goes).map(|meta| meta.ulid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Directory;

    #[test]
    fn only_blocks_are_listed_and_only_leftovers_cleaned() {
        let root = std::env::temp_dir().join(format!("unladen-catalog-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let disk = Directory::open(&root).unwrap();
        let block = "01BX5ZZKBKACTAV9WEVGEMMVRZ";
        let kept = ["wal", "chunks_head", "wal.tmp", "01BX.tmp", block, "lost.tmp-for-deletion"];
        let cleaned = [
            "01BX5ZZKBKACTAV9WEVGEMMVS0.tmp",
            "01BX5ZZKBKACTAV9WEVGEMMVS1.tmp-for-creation",
            "01BX5ZZKBKACTAV9WEVGEMMVS2.tmp-for-deletion",
        ];
        for name in kept.iter().chain(&cleaned) {
            disk.create_dir(&format!("{name}/inside")).unwrap();
        }
        assert_eq!(clean(&disk).unwrap(), cleaned);
        let mut expected: Vec<_> = kept.iter().map(ToString::to_string).collect();
        expected.sort();
        assert_eq!(disk.list("").unwrap(), expected);
        let ulid = Ulid::from_string(block).unwrap();
        assert_eq!(list(&disk).unwrap(), [ulid]);
        remove(&disk, ulid).unwrap();
        assert!(list(&disk).unwrap().is_empty() && clean(&disk).unwrap().is_empty());
        assert!(remove(&disk, ulid).is_err());
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn retention_counts_from_the_end_of_the_newest() {
        let block = |n: u64, to: i64| Meta::of_head(Ulid::from_parts(n, 0), to - 100, to);
        let mut blocks = vec![block(1, 100), block(2, 200), block(3, 300), block(4, 400)];
        let left = |blocks: &Vec<Meta>, retention| -> Vec<u64> {
            beyond_retention(blocks, retention).iter().map(Ulid::timestamp_ms).collect()
        };
        assert_eq!(left(&blocks, 0), [0; 0]);
        assert_eq!(left(&blocks, 200), [1, 2]);
        assert_eq!(left(&blocks, 201), [1]);
        blocks[3].compaction.deletable = true;
        assert_eq!(left(&blocks, 0), [4]);
        assert_eq!(left(&Vec::new(), 1), [0; 0]);
    }
}
