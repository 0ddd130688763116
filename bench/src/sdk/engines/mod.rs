//! The engines: each observes all sets and collects.

mod opentelemetry_sdk;
mod unladen;

use bench::Failure;

use crate::case::{Collected, Mode, Number, Setup};

/// An engine with its instruments and its reader. What a collection gave is dropped at the next one, or
/// reused by it, as the mode has it.
pub trait Engine {
    /// One collection, its points dropped unread.
    fn collect(&mut self);

    /// Reads what the last collection gave; where that can't be kept, what one more gives.
    fn read(&mut self) -> Collected;
}

/// What a program has of its own: the attributes, built before anything is measured.
pub type Prepare = fn(Setup, Number) -> Build;

/// Makes the provider, its instruments and the reader.
pub type Build = Box<dyn FnOnce() -> Result<Box<dyn Engine>, Failure>>;

/// An engine, and whether it differs from another one only where snapshots are taken.
pub struct Entry {
    pub name: &'static str,
    prepare: Prepare,
    is_of_snapshots: bool,
}

impl Entry {
    /// Whether there is such a case of it.
    pub fn has(&self, mode: Mode) -> bool {
        mode == Mode::Immutable || !self.is_of_snapshots
    }
}

const fn entry(name: &'static str, prepare: Prepare) -> Entry {
    Entry { name, prepare, is_of_snapshots: false }
}

/// All engines, in the order of the table.
pub static ENGINES: [Entry; 4] = [
    entry("unladen", unladen::prepare),
    Entry { is_of_snapshots: true, ..entry("unladen-held", unladen::prepare_held) },
    entry("unladen-resolved", unladen::prepare_resolved),
    entry("opentelemetry_sdk", opentelemetry_sdk::prepare),
];

/// The engine of that name, its attributes built.
pub fn prepare(name: &str, setup: Setup, number: Number) -> Result<Build, Failure> {
    let entry = ENGINES.iter().find(|entry| entry.name == name);
    Ok((entry.ok_or_else(|| format!("there is no engine {name}"))?.prepare)(setup, number))
}
