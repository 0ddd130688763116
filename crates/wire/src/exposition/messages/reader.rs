//! From a body to families and metrics, one at a time, without a copy.
//!
//! 1. A family's message is gone through once for its name, help, type and unit, wherever they stand.
//! 2. Then each of its metrics is gone through once and checked to its last byte; what is handed out
//!    goes through the checked bytes again when it is asked, and can't fail.

use super::field;
use super::histogram::{self, Histogram};
use super::kind_of;
use crate::exposition::Kind;
use crate::protobuf::{self, Error, Field, Reason, take_varint};

/// What comes next in a body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event<'a> {
    /// A family begins. One that is large comes several times.
    Family(Family<'a>),
    /// A metric of the last family.
    Metric(Metric<'a>),
}

/// What the metrics that follow have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Family<'a> {
    /// The name.
    pub name: &'a str,
    /// What it is about.
    pub help: &'a str,
    /// What it measures.
    pub kind: Kind,
    /// What it is counted in.
    pub unit: &'a str,
}

/// One of a family's metrics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric<'a> {
    message: &'a [u8],
    /// Milliseconds since 1970, where the metric says when. As Prometheus does, take 0 for none.
    pub timestamp_ms: Option<i64>,
    /// The value, of the family's kind.
    pub value: Value<'a>,
}

/// The value of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// Of a counter.
    Counter {
        /// How much.
        value: f64,
        /// One observation behind it.
        exemplar: Option<Exemplar<'a>>,
        /// When it began, in milliseconds since 1970.
        created_ms: Option<i64>,
    },
    /// Of a gauge.
    Gauge(f64),
    /// Of a metric of a kind that nobody said.
    Unknown(f64),
    /// Of a summary.
    Summary(Summary<'a>),
    /// Of a histogram or a gauge histogram.
    Histogram(Histogram<'a>),
}

/// Quantiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary<'a> {
    message: &'a [u8],
    /// How many observations.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
    /// When it began, in milliseconds since 1970.
    pub created_ms: Option<i64>,
}

/// A quantile of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Quantile {
    /// Which, from 0 to 1.
    pub quantile: f64,
    /// Its value.
    pub value: f64,
}

/// One observation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exemplar<'a> {
    message: &'a [u8],
    /// Its value.
    pub value: f64,
    /// Milliseconds since 1970, cut off.
    pub timestamp_ms: Option<i64>,
}

impl<'a> Metric<'a> {
    /// The labels, in the order in which they stand. *Steady.*
    pub fn labels(&self) -> Pairs<'a> {
        Pairs::new(self.message, field::METRIC_LABEL)
    }
}

impl<'a> Exemplar<'a> {
    /// The labels, in the order in which they stand. *Steady.*
    pub fn labels(&self) -> Pairs<'a> {
        Pairs::new(self.message, field::EXEMPLAR_LABEL)
    }

    pub(super) fn read(of: &Field<'a>) -> Result<Self, Error> {
        let mut exemplar = Exemplar { message: of.bytes()?, value: 0.0, timestamp_ms: None };
        for field in of.message()? {
            let field = field?;
            match field.number {
                field::EXEMPLAR_LABEL => {
                    pair(&field)?;
                }
                field::EXEMPLAR_VALUE => exemplar.value = field.double()?,
                field::EXEMPLAR_TIMESTAMP => exemplar.timestamp_ms = Some(time(&field)?),
                _ => {}
            }
        }
        Ok(exemplar)
    }
}

impl<'a> Summary<'a> {
    /// The quantiles, in the order in which they stand. *Steady.*
    pub fn quantiles(&self) -> impl Iterator<Item = Quantile> + Clone + use<'a> {
        let fields = protobuf::Reader::new(self.message).flatten();
        fields
            .filter(|field| field.number == field::SUMMARY_QUANTILE)
            .filter_map(|field| quantile(&field).ok())
    }

    fn read(of: &Field<'a>) -> Result<Self, Error> {
        let mut summary = Summary { message: of.bytes()?, count: 0, sum: 0.0, created_ms: None };
        for field in of.message()? {
            let field = field?;
            match field.number {
                field::SUMMARY_COUNT => summary.count = field.uint64()?,
                field::SUMMARY_SUM => summary.sum = field.double()?,
                field::SUMMARY_QUANTILE => {
                    quantile(&field)?;
                }
                field::SUMMARY_CREATED => summary.created_ms = Some(time(&field)?),
                _ => {}
            }
        }
        Ok(summary)
    }
}

fn quantile(of: &Field<'_>) -> Result<Quantile, Error> {
    let mut quantile = Quantile::default();
    for field in of.message()? {
        let field = field?;
        match field.number {
            field::QUANTILE_QUANTILE => quantile.quantile = field.double()?,
            field::QUANTILE_VALUE => quantile.value = field.double()?,
            _ => {}
        }
    }
    Ok(quantile)
}

/// Labels: names and values.
#[derive(Clone, Debug)]
pub struct Pairs<'a> {
    fields: protobuf::Reader<'a>,
    number: u32,
}

impl<'a> Pairs<'a> {
    /// `message` was gone through before.
    fn new(message: &'a [u8], number: u32) -> Self {
        Pairs { fields: protobuf::Reader::new(message), number }
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let field = self.fields.next()?.ok()?;
            if field.number == self.number {
                return pair(&field).ok();
            }
        }
    }
}

#[inline]
fn pair<'a>(of: &Field<'a>) -> Result<(&'a str, &'a str), Error> {
    let (mut name, mut value) = ("", "");
    for field in of.message()? {
        let field = field?;
        match field.number {
            field::LABEL_NAME => name = field.string()?,
            field::LABEL_VALUE => value = field.string()?,
            _ => {}
        }
    }
    if name.is_empty() {
        return Err(of.error(Reason::Missing));
    }
    Ok((name, value))
}

/// Milliseconds since 1970, cut off towards zero as in Prometheus.
pub(super) fn time(of: &Field<'_>) -> Result<i64, Error> {
    let (mut seconds, mut nanoseconds) = (0i64, 0i32);
    for field in of.message()? {
        let field = field?;
        match field.number {
            field::TIME_SECONDS => seconds = field.int64()?,
            field::TIME_NANOSECONDS => nanoseconds = field.int32()?,
            _ => {}
        }
    }
    // The seconds alone may be out of range where both together are not: -0.5 s is -1 and half of one.
    let milliseconds = i128::from(seconds) * 1000 + i128::from(nanoseconds / 1_000_000);
    Ok(milliseconds.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
}

/// Reads a body. *Steady.*
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    body: &'a [u8],
    /// Where the next message begins.
    at: usize,
    /// What is left of the last one.
    fields: protobuf::Reader<'a>,
    kind: Kind,
}

impl<'a> Reader<'a> {
    /// Starts at the beginning of `body`.
    pub fn new(body: &'a [u8]) -> Self {
        Reader { body, at: 0, fields: protobuf::Reader::new(&[]), kind: Kind::Unknown }
    }

    /// The bytes taken so far: the family's message for a family, then up to the end of each metric.
    pub fn offset(&self) -> usize {
        self.fields.offset()
    }

    fn family(&mut self) -> Result<Family<'a>, Error> {
        let begin = self.at;
        let mut rest = &self.body[begin..];
        let length = take_varint(&mut rest).map_err(|reason| Error::new(begin, reason))?;
        let at = self.body.len() - rest.len();
        let message = usize::try_from(length).ok().and_then(|length| rest.get(..length));
        let message = message.ok_or_else(|| Error::new(begin, Reason::Truncated))?;
        self.at = at + message.len();
        self.fields = protobuf::Reader::nested(message, at);
        let mut family = Family { kind: Kind::Counter, ..Family::default() };
        for field in self.fields.clone() {
            let field = field?;
            match field.number {
                field::FAMILY_NAME => family.name = field.string()?,
                field::FAMILY_HELP => family.help = field.string()?,
                field::FAMILY_UNIT => family.unit = field.string()?,
                field::FAMILY_TYPE => {
                    let kind = kind_of(field.uint64()?);
                    family.kind = kind.ok_or_else(|| field.error(Reason::Value))?;
                }
                _ => {}
            }
        }
        if family.name.is_empty() {
            return Err(Error::new(at, Reason::Missing));
        }
        self.kind = family.kind;
        Ok(family)
    }

    /// The next metric of the open message.
    fn metric(&mut self) -> Result<Option<Metric<'a>>, Error> {
        for field in self.fields.by_ref() {
            let field = field?;
            if field.number == field::FAMILY_METRIC {
                return metric(&field, self.kind).map(Some);
            }
        }
        Ok(None)
    }

    fn read(&mut self) -> Result<Option<Event<'a>>, Error> {
        if let Some(metric) = self.metric()? {
            return Ok(Some(Event::Metric(metric)));
        }
        if self.at == self.body.len() {
            return Ok(None);
        }
        self.family().map(|family| Some(Event::Family(family)))
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Event<'a>, Error>;

    /// Reads the next family or metric. After the end or an error there is nothing more.
    fn next(&mut self) -> Option<Self::Item> {
        let event = self.read();
        if event.is_err() {
            self.at = self.body.len();
            self.fields = protobuf::Reader::nested(&[], self.at);
        }
        event.transpose()
    }
}

impl std::iter::FusedIterator for Reader<'_> {}

/// Goes through a metric and all that is in it.
fn metric<'a>(of: &Field<'a>, kind: Kind) -> Result<Metric<'a>, Error> {
    let (mut timestamp_ms, mut value) = (None, None);
    let place = match kind {
        Kind::Counter => field::METRIC_COUNTER,
        Kind::Summary => field::METRIC_SUMMARY,
        Kind::Unknown => field::METRIC_UNTYPED,
        Kind::Histogram | Kind::GaugeHistogram => field::METRIC_HISTOGRAM,
        Kind::Gauge | Kind::Info | Kind::StateSet => field::METRIC_GAUGE,
    };
    for field in of.message()? {
        let field = field?;
        match field.number {
            field::METRIC_LABEL => {
                pair(&field)?;
            }
            field::METRIC_TIMESTAMP => timestamp_ms = Some(field.int64()?),
            number if number == place => {
                value = Some(match number {
                    field::METRIC_COUNTER => counter(&field)?,
                    field::METRIC_SUMMARY => Value::Summary(Summary::read(&field)?),
                    field::METRIC_HISTOGRAM => Value::Histogram(histogram::read(&field)?),
                    field::METRIC_UNTYPED => Value::Unknown(number_of(&field)?),
                    _ => Value::Gauge(number_of(&field)?),
                });
            }
            _ => {}
        }
    }
    let value = value.ok_or_else(|| of.error(Reason::Missing))?;
    Ok(Metric { message: of.bytes()?, timestamp_ms, value })
}

fn number_of(of: &Field<'_>) -> Result<f64, Error> {
    let mut value = 0.0;
    for field in of.message()? {
        let field = field?;
        if field.number == field::NUMBER_VALUE {
            value = field.double()?;
        }
    }
    Ok(value)
}

fn counter<'a>(of: &Field<'a>) -> Result<Value<'a>, Error> {
    let (mut value, mut exemplar, mut created_ms) = (0.0, None, None);
    for field in of.message()? {
        let field = field?;
        match field.number {
            field::NUMBER_VALUE => value = field.double()?,
            field::COUNTER_EXEMPLAR => exemplar = Some(Exemplar::read(&field)?),
            field::COUNTER_CREATED => created_ms = Some(time(&field)?),
            _ => {}
        }
    }
    Ok(Value::Counter { value, exemplar, created_ms })
}
