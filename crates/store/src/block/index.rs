//! Reads the file `index` of a block: strings, series, postings.
//!
//! Everything is lent from the mapped file. Kept in memory is what finding things takes:
//!
//! - of the symbols the offset of every [`SYMBOL_STEP`]th: half a byte per string, and a lookup passes
//!   over three strings on average;
//! - of the table of postings' offsets each name with its place, and of its values the offset of every
//!   [`VALUE_STEP`]th: an eighth of a byte per label pair. Prometheus keeps the strings beside the
//!   offsets; here a search reads them where they are, which costs nothing in memory and touches a
//!   dozen pages where the table is large. The full table would take 50 bytes and more per pair of
//!   every block, for lookups of which a query makes a handful.
//!
//! Checksums: those of the table of contents, the symbols and the offset table are verified when the
//! file is opened, those of a series or of postings whenever they are read. Beyond checksums nothing is
//! trusted: an offset or a length that leads astray is an error that names its place.
//!
//! Refuses version 1 of the format, which Prometheus wrote until 2017.

use std::ops::Range;
use std::sync::Arc;

use super::index_writer::ChunkEntry;
use super::layout::{
    CHECKSUM, Fields, INDEX_HEADER, INDEX_MAGIC, SERIES_ALIGN, TOC_LENGTH, verify,
};
use crate::Error;
use crate::disk::Bytes;

/// Distance of the symbols whose offsets are kept.
const SYMBOL_STEP: u32 = 8;

/// Distance of the label values whose offsets are kept.
const VALUE_STEP: u32 = 32;

/// An opened index.
pub struct Index {
    bytes: Bytes,
    path: Arc<str>,
    /// Where series are.
    series: Range<usize>,
    /// The entries of the symbols' section.
    symbols: Range<usize>,
    symbol_count: u32,
    /// Offsets into `symbols`.
    symbol_samples: Vec<u32>,
    /// Where all entries of the offset table are.
    table: Range<usize>,
    names: Vec<Name>,
    /// Where the postings of all series are.
    all: u64,
}

/// The entries of one label's name in the offset table.
struct Name {
    /// The name itself, in the file.
    text: Range<usize>,
    /// Of its entries, in `table`.
    entries: Range<u32>,
    values: u32,
    /// Of every [`VALUE_STEP`]th entry from the first, in `table`.
    samples: Vec<u32>,
}

/// A list of references of series, ascending.
#[derive(Clone, Copy)]
pub(crate) struct Postings<'a> {
    bytes: &'a [u8],
}

impl<'a> Postings<'a> {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() / 4
    }

    pub(crate) fn get(&self, index: usize) -> u32 {
        let at = index * 4;
        u32::from_be_bytes(self.bytes[at..at + 4].try_into().expect("four bytes"))
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = u32> + 'a {
        self.bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_be_bytes(*bytes))
    }
}

/// An entry of the offset table.
struct Entry<'a> {
    name: &'a str,
    value: &'a str,
    postings: u64,
}

fn entry<'a>(fields: &mut Fields<'a>) -> Option<Entry<'a>> {
    // The number of keys.
    if fields.u8()? != 2 {
        return None;
    }
    Some(Entry { name: fields.text()?, value: fields.text()?, postings: fields.uvarint()? })
}

impl Index {
    /// Opens the mapped file; `path` is for errors.
    ///
    /// # Errors
    /// The file is damaged where it has to be read to find anything else.
    pub fn open(bytes: Bytes, path: &str) -> Result<Self, Error> {
        let path: Arc<str> = Arc::from(path);
        let failed = |reason: &str| Error::corrupt(&*path, reason);
        let mut header = Fields::new(&bytes);
        if header.u32() != Some(INDEX_MAGIC) {
            return Err(failed("it does not begin as an index does"));
        }
        match header.u8() {
            Some(2 | 3) => {}
            Some(1) => {
                return Err(failed(
                    "it is of version 1, which Prometheus wrote until 2017 and which is not supported",
                ));
            }
            version => return Err(failed(&format!("version {version:?} is not known"))),
        }
        let end = bytes.len().checked_sub(TOC_LENGTH).filter(|&end| end >= INDEX_HEADER);
        let end = end.ok_or_else(|| failed("it ends before its table of contents"))?;
        let mut toc = Fields::new(&bytes[end..]);
        let offsets: [usize; 6] = std::array::from_fn(|_| toc.u64().unwrap_or(0) as usize);
        let [symbols, series, label_indices, _, _, table] = offsets;
        if !verify(&bytes[end..bytes.len() - CHECKSUM], toc.u32().unwrap_or(0)) {
            return Err(failed("the checksum of the table of contents does not match"));
        }
        // Prometheus leaves an offset of 0 for a section that isn't there.
        let series_end = if label_indices == 0 { end } else { label_indices.min(end) };
        let (symbol_count, symbols) = section(&bytes, symbols)
            .map_err(|reason| Error::corrupt(format!("{path}: symbols at {symbols}"), reason))?;
        let (entries, table) = section(&bytes, table)
            .map_err(|reason| Error::corrupt(format!("{path}: offset table at {table}"), reason))?;
        let mut index = Index {
            bytes,
            path: path.clone(),
            series: series.min(series_end)..series_end,
            symbols,
            symbol_count,
            symbol_samples: Vec::new(),
            table,
            names: Vec::new(),
            all: 0,
        };
        index.sample_symbols().ok_or_else(|| failed("a symbol reaches beyond its section"))?;
        index.sample_table(entries)?;
        Ok(index)
    }

    /// Goes on with another mapping of the same file, of which nothing was touched yet: what was read to
    /// check the file need not stay resident.
    pub(crate) fn map_anew(&mut self, bytes: Bytes) {
        if bytes.len() == self.bytes.len() {
            self.bytes = bytes;
        }
    }

    fn sample_symbols(&mut self) -> Option<()> {
        let section = &self.bytes[self.symbols.clone()];
        // A damaged count reserves no more than the section can hold.
        let possible = (self.symbol_count as usize).min(section.len());
        let mut samples = Vec::with_capacity(possible / SYMBOL_STEP as usize + 1);
        let mut fields = Fields::new(section);
        for number in 0..self.symbol_count {
            if number % SYMBOL_STEP == 0 {
                samples.push((section.len() - fields.left()) as u32);
            }
            fields.prefixed()?;
        }
        self.symbol_samples = samples;
        Some(())
    }

    fn sample_table(&mut self, entries: u32) -> Result<(), Error> {
        let table = &self.bytes[self.table.clone()];
        let mut fields = Fields::new(table);
        let mut names: Vec<Name> = Vec::new();
        let mut current = "";
        for _ in 0..entries {
            let at = (table.len() - fields.left()) as u32;
            let failed = |reason| {
                let place = self.table.start + at as usize;
                Error::corrupt(format!("{} at byte {place}", self.path), reason)
            };
            let entry = entry(&mut fields).ok_or_else(|| failed("no entry of postings"))?;
            if entry.name.is_empty() {
                self.all = entry.postings;
                continue;
            }
            if names.is_empty() || entry.name != current {
                if !names.is_empty() && entry.name < current {
                    return Err(failed("the names of labels are not in order"));
                }
                current = entry.name;
                let start = entry.name.as_ptr().addr() - self.bytes.as_ptr().addr();
                names.push(Name {
                    text: start..start + entry.name.len(),
                    entries: at..at,
                    values: 0,
                    samples: Vec::new(),
                });
            }
            let name = names.last_mut().expect("pushed above");
            if name.values.is_multiple_of(VALUE_STEP) {
                name.samples.push(at);
            }
            name.values += 1;
            name.entries.end = (table.len() - fields.left()) as u32;
        }
        for name in &mut names {
            name.samples.shrink_to_fit();
        }
        self.names = names;
        Ok(())
    }

    #[cold]
    fn corrupt(&self, offset: u64, reason: &str) -> Error {
        Error::corrupt(format!("{} at byte {offset}", self.path), reason)
    }

    /// The string of this number.
    pub(crate) fn symbol(&self, number: u64) -> Option<&str> {
        if number >= u64::from(self.symbol_count) {
            return None;
        }
        let sample = self.symbol_samples.get((number / u64::from(SYMBOL_STEP)) as usize)?;
        let mut fields = Fields::at(&self.bytes[self.symbols.clone()], *sample as usize)?;
        for _ in 0..number % u64::from(SYMBOL_STEP) {
            fields.prefixed()?;
        }
        fields.text()
    }

    /// Bytes of memory held, beside what is mapped.
    pub(crate) fn memory(&self) -> usize {
        let samples: usize = self.names.iter().map(|name| name.samples.capacity()).sum();
        (self.symbol_samples.capacity() + samples) * size_of::<u32>()
            + self.names.capacity() * size_of::<Name>()
    }

    /// The number of distinct strings.
    pub(crate) fn symbol_count(&self) -> u32 {
        self.symbol_count
    }

    fn text(&self, name: &Name) -> &str {
        // It was read as UTF-8 when the file was opened.
        std::str::from_utf8(&self.bytes[name.text.clone()]).unwrap_or("")
    }

    /// The names of all labels, ascending.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| self.text(name))
    }

    fn find(&self, name: &str) -> Option<&Name> {
        let at = self.names.binary_search_by(|candidate| self.text(candidate).cmp(name)).ok()?;
        Some(&self.names[at])
    }

    /// How many values the label has.
    pub(crate) fn value_count(&self, name: &str) -> u32 {
        self.find(name).map_or(0, |name| name.values)
    }

    /// The values of a label that begin with `prefix`, ascending, with the places of their postings.
    pub(crate) fn values<'a>(
        &'a self,
        name: &str,
        prefix: &'a str,
    ) -> impl Iterator<Item = Result<(&'a str, u64), Error>> + use<'a> {
        let (start, end) = self.find(name).map_or((0, 0), |name| {
            let start = self.sample_before(name, prefix).unwrap_or(name.entries.start);
            (start, name.entries.end)
        });
        self.entries(start, end)
            .skip_while(move |found| matches!(found, Ok((value, _)) if *value < prefix))
            .take_while(move |found| {
                found.as_ref().map_or(true, |(value, _)| value.starts_with(prefix))
            })
    }

    /// The last sampled entry whose value is not behind this one.
    fn sample_before(&self, name: &Name, value: &str) -> Option<u32> {
        let table = &self.bytes[self.table.clone()];
        let value_at = |&at: &u32| {
            Fields::at(table, at as usize).and_then(|mut fields| Some(entry(&mut fields)?.value))
        };
        let behind = name.samples.partition_point(|at| value_at(at).is_some_and(|v| v <= value));
        name.samples.get(behind.checked_sub(1)?).copied()
    }

    fn entries(
        &self,
        start: u32,
        end: u32,
    ) -> impl Iterator<Item = Result<(&str, u64), Error>> + use<'_> {
        let table = &self.bytes[self.table.clone()];
        let mut fields = Fields::new(table.get(start as usize..end as usize).unwrap_or(&[]));
        std::iter::from_fn(move || {
            if fields.left() == 0 {
                return None;
            }
            let at = self.table.start + end as usize - fields.left();
            match entry(&mut fields) {
                Some(entry) => Some(Ok((entry.value, entry.postings))),
                None => {
                    fields = Fields::new(&[]);
                    Some(Err(self.corrupt(at as u64, "no entry of postings")))
                }
            }
        })
    }

    /// The postings of a label with a value; `None` where no series has it.
    pub(crate) fn postings(&self, name: &str, value: &str) -> Result<Option<Postings<'_>>, Error> {
        let Some(name) = self.find(name) else {
            return Ok(None);
        };
        let Some(start) = self.sample_before(name, value) else {
            return Ok(None);
        };
        for found in self.entries(start, name.entries.end).take(VALUE_STEP as usize) {
            let (candidate, postings) = found?;
            match candidate.cmp(value) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => return self.postings_at(postings).map(Some),
                std::cmp::Ordering::Greater => break,
            }
        }
        Ok(None)
    }

    /// The postings of all series.
    pub(crate) fn all(&self) -> Result<Postings<'_>, Error> {
        if self.all == 0 {
            return Ok(Postings { bytes: &[] });
        }
        self.postings_at(self.all)
    }

    /// The references of all series that can be read, found where series are and not in their list: for
    /// when that is damaged.
    pub(crate) fn scan(&self) -> Vec<u32> {
        let align = SERIES_ALIGN as usize;
        let mut references = Vec::new();
        let mut at = self.series.start.next_multiple_of(align);
        while at < self.series.end {
            let mut fields = Fields::new(&self.bytes[at..self.series.end]);
            let whole = match (fields.prefixed(), fields.u32()) {
                // Nothing but zeros is padding.
                (Some(record), Some(checksum)) => !record.is_empty() && verify(record, checksum),
                _ => false,
            };
            if whole {
                references.extend(u32::try_from(at / align));
                at = (self.series.end - fields.left()).next_multiple_of(align);
            } else {
                at += align;
            }
        }
        references
    }

    /// The postings at a place that [`Index::values`] gave.
    pub(crate) fn postings_at(&self, offset: u64) -> Result<Postings<'_>, Error> {
        let (count, range) = usize::try_from(offset)
            .map_err(|_| "it is beyond the end of the file")
            .and_then(|offset| section(&self.bytes, offset))
            .map_err(|reason| self.corrupt(offset, &format!("postings: {reason}")))?;
        if Some(range.len()) != (count as usize).checked_mul(4) {
            return Err(self.corrupt(offset, "postings: their number does not fit their length"));
        }
        Ok(Postings { bytes: &self.bytes[range] })
    }

    /// Reads a series: its labels into `labels`, its chunks into `chunks`; both are cleared first.
    /// Allocates only where they have to grow.
    pub(crate) fn series<'a>(
        &'a self,
        reference: u32,
        labels: &mut Vec<(&'a str, &'a str)>,
        chunks: &mut Vec<ChunkEntry>,
    ) -> Result<(), Error> {
        labels.clear();
        chunks.clear();
        let offset = u64::from(reference) * SERIES_ALIGN;
        let failed = |reason| self.corrupt(offset, reason);
        if !self.series.contains(&usize::try_from(offset).unwrap_or(usize::MAX)) {
            return Err(failed("there are no series at this place"));
        }
        let mut fields = Fields::new(&self.bytes[offset as usize..self.series.end]);
        let (Some(record), Some(checksum)) = (fields.prefixed(), fields.u32()) else {
            return Err(failed("the series reaches beyond the end of its section"));
        };
        if !verify(record, checksum) {
            return Err(failed("the checksum of the series does not match"));
        }
        self.parse_series(record, labels, chunks).ok_or_else(|| failed("it is no series"))
    }

    fn parse_series<'a>(
        &'a self,
        record: &'a [u8],
        labels: &mut Vec<(&'a str, &'a str)>,
        chunks: &mut Vec<ChunkEntry>,
    ) -> Option<()> {
        let mut fields = Fields::new(record);
        for _ in 0..fields.uvarint()? {
            let name = self.symbol(fields.uvarint()?)?;
            let value = self.symbol(fields.uvarint()?)?;
            if labels.last().is_some_and(|&(last, _)| last >= name) {
                return None;
            }
            labels.push((name, value));
        }
        for index in 0..fields.uvarint()? {
            let (min_time, reference);
            if index == 0 {
                min_time = fields.varint()?;
                let length = fields.uvarint()?;
                reference = fields.uvarint()?;
                let max_time = min_time.checked_add_unsigned(length)?;
                chunks.push(ChunkEntry { min_time, max_time, reference });
            } else {
                let before = *chunks.last()?;
                min_time = before.max_time.checked_add_unsigned(fields.uvarint()?)?;
                let max_time = min_time.checked_add_unsigned(fields.uvarint()?)?;
                reference = before.reference.wrapping_add(fields.varint()? as u64);
                chunks.push(ChunkEntry { min_time, max_time, reference });
            }
        }
        Some(())
    }
}

/// The count at the front of the section at `offset`, and where its entries are, once its length and
/// checksum are found right.
fn section(bytes: &[u8], offset: usize) -> Result<(u32, Range<usize>), &'static str> {
    let read = || {
        let mut fields = Fields::at(bytes, offset)?;
        let length = fields.u32()?;
        let content = fields.bytes(length as usize)?;
        Some((content, fields.u32()?))
    };
    let (content, checksum) = read().ok_or("it reaches beyond the end of the file")?;
    if !verify(content, checksum) {
        return Err("its checksum does not match");
    }
    let count = Fields::new(content).u32().ok_or("it is too short for a count")?;
    Ok((count, offset + 8..offset + 4 + content.len()))
}
