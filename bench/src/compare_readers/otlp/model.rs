//! Requests drawn at random, and what should be read of them: the lines that the other process prints.

use serde_json::{Map, Value, json};
use testkit::random::Random;
use wire::otlp::attribute::{encode_array, encode_map};
use wire::otlp::{AttributeValue, Exemplar, Number, Temporality};

use crate::draw::{self, once_in, one};

/// Attributes, ready to be written, and as they are told.
#[derive(Clone, Debug, Default)]
pub struct Attributes(Vec<(String, Ready, Value)>);

/// A value; what it holds is encoded.
#[derive(Clone, Debug)]
enum Ready {
    Empty,
    Text(String),
    Bool(bool),
    Int(i64),
    Double(f64),
    Bytes(Vec<u8>),
    Array(Vec<u8>),
    Map(Vec<u8>),
}

/// A resource's metrics, or a scope's.
#[derive(Clone, Debug)]
pub struct Group<T> {
    /// A scope's name and version.
    pub name: String,
    /// The version.
    pub version: String,
    /// Its attributes.
    pub attributes: Attributes,
    /// The schema that the names follow.
    pub schema_url: String,
    /// Scopes or metrics.
    pub members: Vec<T>,
}

/// A request.
pub type Request = Vec<Group<Group<Metric>>>;

/// A metric.
#[derive(Clone, Debug)]
pub struct Metric {
    /// Different from all others.
    pub name: String,
    /// What it is about.
    pub description: String,
    /// Its unit.
    pub unit: String,
    /// What it is.
    pub kind: Kind,
    /// What its points count from.
    pub temporality: Temporality,
    /// Its points.
    pub points: Vec<Point>,
}

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A gauge.
    Gauge,
    /// A sum that never falls, or one that may.
    Sum { is_monotonic: bool },
    /// With explicit bounds.
    Histogram,
    /// With exponential buckets.
    Exponential,
    /// Quantiles.
    Summary,
}

/// A point of any kind: a kind takes what it has.
#[derive(Clone, Debug)]
pub struct Point {
    /// Which series.
    pub attributes: Attributes,
    /// Since when.
    pub start: u64,
    /// When; no two are the same.
    pub time: u64,
    /// The flags.
    pub flags: u32,
    /// A number's value.
    pub value: Option<Number>,
    /// How many observations.
    pub count: u64,
    /// A histogram's sum, min and max.
    pub totals: [Option<f64>; 3],
    /// Bounds or, by pairs, quantiles and their values.
    pub doubles: Vec<f64>,
    /// Counts of buckets.
    pub counts: Vec<u64>,
    /// Scale, offset above zero and below.
    pub integers: [i32; 3],
    /// Counts below zero.
    pub below: Vec<u64>,
    /// Observations near zero.
    pub zero_count: u64,
    /// How near.
    pub zero_threshold: f64,
    /// Observations.
    pub exemplars: Vec<Example>,
}

/// An exemplar.
#[derive(Clone, Debug)]
pub struct Example {
    attributes: Attributes,
    time: u64,
    value: Option<Number>,
    trace_id: Option<[u8; 16]>,
    span_id: Option<[u8; 8]>,
}

fn bits(value: f64) -> Value {
    json!(format!("{:016x}", value.to_bits()))
}

/// A value as it is told.
pub fn number(value: Option<Number>) -> Value {
    match value {
        None => Value::Null,
        Some(Number::Int(value)) => json!({ "int": value }),
        Some(Number::Double(value)) => json!({ "double": bits(value) }),
    }
}

/// Bytes as they are told.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Doubles as they are told.
pub fn all_bits(values: impl IntoIterator<Item = f64>) -> Vec<Value> {
    values.into_iter().map(bits).collect()
}

impl Attributes {
    fn draw(random: &mut Random, most: u64) -> Self {
        let pairs = draw::pairs(random, most, "k").into_iter();
        Attributes(pairs.map(|(key, _)| with_value(key, any(random, 3))).collect())
    }

    /// Names and values, lent.
    pub fn lend(&self) -> impl Iterator<Item = (&str, AttributeValue<'_>)> + Clone {
        self.0.iter().map(|(key, value, _)| (key.as_str(), value.lend()))
    }

    fn told(&self) -> Value {
        sorted(self.0.iter().map(|(key, _, told)| (key.clone(), told.clone())))
    }
}

fn with_value(key: String, (ready, told): (Ready, Value)) -> (String, Ready, Value) {
    (key, ready, told)
}

/// Pairs as they are told, those of one key in their order.
pub fn sorted(pairs: impl Iterator<Item = (String, Value)>) -> Value {
    let mut pairs: Vec<_> = pairs.collect();
    pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
    pairs.into_iter().map(|(key, value)| json!([key, value])).collect()
}

impl Ready {
    fn lend(&self) -> AttributeValue<'_> {
        match self {
            Ready::Empty => AttributeValue::Empty,
            Ready::Text(text) => AttributeValue::Str(text),
            Ready::Bool(value) => AttributeValue::Bool(*value),
            Ready::Int(value) => AttributeValue::I64(*value),
            Ready::Double(value) => AttributeValue::F64(*value),
            Ready::Bytes(bytes) => AttributeValue::Bytes(bytes),
            Ready::Array(bytes) => AttributeValue::Array(bytes),
            Ready::Map(bytes) => AttributeValue::Map(bytes),
        }
    }
}

/// A value that holds others at most `depth` deep, and how it is told.
fn any(random: &mut Random, depth: u64) -> (Ready, Value) {
    let choices = if depth > 0 { 9 } else { 7 };
    match random.below(choices) {
        0 => (Ready::Empty, Value::Null),
        1 => {
            let value = once_in(random, 2);
            (Ready::Bool(value), json!({ "bool": value }))
        }
        2 => {
            let value = integer(random);
            (Ready::Int(value), json!({ "int": value }))
        }
        3 => {
            let value = draw::number(random);
            (Ready::Double(value), json!({ "double": bits(value) }))
        }
        4 => {
            let bytes: Vec<u8> = (0..random.below(20)).map(|_| random.below(256) as u8).collect();
            let told = json!({ "bytes": hexadecimal(&bytes) });
            (Ready::Bytes(bytes), told)
        }
        5 | 6 => {
            let text = draw::text(random);
            let told = json!({ "string": text });
            (Ready::Text(text), told)
        }
        7 => {
            let values: Vec<_> = (0..random.below(4)).map(|_| any(random, depth - 1)).collect();
            let mut encoded = Vec::new();
            encode_array(values.iter().map(|(value, _)| value.lend()), &mut encoded);
            let told: Vec<_> = values.into_iter().map(|(_, told)| told).collect();
            (Ready::Array(encoded), json!({ "array": told }))
        }
        _ => {
            let attributes = Attributes(
                draw::pairs(random, 3, "")
                    .into_iter()
                    .map(|(key, _)| with_value(key, any(random, depth - 1)))
                    .collect(),
            );
            let mut encoded = Vec::new();
            encode_map(attributes.lend(), &mut encoded);
            (Ready::Map(encoded), json!({ "map": attributes.told() }))
        }
    }
}

fn integer(random: &mut Random) -> i64 {
    *one(random, &[0, 1, -1, i64::MIN, i64::MAX, 1 << 53, 300, -70_000])
}

fn unsigned(random: &mut Random) -> u64 {
    match random.below(3) {
        0 => *one(random, &[0, 1, u64::MAX, 1 << 63, (1 << 53) + 1]),
        1 => random.next_u64(),
        _ => random.below(300),
    }
}

/// Draws a request.
pub fn draw(random: &mut Random) -> Request {
    let mut named = 0;
    (0..random.below(3))
        .map(|_| {
            group(random, &mut |random| {
                group(random, &mut |random| {
                    named += 1;
                    metric(random, named)
                })
            })
        })
        .collect()
}

fn group<T>(random: &mut Random, member: &mut dyn FnMut(&mut Random) -> T) -> Group<T> {
    Group {
        name: draw::text(random),
        version: draw::text(random),
        attributes: Attributes::draw(random, 3),
        schema_url: draw::text(random),
        members: (0..random.below(4)).map(|_| member(random)).collect(),
    }
}

fn metric(random: &mut Random, index: u64) -> Metric {
    let kinds = [
        Kind::Gauge,
        Kind::Sum { is_monotonic: true },
        Kind::Sum { is_monotonic: false },
        Kind::Histogram,
        Kind::Exponential,
        Kind::Summary,
    ];
    let temporalities = [Temporality::Unspecified, Temporality::Delta, Temporality::Cumulative];
    Metric {
        name: format!("{}{index}", draw::name(random)),
        description: draw::text(random),
        unit: draw::text(random),
        kind: *one(random, &kinds),
        temporality: *one(random, &temporalities),
        points: (0..random.below(4)).map(|at| point(random, at)).collect(),
    }
}

fn point(random: &mut Random, at: u64) -> Point {
    let optional = |random: &mut Random| (!once_in(random, 3)).then(|| draw::number(random));
    let counts = |random: &mut Random| (0..random.below(6)).map(|_| unsigned(random)).collect();
    Point {
        attributes: Attributes::draw(random, 4),
        start: unsigned(random),
        time: (unsigned(random) << 3) | at,
        flags: *one(random, &[0, 1, u32::MAX]),
        value: any_number(random),
        count: unsigned(random),
        totals: [optional(random), optional(random), optional(random)],
        doubles: (0..2 * random.below(4)).map(|_| draw::number(random)).collect(),
        counts: counts(random),
        integers: [0; 3].map(|_| *one(random, &[0, 1, -1, i32::MIN, i32::MAX, 20, -10])),
        below: counts(random),
        zero_count: unsigned(random),
        zero_threshold: draw::number(random),
        exemplars: (0..random.below(3)).map(|_| example(random)).collect(),
    }
}

fn any_number(random: &mut Random) -> Option<Number> {
    match random.below(5) {
        0 => None,
        1 | 2 => Some(Number::Int(integer(random))),
        _ => Some(Number::Double(draw::number(random))),
    }
}

fn example(random: &mut Random) -> Example {
    Example {
        attributes: Attributes::draw(random, 2),
        time: unsigned(random),
        value: any_number(random),
        trace_id: once_in(random, 2).then(|| [0; 16].map(|_: u8| random.below(256) as u8)),
        span_id: once_in(random, 2).then(|| [0; 8].map(|_: u8| random.below(256) as u8)),
    }
}

impl Example {
    /// To be written.
    pub fn lend(&self) -> Exemplar<impl Iterator<Item = (&str, AttributeValue<'_>)> + Clone> {
        Exemplar {
            filtered_attributes: self.attributes.lend(),
            time_unix_nano: self.time,
            value: self.value,
            trace_id: self.trace_id,
            span_id: self.span_id,
        }
    }

    fn told(&self) -> Value {
        let id = |id: Option<&[u8]>| hexadecimal(id.unwrap_or_default());
        json!({
            "attributes": self.attributes.told(),
            "time_ns": self.time,
            "value": number(self.value),
            "trace_id": id(self.trace_id.as_ref().map(|id| id.as_slice())),
            "span_id": id(self.span_id.as_ref().map(|id| id.as_slice())),
        })
    }
}

/// The word for a temporality.
pub fn word(temporality: Temporality) -> &'static str {
    match temporality {
        Temporality::Unspecified => "unspecified",
        Temporality::Delta => "delta",
        Temporality::Cumulative => "cumulative",
    }
}

/// The line of a metric.
pub fn metric_line(
    head: &wire::otlp::Metric<'_>,
    kind: &str,
    temporality: Option<Temporality>,
    is_monotonic: Option<bool>,
) -> Value {
    let mut line = json!({
        "event": "metric",
        "name": head.name,
        "description": head.description,
        "unit": head.unit,
        "type": kind,
        "metadata": [],
    });
    if let Some(temporality) = temporality {
        line["temporality"] = json!(word(temporality));
    }
    if let Some(is_monotonic) = is_monotonic {
        line["monotonic"] = json!(is_monotonic);
    }
    line
}

/// Everything that should be read, in its order.
pub fn told(request: &Request) -> Vec<Value> {
    let mut lines = Vec::new();
    for resource in request {
        lines.push(json!({
            "event": "resource",
            "attributes": resource.attributes.told(),
            "dropped_attributes": 0,
            "schema_url": resource.schema_url,
        }));
        for scope in &resource.members {
            lines.push(json!({
                "event": "scope",
                "name": scope.name,
                "version": scope.version,
                "attributes": scope.attributes.told(),
                "dropped_attributes": 0,
                "schema_url": scope.schema_url,
            }));
            for metric in &scope.members {
                lines.push(metric.told());
                lines.extend(metric.points.iter().map(|point| point.told(metric.kind)));
            }
        }
    }
    lines
}

impl Metric {
    /// Its name and texts, lent.
    pub fn head(&self) -> wire::otlp::Metric<'_> {
        wire::otlp::Metric { name: &self.name, description: &self.description, unit: &self.unit }
    }

    fn told(&self) -> Value {
        let since = Some(self.temporality);
        let head = self.head();
        match self.kind {
            Kind::Gauge => metric_line(&head, "gauge", None, None),
            Kind::Sum { is_monotonic } => metric_line(&head, "sum", since, Some(is_monotonic)),
            Kind::Histogram => metric_line(&head, "histogram", since, None),
            Kind::Exponential => metric_line(&head, "exponential_histogram", since, None),
            Kind::Summary => metric_line(&head, "summary", None, None),
        }
    }
}

impl Point {
    fn told(&self, kind: Kind) -> Value {
        let mut line = Map::new();
        line.insert("event".into(), json!("point"));
        line.insert("attributes".into(), self.attributes.told());
        line.insert("start_ns".into(), json!(self.start));
        line.insert("time_ns".into(), json!(self.time));
        line.insert("flags".into(), json!(self.flags));
        let exemplars: Vec<_> = match kind {
            Kind::Summary => Vec::new(),
            _ => self.exemplars.iter().map(Example::told).collect(),
        };
        line.insert("exemplars".into(), json!(exemplars));
        let mut set = |key: &str, value: Value| {
            let is_empty = value.is_null() || value.as_array().is_some_and(|all| all.is_empty());
            if !is_empty {
                line.insert(key.into(), value);
            }
        };
        let optional = |value: Option<f64>| value.map_or(Value::Null, bits);
        let doubles = self.doubles.iter().copied();
        match kind {
            Kind::Gauge | Kind::Sum { .. } => set("value", number(self.value)),
            Kind::Summary => {
                set("count", json!(self.count));
                set("sum", bits(self.totals[0].unwrap_or_default()));
                let pairs = self.quantiles().map(|(of, value)| json!([bits(of), bits(value)]));
                set("quantiles", pairs.collect());
            }
            Kind::Histogram | Kind::Exponential => {
                set("count", json!(self.count));
                let names = ["sum", "min", "max"];
                names.iter().zip(self.totals).for_each(|(name, value)| set(name, optional(value)));
            }
        }
        if kind == Kind::Histogram {
            set("bounds", json!(all_bits(doubles)));
            set("bucket_counts", json!(self.counts));
        } else if kind == Kind::Exponential {
            set("scale", json!(self.integers[0]));
            set("zero_count", json!(self.zero_count));
            set("zero_threshold", bits(self.zero_threshold));
            set("positive", side(self.integers[1], &self.counts));
            set("negative", side(self.integers[2], &self.below));
        }
        Value::Object(line)
    }

    /// Quantiles and their values.
    pub fn quantiles(&self) -> impl Iterator<Item = (f64, f64)> + Clone {
        self.doubles.chunks_exact(2).map(|pair| (pair[0], pair[1]))
    }
}

/// Buckets; what is all default is not there.
pub fn side(offset: i32, counts: &[u64]) -> Value {
    if offset == 0 && counts.is_empty() {
        return Value::Null;
    }
    json!({ "offset": offset, "counts": counts })
}
