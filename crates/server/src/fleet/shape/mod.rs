//! What targets look like: families of real exporters, as many series as were asked for.
//!
//! ```text
//! node        node_exporter: CPUs, disks, interfaces, mounts, units of systemd
//! kubernetes  cAdvisor and kube-state-metrics: pods and containers, ten labels, long values
//! histogram   a service mesh's latencies: little else than buckets
//! broker      RabbitMQ's detailed metrics: queues × metrics
//! build       families and dimensions → a template
//! ```
//! A shape is a table of families. Each goes over a dimension (CPUs, pods, ...), whose size is chosen such
//! that the whole comes close to the number of series that was asked for; a last family fills it up.

mod broker;
mod build;
mod histogram;
mod kubernetes;
mod node;

pub(super) use build::{Plan, build};

/// What a family measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Untyped,
    /// With the upper bounds of its buckets but the last.
    Histogram(&'static [&'static str]),
}

/// How a series' value looks and moves.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    /// Always this text.
    Text(&'static str),
    /// A number of so many digits and decimals that never changes.
    Still(u8, u8),
    /// A number of so many digits and decimals that grows by about this at each tick, in units of the
    /// last digit.
    Counter(u8, u8, u64),
    /// A counter of so many digits that seldom grows: about once in `2^n` ticks.
    Idle(u8, u8),
    /// A number of so many digits and decimals that wanders.
    Gauge(u8, u8),
    /// A number of so many digits that wanders in steps of pages.
    Pages(u8),
    /// Below one, with so many decimals.
    Ratio(u8),
    /// When something began, in seconds since 1970, with so many decimals.
    Began(u8),
    /// The time, in seconds since 1970.
    Now,
    /// Observations with about so many microseconds each: of histograms.
    Micros(u64),
}

/// What a family goes over.
#[derive(Clone, Copy, Debug)]
struct Dimension {
    /// How many there are at scale 1; at least one.
    weight: f64,
    /// Whether they come and go.
    churns: bool,
}

/// A family: one series for each element of its dimension and each of its variants.
#[derive(Clone, Copy, Debug)]
struct Family {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    /// Labels as they are written, with `{…}` for what differs: `{n}` the element's number, `{each}` the
    /// variant, a list of [`Shape::lists`], or a part of the unit's identity.
    labels: &'static str,
    /// Index of its dimension.
    over: usize,
    /// Variants; none is one.
    each: &'static [&'static str],
    value: Value,
}

/// A shape's table.
struct Shape {
    dimensions: &'static [Dimension],
    /// Words by name: an element has the one at its number, round and round.
    lists: &'static [(&'static str, &'static [&'static str])],
    families: &'static [Family],
    /// Fills up what the others leave; its dimension is its own.
    filler: Family,
    /// Whether numbers are written in full (Erlang, Python) or with an exponent from a million on (Go).
    plain: bool,
}

/// Once for each target.
const ONCE: Dimension = Dimension { weight: 0.0, churns: false };

const fn family(
    name: &'static str,
    kind: Kind,
    help: &'static str,
    over: usize,
    labels: &'static str,
    value: Value,
) -> Family {
    Family { name, kind, help, labels, over, each: &[], value }
}

const fn each(
    name: &'static str,
    kind: Kind,
    help: &'static str,
    over: usize,
    labels: &'static str,
    each: &'static [&'static str],
    value: Value,
) -> Family {
    Family { name, kind, help, labels, over, each, value }
}

fn table(shape: super::Shape) -> &'static Shape {
    match shape {
        super::Shape::Kubernetes => &kubernetes::SHAPE,
        super::Shape::Histogram => &histogram::SHAPE,
        super::Shape::Broker => &broker::SHAPE,
        super::Shape::Node | super::Shape::Mixed => &node::SHAPE,
    }
}
