//! What the exports of a registry came to, as metrics of that registry, so that who can't see an
//! exporter's output sees why.

use std::fmt;
use std::sync::Arc;

use wire::exposition::Kind;

use crate::described::{Described, Role, Spec};
use crate::error::Error;
use crate::family::OpenFamily;
use crate::instrument::{Counter, Gauge};
use crate::registry::Registry;
use crate::shape::Shape;

use super::error::Reason;

/// What became of points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The other side has them.
    Sent,
    /// The other side did not want them.
    Rejected,
    /// There was no room to keep them, or no time.
    Dropped,
    /// Newer values of the same series took their place.
    Superseded,
}

/// The metrics of one exporter: `unladen_export_points_total`, `unladen_export_failures_total` and
/// `unladen_export_waiting_bytes`.
#[derive(Clone)]
pub struct Counts {
    outcomes: [Counter; 4],
    failures: OpenFamily<Counter>,
    waiting_bytes: Gauge<i64>,
    exporter: &'static str,
}

impl fmt::Debug for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counts").field("exporter", &self.exporter).finish_non_exhaustive()
    }
}

impl Counts {
    /// The metrics of `exporter` in `registry`. *Setup.*
    ///
    /// # Errors
    /// Another family has one of the names.
    pub fn new(registry: &Registry, exporter: &'static str) -> Result<Self, Error> {
        let family = |name, help, kind, role, shape| {
            let spec = Spec::new(name, help);
            let described = Described::new(&spec, kind, role, &[], &Arc::default())?;
            // Several exporters of a registry share the families.
            registry.add_family(described, shape, true)
        };
        let points: OpenFamily<Counter> = OpenFamily::new(family(
            "unladen_export_points_total",
            "Points by exporter and by what became of them.",
            Kind::Counter,
            Role::Counter,
            Shape::Unsigned,
        )?);
        let failures = OpenFamily::new(family(
            "unladen_export_failures_total",
            "Exports that failed or did so in part, by exporter and reason.",
            Kind::Counter,
            Role::Counter,
            Shape::Unsigned,
        )?);
        let waiting: OpenFamily<Gauge<i64>> = OpenFamily::new(family(
            "unladen_export_waiting_bytes",
            "Bytes of requests that wait for another attempt, by exporter.",
            Kind::Gauge,
            Role::Gauge,
            Shape::Signed,
        )?);
        let outcomes = ["sent", "rejected", "dropped", "superseded"]
            .map(|outcome| points.with(&[("exporter", exporter), ("outcome", outcome)]));
        let waiting_bytes = waiting.with(&[("exporter", exporter)]);
        Ok(Counts { outcomes, failures, waiting_bytes, exporter })
    }

    /// So many points ended so. *Steady.*
    pub fn points(&self, outcome: Outcome, count: usize) {
        self.outcomes[outcome as usize].add(count as u64);
    }

    /// An export failed.
    pub fn failure(&self, reason: Reason) {
        self.failures.add(1, &[("exporter", self.exporter), ("reason", reason.as_str())]);
    }

    /// So many bytes wait for another attempt. *Steady.*
    pub fn waiting_bytes(&self, bytes: usize) {
        self.waiting_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }
}
