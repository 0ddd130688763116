//! An `ExportMetricsServiceRequest`, lent from its bytes.
//!
//! ```text
//! for resource in Request::new(body).resources() {
//!     let ResourceMetrics { resource, scopes } = resource?;
//!     for scope in scopes {
//!         for metric in scope?.metrics {
//!             if let Data::Sum { points, .. } = metric?.data { for point in points { … point?.value … } }
//! ```
//! Each iterator finds the messages of its kind where they stand and reads of them what is no list; the
//! lists in them are iterators again. So nothing is kept, a message is gone through once for itself and
//! once for each of its lists, and an error comes where it is reached. Who must take all or nothing calls
//! [`Request::check`] before. The nesting is that of the schema; where a value holds values, see
//! [`Walk`]. *Steady*, all of it.

use std::fmt;
use std::marker::PhantomData;

use super::attribute::{AttributeValue, Step, Walk, read_entry};
use super::point::{
    Buckets, Exemplar, ExponentialHistogramPoint, HistogramPoint, Metric, Number, NumberPoint,
    Resource, Scope, SummaryPoint, Temporality, field as point_field,
};
use super::writer::field;
use crate::protobuf::{Error, Field, Packed, Reader, Reason};

/// A request's bytes.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    body: &'a [u8],
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("length", &self.body.len()).finish()
    }
}

impl<'a> Request<'a> {
    /// Takes `body`, uncompressed, and reads nothing yet.
    pub fn new(body: &'a [u8]) -> Self {
        Request { body }
    }

    /// The resources.
    pub fn resources(&self) -> Messages<'a, ResourceMetrics<'a>> {
        Messages::new(Reader::new(self.body), field::RESOURCE_METRICS)
    }

    /// Reads everything there is and says how many points that are.
    ///
    /// # Errors
    /// The first fault; without one no iterator over this request gives one.
    pub fn check(&self) -> Result<usize, Error> {
        let mut points = 0;
        for resource in self.resources() {
            let resource = resource?;
            check_attributes(&resource.resource.attributes)?;
            for scope in resource.scopes {
                let scope = scope?;
                check_attributes(&scope.scope.attributes)?;
                for metric in scope.metrics {
                    points += check_data(metric?.data)?;
                }
            }
        }
        Ok(points)
    }
}

/// The metrics of a resource.
#[derive(Clone, Debug)]
pub struct ResourceMetrics<'a> {
    /// Who is measured.
    pub resource: Resource<'a, Attributes<'a>>,
    /// Their scopes.
    pub scopes: Messages<'a, ScopeMetrics<'a>>,
}

/// The metrics of a scope.
#[derive(Clone, Debug)]
pub struct ScopeMetrics<'a> {
    /// Who measures.
    pub scope: Scope<'a, Attributes<'a>>,
    /// The metrics.
    pub metrics: Messages<'a, MetricPoints<'a>>,
}

/// A metric with its points.
#[derive(Clone, Debug)]
pub struct MetricPoints<'a> {
    /// What it is called.
    pub metric: Metric<'a>,
    /// Its points.
    pub data: Data<'a>,
}

/// The points of a metric, according to what it is.
#[derive(Clone, Debug)]
pub enum Data<'a> {
    /// None, or of a kind that came after this version.
    Empty,
    /// A gauge.
    Gauge {
        /// Its points.
        points: Messages<'a, NumberPoint<Attributes<'a>, Exemplars<'a>>>,
    },
    /// A sum.
    Sum {
        /// What its points count from.
        temporality: Temporality,
        /// Whether it never falls.
        monotonic: bool,
        /// Its points.
        points: Messages<'a, NumberPoint<Attributes<'a>, Exemplars<'a>>>,
    },
    /// A histogram with explicit bounds.
    Histogram {
        /// What its points count from.
        temporality: Temporality,
        /// Its points.
        points: Messages<'a, HistogramPoint<Attributes<'a>, Bounds<'a>, Counts<'a>, Exemplars<'a>>>,
    },
    /// An exponential histogram.
    ExponentialHistogram {
        /// What its points count from.
        temporality: Temporality,
        /// Its points.
        points: Messages<'a, ExponentialHistogramPoint<Attributes<'a>, Counts<'a>, Exemplars<'a>>>,
    },
    /// A summary.
    Summary {
        /// Its points.
        points: Messages<'a, SummaryPoint<Attributes<'a>, Quantiles<'a>>>,
    },
}

/// Attributes: pairs of key and value.
pub type Attributes<'a> = Messages<'a, (&'a str, AttributeValue<'a>)>;

/// A point's exemplars.
pub type Exemplars<'a> = Messages<'a, Exemplar<Attributes<'a>>>;

/// A summary's pairs of quantile and value.
pub type Quantiles<'a> = Messages<'a, (f64, f64)>;

/// What [`Messages`] can read; for what is of this module alone.
pub trait FromMessage<'a>: Sized {
    /// Reads what is no list, and where the lists are.
    ///
    /// # Errors
    /// A fault in what is read.
    fn from_message(message: Reader<'a>) -> Result<Self, Error>;
}

/// The nested messages of one field. After an error there is nothing more.
pub struct Messages<'a, T> {
    reader: Reader<'a>,
    number: u32,
    item: PhantomData<fn() -> T>,
}

impl<T> Clone for Messages<'_, T> {
    fn clone(&self) -> Self {
        Messages { reader: self.reader.clone(), number: self.number, item: PhantomData }
    }
}

impl<T> fmt::Debug for Messages<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Messages").field("offset", &self.reader.offset()).finish_non_exhaustive()
    }
}

impl<'a, T> Messages<'a, T> {
    pub(super) fn new(reader: Reader<'a>, number: u32) -> Self {
        Messages { reader, number, item: PhantomData }
    }

    /// None at all.
    pub(super) fn none() -> Self {
        Messages::new(Reader::new(&[]), 0)
    }

    /// Has them begin at `first` unless they did before: who has seen where they are needs no look at what
    /// stands before.
    #[inline]
    fn begin(&mut self, first: Reader<'a>, number: u32) {
        if self.number != number {
            *self = Messages::new(first, number);
        }
    }

    /// The next of them, unread.
    #[inline]
    pub(super) fn next_message(&mut self) -> Option<Result<Reader<'a>, Error>> {
        loop {
            match self.reader.next()? {
                Ok(field) if field.number == self.number => return Some(field.message()),
                Ok(_) => (),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl<'a, T: FromMessage<'a>> Iterator for Messages<'a, T> {
    type Item = Result<T, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let item = self.next_message()?.and_then(T::from_message);
        if item.is_err() {
            self.reader = Reader::new(&[]);
        }
        Some(item)
    }
}

/// The whole numbers of a list, be they in one field or in many. After an error there is nothing more.
#[derive(Clone, Debug)]
pub struct Counts<'a> {
    reader: Reader<'a>,
    number: u32,
    layout: fn(&Field<'a>) -> Result<Packed<'a>, Error>,
    current: Option<Packed<'a>>,
}

impl<'a> Counts<'a> {
    fn fixed64s(reader: Reader<'a>, number: u32) -> Self {
        Counts { reader, number, layout: Field::fixed64s, current: None }
    }

    fn varints(reader: Reader<'a>, number: u32) -> Self {
        Counts { reader, number, layout: Field::varints, current: None }
    }

    fn next_list(&mut self) -> Option<Result<Packed<'a>, Error>> {
        loop {
            match self.reader.next()? {
                Ok(field) if field.number == self.number => return Some((self.layout)(&field)),
                Ok(_) => (),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Iterator for Counts<'_> {
    type Item = Result<u64, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let item = match self.current.as_mut().and_then(Iterator::next) {
                Some(item) => item,
                None => match self.next_list()? {
                    Ok(list) => {
                        self.current = Some(list);
                        continue;
                    }
                    Err(error) => Err(error),
                },
            };
            if item.is_err() {
                self.reader = Reader::new(&[]);
                self.current = None;
            }
            return Some(item);
        }
    }
}

/// The bounds of a histogram. After an error there is nothing more.
#[derive(Clone, Debug)]
pub struct Bounds<'a>(Counts<'a>);

impl Iterator for Bounds<'_> {
    type Item = Result<f64, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|bits| bits.map(f64::from_bits))
    }
}

impl<'a> FromMessage<'a> for ResourceMetrics<'a> {
    fn from_message(message: Reader<'a>) -> Result<Self, Error> {
        let mut resource = Resource { attributes: Messages::none(), schema_url: "" };
        for field in message.clone() {
            let field = field?;
            match field.number {
                field::RESOURCE => {
                    let of_resource = field.message()?;
                    resource.attributes = Messages::new(of_resource, field::resource::ATTRIBUTES);
                }
                field::SCHEMA_URL => resource.schema_url = field.string()?,
                _ => (),
            }
        }
        Ok(ResourceMetrics { resource, scopes: Messages::new(message, field::SCOPE_METRICS) })
    }
}

impl<'a> FromMessage<'a> for ScopeMetrics<'a> {
    fn from_message(message: Reader<'a>) -> Result<Self, Error> {
        let mut scope =
            Scope { name: "", version: "", attributes: Messages::none(), schema_url: "" };
        for field in message.clone() {
            let field = field?;
            match field.number {
                field::SCOPE => read_scope(field.message()?, &mut scope)?,
                field::SCHEMA_URL => scope.schema_url = field.string()?,
                _ => (),
            }
        }
        Ok(ScopeMetrics { scope, metrics: Messages::new(message, field::METRICS) })
    }
}

fn read_scope<'a>(message: Reader<'a>, scope: &mut Scope<'a, Attributes<'a>>) -> Result<(), Error> {
    (scope.name, scope.version) = ("", "");
    scope.attributes = Messages::new(message.clone(), field::scope::ATTRIBUTES);
    for field in message {
        let field = field?;
        match field.number {
            field::scope::NAME => scope.name = field.string()?,
            field::scope::VERSION => scope.version = field.string()?,
            _ => (),
        }
    }
    Ok(())
}

impl<'a> FromMessage<'a> for MetricPoints<'a> {
    fn from_message(message: Reader<'a>) -> Result<Self, Error> {
        use field::metric::{DESCRIPTION, EXPONENTIAL, GAUGE, HISTOGRAM, NAME, SUM, SUMMARY, UNIT};
        let mut metric = Metric { name: "", description: "", unit: "" };
        let mut data = Data::Empty;
        for field in message {
            let field = field?;
            match field.number {
                NAME => metric.name = field.string()?,
                DESCRIPTION => metric.description = field.string()?,
                UNIT => metric.unit = field.string()?,
                GAUGE | SUM | HISTOGRAM | EXPONENTIAL | SUMMARY => {
                    data = read_data(field.number, field.message()?)?;
                }
                _ => (),
            }
        }
        Ok(MetricPoints { metric, data })
    }
}

fn read_data(kind: u32, message: Reader<'_>) -> Result<Data<'_>, Error> {
    use field::data::{MONOTONIC, POINTS, TEMPORALITY};
    let has_temporality = !matches!(kind, field::metric::GAUGE | field::metric::SUMMARY);
    let mut temporality = Temporality::Unspecified;
    let mut monotonic = false;
    for field in message.clone() {
        let field = field?;
        match field.number {
            TEMPORALITY if has_temporality => {
                temporality = Temporality::from_number(field.int32()?);
            }
            MONOTONIC if kind == field::metric::SUM => monotonic = field.bool()?,
            _ => (),
        }
    }
    Ok(match kind {
        field::metric::GAUGE => Data::Gauge { points: Messages::new(message, POINTS) },
        field::metric::SUM => {
            Data::Sum { temporality, monotonic, points: Messages::new(message, POINTS) }
        }
        field::metric::HISTOGRAM => {
            Data::Histogram { temporality, points: Messages::new(message, POINTS) }
        }
        field::metric::EXPONENTIAL => {
            Data::ExponentialHistogram { temporality, points: Messages::new(message, POINTS) }
        }
        _ => Data::Summary { points: Messages::new(message, POINTS) },
    })
}

impl<'a> FromMessage<'a> for (&'a str, AttributeValue<'a>) {
    #[inline]
    fn from_message(message: Reader<'a>) -> Result<Self, Error> {
        read_entry(message).map(|entry| (entry.key, entry.value))
    }
}

impl<'a> FromMessage<'a> for NumberPoint<Attributes<'a>, Exemplars<'a>> {
    #[inline]
    fn from_message(mut message: Reader<'a>) -> Result<Self, Error> {
        use point_field::number::{ATTRIBUTES, DOUBLE, EXEMPLARS, FLAGS, INT};
        let mut point = NumberPoint {
            attributes: Messages::none(),
            start_time_unix_nano: 0,
            time_unix_nano: 0,
            value: None,
            exemplars: Messages::none(),
            flags: 0,
        };
        while let (here, Some(field)) = (message.clone(), message.next()) {
            let field = field?;
            match field.number {
                ATTRIBUTES => point.attributes.begin(here, ATTRIBUTES),
                EXEMPLARS => point.exemplars.begin(here, EXEMPLARS),
                point_field::START => point.start_time_unix_nano = field.fixed64()?,
                point_field::TIME => point.time_unix_nano = field.fixed64()?,
                DOUBLE => point.value = Some(Number::Double(field.double()?)),
                INT => point.value = Some(Number::Int(field.sfixed64()?)),
                FLAGS => point.flags = field.uint32()?,
                _ => (),
            }
        }
        Ok(point)
    }
}

impl<'a> FromMessage<'a> for HistogramPoint<Attributes<'a>, Bounds<'a>, Counts<'a>, Exemplars<'a>> {
    fn from_message(mut message: Reader<'a>) -> Result<Self, Error> {
        use point_field::histogram::{ATTRIBUTES, BOUNDS, COUNTS, EXEMPLARS, FLAGS, MAX, MIN};
        let mut point = HistogramPoint {
            attributes: Messages::none(),
            start_time_unix_nano: 0,
            time_unix_nano: 0,
            count: 0,
            sum: None,
            min: None,
            max: None,
            bounds: Bounds(Counts::fixed64s(message.clone(), BOUNDS)),
            counts: Counts::fixed64s(message.clone(), COUNTS),
            exemplars: Messages::none(),
            flags: 0,
        };
        while let (here, Some(field)) = (message.clone(), message.next()) {
            let field = field?;
            match field.number {
                ATTRIBUTES => point.attributes.begin(here, ATTRIBUTES),
                EXEMPLARS => point.exemplars.begin(here, EXEMPLARS),
                point_field::START => point.start_time_unix_nano = field.fixed64()?,
                point_field::TIME => point.time_unix_nano = field.fixed64()?,
                point_field::COUNT => point.count = field.fixed64()?,
                point_field::SUM => point.sum = Some(field.double()?),
                MIN => point.min = Some(field.double()?),
                MAX => point.max = Some(field.double()?),
                FLAGS => point.flags = field.uint32()?,
                _ => (),
            }
        }
        Ok(point)
    }
}

impl<'a> FromMessage<'a> for ExponentialHistogramPoint<Attributes<'a>, Counts<'a>, Exemplars<'a>> {
    fn from_message(mut message: Reader<'a>) -> Result<Self, Error> {
        use point_field::exponential::{
            ATTRIBUTES, EXEMPLARS, FLAGS, MAX, MIN, NEGATIVE, POSITIVE, SCALE, ZERO_COUNT,
            ZERO_THRESHOLD,
        };
        let mut point = ExponentialHistogramPoint {
            attributes: Messages::none(),
            start_time_unix_nano: 0,
            time_unix_nano: 0,
            count: 0,
            sum: None,
            min: None,
            max: None,
            scale: 0,
            zero_count: 0,
            zero_threshold: 0.0,
            positive: read_buckets(Reader::new(&[]))?,
            negative: read_buckets(Reader::new(&[]))?,
            exemplars: Messages::none(),
            flags: 0,
        };
        while let (here, Some(field)) = (message.clone(), message.next()) {
            let field = field?;
            match field.number {
                ATTRIBUTES => point.attributes.begin(here, ATTRIBUTES),
                EXEMPLARS => point.exemplars.begin(here, EXEMPLARS),
                point_field::START => point.start_time_unix_nano = field.fixed64()?,
                point_field::TIME => point.time_unix_nano = field.fixed64()?,
                point_field::COUNT => point.count = field.fixed64()?,
                point_field::SUM => point.sum = Some(field.double()?),
                MIN => point.min = Some(field.double()?),
                MAX => point.max = Some(field.double()?),
                SCALE => point.scale = field.sint32()?,
                ZERO_COUNT => point.zero_count = field.fixed64()?,
                ZERO_THRESHOLD => point.zero_threshold = field.double()?,
                POSITIVE => point.positive = read_buckets(field.message()?)?,
                NEGATIVE => point.negative = read_buckets(field.message()?)?,
                FLAGS => point.flags = field.uint32()?,
                _ => (),
            }
        }
        Ok(point)
    }
}

fn read_buckets(message: Reader<'_>) -> Result<Buckets<Counts<'_>>, Error> {
    use point_field::buckets::{COUNTS, OFFSET};
    let mut buckets = Buckets { offset: 0, counts: Counts::varints(message.clone(), COUNTS) };
    for field in message {
        let field = field?;
        if field.number == OFFSET {
            buckets.offset = field.sint32()?;
        }
    }
    Ok(buckets)
}

impl<'a> FromMessage<'a> for SummaryPoint<Attributes<'a>, Quantiles<'a>> {
    fn from_message(mut message: Reader<'a>) -> Result<Self, Error> {
        use point_field::summary::{ATTRIBUTES, FLAGS, QUANTILES};
        let mut point = SummaryPoint {
            attributes: Messages::none(),
            start_time_unix_nano: 0,
            time_unix_nano: 0,
            count: 0,
            sum: 0.0,
            quantiles: Messages::new(message.clone(), QUANTILES),
            flags: 0,
        };
        while let (here, Some(field)) = (message.clone(), message.next()) {
            let field = field?;
            match field.number {
                ATTRIBUTES => point.attributes.begin(here, ATTRIBUTES),
                point_field::START => point.start_time_unix_nano = field.fixed64()?,
                point_field::TIME => point.time_unix_nano = field.fixed64()?,
                point_field::COUNT => point.count = field.fixed64()?,
                point_field::SUM => point.sum = field.double()?,
                FLAGS => point.flags = field.uint32()?,
                _ => (),
            }
        }
        Ok(point)
    }
}

impl<'a> FromMessage<'a> for (f64, f64) {
    fn from_message(message: Reader<'a>) -> Result<Self, Error> {
        let (mut quantile, mut value) = (0.0, 0.0);
        for field in message {
            let field = field?;
            match field.number {
                point_field::quantile::QUANTILE => quantile = field.double()?,
                point_field::quantile::VALUE => value = field.double()?,
                _ => (),
            }
        }
        Ok((quantile, value))
    }
}

impl<'a> FromMessage<'a> for Exemplar<Attributes<'a>> {
    fn from_message(message: Reader<'a>) -> Result<Self, Error> {
        use point_field::exemplar::{ATTRIBUTES, DOUBLE, INT, SPAN, TIME, TRACE};
        let mut exemplar = Exemplar {
            filtered_attributes: Messages::new(message.clone(), ATTRIBUTES),
            time_unix_nano: 0,
            value: None,
            trace_id: None,
            span_id: None,
        };
        for field in message {
            let field = field?;
            match field.number {
                TIME => exemplar.time_unix_nano = field.fixed64()?,
                DOUBLE => exemplar.value = Some(Number::Double(field.double()?)),
                INT => exemplar.value = Some(Number::Int(field.sfixed64()?)),
                TRACE => exemplar.trace_id = read_id(&field)?,
                SPAN => exemplar.span_id = read_id(&field)?,
                _ => (),
            }
        }
        Ok(exemplar)
    }
}

/// An id has all its bytes or is not there.
fn read_id<const N: usize>(field: &Field<'_>) -> Result<Option<[u8; N]>, Error> {
    match field.bytes()? {
        [] => Ok(None),
        id => id.try_into().map(Some).map_err(|_| field.error(Reason::Value)),
    }
}

fn check_attributes(attributes: &Attributes<'_>) -> Result<(), Error> {
    let mut attributes = attributes.clone();
    while let Some(message) = attributes.next_message() {
        let entry = read_entry(message?)?;
        // Most values hold no others.
        if matches!(entry.value, AttributeValue::Array(_) | AttributeValue::Map(_)) {
            Walk::at(entry.value, entry.offset).try_for_each(|step| step.map(drop::<Step<'_>>))?;
        }
    }
    Ok(())
}

fn check_exemplars(exemplars: Exemplars<'_>) -> Result<(), Error> {
    for exemplar in exemplars {
        check_attributes(&exemplar?.filtered_attributes)?;
    }
    Ok(())
}

/// Reads all that the points hold and says how many there are.
fn check_data(data: Data<'_>) -> Result<usize, Error> {
    let mut count = 0;
    match data {
        Data::Empty => (),
        Data::Gauge { points } | Data::Sum { points, .. } => {
            for point in points {
                let point = point?;
                check_attributes(&point.attributes)?;
                check_exemplars(point.exemplars)?;
                count += 1;
            }
        }
        Data::Histogram { points, .. } => {
            for point in points {
                let mut point = point?;
                check_attributes(&point.attributes)?;
                check_exemplars(point.exemplars)?;
                point.counts.try_for_each(|count| count.map(drop))?;
                point.bounds.try_for_each(|bound| bound.map(drop))?;
                count += 1;
            }
        }
        Data::ExponentialHistogram { points, .. } => {
            for point in points {
                let mut point = point?;
                check_attributes(&point.attributes)?;
                check_exemplars(point.exemplars)?;
                point.positive.counts.try_for_each(|count| count.map(drop))?;
                point.negative.counts.try_for_each(|count| count.map(drop))?;
                count += 1;
            }
        }
        Data::Summary { points } => {
            for point in points {
                let mut point = point?;
                check_attributes(&point.attributes)?;
                point.quantiles.try_for_each(|quantile| quantile.map(drop))?;
                count += 1;
            }
        }
    }
    Ok(count)
}
