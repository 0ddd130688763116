//! The engines: each observes all sets and collects.

mod opentelemetry_sdk;

use bench::Failure;

use crate::case::{Collected, Number, Setup};

/// An engine with its instruments and its reader. What a collection gave is dropped at the next one, or
/// reused by it, as the mode has it.
pub trait Engine {
    /// One collection, its points dropped unread.
    fn collect(&mut self);

    /// Reads what the last collection gave.
    fn read(&self) -> Collected;
}

/// What a program has of its own: the attributes, built before anything is measured.
pub type Prepare = fn(Setup, Number) -> Build;

/// Makes the provider, its instruments and the reader.
pub type Build = Box<dyn FnOnce() -> Result<Box<dyn Engine>, Failure>>;

/// All engines, in the order of the table.
pub static ENGINES: [(&str, Prepare); 1] = [("opentelemetry_sdk", opentelemetry_sdk::prepare)];

/// The engine of that name, its attributes built.
pub fn prepare(name: &str, setup: Setup, number: Number) -> Result<Build, Failure> {
    let found = ENGINES.iter().find(|(known, _)| *known == name);
    let (_, prepare) = found.ok_or_else(|| format!("there is no engine {name}"))?;
    Ok(prepare(setup, number))
}
