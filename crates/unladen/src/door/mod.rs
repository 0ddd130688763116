//! Doors for programs that measure through another library's API: what they register becomes families of
//! a [`Registry`], beside those of the program's own.
//!
//! ```text
//! opentelemetry    a MeterProvider for OpenTelemetry's metrics API  (feature `opentelemetry`)
//! metrics          a Recorder for the `metrics` facade              (feature `metrics`)
//! ```
//! Neither API can tell its user that a registration failed. So a door never refuses what can be made to
//! work: what would be one family with another gets a name of its own, and
//! [`Registry::conflicts`] and a metric tell.

#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "opentelemetry")]
pub mod opentelemetry;

use crate::described::Described;
use crate::error::Error;
use crate::registry::Registry;
use crate::shape::Shape;

/// Registers with `add`, and takes another way where that can't be: the help that the family has
/// already, or a name with `word` or a number in it, which `rename` makes.
fn settle<T>(
    registry: &Registry,
    mut described: Described,
    word: &str,
    rename: impl Fn(&mut Described, &str),
    add: impl Fn(Described) -> Result<T, Error>,
) -> Option<T> {
    let error = match add(described.clone()) {
        Ok(added) => return Some(added),
        Err(error) => error,
    };
    registry.note_conflict(error.to_string());
    if let Some(help) = registry.known_help(&described) {
        let other = Described { help, ..described.clone() };
        if let Ok(added) = add(other) {
            return Some(added);
        }
    }
    [word, "2", "3", "4"].into_iter().find_map(|apart| {
        rename(&mut described, apart);
        add(described.clone()).ok()
    })
}

/// Whether a series of `found` takes what one of `wanted` does.
fn takes(found: &Shape, wanted: &Shape) -> bool {
    let is_histogram = |shape: &Shape| matches!(shape, Shape::Explicit(_) | Shape::Native(_));
    std::mem::discriminant(found) == std::mem::discriminant(wanted)
        || (is_histogram(found) && is_histogram(wanted))
}
