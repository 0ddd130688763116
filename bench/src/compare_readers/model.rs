//! What is written: families and their series as data, drawn at random.

use testkit::random::Random;
use wire::exposition::name::Escaping;
use wire::exposition::writer::Value;
use wire::exposition::{Format, Kind};

use crate::draw::{self, Pairs, once_in, one};

/// One body.
#[derive(Clone, Debug)]
pub struct Case {
    /// The format.
    pub format: Format,
    /// How names are spelt.
    pub escaping: Escaping,
    /// Whether OpenMetrics tells when series began.
    pub created_lines: bool,
    /// Through a registry, whose resource has these attributes; straight through the writer without.
    pub resource: Option<Pairs>,
    /// The families, of which no two have series of the same name.
    pub families: Vec<Family>,
}

/// A family.
#[derive(Clone, Debug)]
pub struct Family {
    /// With `_total` or `_info` where it has that.
    pub name: String,
    /// Empty for none.
    pub help: String,
    /// Empty for none.
    pub unit: String,
    /// What it measures.
    pub kind: Kind,
    /// Labels of all its series; in a registry those of its scope.
    pub common: Pairs,
    /// How a registry gets it.
    pub via: Via,
    /// Its series.
    pub series: Vec<Series>,
}

/// How a registry gets a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// A collector writes it.
    Collector,
    /// By handles, or asked for by a callback; with declared labels, or any.
    Handles { is_open: bool },
    /// The same.
    Callback { is_open: bool },
}

/// A series, or what is several series under one set of labels.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its own labels.
    pub labels: Pairs,
    /// Escaped beforehand.
    pub is_stored: bool,
    /// Milliseconds since 1970.
    pub timestamp_ms: Option<i64>,
    /// Milliseconds since 1970.
    pub created_ms: Option<i64>,
    /// What it holds.
    pub value: SeriesValue,
}

/// What a series holds.
#[derive(Clone, Debug)]
pub enum SeriesValue {
    /// A number.
    Number(Value, Option<Exemplar>),
    /// Bounds, a count and an exemplar for each and one more, and the sum.
    Buckets(Vec<f64>, Vec<(u64, Option<Exemplar>)>, f64),
    /// Native buckets, and explicit ones beside.
    Native(Native, Option<Vec<f64>>),
    /// Quantiles, sum and count.
    Summary(Vec<(f64, f64)>, f64, u64),
    /// What a histogram of a registry is told, with a trace or not; native without bounds.
    Observed(Option<Vec<f64>>, Vec<(f64, Option<u8>)>),
}

/// A native histogram.
#[derive(Clone, Debug)]
pub struct Native {
    /// From -4 to 8.
    pub schema: i8,
    /// Not negative.
    pub zero_threshold: f64,
    /// Observations near zero.
    pub zero_count: u64,
    /// Index of the first and counts.
    pub positive: (i32, Vec<u64>),
    /// The same below zero.
    pub negative: (i32, Vec<u64>),
    /// NaN where there are observations in no bucket.
    pub sum: f64,
    /// Observations that are no number.
    pub beyond: u64,
    /// Observations.
    pub exemplars: Vec<Exemplar>,
}

impl Native {
    /// All observations.
    pub fn count(&self) -> u64 {
        let side = |side: &(i32, Vec<u64>)| side.1.iter().sum::<u64>();
        self.zero_count + side(&self.positive) + side(&self.negative) + self.beyond
    }
}

/// An exemplar.
#[derive(Clone, Debug)]
pub struct Exemplar {
    /// Its labels.
    pub labels: Pairs,
    /// Its value.
    pub value: f64,
    /// Milliseconds since 1970.
    pub timestamp_ms: Option<i64>,
}

const KINDS: [Kind; 8] = [
    Kind::Counter,
    Kind::Gauge,
    Kind::Histogram,
    Kind::GaugeHistogram,
    Kind::Summary,
    Kind::Info,
    Kind::StateSet,
    Kind::Unknown,
];

impl Case {
    /// Draws families, and in which format they are written.
    pub fn draw(random: &mut Random) -> Case {
        let has_registry = once_in(random, 2);
        let format = *one(random, &[Format::Text, Format::OpenMetrics, Format::Protobuf]);
        let all = [Escaping::AllowUtf8, Escaping::Underscores, Escaping::Dots, Escaping::Values];
        let escaping = if once_in(random, 2) { Escaping::AllowUtf8 } else { *one(random, &all) };
        let mut families = Vec::new();
        for index in 0..1 + random.below(5) {
            let family = family(random, index as u8, has_registry);
            let again = family.of_another_scope(random, index as u8);
            families.push(family);
            families.extend(again);
        }
        Case {
            families,
            format,
            escaping,
            created_lines: once_in(random, 2),
            resource: has_registry.then(|| draw::pairs(random, 3, "r")),
        }
    }

    /// How many series there are.
    pub fn series(&self) -> usize {
        self.families.iter().map(|family| family.series.len()).sum()
    }
}

impl Family {
    /// The same instrument in another part of a program: one family of the body.
    fn of_another_scope(&self, random: &mut Random, index: u8) -> Option<Family> {
        // The states of a set are there from the start, and what differs is the scope alone.
        if self.via == Via::Collector || self.kind == Kind::StateSet || !once_in(random, 3) {
            return None;
        }
        let mut again = self.clone();
        again.common =
            vec![("otel_scope_name".to_owned(), format!("another{}", draw::text(random)))];
        let is_native =
            self.series.iter().any(|of| matches!(of.value, SeriesValue::Observed(None, _)));
        let shape = Shape { kind: self.kind, via: self.via, has_registry: true, is_native, index };
        again.series = shape.all_series(random, &again);
        // Without series nothing tells whether its buckets are native, and both have to agree on that.
        let is_told =
            self.kind != Kind::Histogram || !(self.series.is_empty() || again.series.is_empty());
        is_told.then_some(again)
    }
}

/// Names differ by a letter that nothing else is drawn from, so that no two meet however they are spelt.
fn family(random: &mut Random, index: u8, has_registry: bool) -> Family {
    let mut kind = *one(random, &KINDS);
    let via = match random.below(4) {
        _ if !has_registry => Via::Collector,
        0 => Via::Collector,
        1 => Via::Callback { is_open: once_in(random, 2) },
        _ => Via::Handles { is_open: once_in(random, 2) },
    };
    if via != Via::Collector {
        let single = [Kind::Counter, Kind::Gauge, Kind::Info];
        let any = [
            Kind::Counter,
            Kind::Gauge,
            Kind::Histogram,
            Kind::Histogram,
            Kind::Info,
            Kind::StateSet,
        ];
        kind = match via {
            Via::Callback { is_open: true } => *one(random, &single[..2]),
            Via::Callback { .. } => {
                *one(random, &[Kind::Counter, Kind::Gauge, Kind::Info, Kind::Unknown])
            }
            _ => *one(random, &any),
        };
    }
    let mut name = format!("{}{}", draw::name(random), char::from(b'A' + index));
    if once_in(random, 4) {
        name += &draw::name(random);
    }
    if has_registry && via != Via::Collector {
        name = name.replace(char::is_control, "!");
        if kind == Kind::StateSet {
            // A name that a label can't have is refused.
            name.insert(0, 's');
        }
    }
    let mut unit = String::new();
    if once_in(random, 3) {
        unit = (*one(random, &["seconds", "bytes", "µs", "\"q\"\\"])).to_owned();
        name = format!("{name}_{unit}");
    }
    match kind {
        Kind::Counter if !once_in(random, 8) => name += "_total",
        Kind::Info if !once_in(random, 8) => name += "_info",
        _ => {}
    }
    let mut common = match (has_registry, via) {
        (false, _) => draw::pairs(random, 2, "c"),
        (true, Via::Collector) => Pairs::new(),
        (true, _) => scope(random),
    };
    common.retain(|(name, _)| !is_of_kind(name, kind));
    let shape = Shape { kind, via, has_registry, is_native: once_in(random, 2), index };
    let mut family =
        Family { help: draw::text(random), unit, kind, common, via, series: Vec::new(), name };
    family.series = shape.all_series(random, &family);
    family
}

/// A scope's name, version and attributes, as the labels that its series have.
fn scope(random: &mut Random) -> Pairs {
    if once_in(random, 2) {
        return Pairs::new();
    }
    let mut common = vec![("otel_scope_name".to_owned(), format!("s{}", draw::text(random)))];
    if once_in(random, 2) {
        common.push(("otel_scope_version".to_owned(), format!("1{}", draw::text(random))));
    }
    if once_in(random, 2) {
        common.push((format!("otel_scope_x{}", draw::name(random)), draw::text(random)));
    }
    common
}

/// What the series of a family have in common.
struct Shape {
    kind: Kind,
    via: Via,
    has_registry: bool,
    /// Prometheus looks at a family's first histogram to know what all of them are.
    is_native: bool,
    index: u8,
}

impl Shape {
    fn all_series(&self, random: &mut Random, family: &Family) -> Vec<Series> {
        let is_number_whole = once_in(random, 2);
        let declared = draw::pairs(random, 3, "m");
        let bounds = (!self.is_native).then(|| draw::bounds(random));
        // States are there from the start, and so is the series of a family without labels.
        let has_one = self.via == Via::Handles { is_open: false }
            || (self.kind == Kind::StateSet && self.via != Via::Collector);
        let count = u64::from(has_one) + random.below(4);
        let mut all: Vec<Series> = Vec::new();
        for place in 0..count {
            let value = match self.via {
                Via::Collector => self.value(random),
                Via::Callback { .. } => self.told(random, is_number_whole),
                Via::Handles { .. } if self.kind == Kind::Histogram => {
                    SeriesValue::Observed(bounds.clone(), observations(random))
                }
                Via::Handles { .. } => self.told(random, is_number_whole),
            };
            let is_registered = self.via != Via::Collector;
            let is_declared = (self.kind == Kind::StateSet && is_registered)
                || self.via == Via::Handles { is_open: false }
                || self.via == Via::Callback { is_open: false };
            let mut labels = match is_declared {
                true => {
                    declared.iter().map(|(name, _)| (name.clone(), draw::text(random))).collect()
                }
                false => draw::pairs(random, 4, "m"),
            };
            labels.retain(|(name, _)| self.may_have(name, family));
            if is_declared {
                labels.iter_mut().for_each(|(name, _)| *name = name.replace(char::is_control, "!"));
                labels.sort();
                labels.dedup_by(|(name, _), (before, _)| name == before);
            }
            if is_registered && !is_declared && once_in(random, 4) {
                let name = *one(random, &["__name__", "__", "le", "otel_scope_version"]);
                labels.push((name.to_owned(), draw::text(random)));
            }
            if self.kind == Kind::StateSet {
                // The state is the label that is named as the family.
                labels.push((family.name.clone(), format!("state{place}")));
            } else if place > 0 && !is_declared {
                labels.push((format!("Z{}", self.index), place.to_string()));
            } else if let (true, Some((_, value))) = (place > 0, labels.first_mut()) {
                *value = format!("{place}{value}");
            } else if place > 0 {
                continue;
            }
            let is_own = self.via == Via::Collector;
            all.push(Series {
                labels,
                is_stored: once_in(random, 2),
                timestamp_ms: draw::time(random).filter(|_| is_own),
                created_ms: draw::time(random).filter(|_| is_own),
                value,
            });
        }
        if self.kind == Kind::StateSet && self.via != Via::Collector {
            same_labels(&mut all);
        }
        all
    }

    /// A label that the kind has itself, or that all series have, would be there twice.
    fn may_have(&self, name: &str, family: &Family) -> bool {
        !is_of_kind(name, self.kind)
            && name != family.name
            && !family.common.iter().any(|(common, _)| common == name)
    }

    /// A value that a registry is told.
    fn told(&self, random: &mut Random, is_whole: bool) -> SeriesValue {
        let value = match self.kind {
            Kind::Info => Value::Count(1),
            Kind::StateSet => Value::Count(random.below(2)),
            Kind::Counter if is_whole => Value::Count(whole(random)),
            Kind::Counter => {
                let value = draw::number(random).abs();
                // A counter takes nothing else.
                Value::Float(if value.is_finite() { value } else { 0.5 })
            }
            _ if is_whole => Value::Integer(whole(random) as i64),
            _ => Value::Float(self.quiet(draw::number(random))),
        };
        SeriesValue::Number(value, None)
    }

    /// What a handle holds is added up when it is written; whether that makes a signalling NaN a quiet one
    /// depends on the optimizer.
    fn quiet(&self, value: f64) -> f64 {
        match self.via {
            Via::Handles { .. } if value.is_nan() => f64::from_bits(value.to_bits() | 1 << 51),
            _ => value,
        }
    }

    fn value(&self, random: &mut Random) -> SeriesValue {
        match self.kind {
            Kind::Histogram | Kind::GaugeHistogram if !self.is_native => {
                let bounds = draw::bounds(random);
                let counts =
                    (0..bounds.len() + 1).map(|_| (draw::count(random), exemplar(random, 3)));
                let counts = counts.collect();
                SeriesValue::Buckets(bounds, counts, draw::number(random))
            }
            Kind::Histogram | Kind::GaugeHistogram => {
                let beside =
                    (!self.has_registry && once_in(random, 3)).then(|| draw::bounds(random));
                SeriesValue::Native(native(random), beside)
            }
            Kind::Summary => {
                let mut quantiles: Vec<f64> = (0..random.below(4)).map(|_| random.unit()).collect();
                quantiles.extend(once_in(random, 3).then_some(1.0));
                let quantiles =
                    quantiles.into_iter().map(|of| (of, draw::number(random))).collect();
                SeriesValue::Summary(quantiles, draw::number(random), draw::count(random))
            }
            Kind::Info => SeriesValue::Number(Value::Count(1), None),
            Kind::StateSet => SeriesValue::Number(Value::Count(random.below(2)), None),
            _ => {
                let value = match random.below(4) {
                    0 => Value::Count(whole(random)),
                    1 => Value::Integer(whole(random) as i64),
                    _ => Value::Float(draw::number(random)),
                };
                SeriesValue::Number(value, exemplar(random, 3))
            }
        }
    }
}

/// Whether the kind has this label itself.
fn is_of_kind(name: &str, kind: Kind) -> bool {
    match kind {
        Kind::Histogram | Kind::GaugeHistogram => name == "le",
        Kind::Summary => name == "quantile",
        _ => false,
    }
}

/// States differ in their state alone.
fn same_labels(all: &mut [Series]) {
    let Some((first, rest)) = all.split_first_mut() else { return };
    let shared = &first.labels[..first.labels.len() - 1];
    for series in rest {
        let state = series.labels.pop();
        series.labels = shared.iter().cloned().chain(state).collect();
    }
}

fn whole(random: &mut Random) -> u64 {
    const WHOLE: [u64; 9] = [
        0,
        1,
        (1 << 53) - 1,
        1 << 53,
        (1 << 53) + 1,
        u64::MAX,
        1 << 63,
        i64::MAX as u64,
        1_000_000,
    ];
    if once_in(random, 3) { random.next_u64() >> random.below(64) } else { *one(random, &WHOLE) }
}

fn exemplar(random: &mut Random, one_in: u64) -> Option<Exemplar> {
    once_in(random, one_in).then(|| Exemplar {
        labels: draw::pairs(random, 2, "e"),
        value: draw::number(random),
        timestamp_ms: draw::time(random),
    })
}

fn native(random: &mut Random) -> Native {
    let mut side = || {
        let buckets = random.below(12);
        let offset = random.below(80) as i32 - 40;
        (
            offset,
            (0..buckets)
                .map(|_| if once_in(random, 2) { 0 } else { draw::count(random) })
                .collect(),
        )
    };
    let (positive, negative) = (side(), side());
    let beyond = if once_in(random, 6) { 1 + random.below(3) } else { 0 };
    Native {
        schema: random.below(13) as i8 - 4,
        zero_threshold: *one(random, &[0.0, 2f64.powi(-128), 1e-9, 5e-324]),
        zero_count: draw::count(random),
        positive,
        negative,
        sum: if beyond > 0 { f64::NAN } else { draw::number(random) },
        beyond,
        exemplars: (0..random.below(3)).filter_map(|_| exemplar(random, 2)).collect(),
    }
}

fn observations(random: &mut Random) -> Vec<(f64, Option<u8>)> {
    let draw = |random: &mut Random| {
        let value = if once_in(random, 3) { draw::number(random) } else { random.unit() * 20.0 };
        (value, once_in(random, 4).then(|| random.below(200) as u8))
    };
    (0..random.below(8)).map(|_| draw(random)).collect()
}
