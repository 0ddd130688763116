//! The files of `chunks/`: chunks one behind the other, each with its checksum.
//!
//! A chunk's reference is the number of its file, from 0, in the upper half and the offset in the
//! lower one. Chunks are copied in and lent out as they are; decoding is [`crate::chunk`]'s.

use std::io;

use super::layout::{
    CHECKSUM, Fields, SEGMENT_HEADER, SEGMENT_MAGIC, SEGMENT_VERSION, put_uvarint, segment_path,
    uvarint_length, verify,
};
use super::output::Output;
use crate::Error;
use crate::chunk::Encoding;
use crate::disk::{Bytes, Disk};

/// Writes chunks, file after file.
pub(crate) struct SegmentWriter<'d> {
    disk: &'d dyn Disk,
    directory: String,
    bytes_max: u64,
    current: Option<Output>,
    finished: u32,
    size: u64,
    head: Vec<u8>,
}

impl<'d> SegmentWriter<'d> {
    pub(crate) fn new(disk: &'d dyn Disk, directory: &str, bytes_max: u64) -> Self {
        SegmentWriter {
            disk,
            directory: directory.to_owned(),
            bytes_max,
            current: None,
            finished: 0,
            size: 0,
            head: Vec::new(),
        }
    }

    /// Appends a chunk; gives its reference.
    pub(crate) fn chunk(&mut self, encoding: Encoding, data: &[u8]) -> Result<u64, Error> {
        let length = uvarint_length(data.len() as u64) + 1 + data.len() + CHECKSUM;
        if let Some(full) = self.current.take_if(|segment| {
            segment.position() + length as u64 > self.bytes_max
                && segment.position() > SEGMENT_HEADER as u64
        }) {
            self.size += full.finish()?;
            self.finished += 1;
        }
        if self.current.is_none() {
            let path = segment_path(&self.directory, u64::from(self.finished) + 1);
            let mut segment = Output::create(self.disk, path)?;
            segment.write(&SEGMENT_MAGIC.to_be_bytes())?;
            segment.write(&[SEGMENT_VERSION, 0, 0, 0])?;
            self.current = Some(segment);
        }
        let segment = self.current.as_mut().expect("opened above");
        let reference = u64::from(self.finished) << 32 | segment.position();
        self.head.clear();
        put_uvarint(&mut self.head, data.len() as u64);
        segment.write(&self.head)?;
        segment.start_checksum();
        segment.write(&[encoding.0])?;
        segment.write(data)?;
        segment.write_checksum()?;
        Ok(reference)
    }

    /// Makes all files durable; gives their size.
    pub(crate) fn finish(mut self) -> Result<u64, Error> {
        if let Some(last) = self.current.take() {
            self.size += last.finish()?;
        }
        Ok(self.size)
    }
}

/// The mapped files of a block's chunks.
pub(crate) struct Segments {
    directory: String,
    /// A file that cannot be read costs its chunks and nothing else.
    files: Vec<Result<Bytes, String>>,
}

impl Segments {
    /// Maps the files `000001`, `000002` and so on up to the last one that is there.
    ///
    /// # Errors
    /// The disk refused. A file that is missing or damaged is told by [`Segments::damages`].
    pub(crate) fn open(disk: &dyn Disk, directory: &str) -> Result<Self, Error> {
        let chunks = format!("{directory}/chunks");
        let names = disk.list(&chunks).map_err(|error| Error::io(chunks, error))?;
        // Anything else than numbers has no business here, and does no harm. A number far beyond
        // the number of files would only make a long table of missing ones.
        let last = names.iter().filter_map(|name| name.parse::<usize>().ok()).max().unwrap_or(0);
        let files = (1..=last.min(names.len() + 1024))
            .map(|number| Self::map(disk, &segment_path(directory, number as u64)))
            .collect::<Result<_, _>>()?;
        Ok(Segments { directory: directory.to_owned(), files })
    }

    fn map(disk: &dyn Disk, path: &str) -> Result<Result<Bytes, String>, Error> {
        let bytes = match disk.map(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Err(error.to_string()));
            }
            // It may be well at the next attempt.
            Err(error) => return Err(Error::io(path, error)),
        };
        let mut fields = Fields::new(&bytes);
        if fields.u32() != Some(SEGMENT_MAGIC) {
            return Ok(Err("it does not begin as a file of chunks does".to_owned()));
        }
        Ok(match fields.u8() {
            Some(SEGMENT_VERSION) => Ok(bytes),
            version => Err(format!("version {version:?} is not {SEGMENT_VERSION}")),
        })
    }

    /// One line for each file that cannot be read.
    pub(crate) fn damages(&self) -> impl Iterator<Item = String> {
        self.files.iter().enumerate().filter_map(|(index, file)| {
            let reason = file.as_ref().err()?;
            let path = segment_path(&self.directory, index as u64 + 1);
            Some(format!("{path}: {reason}; its chunks cannot be read"))
        })
    }

    /// Bytes of the files that can be read.
    pub(crate) fn size(&self) -> u64 {
        self.files.iter().flatten().map(|bytes| bytes.len() as u64).sum()
    }

    /// File and offset, for errors.
    pub(crate) fn place(&self, reference: u64) -> String {
        let path = segment_path(&self.directory, (reference >> 32) + 1);
        format!("{path} at byte {}", reference & u64::from(u32::MAX))
    }

    /// The chunk of this reference, with its checksum verified.
    pub(crate) fn chunk(&self, reference: u64) -> Result<(Encoding, &[u8]), Error> {
        let index = (reference >> 32) as usize;
        let offset = reference & u64::from(u32::MAX);
        let failed = |reason: &str| Err(Error::corrupt(self.place(reference), reason));
        let bytes = match self.files.get(index) {
            Some(Ok(bytes)) => bytes,
            Some(Err(reason)) => return failed(reason),
            None => return failed("the index refers to a file that is not there"),
        };
        if offset < SEGMENT_HEADER as u64 {
            return failed("the index refers into the file's header");
        }
        let Some((data, checksum)) = Self::parse(bytes, offset as usize) else {
            return failed("the chunk reaches beyond the end of the file");
        };
        if !verify(data, checksum) {
            return failed("the chunk's checksum does not match");
        }
        let (encoding, data) = data.split_first().expect("one byte was added to its length");
        Ok((Encoding(*encoding), data))
    }

    /// The encoding with the data, and the checksum over both.
    fn parse(bytes: &[u8], offset: usize) -> Option<(&[u8], u32)> {
        let mut fields = Fields::at(bytes, offset)?;
        let length = usize::try_from(fields.uvarint()?).ok()?;
        let data = fields.bytes(length.checked_add(1)?)?;
        Some((data, fields.u32()?))
    }
}
