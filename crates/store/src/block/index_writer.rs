//! Writes the file `index` of a block in one pass over its series, in bounded memory.
//!
//! The file begins with the sorted table of all strings, which are only known after the last series,
//! and everything is appended, nothing patched. Hence the steps:
//!
//! 1. Each series goes to a scratch file as it comes, its labels as numbers of pairs in the order in
//!    which these were first seen. In memory there are the distinct strings, the distinct pairs with
//!    the number of their series, and nothing per series.
//! 2. At the end strings and pairs are sorted. Then the length of each section is known before it is
//!    written: header, symbols, and the series, which are copied from the scratch file with their
//!    final numbers; this leaves four bytes per series, their references.
//! 3. The postings of as many pairs as fit into [`POSTINGS_BATCH`] are collected in one reading of
//!    the scratch file and written; readings are repeated until all pairs are through.
//! 4. The table of postings' offsets, and the table of contents.
//!
//! Label indices are not written, as Prometheus has ceased to: the table of postings' offsets serves
//! their purpose.

use hashbrown::HashTable;
use std::hash::BuildHasher;

use super::layout::{
    CHECKSUM, Fields, INDEX_MAGIC, INDEX_VERSION, SERIES_ALIGN, put_text, put_uvarint, put_varint,
    text_length, uvarint_length,
};
use super::output::Output;
use crate::disk::Disk;
use crate::{Error, Labels};

/// Postings that are collected at once: 32 MiB of them.
const POSTINGS_BATCH: usize = 8 << 20;

/// Where a chunk is and what it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkEntry {
    pub(crate) min_time: i64,
    pub(crate) max_time: i64,
    pub(crate) reference: u64,
}

/// A label: the numbers of its two strings, and in how many series it stands.
struct Pair {
    name: u32,
    value: u32,
    series: u32,
}

/// The distinct strings, numbered as they come.
#[derive(Default)]
struct Symbols {
    text: String,
    ends: Vec<usize>,
    table: HashTable<u32>,
    hasher: foldhash::fast::RandomState,
}

impl Symbols {
    fn get(&self, number: u32) -> &str {
        let index = number as usize;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.text[start..self.ends[index]]
    }

    fn intern(&mut self, text: &str) -> u32 {
        let hash = self.hasher.hash_one(text);
        if let Some(&number) = self.table.find(hash, |&number| self.get(number) == text) {
            return number;
        }
        let number = self.ends.len() as u32;
        self.text.push_str(text);
        self.ends.push(self.text.len());
        let (texts, ends, hasher) = (&self.text, &self.ends, &self.hasher);
        self.table.insert_unique(hash, number, |&number| {
            let index = number as usize;
            let start = if index == 0 { 0 } else { ends[index - 1] };
            hasher.hash_one(&texts[start..ends[index]])
        });
        number
    }
}

/// Takes the series of a block, in the order of their labels.
pub(crate) struct IndexWriter<'d> {
    disk: &'d dyn Disk,
    path: String,
    scratch: Output,
    symbols: Symbols,
    pairs: Vec<Pair>,
    pair_numbers: hashbrown::HashMap<(u32, u32), u32, foldhash::fast::RandomState>,
    series: u32,
    record: Vec<u8>,
}

impl<'d> IndexWriter<'d> {
    /// Of the file at `path`; until it is finished, `scratch` holds the series.
    pub(crate) fn create(disk: &'d dyn Disk, path: String, scratch: String) -> Result<Self, Error> {
        Ok(IndexWriter {
            disk,
            path,
            scratch: Output::create(disk, scratch)?,
            symbols: Symbols::default(),
            pairs: Vec::new(),
            pair_numbers: hashbrown::HashMap::default(),
            series: 0,
            record: Vec::new(),
        })
    }

    /// Series so far.
    pub(crate) fn len(&self) -> u32 {
        self.series
    }

    /// Adds the next series. That its labels come after those of the last one, and that its chunks
    /// are in the order of time without overlap, the caller has checked.
    pub(crate) fn series(&mut self, labels: &Labels, chunks: &[ChunkEntry]) -> Result<(), Error> {
        self.record.clear();
        put_uvarint(&mut self.record, labels.len() as u64);
        for (name, value) in labels {
            let key = (self.symbols.intern(name), self.symbols.intern(value));
            let pairs = &mut self.pairs;
            let number = *self.pair_numbers.entry(key).or_insert_with(|| {
                pairs.push(Pair { name: key.0, value: key.1, series: 0 });
                pairs.len() as u32 - 1
            });
            self.pairs[number as usize].series += 1;
            put_uvarint(&mut self.record, u64::from(number));
        }
        put_chunks(&mut self.record, chunks);
        let mut length = Vec::with_capacity(8);
        put_uvarint(&mut length, self.record.len() as u64);
        self.scratch.write(&length)?;
        self.scratch.write(&self.record)?;
        self.series += 1;
        Ok(())
    }

    /// Writes the file, and `tail` behind the index, and makes it durable; gives its size.
    pub(crate) fn finish(self, tail: &[u8]) -> Result<u64, Error> {
        let path = self.scratch.finish_scratch()?;
        let scratch = self.disk.map(&path).map_err(|error| Error::io(path.as_str(), error))?;

        let mut by_text: Vec<u32> = (0..self.symbols.ends.len() as u32).collect();
        by_text.sort_unstable_by_key(|&number| self.symbols.get(number));
        let mut rank = vec![0; by_text.len()];
        for (index, &number) in by_text.iter().enumerate() {
            rank[number as usize] = index as u32;
        }
        let mut by_pair: Vec<u32> = (0..self.pairs.len() as u32).collect();
        by_pair.sort_unstable_by_key(|&number| {
            let pair = &self.pairs[number as usize];
            (rank[pair.name as usize], rank[pair.value as usize])
        });

        let mut file = IndexFile {
            out: Output::create(self.disk, self.path)?,
            scratch: &scratch,
            symbols: &self.symbols,
            by_text: &by_text,
            rank: &rank,
            pairs: &self.pairs,
            by_pair: &by_pair,
            series: self.series,
            references: Vec::with_capacity(self.series as usize),
        };
        file.write()?;
        file.out.write(tail)?;
        let size = file.out.finish()?;
        drop(scratch);
        self.disk.remove(&path).map_err(|error| Error::io(path, error))?;
        Ok(size)
    }
}

/// The number of chunks, then each as differences to the one before.
fn put_chunks(record: &mut Vec<u8>, chunks: &[ChunkEntry]) {
    put_uvarint(record, chunks.len() as u64);
    let mut previous: Option<&ChunkEntry> = None;
    for chunk in chunks {
        match previous {
            None => put_varint(record, chunk.min_time),
            Some(before) => {
                put_uvarint(record, chunk.min_time.wrapping_sub(before.max_time) as u64);
            }
        }
        put_uvarint(record, chunk.max_time.wrapping_sub(chunk.min_time) as u64);
        match previous {
            None => put_uvarint(record, chunk.reference),
            Some(before) => {
                put_varint(record, chunk.reference.wrapping_sub(before.reference) as i64);
            }
        }
        previous = Some(chunk);
    }
}

/// The second half of the work: everything is known, it only has to be written.
struct IndexFile<'a> {
    out: Output,
    scratch: &'a [u8],
    symbols: &'a Symbols,
    by_text: &'a [u32],
    rank: &'a [u32],
    pairs: &'a [Pair],
    by_pair: &'a [u32],
    series: u32,
    references: Vec<u32>,
}

impl<'a> IndexFile<'a> {
    fn write(&mut self) -> Result<(), Error> {
        self.out.write(&INDEX_MAGIC.to_be_bytes())?;
        self.out.write(&[INDEX_VERSION])?;
        let symbols = self.out.position();
        self.write_symbols()?;
        let series = self.out.position();
        self.write_series()?;
        let label_indices = self.out.position();
        self.out.pad(4)?;
        let postings = self.out.position();
        self.write_postings()?;
        let offset_table = self.out.position();
        self.write_offset_table(postings)?;
        self.out.start_checksum();
        // In place of the table of label indices, which there isn't, stands the one behind it.
        for offset in [symbols, series, label_indices, offset_table, postings, offset_table] {
            self.out.write(&offset.to_be_bytes())?;
        }
        self.out.write_checksum()
    }

    fn start_section(&mut self, length: usize, what: &str) -> Result<(), Error> {
        let length = u32::try_from(length).map_err(|_| {
            Error::io(what, std::io::Error::other("the section does not fit into 4 GiB"))
        })?;
        self.out.write(&length.to_be_bytes())?;
        self.out.start_checksum();
        Ok(())
    }

    fn write_symbols(&mut self) -> Result<(), Error> {
        let texts = self.by_text.iter().map(|&number| text_length(self.symbols.get(number)));
        let length = 4 + texts.sum::<usize>();
        self.start_section(length, "symbols of the index")?;
        self.out.write(&(self.by_text.len() as u32).to_be_bytes())?;
        let mut entry = Vec::new();
        for &number in self.by_text {
            entry.clear();
            put_text(&mut entry, self.symbols.get(number));
            self.out.write(&entry)?;
        }
        self.out.write_checksum()
    }

    fn write_series(&mut self) -> Result<(), Error> {
        let (mut record, mut length, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        let pairs = self.pairs;
        for scratch in Records::new(self.scratch) {
            let chunks = scratch.read(pairs.len(), &mut numbers);
            let chunks = chunks.ok_or_else(|| self.scratch_damaged())?;
            self.out.pad(SERIES_ALIGN)?;
            let reference = u32::try_from(self.out.position() / SERIES_ALIGN).map_err(|_| {
                Error::io("index", std::io::Error::other("it would grow beyond 64 GiB"))
            })?;
            self.references.push(reference);
            record.clear();
            put_uvarint(&mut record, numbers.len() as u64);
            for &number in &numbers {
                let pair = &pairs[number as usize];
                put_uvarint(&mut record, u64::from(self.rank[pair.name as usize]));
                put_uvarint(&mut record, u64::from(self.rank[pair.value as usize]));
            }
            record.extend_from_slice(chunks);
            length.clear();
            put_uvarint(&mut length, record.len() as u64);
            self.out.write(&length)?;
            self.out.start_checksum();
            self.out.write(&record)?;
            self.out.write_checksum()?;
        }
        if self.references.len() != self.series as usize {
            return Err(self.scratch_damaged());
        }
        Ok(())
    }

    fn write_list(&mut self, references: &[u32], buffer: &mut Vec<u8>) -> Result<(), Error> {
        self.start_section(4 + 4 * references.len(), "postings of the index")?;
        buffer.clear();
        buffer.extend_from_slice(&(references.len() as u32).to_be_bytes());
        for reference in references {
            buffer.extend_from_slice(&reference.to_be_bytes());
        }
        self.out.write(buffer)?;
        self.out.write_checksum()
    }

    fn write_postings(&mut self) -> Result<(), Error> {
        let mut buffer = Vec::new();
        let all = std::mem::take(&mut self.references);
        self.write_list(&all, &mut buffer)?;
        // Of each pair of the batch, where its next posting goes.
        const ELSEWHERE: usize = usize::MAX;
        let mut next = vec![ELSEWHERE; self.pairs.len()];
        let mut collected: Vec<u32> = Vec::new();
        let mut numbers = Vec::new();
        let mut rest = self.by_pair;
        while !rest.is_empty() {
            let mut size = 0;
            let mut taken = 0;
            for &number in rest {
                let more = self.pairs[number as usize].series as usize;
                if taken > 0 && size + more > POSTINGS_BATCH {
                    break;
                }
                next[number as usize] = size;
                size += more;
                taken += 1;
            }
            let (batch, later) = rest.split_at(taken);
            collected.clear();
            collected.resize(size, 0);
            for (scratch, &reference) in Records::new(self.scratch).zip(&all) {
                let read = scratch.read(self.pairs.len(), &mut numbers);
                read.ok_or_else(|| self.scratch_damaged())?;
                for &number in &numbers {
                    let at = &mut next[number as usize];
                    if *at != ELSEWHERE {
                        let place = collected.get_mut(*at);
                        *place.ok_or_else(|| self.scratch_damaged())? = reference;
                        *at += 1;
                    }
                }
            }
            let mut start = 0;
            for &number in batch {
                let end = start + self.pairs[number as usize].series as usize;
                self.write_list(&collected[start..end], &mut buffer)?;
                next[number as usize] = ELSEWHERE;
                start = end;
            }
            rest = later;
        }
        self.references = all;
        Ok(())
    }

    fn write_offset_table(&mut self, postings: u64) -> Result<(), Error> {
        let (symbols, pairs, by_pair) = (self.symbols, self.pairs, self.by_pair);
        let all = ("", "", self.references.len() as u64);
        let entries = || {
            let of_pairs = by_pair.iter().map(|&number| {
                let pair = &pairs[number as usize];
                (symbols.get(pair.name), symbols.get(pair.value), u64::from(pair.series))
            });
            std::iter::once(all).chain(of_pairs).scan(postings, |next, (name, value, entries)| {
                let offset = *next;
                // The lengths of lists are multiples of four: there is no padding between them.
                *next += 4 + 4 + 4 * entries + CHECKSUM as u64;
                Some((name, value, offset))
            })
        };
        let lengths = entries().map(|(name, value, offset)| {
            1 + text_length(name) + text_length(value) + uvarint_length(offset)
        });
        let length = 4 + lengths.sum::<usize>();
        self.start_section(length, "offset table of the index")?;
        self.out.write(&(by_pair.len() as u32 + 1).to_be_bytes())?;
        let mut entry = Vec::new();
        for (name, value, offset) in entries() {
            entry.clear();
            // Two keys: a name and a value.
            entry.push(2);
            put_text(&mut entry, name);
            put_text(&mut entry, value);
            put_uvarint(&mut entry, offset);
            self.out.write(&entry)?;
        }
        self.out.write_checksum()
    }

    #[cold]
    fn scratch_damaged(&self) -> Error {
        Error::corrupt("series.scratch", "it does not hold what was just written to it")
    }
}

/// The series of the scratch file.
struct Records<'a> {
    fields: Fields<'a>,
}

/// One of them.
struct Record<'a> {
    fields: Fields<'a>,
}

impl<'a> Records<'a> {
    fn new(scratch: &'a [u8]) -> Self {
        Records { fields: Fields::new(scratch) }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        Some(Record { fields: Fields::new(self.fields.prefixed()?) })
    }
}

impl<'a> Record<'a> {
    /// Puts the numbers of the labels' pairs, all below `bound`, into `pairs`; gives the bytes of
    /// the chunks.
    fn read(mut self, bound: usize, pairs: &mut Vec<u32>) -> Option<&'a [u8]> {
        pairs.clear();
        for _ in 0..self.fields.uvarint()? {
            let number = self.fields.uvarint()?;
            if number >= bound as u64 {
                return None;
            }
            pairs.push(number as u32);
        }
        Some(self.fields.rest())
    }
}
