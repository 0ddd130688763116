//! From metrics to an `ExportMetricsServiceRequest`, through one buffer into a sink.
//!
//! ```
//! use wire::otlp::{Buffer, Metric, NoAttributes, NumberPoint, Resource, Scope, Temporality, measure};
//!
//! let table = [("/", 3), ("/api", -1)];
//! let mut buffer = Buffer::new();
//! let request = measure(&mut buffer, |out| {
//!     let attributes = [("service.name", "shop".into())];
//!     out.resource(&Resource { attributes, schema_url: "" });
//!     let attributes = NoAttributes::default();
//!     out.scope(&Scope { name: "orders", version: "1.2", attributes, schema_url: "" });
//!     let metric = Metric { name: "open", description: "Orders not yet paid.", unit: "{order}" };
//!     let (start, now) = (1_700_000_000_000_000_000, 1_700_000_015_000_000_000);
//!     let points = table.iter().map(|(path, open)| {
//!         NumberPoint::new([("path", (*path).into())], start, now, *open)
//!     });
//!     out.sum(&metric, Temporality::Cumulative, false, points);
//! });
//! let content_length = request.encoded_len();
//! let sent = request.fold(0, |sent, chunk| sent + chunk.len());
//! assert_eq!(sent, Ok(content_length));
//! ```
//! A message stands behind its exact length, so the metrics are gone through twice:
//!
//! 1. Measuring: what `write` tells adds up to the length of each metric, scope and resource. One number
//!    is kept for each of them, in the caller's [`Buffer`], and none for a point.
//! 2. Writing: `write` is called again and has to tell the same. A point is measured again, alone, for
//!    its own length.
//!
//! [`measure`] does the first step and knows the length of the body before its first byte; [`fold`] does
//! both. Where the second telling differs from the first (a table that changes meanwhile), what was
//! promised cannot be held: the writing ends and gives [`Changed`].
//!
//! A request of more than 2 GiB is written but not read by most: split it before.

use std::fmt;

use super::attribute::{AttributeValue, write_attributes};
use super::point::{
    Exemplar, ExponentialHistogramPoint, HistogramPoint, Metric, NumberPoint, Resource, Scope,
    SummaryPoint, Temporality,
};
use crate::protobuf::{self, Chunks, Length, Message, Sink, bytes_len};

/// Field numbers of `ExportMetricsServiceRequest`, `ResourceMetrics` and `ScopeMetrics`.
pub(super) mod field {
    pub(crate) const RESOURCE_METRICS: u32 = 1;
    pub(crate) const RESOURCE: u32 = 1;
    pub(crate) const SCOPE_METRICS: u32 = 2;
    pub(crate) const SCOPE: u32 = 1;
    pub(crate) const METRICS: u32 = 2;
    /// Of a resource and of a scope.
    pub(crate) const SCHEMA_URL: u32 = 3;

    pub(crate) mod resource {
        pub(crate) const ATTRIBUTES: u32 = 1;
    }

    pub(crate) mod scope {
        pub(crate) const NAME: u32 = 1;
        pub(crate) const VERSION: u32 = 2;
        pub(crate) const ATTRIBUTES: u32 = 3;
    }

    pub(crate) mod metric {
        pub(crate) const NAME: u32 = 1;
        pub(crate) const DESCRIPTION: u32 = 2;
        pub(crate) const UNIT: u32 = 3;
        pub(crate) const GAUGE: u32 = 5;
        pub(crate) const SUM: u32 = 7;
        pub(crate) const HISTOGRAM: u32 = 9;
        pub(crate) const EXPONENTIAL: u32 = 10;
        pub(crate) const SUMMARY: u32 = 11;
    }

    /// Of `Gauge`, `Sum`, `Histogram`, `ExponentialHistogram` and `Summary`, as far as they have them.
    pub(crate) mod data {
        pub(crate) const POINTS: u32 = 1;
        pub(crate) const TEMPORALITY: u32 = 2;
        pub(crate) const MONOTONIC: u32 = 3;
    }
}

/// The memory that writing needs: a chunk, and a number for each metric, scope and resource. Make one and
/// use it for every request.
#[derive(Debug, Default)]
pub struct Buffer {
    chunk: protobuf::Buffer,
    /// The lengths in the order in which the messages begin.
    lengths: Vec<usize>,
}

impl Buffer {
    /// Allocates a chunk. *Setup.*
    pub fn new() -> Self {
        Buffer::default()
    }

    /// The bytes on the heap.
    pub fn memory_usage(&self) -> usize {
        self.chunk.memory_usage() + self.lengths.capacity() * size_of::<usize>()
    }
}

/// What was told the second time was not what was told the first time. What the sink has had is no request
/// and may be shorter than was promised: end the connection, and begin again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed;

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("otlp: the metrics changed while they were written; discard what was sent")
    }
}

impl std::error::Error for Changed {}

/// Writes a request: `write` says what, twice; `fold` takes each chunk of at most 64 KiB with the state
/// so far and gives the next. *Steady* once `buffer` has seen as many metrics.
///
/// # Errors
/// [`Changed`]: the chunks so far are no request.
pub fn fold<S>(
    buffer: &mut Buffer,
    state: S,
    fold: impl FnMut(S, &[u8]) -> S,
    write: impl FnMut(&mut Writer<'_>),
) -> Result<S, Changed> {
    measure(buffer, write).fold(state, fold)
}

/// Measures a request, to write it afterwards. *Steady* once `buffer` has seen as many metrics.
pub fn measure<W: FnMut(&mut Writer<'_>)>(buffer: &mut Buffer, mut write: W) -> Measured<'_, W> {
    buffer.lengths.clear();
    let measuring =
        Measuring { lengths: &mut buffer.lengths, total: 0, resource: None, scope: None };
    let mut writer = Writer { pass: Pass::Measure(measuring) };
    write(&mut writer);
    let length = writer.finish().unwrap_or_default();
    Measured { buffer, write, length }
}

/// A request whose length is known.
pub struct Measured<'b, W> {
    buffer: &'b mut Buffer,
    write: W,
    length: usize,
}

impl<W> fmt::Debug for Measured<'_, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Measured").field("length", &self.length).finish_non_exhaustive()
    }
}

impl<W: FnMut(&mut Writer<'_>)> Measured<'_, W> {
    /// The bytes of the body, exactly.
    pub fn encoded_len(&self) -> usize {
        self.length
    }

    /// Writes it; see [`fold`](fn@fold). *Steady.*
    ///
    /// # Errors
    /// [`Changed`]: the chunks so far are no request.
    pub fn fold<S>(self, state: S, mut fold: impl FnMut(S, &[u8]) -> S) -> Result<S, Changed> {
        let Measured { buffer: Buffer { chunk, lengths }, mut write, length } = self;
        // Absent only while the fold has it.
        let mut slot = Some(state);
        let mut sink = |chunk: &[u8]| slot = slot.take().map(|state| fold(state, chunk));
        let writing = Writing {
            chunks: Chunks::new(chunk, &mut sink),
            lengths: lengths.iter(),
            resource_end: None,
            scope_end: None,
            changed: false,
        };
        let mut writer = Writer { pass: Pass::Write(writing) };
        write(&mut writer);
        if writer.finish()? != length {
            return Err(Changed);
        }
        Ok(slot.expect("the fold gives its state back"))
    }
}

/// Is told resources, their scopes and the scopes' metrics.
#[derive(Debug)]
pub struct Writer<'p> {
    pass: Pass<'p>,
}

/// Which of the two steps it is.
#[derive(Debug)]
enum Pass<'p> {
    Measure(Measuring<'p>),
    Write(Writing<'p>),
}

/// # Panics
/// The caller's fault and found by its first test: a scope before the first resource, a metric before
/// the resource's first scope.
impl Writer<'_> {
    /// Begins a resource; the scopes that follow are its.
    pub fn resource<'a, A>(&mut self, resource: &Resource<'_, A>)
    where
        A: IntoIterator<Item = (&'a str, AttributeValue<'a>)> + Clone,
    {
        match &mut self.pass {
            Pass::Measure(measuring) => measuring.resource(Length::of(|sink| head(sink, resource))),
            Pass::Write(writing) => writing.resource(|chunks| head(chunks, resource)),
        }
        fn head<'a, A>(sink: &mut impl Sink, resource: &Resource<'_, A>)
        where
            A: IntoIterator<Item = (&'a str, AttributeValue<'a>)> + Clone,
        {
            sink.message(field::RESOURCE, &ResourceMessage(&resource.attributes));
            string(sink, field::SCHEMA_URL, resource.schema_url);
        }
    }

    /// Begins a scope; the metrics that follow are its.
    pub fn scope<'a, A>(&mut self, scope: &Scope<'_, A>)
    where
        A: IntoIterator<Item = (&'a str, AttributeValue<'a>)> + Clone,
    {
        match &mut self.pass {
            Pass::Measure(measuring) => measuring.scope(Length::of(|sink| head(sink, scope))),
            Pass::Write(writing) => writing.scope(|chunks| head(chunks, scope)),
        }
        fn head<'a, A>(sink: &mut impl Sink, scope: &Scope<'_, A>)
        where
            A: IntoIterator<Item = (&'a str, AttributeValue<'a>)> + Clone,
        {
            sink.message(field::SCOPE, &ScopeMessage(scope));
            string(sink, field::SCHEMA_URL, scope.schema_url);
        }
    }

    /// A gauge and its points.
    pub fn gauge<'a, 'e, A, E, X>(
        &mut self,
        metric: &Metric<'_>,
        points: impl IntoIterator<Item = NumberPoint<A, E>>,
    ) where
        A: IntoIterator<Item = (&'a str, AttributeValue<'a>)> + Clone,
        E: IntoIterator<Item = Exemplar<X>> + Clone,
        X: IntoIterator<Item = (&'e str, AttributeValue<'e>)> + Clone,
    {
        let nature = Nature { temporality: Temporality::Unspecified, monotonic: false };
        self.metric(metric, field::metric::GAUGE, nature, points);
    }

    /// A sum and its points.
    pub fn sum<'a, 'e, A, E, X>(
        &mut self,
        metric: &Metric<'_>,
        temporality: Temporality,
        monotonic: bool,
        points: impl IntoIterator<Item = NumberPoint<A, E>>,
    ) where
        A: IntoIterator<Item = (&'a str, AttributeValue<'a>)> + Clone,
        E: IntoIterator<Item = Exemplar<X>> + Clone,
        X: IntoIterator<Item = (&'e str, AttributeValue<'e>)> + Clone,
    {
        self.metric(metric, field::metric::SUM, Nature { temporality, monotonic }, points);
    }

    /// A histogram with explicit bounds and its points.
    pub fn histogram<'a, 'e, A, B, C, E, X>(
        &mut self,
        metric: &Metric<'_>,
        temporality: Temporality,
        points: impl IntoIterator<Item = HistogramPoint<A, B, C, E>>,
    ) where
        A: IntoIterator<Item = (&'a str, AttributeValue<'a>)> + Clone,
        B: IntoIterator<Item = f64> + Clone,
        C: IntoIterator<Item = u64> + Clone,
        E: IntoIterator<Item = Exemplar<X>> + Clone,
        X: IntoIterator<Item = (&'e str, AttributeValue<'e>)> + Clone,
    {
        let nature = Nature { temporality, monotonic: false };
        self.metric(metric, field::metric::HISTOGRAM, nature, points);
    }

    /// An exponential histogram and its points.
    pub fn exponential_histogram<'a, 'e, A, C, E, X>(
        &mut self,
        metric: &Metric<'_>,
        temporality: Temporality,
        points: impl IntoIterator<Item = ExponentialHistogramPoint<A, C, E>>,
    ) where
        A: IntoIterator<Item = (&'a str, AttributeValue<'a>)> + Clone,
        C: IntoIterator<Item = u64> + Clone,
        E: IntoIterator<Item = Exemplar<X>> + Clone,
        X: IntoIterator<Item = (&'e str, AttributeValue<'e>)> + Clone,
    {
        let nature = Nature { temporality, monotonic: false };
        self.metric(metric, field::metric::EXPONENTIAL, nature, points);
    }

    /// A summary and its points.
    pub fn summary<'a, A, Q>(
        &mut self,
        metric: &Metric<'_>,
        points: impl IntoIterator<Item = SummaryPoint<A, Q>>,
    ) where
        A: IntoIterator<Item = (&'a str, AttributeValue<'a>)> + Clone,
        Q: IntoIterator<Item = (f64, f64)> + Clone,
    {
        let nature = Nature { temporality: Temporality::Unspecified, monotonic: false };
        self.metric(metric, field::metric::SUMMARY, nature, points);
    }

    fn metric<M: Message>(
        &mut self,
        metric: &Metric<'_>,
        kind: u32,
        nature: Nature,
        points: impl IntoIterator<Item = M>,
    ) {
        match &mut self.pass {
            Pass::Measure(measuring) => measuring.metric(metric, kind, nature, points),
            Pass::Write(writing) => writing.metric(metric, kind, nature, points),
        }
    }

    /// How long the body is, or whether it is none.
    fn finish(self) -> Result<usize, Changed> {
        match self.pass {
            Pass::Measure(mut measuring) => {
                measuring.end_resource();
                Ok(measuring.total)
            }
            Pass::Write(writing) => writing.finish(),
        }
    }
}

#[inline]
fn string(sink: &mut impl Sink, field: u32, value: &str) {
    if !value.is_empty() {
        sink.string(field, value);
    }
}

struct ResourceMessage<'r, A>(&'r A);

impl<'a, A> Message for ResourceMessage<'_, A>
where
    A: IntoIterator<Item = (&'a str, AttributeValue<'a>)> + Clone,
{
    fn write<S: Sink>(&self, sink: &mut S) {
        write_attributes(sink, field::resource::ATTRIBUTES, self.0);
    }
}

struct ScopeMessage<'r, 's, A>(&'r Scope<'s, A>);

impl<'a, A> Message for ScopeMessage<'_, '_, A>
where
    A: IntoIterator<Item = (&'a str, AttributeValue<'a>)> + Clone,
{
    fn write<S: Sink>(&self, sink: &mut S) {
        string(sink, field::scope::NAME, self.0.name);
        string(sink, field::scope::VERSION, self.0.version);
        write_attributes(sink, field::scope::ATTRIBUTES, &self.0.attributes);
    }
}

/// What a metric says of itself before its points.
impl Message for Metric<'_> {
    fn write<S: Sink>(&self, sink: &mut S) {
        string(sink, field::metric::NAME, self.name);
        string(sink, field::metric::DESCRIPTION, self.description);
        string(sink, field::metric::UNIT, self.unit);
    }
}

/// What a metric's data say behind the points.
#[derive(Clone, Copy)]
struct Nature {
    temporality: Temporality,
    monotonic: bool,
}

impl Message for Nature {
    fn write<S: Sink>(&self, sink: &mut S) {
        if self.temporality != Temporality::Unspecified {
            sink.uint64(field::data::TEMPORALITY, self.temporality.number());
        }
        if self.monotonic {
            sink.bool(field::data::MONOTONIC, true);
        }
    }
}

/// The first step.
#[derive(Debug)]
struct Measuring<'p> {
    lengths: &'p mut Vec<usize>,
    /// The lengths of the resources that ended.
    total: usize,
    /// Which of the lengths is the current resource's, which the current scope's.
    resource: Option<usize>,
    scope: Option<usize>,
}

impl Measuring<'_> {
    fn resource(&mut self, head: usize) {
        self.end_resource();
        self.resource = Some(self.lengths.len());
        self.lengths.push(head);
    }

    fn scope(&mut self, head: usize) {
        assert!(self.resource.is_some(), "a scope belongs to a resource");
        self.end_scope();
        self.scope = Some(self.lengths.len());
        self.lengths.push(head);
    }

    fn metric<M: Message>(
        &mut self,
        metric: &Metric<'_>,
        kind: u32,
        nature: Nature,
        points: impl IntoIterator<Item = M>,
    ) {
        let scope = self.scope.expect("a metric belongs to a scope");
        let mut data = nature.encoded_len();
        for point in points {
            data += bytes_len(field::data::POINTS, point.encoded_len());
        }
        self.lengths.push(data);
        let metric = metric.encoded_len() + bytes_len(kind, data);
        self.lengths[scope] += bytes_len(field::METRICS, metric);
    }

    fn end_scope(&mut self) {
        if let (Some(resource), Some(scope)) = (self.resource, self.scope.take()) {
            self.lengths[resource] += bytes_len(field::SCOPE_METRICS, self.lengths[scope]);
        }
    }

    fn end_resource(&mut self) {
        self.end_scope();
        if let Some(resource) = self.resource.take() {
            self.total += bytes_len(field::RESOURCE_METRICS, self.lengths[resource]);
        }
    }
}

/// The second step. After the first difference it writes nothing more.
#[derive(Debug)]
struct Writing<'p> {
    chunks: Chunks<'p>,
    lengths: std::slice::Iter<'p, usize>,
    /// Where the current resource and the current scope have to end.
    resource_end: Option<u64>,
    scope_end: Option<u64>,
    changed: bool,
}

impl Writing<'_> {
    /// The next message's length, and where it begins to count.
    fn next_length(&mut self) -> Option<usize> {
        let length = self.lengths.next().copied();
        self.changed |= length.is_none();
        length.filter(|_| !self.changed)
    }

    fn resource(&mut self, head: impl FnOnce(&mut Chunks<'_>)) {
        self.end_resource();
        if let Some(length) = self.next_length() {
            self.chunks.nested(field::RESOURCE_METRICS, length);
            self.resource_end = Some(self.chunks.position() + length as u64);
            head(&mut self.chunks);
        }
    }

    fn scope(&mut self, head: impl FnOnce(&mut Chunks<'_>)) {
        self.end_scope();
        if let Some(length) = self.next_length() {
            self.chunks.nested(field::SCOPE_METRICS, length);
            self.scope_end = Some(self.chunks.position() + length as u64);
            head(&mut self.chunks);
        }
    }

    fn metric<M: Message>(
        &mut self,
        metric: &Metric<'_>,
        kind: u32,
        nature: Nature,
        points: impl IntoIterator<Item = M>,
    ) {
        let Some(length) = self.next_length() else { return };
        let chunks = &mut self.chunks;
        chunks.nested(field::METRICS, metric.encoded_len() + bytes_len(kind, length));
        metric.write(chunks);
        chunks.nested(kind, length);
        let end = chunks.position() + length as u64;
        for point in points {
            chunks.message(field::data::POINTS, &point);
        }
        nature.write(chunks);
        self.expect_end(end);
    }

    fn expect_end(&mut self, end: u64) {
        self.changed |= self.chunks.position() != end;
    }

    fn end_scope(&mut self) {
        if let Some(end) = self.scope_end.take() {
            self.expect_end(end);
        }
    }

    fn end_resource(&mut self) {
        self.end_scope();
        if let Some(end) = self.resource_end.take() {
            self.expect_end(end);
        }
    }

    fn finish(mut self) -> Result<usize, Changed> {
        self.end_resource();
        if self.changed || self.lengths.next().is_some() {
            return Err(Changed);
        }
        let length = self.chunks.position() as usize;
        self.chunks.finish();
        Ok(length)
    }
}
