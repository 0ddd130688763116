//! What a metric's points hold, the same for writing and for reading.
//!
//! What there is many of (attributes, exemplars, counts) is a type parameter: the writer takes anything
//! that can be iterated again after a `clone` (a slice's iterator, an iterator over columns), the reader
//! gives iterators over the bytes. A point itself holds references and numbers and is made on the stack.

use super::attribute::{AttributeValue, write_attributes};
use crate::protobuf::{Message, Sink};

/// No attributes, for what has none.
pub type NoAttributes<'a> = std::iter::Empty<(&'a str, AttributeValue<'a>)>;

/// No exemplars, for what has none.
pub type NoExemplars<'a> = std::iter::Empty<Exemplar<NoAttributes<'a>>>;

/// A point's flag: there is no value, the series ended.
pub const NO_RECORDED_VALUE: u32 = 1;

/// Who is measured: what the metrics of all its scopes have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource<'a, A> {
    /// `service.name` and others.
    pub attributes: A,
    /// Which version of the semantic conventions the resource follows; empty for unknown.
    pub schema_url: &'a str,
}

/// Who measures: a library or a part of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope<'a, A> {
    /// Its name; empty for unknown.
    pub name: &'a str,
    /// Its version; empty for unknown.
    pub version: &'a str,
    /// What else identifies it.
    pub attributes: A,
    /// Which version of the semantic conventions its metrics follow; empty for unknown.
    pub schema_url: &'a str,
}

/// What a metric is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric<'a> {
    /// The name.
    pub name: &'a str,
    /// What it is about; empty for nothing said.
    pub description: &'a str,
    /// The unit in UCUM's spelling; empty for none.
    pub unit: &'a str,
}

/// What a point's value counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Temporality {
    /// Not said, which is a fault of the sender.
    #[default]
    Unspecified,
    /// From the last point's time.
    Delta,
    /// From a fixed start.
    Cumulative,
}

impl Temporality {
    pub(super) const fn number(self) -> u64 {
        match self {
            Temporality::Unspecified => 0,
            Temporality::Delta => 1,
            Temporality::Cumulative => 2,
        }
    }

    /// A value that a later version may add counts as not said.
    pub(super) const fn from_number(number: i32) -> Self {
        match number {
            1 => Temporality::Delta,
            2 => Temporality::Cumulative,
            _ => Temporality::Unspecified,
        }
    }
}

/// A value that says what it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A whole number.
    Int(i64),
    /// Any number.
    Double(f64),
}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        Number::Int(value)
    }
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Number::Double(value)
    }
}

/// One observation behind a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exemplar<A> {
    /// The attributes that the point does not have.
    pub filtered_attributes: A,
    /// When: nanoseconds since 1970.
    pub time_unix_nano: u64,
    /// What was observed.
    pub value: Option<Number>,
    /// The trace.
    pub trace_id: Option<[u8; 16]>,
    /// The span within the trace.
    pub span_id: Option<[u8; 8]>,
}

/// A point of a gauge or a sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumberPoint<A, E> {
    /// Which series.
    pub attributes: A,
    /// Since when: nanoseconds since 1970, 0 for unknown.
    pub start_time_unix_nano: u64,
    /// When: nanoseconds since 1970.
    pub time_unix_nano: u64,
    /// The value; none only with [`NO_RECORDED_VALUE`].
    pub value: Option<Number>,
    /// Observations behind it.
    pub exemplars: E,
    /// [`NO_RECORDED_VALUE`] or 0.
    pub flags: u32,
}

/// A point of a histogram with explicit bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HistogramPoint<A, B, C, E> {
    /// Which series.
    pub attributes: A,
    /// Since when: nanoseconds since 1970, 0 for unknown.
    pub start_time_unix_nano: u64,
    /// When: nanoseconds since 1970.
    pub time_unix_nano: u64,
    /// How many observations.
    pub count: u64,
    /// Their sum; none where there may be negative ones.
    pub sum: Option<f64>,
    /// The least.
    pub min: Option<f64>,
    /// The greatest.
    pub max: Option<f64>,
    /// The upper bounds (`f64`), ascending, without the infinite one.
    pub bounds: B,
    /// How many observations each bucket has (`u64`), not added up; one more than there are bounds, or
    /// none.
    pub counts: C,
    /// Observations behind it.
    pub exemplars: E,
    /// [`NO_RECORDED_VALUE`] or 0.
    pub flags: u32,
}

/// Buckets of an exponential histogram: the one at index `i` ends at `base ^ (offset + i + 1)`, where the
/// base is `2 ^ (2 ^ -scale)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Buckets<C> {
    /// Which bucket the first count is of.
    pub offset: i32,
    /// How many observations each bucket has (`u64`).
    pub counts: C,
}

/// A point of an exponential histogram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExponentialHistogramPoint<A, C, E> {
    /// Which series.
    pub attributes: A,
    /// Since when: nanoseconds since 1970, 0 for unknown.
    pub start_time_unix_nano: u64,
    /// When: nanoseconds since 1970.
    pub time_unix_nano: u64,
    /// How many observations.
    pub count: u64,
    /// Their sum; none where there may be negative ones.
    pub sum: Option<f64>,
    /// The least.
    pub min: Option<f64>,
    /// The greatest.
    pub max: Option<f64>,
    /// The resolution: the base is `2 ^ (2 ^ -scale)`.
    pub scale: i32,
    /// How many observations are as good as 0.
    pub zero_count: u64,
    /// Up to which distance from 0, that included, they are.
    pub zero_threshold: f64,
    /// The positive ones; left out by the writer where all is 0 and empty.
    pub positive: Buckets<C>,
    /// The negative ones, by their distance from 0; likewise.
    pub negative: Buckets<C>,
    /// Observations behind it.
    pub exemplars: E,
    /// [`NO_RECORDED_VALUE`] or 0.
    pub flags: u32,
}

/// A point of a summary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SummaryPoint<A, Q> {
    /// Which series.
    pub attributes: A,
    /// Since when: nanoseconds since 1970, 0 for unknown.
    pub start_time_unix_nano: u64,
    /// When: nanoseconds since 1970.
    pub time_unix_nano: u64,
    /// How many observations.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
    /// Pairs (`(f64, f64)`) of a quantile from 0 to 1 and its value.
    pub quantiles: Q,
    /// [`NO_RECORDED_VALUE`] or 0.
    pub flags: u32,
}

impl<'a, A> NumberPoint<A, NoExemplars<'a>> {
    /// A point without exemplars and flags.
    pub fn new(
        attributes: A,
        start_time_unix_nano: u64,
        time_unix_nano: u64,
        value: impl Into<Number>,
    ) -> Self {
        NumberPoint {
            attributes,
            start_time_unix_nano,
            time_unix_nano,
            value: Some(value.into()),
            exemplars: std::iter::empty(),
            flags: 0,
        }
    }
}

/// Field numbers of the points' messages.
pub(super) mod field {
    pub(crate) const START: u32 = 2;
    pub(crate) const TIME: u32 = 3;
    pub(crate) const COUNT: u32 = 4;
    pub(crate) const SUM: u32 = 5;

    pub(crate) mod number {
        pub(crate) const DOUBLE: u32 = 4;
        pub(crate) const EXEMPLARS: u32 = 5;
        pub(crate) const INT: u32 = 6;
        pub(crate) const ATTRIBUTES: u32 = 7;
        pub(crate) const FLAGS: u32 = 8;
    }

    pub(crate) mod histogram {
        pub(crate) const COUNTS: u32 = 6;
        pub(crate) const BOUNDS: u32 = 7;
        pub(crate) const EXEMPLARS: u32 = 8;
        pub(crate) const ATTRIBUTES: u32 = 9;
        pub(crate) const FLAGS: u32 = 10;
        pub(crate) const MIN: u32 = 11;
        pub(crate) const MAX: u32 = 12;
    }

    pub(crate) mod exponential {
        pub(crate) const ATTRIBUTES: u32 = 1;
        pub(crate) const SCALE: u32 = 6;
        pub(crate) const ZERO_COUNT: u32 = 7;
        pub(crate) const POSITIVE: u32 = 8;
        pub(crate) const NEGATIVE: u32 = 9;
        pub(crate) const FLAGS: u32 = 10;
        pub(crate) const EXEMPLARS: u32 = 11;
        pub(crate) const MIN: u32 = 12;
        pub(crate) const MAX: u32 = 13;
        pub(crate) const ZERO_THRESHOLD: u32 = 14;
    }

    pub(crate) mod buckets {
        pub(crate) const OFFSET: u32 = 1;
        pub(crate) const COUNTS: u32 = 2;
    }

    pub(crate) mod summary {
        pub(crate) const QUANTILES: u32 = 6;
        pub(crate) const ATTRIBUTES: u32 = 7;
        pub(crate) const FLAGS: u32 = 8;
    }

    pub(crate) mod quantile {
        pub(crate) const QUANTILE: u32 = 1;
        pub(crate) const VALUE: u32 = 2;
    }

    pub(crate) mod exemplar {
        pub(crate) const TIME: u32 = 2;
        pub(crate) const DOUBLE: u32 = 3;
        pub(crate) const SPAN: u32 = 4;
        pub(crate) const TRACE: u32 = 5;
        pub(crate) const INT: u32 = 6;
        pub(crate) const ATTRIBUTES: u32 = 7;
    }
}

/// A field that is left out at its default.
#[inline]
fn fixed64_unless_zero(sink: &mut impl Sink, field: u32, value: u64) {
    if value != 0 {
        sink.fixed64(field, value);
    }
}

#[inline]
fn flags(sink: &mut impl Sink, field: u32, value: u32) {
    if value != 0 {
        sink.uint64(field, u64::from(value));
    }
}

#[inline]
fn optional(sink: &mut impl Sink, field: u32, value: Option<f64>) {
    if let Some(value) = value {
        sink.double(field, value);
    }
}

#[inline]
fn number(sink: &mut impl Sink, int: u32, double: u32, value: Option<Number>) {
    match value {
        Some(Number::Int(value)) => sink.sfixed64(int, value),
        Some(Number::Double(value)) => sink.double(double, value),
        None => (),
    }
}

#[inline]
fn write_exemplars<'a, A, E>(sink: &mut impl Sink, field: u32, exemplars: &E)
where
    A: IntoIterator<Item = (&'a str, AttributeValue<'a>)> + Clone,
    E: IntoIterator<Item = Exemplar<A>> + Clone,
{
    for exemplar in exemplars.clone() {
        sink.message(field, &exemplar);
    }
}

impl<'a, A> Message for Exemplar<A>
where
    A: IntoIterator<Item = (&'a str, AttributeValue<'a>)> + Clone,
{
    fn write<S: Sink>(&self, sink: &mut S) {
        use field::exemplar::{ATTRIBUTES, DOUBLE, INT, SPAN, TIME, TRACE};
        fixed64_unless_zero(sink, TIME, self.time_unix_nano);
        number(sink, INT, DOUBLE, self.value);
        if let Some(id) = &self.span_id {
            sink.bytes(SPAN, id);
        }
        if let Some(id) = &self.trace_id {
            sink.bytes(TRACE, id);
        }
        write_attributes(sink, ATTRIBUTES, &self.filtered_attributes);
    }
}

impl<'a, 'e, A, E, X> Message for NumberPoint<A, E>
where
    A: IntoIterator<Item = (&'a str, AttributeValue<'a>)> + Clone,
    E: IntoIterator<Item = Exemplar<X>> + Clone,
    X: IntoIterator<Item = (&'e str, AttributeValue<'e>)> + Clone,
{
    #[inline]
    fn write<S: Sink>(&self, sink: &mut S) {
        use field::number::{ATTRIBUTES, DOUBLE, EXEMPLARS, FLAGS, INT};
        fixed64_unless_zero(sink, field::START, self.start_time_unix_nano);
        fixed64_unless_zero(sink, field::TIME, self.time_unix_nano);
        number(sink, INT, DOUBLE, self.value);
        write_exemplars(sink, EXEMPLARS, &self.exemplars);
        write_attributes(sink, ATTRIBUTES, &self.attributes);
        flags(sink, FLAGS, self.flags);
    }
}

impl<'a, 'e, A, B, C, E, X> Message for HistogramPoint<A, B, C, E>
where
    A: IntoIterator<Item = (&'a str, AttributeValue<'a>)> + Clone,
    B: IntoIterator<Item = f64> + Clone,
    C: IntoIterator<Item = u64> + Clone,
    E: IntoIterator<Item = Exemplar<X>> + Clone,
    X: IntoIterator<Item = (&'e str, AttributeValue<'e>)> + Clone,
{
    #[inline]
    fn write<S: Sink>(&self, sink: &mut S) {
        use field::histogram::{ATTRIBUTES, BOUNDS, COUNTS, EXEMPLARS, FLAGS, MAX, MIN};
        fixed64_unless_zero(sink, field::START, self.start_time_unix_nano);
        fixed64_unless_zero(sink, field::TIME, self.time_unix_nano);
        fixed64_unless_zero(sink, field::COUNT, self.count);
        optional(sink, field::SUM, self.sum);
        let (counts, bounds) = (self.counts.clone(), self.bounds.clone());
        packed_fixed64(sink, COUNTS, self.counts.clone().into_iter().count(), counts);
        let bounds = bounds.into_iter().map(f64::to_bits);
        packed_fixed64(sink, BOUNDS, self.bounds.clone().into_iter().count(), bounds);
        write_exemplars(sink, EXEMPLARS, &self.exemplars);
        write_attributes(sink, ATTRIBUTES, &self.attributes);
        flags(sink, FLAGS, self.flags);
        optional(sink, MIN, self.min);
        optional(sink, MAX, self.max);
    }
}

impl<'a, 'e, A, C, E, X> Message for ExponentialHistogramPoint<A, C, E>
where
    A: IntoIterator<Item = (&'a str, AttributeValue<'a>)> + Clone,
    C: IntoIterator<Item = u64> + Clone,
    E: IntoIterator<Item = Exemplar<X>> + Clone,
    X: IntoIterator<Item = (&'e str, AttributeValue<'e>)> + Clone,
{
    #[inline]
    fn write<S: Sink>(&self, sink: &mut S) {
        use field::exponential::{
            ATTRIBUTES, EXEMPLARS, FLAGS, MAX, MIN, NEGATIVE, POSITIVE, SCALE, ZERO_COUNT,
            ZERO_THRESHOLD,
        };
        write_attributes(sink, ATTRIBUTES, &self.attributes);
        fixed64_unless_zero(sink, field::START, self.start_time_unix_nano);
        fixed64_unless_zero(sink, field::TIME, self.time_unix_nano);
        fixed64_unless_zero(sink, field::COUNT, self.count);
        optional(sink, field::SUM, self.sum);
        if self.scale != 0 {
            sink.sint64(SCALE, i64::from(self.scale));
        }
        fixed64_unless_zero(sink, ZERO_COUNT, self.zero_count);
        for (number, buckets) in [(POSITIVE, &self.positive), (NEGATIVE, &self.negative)] {
            if buckets.offset != 0 || buckets.counts.clone().into_iter().next().is_some() {
                sink.message(number, buckets);
            }
        }
        flags(sink, FLAGS, self.flags);
        write_exemplars(sink, EXEMPLARS, &self.exemplars);
        optional(sink, MIN, self.min);
        optional(sink, MAX, self.max);
        fixed64_unless_zero(sink, ZERO_THRESHOLD, self.zero_threshold.to_bits());
    }
}

impl<C: IntoIterator<Item = u64> + Clone> Message for Buckets<C> {
    #[inline]
    fn write<S: Sink>(&self, sink: &mut S) {
        use field::buckets::{COUNTS, OFFSET};
        if self.offset != 0 {
            sink.sint64(OFFSET, i64::from(self.offset));
        }
        let counts = PackedVarints(&self.counts);
        if counts.0.clone().into_iter().next().is_some() {
            sink.message(COUNTS, &counts);
        }
    }
}

/// A packed list has the frame of a message.
struct PackedVarints<'a, C>(&'a C);

impl<C: IntoIterator<Item = u64> + Clone> Message for PackedVarints<'_, C> {
    #[inline]
    fn write<S: Sink>(&self, sink: &mut S) {
        for count in self.0.clone() {
            sink.varint(count);
        }
    }
}

#[inline]
fn packed_fixed64(
    sink: &mut impl Sink,
    field: u32,
    count: usize,
    values: impl IntoIterator<Item = u64>,
) {
    if count > 0 {
        sink.nested(field, 8 * count);
        for value in values {
            sink.put(&value.to_le_bytes());
        }
    }
}

impl<'a, A, Q> Message for SummaryPoint<A, Q>
where
    A: IntoIterator<Item = (&'a str, AttributeValue<'a>)> + Clone,
    Q: IntoIterator<Item = (f64, f64)> + Clone,
{
    #[inline]
    fn write<S: Sink>(&self, sink: &mut S) {
        use field::summary::{ATTRIBUTES, FLAGS, QUANTILES};
        fixed64_unless_zero(sink, field::START, self.start_time_unix_nano);
        fixed64_unless_zero(sink, field::TIME, self.time_unix_nano);
        fixed64_unless_zero(sink, field::COUNT, self.count);
        fixed64_unless_zero(sink, field::SUM, self.sum.to_bits());
        for (quantile, value) in self.quantiles.clone() {
            sink.message(QUANTILES, &ValueAtQuantile { quantile, value });
        }
        write_attributes(sink, ATTRIBUTES, &self.attributes);
        flags(sink, FLAGS, self.flags);
    }
}

struct ValueAtQuantile {
    quantile: f64,
    value: f64,
}

impl Message for ValueAtQuantile {
    #[inline]
    fn write<S: Sink>(&self, sink: &mut S) {
        fixed64_unless_zero(sink, field::quantile::QUANTILE, self.quantile.to_bits());
        fixed64_unless_zero(sink, field::quantile::VALUE, self.value.to_bits());
    }
}
