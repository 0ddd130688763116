//! A file being written, through one buffer.

use crate::Error;
use crate::disk::{Disk, File};

/// What is handed to the disk at once.
const BUFFER: usize = 256 << 10;

/// Collects small pieces, knows how far it is, and names the file in its errors.
pub(crate) struct Output {
    file: Box<dyn File>,
    path: String,
    buffer: Vec<u8>,
    position: u64,
    /// Of what was written since [`Output::start_checksum`].
    checksum: u32,
}

impl Output {
    pub(crate) fn create(disk: &dyn Disk, path: String) -> Result<Self, Error> {
        let file = disk.create(&path).map_err(|error| Error::io(path.as_str(), error))?;
        Ok(Output { file, path, buffer: Vec::with_capacity(BUFFER), position: 0, checksum: 0 })
    }

    /// Bytes so far.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.buffer.len() + bytes.len() > BUFFER {
            self.flush()?;
        }
        self.checksum = crc32c::crc32c_append(self.checksum, bytes);
        self.position += bytes.len() as u64;
        if bytes.len() > BUFFER {
            return self.append(bytes);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes zeros until the position is a multiple of `align`, at most 16.
    pub(crate) fn pad(&mut self, align: u64) -> Result<(), Error> {
        let beyond = self.position % align;
        if beyond == 0 {
            return Ok(());
        }
        self.write(&[0; 16][..(align - beyond) as usize])
    }

    /// What is written from here on is under the next checksum.
    pub(crate) fn start_checksum(&mut self) {
        self.checksum = 0;
    }

    pub(crate) fn write_checksum(&mut self) -> Result<(), Error> {
        self.write(&self.checksum.to_be_bytes())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.append(bytes).map_err(|error| Error::io(self.path.as_str(), error))
    }

    fn flush(&mut self) -> Result<(), Error> {
        let buffer = std::mem::take(&mut self.buffer);
        let result = self.append(&buffer);
        self.buffer = buffer;
        self.buffer.clear();
        result
    }

    /// Makes it durable; gives its size.
    pub(crate) fn finish(mut self) -> Result<u64, Error> {
        self.flush()?;
        self.file.sync().map_err(|error| Error::io(self.path.as_str(), error))?;
        Ok(self.position)
    }

    /// Hands everything to the system without waiting for the disk: for a file that is thrown away.
    pub(crate) fn finish_scratch(mut self) -> Result<String, Error> {
        self.flush()?;
        Ok(self.path)
    }
}
