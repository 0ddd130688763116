//! Files of closed chunks of the head: written at the end, read anywhere, dropped as a whole.
//!
//! The layout is drawn in `docs/format/head.md`. Each chunk names the one before it of the same
//! series, so that memory holds one reference per series and not one per chunk.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;

use super::row::{ChunkRef, ROWS_MAX, Size};
use super::shard::TIME_MAX;
use crate::Error;
use crate::chunk::{self, Encoding};
use crate::db::SeriesId;
use crate::disk::{Bytes, Disk};
use crate::journal::varint::{Reader, put};

/// The first bytes of a file, the version included.
pub(crate) const MAGIC: [u8; 8] = *b"UNLHEAD\x02";

/// Bytes of the checksum, behind which a chunk's header goes on with numbers of variable length.
const CRC: usize = 4;
/// Bits of the first of them that are the encoding; those above are the length of the data.
const ENCODING_BITS: u32 = 3;
/// The data is shorter than this.
const LENGTH_MAX: usize = 1 << 16;

/// What stands before a chunk's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) row: u32,
    pub(crate) generation: u32,
    pub(crate) encoding: Encoding,
    pub(crate) previous: ChunkRef,
    pub(crate) min_time: i64,
    pub(crate) max_time: i64,
}

/// Appends a chunk to `out`; `data` appends its bytes, `length` of them. Steady.
///
/// # Panics
/// The chunk has 64 KiB or more, spans 49 days, or begins at another time than its header says: chunks are
/// closed long before.
pub(crate) fn encode(
    out: &mut Vec<u8>,
    header: &Header,
    length: usize,
    data: impl FnOnce(&mut Vec<u8>),
) {
    assert!(length < LENGTH_MAX, "a chunk is closed before 64 KiB");
    let span = u32::try_from(header.max_time - header.min_time).expect("a chunk is of one block");
    let start = out.len();
    out.extend_from_slice(&[0; CRC]);
    put(out, (length << ENCODING_BITS) as u64 | u64::from(header.encoding.0));
    put(out, u64::from(header.row));
    put(out, u64::from(header.generation));
    put(out, u64::from(header.previous.file()));
    put(out, u64::from(header.previous.offset()));
    put(out, u64::from(span));
    let begin = out.len();
    data(out);
    assert_eq!(out.len() - begin, length, "the length of the data stands before it");
    debug_assert_eq!(first_time(&out[begin..]), Some(header.min_time));
    let crc = crc32c::crc32c(&out[start + CRC..]);
    out[start..start + CRC].copy_from_slice(&crc.to_le_bytes());
}

/// The first timestamp, with which data of encoding 1 begins behind the number of samples.
fn first_time(data: &[u8]) -> Option<i64> {
    Reader::new(data.get(chunk::xor::HEADER..)?).signed()
}

/// Reads and checks the chunk at `offset`: what it says, and where its data is; `None` if there is no
/// whole one.
pub(crate) fn decode(bytes: &[u8], offset: usize) -> Option<(Header, Range<usize>)> {
    let (crc, checked) = bytes.get(offset..)?.split_first_chunk::<CRC>()?;
    let mut reader = Reader::new(checked);
    let form = reader.unsigned()?;
    let length = usize::try_from(form >> ENCODING_BITS).ok()?;
    let encoding = Encoding((form & ((1 << ENCODING_BITS) - 1)) as u8);
    let row = reader.unsigned32()?;
    // The cheap tests first: the search for a chunk behind a damage tries every byte.
    if encoding != Encoding::XOR || length >= LENGTH_MAX || row >= ROWS_MAX {
        return None;
    }
    let generation = reader.unsigned32()?;
    let previous = ChunkRef::new(reader.unsigned32()?, reader.unsigned32()?);
    let span = reader.unsigned32()?;
    let header = checked.len() - reader.remaining();
    let data = reader.take(length)?;
    let min_time = first_time(data).filter(|time| time.unsigned_abs() <= TIME_MAX)?;
    if crc32c::crc32c(&checked[..header + length]) != u32::from_le_bytes(*crc) {
        return None;
    }
    let max_time = min_time + i64::from(span);
    let begin = offset + CRC + header;
    let header = Header { row, generation, encoding, previous, min_time, max_time };
    Some((header, begin..begin + length))
}

/// What stands in a file, from `offset` on.
pub(crate) enum Found {
    /// A chunk at this offset.
    Chunk(usize, Header, Size),
    /// No chunk for so many bytes; `last` if nothing comes behind.
    Damage { offset: usize, length: usize, last: bool },
}

/// All chunks of a file's bytes; what is damaged is stepped over until the next chunk.
pub(crate) fn scan(bytes: &[u8]) -> impl Iterator<Item = Found> {
    let mut offset = MAGIC.len().min(bytes.len());
    std::iter::from_fn(move || {
        if offset == bytes.len() {
            return None;
        }
        let start = offset;
        if let Some((header, data)) = decode(bytes, start) {
            offset = data.end;
            let data = &bytes[data];
            let samples = data.first_chunk().map_or(0, |count| u16::from_be_bytes(*count));
            let size = Size { samples, bytes: data.len() };
            return Some(Found::Chunk(start, header, size));
        }
        let next = (start + 1..bytes.len()).find(|&next| decode(bytes, next).is_some());
        offset = next.unwrap_or(bytes.len());
        Some(Found::Damage { offset: start, length: offset - start, last: next.is_none() })
    })
}

/// A file of closed chunks, readable by queries also after it was removed.
pub(crate) struct ChunkFile {
    pub(crate) number: u32,
    path: String,
    disk: Arc<dyn Disk>,
    mapped: Mutex<Option<Bytes>>,
    /// Whether it is finished and was made durable since.
    pub(crate) durable: AtomicBool,
}

impl ChunkFile {
    pub(crate) fn new(disk: Arc<dyn Disk>, path: String, number: u32) -> Self {
        ChunkFile { number, path, disk, mapped: Mutex::new(None), durable: AtomicBool::new(false) }
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Bytes of the file, `length` at least. A file that still grows is mapped again when it has
    /// outgrown its mapping; files only grow and are never rewritten, so that a mapping stays true.
    pub(crate) fn bytes(&self, length: usize) -> Result<Bytes, Error> {
        let mut mapped = self.mapped.lock();
        if let Some(bytes) = mapped.as_ref().filter(|bytes| bytes.len() >= length) {
            return Ok(bytes.clone());
        }
        let bytes =
            self.disk.map(&self.path).map_err(|error| Error::io(self.path.as_str(), error))?;
        *mapped = Some(bytes.clone());
        Ok(bytes)
    }

    /// Gives the mapping back, as far as nobody holds it: who has read much of the file, for once, does not
    /// let it stay resident.
    pub(crate) fn unmap(&self) {
        *self.mapped.lock() = None;
    }
}

/// The chunk files of a shard, as a query sees them.
#[derive(Clone, Default)]
pub(crate) struct ChunkFiles {
    files: Arc<[Arc<ChunkFile>]>,
}

/// A chunk of a mapped file.
#[derive(Clone)]
pub(crate) struct MappedChunk {
    bytes: Bytes,
    data: Range<usize>,
    place: ChunkRef,
    header: Header,
}

impl MappedChunk {
    /// Where it stands.
    pub(crate) fn place(&self) -> ChunkRef {
        self.place
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    pub(crate) fn data(&self) -> &[u8] {
        &self.bytes[self.data.clone()]
    }
}

impl ChunkFiles {
    pub(crate) fn files(&self) -> &[Arc<ChunkFile>] {
        &self.files
    }

    /// These and one more.
    pub(crate) fn with(&self, file: Arc<ChunkFile>) -> Self {
        let files = self.files.iter().cloned().chain([file]).collect();
        ChunkFiles { files }
    }

    /// Those for which `keep` says so.
    pub(crate) fn retain(&self, keep: impl Fn(&ChunkFile) -> bool) -> Self {
        let files: Arc<[_]> = self.files.iter().filter(|file| keep(file)).cloned().collect();
        ChunkFiles { files }
    }

    /// The chunk at a place; `None` if its file is gone.
    pub(crate) fn chunk(&self, at: ChunkRef) -> Result<Option<MappedChunk>, Error> {
        let Ok(index) = self.files.binary_search_by_key(&at.file(), |file| file.number) else {
            return Ok(None);
        };
        let file = &self.files[index];
        let offset = at.offset() as usize;
        let mut bytes = file.bytes(offset + 1)?;
        let mut found = decode(&bytes, offset);
        if found.is_none() {
            // The file may have grown since it was mapped.
            bytes = file.bytes(bytes.len() + 1)?;
            found = decode(&bytes, offset);
        }
        let Some((header, data)) = found else {
            let context = format!("{} at byte {offset}", file.path);
            return Err(Error::corrupt(context, "no whole chunk stands there"));
        };
        Ok(Some(MappedChunk { bytes, data, place: at, header }))
    }

    /// The chunks of a series from `last` back that have samples from `from` on, oldest first.
    ///
    /// # Errors
    /// One of them can't be read.
    pub(crate) fn walk(&self, last: ChunkRef, from: i64) -> Result<Vec<MappedChunk>, Error> {
        let mut chunks = Vec::new();
        self.walk_to(last, from, &mut chunks).map_err(|(error, _)| error)?;
        chunks.reverse();
        Ok(chunks)
    }

    /// Collects chunks from `at` back, newest first; an error comes with its place.
    fn walk_to(
        &self,
        mut at: ChunkRef,
        from: i64,
        chunks: &mut Vec<MappedChunk>,
    ) -> Result<(), (Error, ChunkRef)> {
        while at != ChunkRef::NONE {
            let Some(chunk) = self.chunk(at).map_err(|error| (error, at))? else { break };
            if chunk.header.max_time < from {
                break;
            }
            let before = chunk.header.previous;
            // A chain only leads back: damage must not make it a circle.
            at = if before < at { before } else { ChunkRef::NONE };
            chunks.push(chunk);
        }
        Ok(())
    }

    /// As [`ChunkFiles::walk`], with those that can be read: the one before a damaged chunk is looked for
    /// in all of the files, each of which is read once for all of `places`.
    ///
    /// # Errors
    /// The disk refused, which it may not do the next time: what it holds is not known to be damaged.
    pub(crate) fn walk_readable(
        &self,
        places: &mut Places,
        id: SeriesId,
        last: ChunkRef,
        from: i64,
    ) -> Result<Walk, Error> {
        let (mut chunks, mut damage) = (Vec::new(), None);
        let mut at = last;
        loop {
            match self.walk_to(at, from, &mut chunks) {
                Ok(()) => break,
                Err((error, place)) if error.is_corrupt() => {
                    damage = damage.or(Some(error));
                    at = self.before(places, id, place)?;
                }
                Err((error, _)) => return Err(error),
            }
        }
        chunks.reverse();
        Ok(Walk { chunks, damage })
    }

    /// The last chunk of a series before a place. Reads whole files, once.
    fn before(
        &self,
        places: &mut Places,
        id: SeriesId,
        place: ChunkRef,
    ) -> Result<ChunkRef, Error> {
        let series = (id.slot().row(), id.generation());
        for file in self.files.iter().rev().filter(|file| file.number <= place.file()) {
            let of_file = match places.0.entry(file.number) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => {
                    // It may have grown since it was mapped.
                    file.unmap();
                    let bytes = file.bytes(0)?;
                    let mut of_file: Vec<Place> = scan(&bytes)
                        .filter_map(|found| match found {
                            Found::Chunk(offset, header, _) => {
                                Some(((header.row, header.generation), offset as u32))
                            }
                            Found::Damage { .. } => None,
                        })
                        .collect();
                    of_file.sort_unstable();
                    unknown.insert(of_file)
                }
            };
            let end = if file.number == place.file() { place.offset() } else { u32::MAX };
            let behind = of_file.partition_point(|&found| found < (series, end));
            let found = behind.checked_sub(1).map(|at| of_file[at]);
            if let Some((_, offset)) = found.filter(|found| found.0 == series) {
                return Ok(ChunkRef::new(file.number, offset));
            }
        }
        Ok(ChunkRef::NONE)
    }
}

/// Where the chunks of files of a shard stand, in the order of rows: of those files that were read whole,
/// because something in them or behind them is damaged. Twelve bytes a chunk.
#[derive(Default)]
pub(crate) struct Places(HashMap<u32, Vec<Place>>);

/// Row and generation of a chunk, and its offset.
type Place = ((u32, u32), u32);

/// The chunks of a series, as far as they can be read.
pub(crate) struct Walk {
    pub(crate) chunks: Vec<MappedChunk>,
    pub(crate) damage: Option<Error>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Appends the chunk of a series with two samples; answers its header.
    fn append(bytes: &mut Vec<u8>, row: u32, previous: ChunkRef, time: i64) -> Header {
        let (mut encoder, mut data) = (chunk::Encoder::new(), Vec::new());
        for (time, value) in [(time, 0.5), (time + 9, 7.0)] {
            encoder.append_growing(&mut data, time, value).unwrap();
        }
        let header = Header {
            row,
            generation: 1,
            encoding: Encoding::XOR,
            previous,
            min_time: time,
            max_time: time + 9,
        };
        encode(bytes, &header, data.len(), |out| out.extend_from_slice(&data));
        header
    }

    #[test]
    fn any_damaged_byte_costs_one_chunk() {
        let mut bytes = MAGIC.to_vec();
        let mut bounds = Vec::new();
        for i in 0..4u32 {
            bounds.push(bytes.len());
            let time = [-5, 0, 1_700_000_000_000, 3][i as usize];
            let header = append(&mut bytes, i, ChunkRef::new(3, i << 20), time);
            let (found, data) = decode(&bytes, bounds[i as usize]).unwrap();
            assert_eq!((found, data.end), (header, bytes.len()));
            let head = data.start - bounds[i as usize];
            assert!(head <= 18, "a header of {head} bytes");
        }
        bounds.push(bytes.len());
        for at in MAGIC.len()..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            let (mut chunks, mut damages) = (Vec::new(), Vec::new());
            for found in scan(&damaged) {
                match found {
                    Found::Chunk(offset, header, _) => chunks.push((offset, header.row)),
                    Found::Damage { offset, length, .. } => damages.push((offset, length)),
                }
            }
            let hit = bounds.iter().rposition(|&offset| offset <= at).unwrap();
            assert_eq!(damages, [(bounds[hit], bounds[hit + 1] - bounds[hit])], "byte {at}");
            assert_eq!(chunks.len(), 3);
        }
    }

    #[test]
    fn a_damaged_chunk_hides_no_older_one() {
        use crate::disk::Directory;
        let root = std::env::temp_dir().join(format!("unladen-chunk-files-{}", std::process::id()));
        let disk = Arc::new(Directory::open(&root).unwrap());
        disk.create_dir("head").unwrap();
        let damage = |at: ChunkRef| {
            let path = root.join(format!("head/00-{:08}", at.file()));
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[at.offset() as usize + 9] ^= 0x20;
            std::fs::write(path, bytes).unwrap();
        };
        let mut places = vec![[ChunkRef::NONE; 2]];
        for number in 1..=3 {
            let path = format!("head/00-{number:08}");
            let mut bytes = MAGIC.to_vec();
            for _ in 0..3 {
                let mut next = *places.last().unwrap();
                for row in 0..2 {
                    let at = ChunkRef::new(number, bytes.len() as u32);
                    let time = 10 * places.len() as i64;
                    append(&mut bytes, row, next[row as usize], time);
                    next[row as usize] = at;
                }
                places.push(next);
            }
            disk.create(&path).unwrap().append(&bytes).unwrap();
        }
        let open = || {
            let file =
                |number| ChunkFile::new(disk.clone(), format!("head/00-{number:08}"), number);
            (1..=3).fold(ChunkFiles::default(), |files, n| files.with(Arc::new(file(n))))
        };
        let id = SeriesId::new(super::super::row::Slot::new(0, 1), 1);
        let ends = *places.last().unwrap();
        let last = ends[1];
        let times = |walk: &Walk| -> Vec<i64> {
            walk.chunks.iter().map(|chunk| chunk.header().min_time / 10).collect()
        };
        assert_eq!(
            times(&open().walk_readable(&mut Places::default(), id, last, 30).unwrap()),
            [3, 4, 5, 6, 7, 8, 9]
        );
        for lost in [&[4][..], &[9], &[1], &[3, 4], &[7, 8, 9]] {
            lost.iter().for_each(|&chunk| damage(places[chunk][1]));
            let files = open();
            let walk = files.walk_readable(&mut Places::default(), id, last, 0).unwrap();
            // What grew behind a mapping is found, and another series in the same look.
            let grown = open();
            let whole = std::fs::read(root.join("head/00-00000001")).unwrap();
            std::fs::write(root.join("head/00-00000001"), &whole[..20]).unwrap();
            assert_eq!(grown.files()[0].bytes(0).unwrap().len(), 20);
            std::fs::write(root.join("head/00-00000001.whole"), &whole).unwrap();
            let (from, to) = ("head/00-00000001.whole", "head/00-00000001");
            std::fs::rename(root.join(from), root.join(to)).unwrap();
            let mut looked = Places::default();
            let again = grown.walk_readable(&mut looked, id, last, 0).unwrap();
            assert_eq!(times(&again), times(&walk));
            let looked_at = looked.0.len();
            let first = SeriesId::new(super::super::row::Slot::new(0, 0), 1);
            let beside = ends[0];
            let whole = grown.walk_readable(&mut looked, first, beside, 0).unwrap();
            assert!(whole.damage.is_none() && whole.chunks.len() == 9);
            assert_eq!(looked.0.len(), looked_at, "nothing is looked for where all is well");
            let left: Vec<i64> = (1..=9).filter(|&n| !lost.contains(&(n as usize))).collect();
            assert_eq!(times(&walk), left);
            assert!(walk.damage.is_some() && files.walk(last, 0).is_err());
            drop((walk, files));
            lost.iter().for_each(|&chunk| damage(places[chunk][1]));
        }
        std::fs::remove_dir_all(root).unwrap();
    }
}
