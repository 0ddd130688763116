//! The parts of a histogram: explicit buckets, native ones, or both.

use super::field;
use super::reader::{Exemplar, time};
use crate::protobuf::{self, Error, Field, Packed, Reason, unzigzag};

/// A histogram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Histogram<'a> {
    message: &'a [u8],
    /// How many observations.
    pub count: u64,
    /// The same, where the counts are no whole numbers; 0 elsewhere.
    pub count_float: f64,
    /// Their sum.
    pub sum: f64,
    /// When it began, in milliseconds since 1970.
    pub created_ms: Option<i64>,
    /// Each power of two has `2^schema` native buckets.
    pub schema: i32,
    /// Up to here, in either direction, an observation counts as zero.
    pub zero_threshold: f64,
    /// How many do.
    pub zero_count: u64,
    /// The same, where the counts are no whole numbers; 0 elsewhere.
    pub zero_count_float: f64,
    has_spans: bool,
}

/// An explicit bucket.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Bucket<'a> {
    /// How many observations are at most the bound.
    pub cumulative_count: u64,
    /// The same, where the counts are no whole numbers; 0 elsewhere.
    pub cumulative_count_float: f64,
    /// The bound.
    pub upper_bound: f64,
    /// One of the observations.
    pub exemplar: Option<Exemplar<'a>>,
}

/// Native buckets side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Span {
    /// The first one's index for the first span, otherwise the buckets between it and the span before.
    pub offset: i32,
    /// How many.
    pub length: u32,
}

impl<'a> Histogram<'a> {
    /// Whether it has native buckets, as Prometheus sees it: a span, a zero threshold or a zero count.
    pub fn is_native(&self) -> bool {
        self.has_spans || self.zero_threshold > 0.0 || self.zero_count > 0
    }

    /// Whether the native counts are no whole numbers, as Prometheus sees it.
    pub fn is_float(&self) -> bool {
        self.count_float > 0.0 || self.zero_count_float > 0.0
    }

    /// The explicit buckets. That of `+Inf` may be missing.
    pub fn buckets(&self) -> Repeated<'a, Bucket<'a>> {
        Repeated::new(self.message, field::HISTOGRAM_BUCKET, bucket)
    }

    /// Observations, for native buckets.
    pub fn exemplars(&self) -> Repeated<'a, Exemplar<'a>> {
        Repeated::new(self.message, field::HISTOGRAM_EXEMPLAR, Exemplar::read)
    }

    /// The native buckets above zero.
    pub fn positive_spans(&self) -> Repeated<'a, Span> {
        Repeated::new(self.message, field::HISTOGRAM_POSITIVE_SPAN, span)
    }

    /// The native buckets below zero.
    pub fn negative_spans(&self) -> Repeated<'a, Span> {
        Repeated::new(self.message, field::HISTOGRAM_NEGATIVE_SPAN, span)
    }

    /// What the buckets above zero hold, each as the difference to the one before.
    pub fn positive_deltas(&self) -> impl Iterator<Item = i64> + Clone + use<'a> {
        Numbers::new(self.message, field::HISTOGRAM_POSITIVE_DELTA, Field::varints).map(unzigzag)
    }

    /// What the buckets below zero hold, each as the difference to the one before.
    pub fn negative_deltas(&self) -> impl Iterator<Item = i64> + Clone + use<'a> {
        Numbers::new(self.message, field::HISTOGRAM_NEGATIVE_DELTA, Field::varints).map(unzigzag)
    }

    /// What the buckets above zero hold, where that is no whole number.
    pub fn positive_counts(&self) -> impl Iterator<Item = f64> + Clone + use<'a> {
        let number = field::HISTOGRAM_POSITIVE_COUNT;
        Numbers::new(self.message, number, Field::fixed64s).map(f64::from_bits)
    }

    /// What the buckets below zero hold, where that is no whole number.
    pub fn negative_counts(&self) -> impl Iterator<Item = f64> + Clone + use<'a> {
        let number = field::HISTOGRAM_NEGATIVE_COUNT;
        Numbers::new(self.message, number, Field::fixed64s).map(f64::from_bits)
    }
}

/// How one of several values is read out of its field.
type Read<'a, T> = fn(&Field<'a>) -> Result<T, Error>;

/// Messages of one field, in the order in which they stand. *Steady.*
#[derive(Clone, Debug)]
pub struct Repeated<'a, T> {
    fields: protobuf::Reader<'a>,
    number: u32,
    read: Read<'a, T>,
}

impl<'a, T> Repeated<'a, T> {
    fn new(message: &'a [u8], number: u32, read: Read<'a, T>) -> Self {
        Repeated { fields: protobuf::Reader::new(message), number, read }
    }
}

impl<T> Iterator for Repeated<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        loop {
            let field = self.fields.next()?.ok()?;
            if field.number == self.number {
                return (self.read)(&field).ok();
            }
        }
    }
}

/// Numbers of one field, packed or not, in the order in which they stand. *Steady.*
#[derive(Clone, Debug)]
struct Numbers<'a> {
    fields: protobuf::Reader<'a>,
    number: u32,
    read: Read<'a, Packed<'a>>,
    packed: Option<Packed<'a>>,
}

impl<'a> Numbers<'a> {
    fn new(message: &'a [u8], number: u32, read: Read<'a, Packed<'a>>) -> Self {
        Numbers { fields: protobuf::Reader::new(message), number, read, packed: None }
    }
}

impl Iterator for Numbers<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        loop {
            if let Some(number) = self.packed.as_mut().and_then(Iterator::next) {
                return number.ok();
            }
            let field = self.fields.next()?.ok()?;
            self.packed = match field.number == self.number {
                true => Some((self.read)(&field).ok()?),
                false => None,
            };
        }
    }
}

fn bucket<'a>(of: &Field<'a>) -> Result<Bucket<'a>, Error> {
    let mut bucket = Bucket::default();
    for field in of.message()? {
        let field = field?;
        match field.number {
            field::BUCKET_COUNT => bucket.cumulative_count = field.uint64()?,
            field::BUCKET_COUNT_FLOAT => bucket.cumulative_count_float = field.double()?,
            field::BUCKET_BOUND => bucket.upper_bound = field.double()?,
            field::BUCKET_EXEMPLAR => bucket.exemplar = Some(Exemplar::read(&field)?),
            _ => {}
        }
    }
    Ok(bucket)
}

fn span(of: &Field<'_>) -> Result<Span, Error> {
    let mut span = Span::default();
    for field in of.message()? {
        let field = field?;
        match field.number {
            field::SPAN_OFFSET => span.offset = field.sint32()?,
            field::SPAN_LENGTH => span.length = field.uint32()?,
            _ => {}
        }
    }
    Ok(span)
}

/// How many buckets one side's spans tell of, and how many there are.
#[derive(Clone, Copy, Default)]
struct Side {
    spanned: u64,
    whole: u64,
    float: u64,
}

/// Goes through a histogram and all that is in it.
pub(super) fn read<'a>(of: &Field<'a>) -> Result<Histogram<'a>, Error> {
    let mut histogram = Histogram {
        message: of.bytes()?,
        count: 0,
        count_float: 0.0,
        sum: 0.0,
        created_ms: None,
        schema: 0,
        zero_threshold: 0.0,
        zero_count: 0,
        zero_count_float: 0.0,
        has_spans: false,
    };
    let [mut below, mut above] = [Side::default(); 2];
    for field in of.message()? {
        let field = field?;
        match field.number {
            field::HISTOGRAM_COUNT => histogram.count = field.uint64()?,
            field::HISTOGRAM_COUNT_FLOAT => histogram.count_float = field.double()?,
            field::HISTOGRAM_SUM => histogram.sum = field.double()?,
            field::HISTOGRAM_BUCKET => {
                bucket(&field)?;
            }
            field::HISTOGRAM_CREATED => histogram.created_ms = Some(time(&field)?),
            field::HISTOGRAM_EXEMPLAR => {
                Exemplar::read(&field)?;
            }
            field::HISTOGRAM_SCHEMA => histogram.schema = field.sint32()?,
            field::HISTOGRAM_ZERO_THRESHOLD => histogram.zero_threshold = field.double()?,
            field::HISTOGRAM_ZERO_COUNT => histogram.zero_count = field.uint64()?,
            field::HISTOGRAM_ZERO_COUNT_FLOAT => histogram.zero_count_float = field.double()?,
            field::HISTOGRAM_NEGATIVE_SPAN => below.spanned += u64::from(span(&field)?.length),
            field::HISTOGRAM_POSITIVE_SPAN => above.spanned += u64::from(span(&field)?.length),
            field::HISTOGRAM_NEGATIVE_DELTA => below.whole += all(field.varints()?)?,
            field::HISTOGRAM_POSITIVE_DELTA => above.whole += all(field.varints()?)?,
            field::HISTOGRAM_NEGATIVE_COUNT => below.float += all(field.fixed64s()?)?,
            field::HISTOGRAM_POSITIVE_COUNT => above.float += all(field.fixed64s()?)?,
            _ => {}
        }
        histogram.has_spans |=
            matches!(field.number, field::HISTOGRAM_NEGATIVE_SPAN | field::HISTOGRAM_POSITIVE_SPAN);
    }
    let is_float = histogram.is_float();
    let fits = |side: Side| side.spanned == if is_float { side.float } else { side.whole };
    if histogram.is_native() && !(fits(below) && fits(above)) {
        return Err(of.error(Reason::Value));
    }
    Ok(histogram)
}

/// Checks all numbers of a list and counts them.
fn all(numbers: Packed<'_>) -> Result<u64, Error> {
    numbers.into_iter().try_fold(0, |count, number| number.map(|_| count + 1))
}
