//! What is wrong with a profile, and where.

use std::fmt;

use crate::protobuf;

/// What is wrong with a profile, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// Bytes from the begin of the profile to what is wrong, or to the message in which it is.
    pub offset: usize,
    /// What is wrong.
    pub reason: Reason,
}

/// What is wrong with a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The bytes are no message, or one with other fields.
    Field(protobuf::Reason),
    /// The bytes are those of a gzip file.
    Gzip,
    /// There is no table of strings: whatever this is, it is no profile.
    NoStrings,
    /// The table of strings does not begin with the empty one.
    FirstString,
    /// A string that is not in the table.
    UnknownString {
        /// Its place.
        index: u32,
        /// The strings that there are.
        strings: usize,
    },
    /// An id of 0, which means none.
    NoId(Table),
    /// An id that was there before.
    SameId(Table, u64),
    /// An id that stands for nothing.
    UnknownId(Table, u64),
    /// A sample that has not one value per type.
    ValueCount {
        /// The values it has.
        values: usize,
        /// The profile's types.
        types: usize,
    },
    /// A second time: two profiles, one behind the other.
    SecondTime,
    /// Records that would take more memory than a profile may.
    TooLarge {
        /// What it may take, in bytes.
        most: usize,
    },
}

/// What has ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// Loaded files.
    Mapping,
    /// Addresses.
    Location,
    /// Functions.
    Function,
}

impl Table {
    const fn name(self) -> &'static str {
        match self {
            Table::Mapping => "mapping",
            Table::Location => "location",
            Table::Function => "function",
        }
    }
}

impl Error {
    #[cold]
    pub(super) fn new(offset: usize, reason: Reason) -> Self {
        Error { offset, reason }
    }
}

impl From<protobuf::Error> for Error {
    #[cold]
    fn from(error: protobuf::Error) -> Self {
        Error { offset: error.offset, reason: Reason::Field(error.reason) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pprof: byte {}: ", self.offset)?;
        match self.reason {
            Reason::Field(reason) => f.write_str(reason.as_str()),
            Reason::Gzip => f.write_str("compressed with gzip: it has to be decompressed first"),
            Reason::NoStrings => f.write_str("there is no table of strings: this is no profile"),
            Reason::FirstString => {
                f.write_str("the table of strings begins with one that is not empty")
            }
            Reason::UnknownString { index, strings } => {
                write!(f, "string {index} is named and there are {strings}")
            }
            Reason::NoId(table) => write!(f, "a {} with the id 0, which means none", table.name()),
            Reason::SameId(table, id) => write!(f, "a second {} with the id {id}", table.name()),
            Reason::UnknownId(table, id) => {
                write!(f, "{} {id} is named and there is none", table.name())
            }
            Reason::ValueCount { values, types } => {
                write!(f, "a sample with {values} values in a profile with {types} types")
            }
            Reason::SecondTime => f.write_str(
                "a second time of collection: these are two profiles, one behind the other",
            ),
            Reason::TooLarge { most } => {
                write!(
                    f,
                    "up to here its records take {most} bytes, which is the most that is kept"
                )
            }
        }
    }
}

impl std::error::Error for Error {}
