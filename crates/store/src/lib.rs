//! Samples on their way from append to select.
//!
//! The store is handed timestamps and a [`Disk`]; it asks for neither a clock nor a socket, so that
//! it runs under a seeded simulation, crashes included. Data flows one way:
//! append → head and journal → chunks → blocks → select.
#![deny(unsafe_code)]

pub mod block;
pub mod chunk;
pub mod db;
pub mod disk;
pub mod error;
pub mod exemplar;
mod head;
pub mod histogram;
pub mod journal;
pub mod labels;
pub mod matcher;
pub mod pattern;
pub mod select;

pub use db::{
    Appender, Cardinality, Committed, Db, Maintained, Memory, Options, Querier, Recovery, Rejected,
    SeriesId, Stats, Unfinished,
};
pub use disk::Disk;
pub use error::Error;
pub use exemplar::{Exemplar, SeriesExemplars};
pub use histogram::FloatHistogram;
pub use labels::{Labels, LabelsBuilder};
pub use matcher::{MatchOp, Matcher};
pub use pattern::Pattern;
pub use select::{Cursor, Samples, Select, Series};
