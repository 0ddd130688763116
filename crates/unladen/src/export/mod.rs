//! Exporters: who takes what a reader collected, and the thread that brings it to them.
//!
//! ```text
//! periodic   PeriodicReader: collects on an interval, on a thread of its own, for one exporter
//! error      what can be wrong with an export
//! counts     what the exports of a registry came to, as metrics of that registry
//! text       TextExporter: a line for each point, for people
//! otlp       OtlpExporter: OTLP over HTTP (feature `otlp`)
//! date       times as people read them
//! ```
//! An [`Exporter`] says which temporality and which memory mode it prefers, and a [`PeriodicReader`]
//! follows it. In the reusable mode the data are leased for the call of `export` and can't be kept, which
//! is checked by the compiler; in the immutable mode they are a snapshot that the exporter may keep, or
//! hand to another thread.
//!
//! ```
//! # use std::sync::Arc;
//! # use unladen::export::{Data, Error, Exporter, MemoryMode};
//! # use unladen::reader::Snapshot;
//! struct Keeps(Vec<Arc<Snapshot>>);
//!
//! impl Exporter for Keeps {
//!     fn name(&self) -> &'static str {
//!         "keeps"
//!     }
//!     fn memory_mode(&self) -> MemoryMode {
//!         MemoryMode::Immutable
//!     }
//!     fn export(&mut self, data: Data<'_>) -> Result<(), Error> {
//!         if let Data::Shared(snapshot) = data {
//!             self.0.push(snapshot);
//!         }
//!         Ok(())
//!     }
//! }
//! ```
//! The same with what is leased does not compile:
//!
//! ```compile_fail
//! # use unladen::export::{Data, Error, Exporter};
//! # use unladen::reader::Batch;
//! struct Keeps(Vec<Batch<'static>>);
//!
//! impl Exporter for Keeps {
//!     fn name(&self) -> &'static str {
//!         "keeps"
//!     }
//!     fn export(&mut self, data: Data<'_>) -> Result<(), Error> {
//!         if let Data::Leased(batch) = data {
//!             self.0.push(batch);
//!         }
//!         Ok(())
//!     }
//! }
//! ```
//! Nothing cumulative is lost by an export that fails: the next one tells all of it. Differences are told
//! once, so an exporter that wants them keeps what it could not send.

mod counts;
mod date;
mod error;
#[cfg(feature = "otlp")]
pub mod otlp;
mod periodic;
mod text;

use std::sync::Arc;
use std::time::Instant;

use crate::reader::{Batch, Snapshot, Temporalities};

pub use counts::{Counts, Outcome};
pub use error::{Error, Reason};
#[cfg(feature = "otlp")]
pub use otlp::OtlpExporter;
pub use periodic::{Builder, PeriodicReader};
pub use text::TextExporter;

/// How long an exporter may keep what it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum MemoryMode {
    /// Until `export` returns. The same memory is used for the next collection.
    #[default]
    Reusable,
    /// For as long as it likes.
    Immutable,
}

/// What was collected.
#[derive(Clone, Debug)]
pub enum Data<'d> {
    /// Lent for the duration of the call.
    Leased(Batch<'d>),
    /// To be kept.
    Shared(Arc<Snapshot>),
}

impl Data<'_> {
    /// The view that both have.
    pub fn batch(&self) -> Batch<'_> {
        match self {
            Data::Leased(batch) => *batch,
            Data::Shared(snapshot) => snapshot.batch(),
        }
    }
}

/// Takes what was collected to where it is wanted.
///
/// All methods are called from one thread, one after the other.
pub trait Exporter: Send {
    /// What it is called in metrics and errors.
    fn name(&self) -> &'static str;

    /// What it wants values to count from.
    fn temporalities(&self) -> Temporalities {
        Temporalities::CUMULATIVE
    }

    /// How long it keeps what it is given.
    fn memory_mode(&self) -> MemoryMode {
        MemoryMode::Reusable
    }

    /// Is told where to count what becomes of its points. Without this call nothing is counted.
    fn count_in(&mut self, counts: &Counts) {
        let _ = counts;
    }

    /// Takes what was collected.
    ///
    /// # Errors
    /// It did not get there, or not all of it: see [`Error`].
    fn export(&mut self, data: Data<'_>) -> Result<(), Error>;

    /// When it wants to be called to [`retry`](Exporter::retry); none if nothing waits.
    fn retry_at(&self) -> Option<Instant> {
        None
    }

    /// Tries again to send what waits.
    ///
    /// # Errors
    /// It did not get there, or not all of it.
    fn retry(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Is told that nothing will follow, after the last export; what still waits then is lost.
    ///
    /// # Errors
    /// Something was lost.
    fn shutdown(&mut self) -> Result<(), Error> {
        Ok(())
    }
}
