//! A profile's fields as they come, lent from its bytes.
//!
//! 1. A field of the profile is taken off the front; one with an unknown number is passed over.
//! 2. A message in it is walked through once, so that whatever is wrong with its layout is found there
//!    and its lists are walked afterwards without errors.
//! 3. What it names is not looked at: it may come later. [`Document`](super::Document) does.
//!
//! Lists of numbers are read packed, one by one, or mixed. Of a field that may come once and comes twice,
//! the last counts.

use super::error::{Error, Reason};
use super::record::{
    Function, FunctionId, Label, LabelValue, Line, Location, LocationId, Mapping, MappingId,
    Sample, StringId, ValueType, field,
};
use super::writer::Writer;
use crate::protobuf::{self, Field, MAX_VARINT, Packed, Sink, Value, take_varint};

/// The fields of a profile in the order in which they stand. After an error there is nothing more.
/// *Steady.*
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    fields: protobuf::Reader<'a>,
}

/// A field of a profile.
#[derive(Clone, Debug)]
pub struct Item<'a> {
    /// Where its value begins, in bytes from the begin of the profile.
    pub offset: usize,
    /// What it says.
    pub event: Event<'a>,
}

/// What a field of a profile says.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The next column of values.
    SampleType(ValueType),
    /// A sample.
    Sample(SampleRead<'a>),
    /// A mapping.
    Mapping(Mapping),
    /// A location.
    Location(Location<Lines<'a>>),
    /// A function.
    Function(Function),
    /// The next string of the table.
    String(&'a [u8]),
    /// The pattern of functions that are dropped from stacks, with all that they call.
    DropFrames(StringId),
    /// The pattern of functions that are kept though they match the other.
    KeepFrames(StringId),
    /// When the profile was taken, in nanoseconds since 1970.
    TimeNanos(i64),
    /// How long it took, in nanoseconds.
    DurationNanos(i64),
    /// What the period counts.
    PeriodType(ValueType),
    /// How much of the period's type lies between two samples.
    Period(i64),
    /// Texts for people to read.
    Comments(Comments<'a>),
    /// The kind of the column that is shown when none is asked for.
    DefaultSampleType(StringId),
    /// Where this kind of profile is explained.
    DocUrl(StringId),
}

/// A sample as it is read.
pub type SampleRead<'a> = Sample<LocationIds<'a>, Values<'a>, Labels<'a>>;

impl<'a> Reader<'a> {
    /// Reads `profile`, which is not compressed.
    pub fn new(profile: &'a [u8]) -> Self {
        Reader { fields: protobuf::Reader::new(profile) }
    }

    /// What the field says; nothing for one with an unknown number.
    pub(super) fn event(field: &Field<'a>) -> Result<Option<Event<'a>>, Error> {
        use self::field::profile;
        Ok(Some(match field.number {
            profile::SAMPLE_TYPE => Event::SampleType(value_type(field)?),
            profile::SAMPLE => Event::Sample(checked_sample(field)?),
            profile::MAPPING => Event::Mapping(mapping(field)?),
            profile::LOCATION => Event::Location(location(field)?),
            profile::FUNCTION => Event::Function(function(field)?),
            profile::STRING_TABLE => Event::String(field.bytes()?),
            profile::DROP_FRAMES => Event::DropFrames(string_id(field)?),
            profile::KEEP_FRAMES => Event::KeepFrames(string_id(field)?),
            profile::TIME_NANOS => Event::TimeNanos(field.int64()?),
            profile::DURATION_NANOS => Event::DurationNanos(field.int64()?),
            profile::PERIOD_TYPE => Event::PeriodType(value_type(field)?),
            profile::PERIOD => Event::Period(field.int64()?),
            profile::COMMENT => Event::Comments(comments(field)?),
            profile::DEFAULT_SAMPLE_TYPE => Event::DefaultSampleType(string_id(field)?),
            profile::DOC_URL => Event::DocUrl(string_id(field)?),
            _ => return Ok(None),
        }))
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Item<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let field = match self.fields.next()? {
                Ok(field) => field,
                Err(error) => return Some(Err(error.into())),
            };
            match Reader::event(&field) {
                Ok(Some(event)) => return Some(Ok(Item { offset: field.offset, event })),
                Ok(None) => {}
                Err(error) => {
                    self.fields = protobuf::Reader::new(&[]);
                    return Some(Err(error));
                }
            }
        }
    }
}

impl std::iter::FusedIterator for Reader<'_> {}

impl<S: Sink> Writer<S> {
    /// Writes what was read.
    ///
    /// # Panics
    /// As [`Writer::string`], on a first string that is not empty.
    pub fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::SampleType(value_type) => self.sample_type(*value_type),
            Event::Sample(sample) => self.sample(sample),
            Event::Mapping(mapping) => self.mapping(mapping),
            Event::Location(location) => self.location(location),
            Event::Function(function) => self.function(function),
            Event::String(string) => {
                self.string(string);
            }
            Event::DropFrames(pattern) => self.drop_frames(*pattern),
            Event::KeepFrames(pattern) => self.keep_frames(*pattern),
            Event::TimeNanos(time) => self.time_nanos(*time),
            Event::DurationNanos(duration) => self.duration_nanos(*duration),
            Event::PeriodType(value_type) => self.period_type(*value_type),
            Event::Period(period) => self.period(*period),
            Event::Comments(comments) => comments.clone().for_each(|it| self.comment(it)),
            Event::DefaultSampleType(kind) => self.default_sample_type(*kind),
            Event::DocUrl(url) => self.doc_url(*url),
        }
    }
}

/// A place in the table of strings. More than 32 bits are refused: no table is as long.
fn string_id(field: &Field<'_>) -> Result<StringId, Error> {
    let index = field.uint64()?;
    index.try_into().map(StringId).map_err(|_| field.error(protobuf::Reason::Value).into())
}

fn value_type(message: &Field<'_>) -> Result<ValueType, Error> {
    let mut it = ValueType::default();
    for field in message.message()? {
        let field = field?;
        match field.number {
            field::value_type::TYPE => it.kind = string_id(&field)?,
            field::value_type::UNIT => it.unit = string_id(&field)?,
            _ => {}
        }
    }
    Ok(it)
}

fn checked_sample<'a>(message: &Field<'a>) -> Result<SampleRead<'a>, Error> {
    for field in message.message()? {
        let field = field?;
        match field.number {
            field::sample::LOCATION_ID | field::sample::VALUE => {
                check_numbers(&field)?;
            }
            field::sample::LABEL => drop(label(&field)?),
            _ => {}
        }
    }
    Ok(sample(message.bytes()?))
}

/// Whether the list can be walked through. Ids are most of a profile: a look at each byte's highest bit is
/// a fraction of decoding them.
fn check_numbers(field: &Field<'_>) -> Result<(), Error> {
    if let Value::Bytes(list @ [.., 0..0x80]) = field.value {
        let mut longest = 0;
        let mut run = 0;
        for byte in list {
            run = if *byte < 0x80 { 0 } else { run + 1 };
            longest = longest.max(run);
        }
        // Up to nine bytes all bits have room.
        if longest < MAX_VARINT - 1 {
            return Ok(());
        }
    }
    Ok(field.varints()?.try_for_each(|value| value.map(drop))?)
}

/// A sample that was checked before.
pub(super) fn sample(message: &[u8]) -> SampleRead<'_> {
    Sample {
        locations: LocationIds(Numbers::new(message, field::sample::LOCATION_ID)),
        values: Values(Numbers::new(message, field::sample::VALUE)),
        labels: Labels { fields: protobuf::Reader::new(message) },
    }
}

fn label(message: &Field<'_>) -> Result<Label, Error> {
    let mut key = StringId::default();
    let (mut text, mut number, mut unit) = (None, 0, StringId::default());
    for field in message.message()? {
        let field = field?;
        match field.number {
            field::label::KEY => key = string_id(&field)?,
            field::label::STR => text = Some(string_id(&field)?),
            field::label::NUM => number = field.int64()?,
            field::label::NUM_UNIT => unit = string_id(&field)?,
            _ => {}
        }
    }
    // An empty text beside a number is one that was written though it need not be.
    let value = match text {
        Some(text) if text.0 != 0 || (number == 0 && unit.0 == 0) => LabelValue::Text(text),
        _ => LabelValue::Number { value: number, unit },
    };
    Ok(Label { key, value })
}

pub(super) fn mapping(message: &Field<'_>) -> Result<Mapping, Error> {
    let mut it = Mapping::default();
    for field in message.message()? {
        let field = field?;
        match field.number {
            field::mapping::ID => it.id = MappingId(field.uint64()?),
            field::mapping::MEMORY_START => it.memory_start = field.uint64()?,
            field::mapping::MEMORY_LIMIT => it.memory_limit = field.uint64()?,
            field::mapping::FILE_OFFSET => it.file_offset = field.uint64()?,
            field::mapping::FILENAME => it.filename = string_id(&field)?,
            field::mapping::BUILD_ID => it.build_id = string_id(&field)?,
            field::mapping::HAS_FUNCTIONS => it.has_functions = field.bool()?,
            field::mapping::HAS_FILENAMES => it.has_filenames = field.bool()?,
            field::mapping::HAS_LINE_NUMBERS => it.has_line_numbers = field.bool()?,
            field::mapping::HAS_INLINE_FRAMES => it.has_inline_frames = field.bool()?,
            _ => {}
        }
    }
    Ok(it)
}

pub(super) fn location<'a>(message: &Field<'a>) -> Result<Location<Lines<'a>>, Error> {
    let lines = Lines { fields: protobuf::Reader::new(message.bytes()?) };
    let (id, mapping) = (LocationId(0), MappingId(0));
    let mut it = Location { id, mapping, address: 0, lines, is_folded: false };
    for field in message.message()? {
        let field = field?;
        match field.number {
            field::location::ID => it.id = LocationId(field.uint64()?),
            field::location::MAPPING_ID => it.mapping = MappingId(field.uint64()?),
            field::location::ADDRESS => it.address = field.uint64()?,
            field::location::LINE => drop(line(&field)?),
            field::location::IS_FOLDED => it.is_folded = field.bool()?,
            _ => {}
        }
    }
    Ok(it)
}

fn line(message: &Field<'_>) -> Result<Line, Error> {
    let mut it = Line::default();
    for field in message.message()? {
        let field = field?;
        match field.number {
            field::line::FUNCTION_ID => it.function = FunctionId(field.uint64()?),
            field::line::LINE => it.line = field.int64()?,
            field::line::COLUMN => it.column = field.int64()?,
            _ => {}
        }
    }
    Ok(it)
}

pub(super) fn function(message: &Field<'_>) -> Result<Function, Error> {
    let mut it = Function::default();
    for field in message.message()? {
        let field = field?;
        match field.number {
            field::function::ID => it.id = FunctionId(field.uint64()?),
            field::function::NAME => it.name = string_id(&field)?,
            field::function::SYSTEM_NAME => it.system_name = string_id(&field)?,
            field::function::FILENAME => it.filename = string_id(&field)?,
            field::function::START_LINE => it.start_line = field.int64()?,
            _ => {}
        }
    }
    Ok(it)
}

fn comments<'a>(field: &Field<'a>) -> Result<Comments<'a>, Error> {
    let list = field.varints()?;
    for index in list.clone() {
        if u32::try_from(index?).is_err() {
            return Err(Error::new(field.offset, Reason::Field(protobuf::Reason::Value)));
        }
    }
    Ok(Comments(list))
}

/// The numbers of a list that may come in several fields, each packed or one alone.
#[derive(Clone, Debug)]
struct Numbers<'a> {
    fields: protobuf::Reader<'a>,
    /// What is left of a packed list.
    packed: &'a [u8],
    number: u32,
}

impl<'a> Numbers<'a> {
    fn new(message: &'a [u8], number: u32) -> Self {
        Numbers { fields: protobuf::Reader::new(message), packed: &[], number }
    }

    /// The first number of the next field of the list.
    #[inline(never)]
    fn next_field(&mut self) -> Option<u64> {
        loop {
            // The message was walked through before: there are no errors left.
            let field = self.fields.next()?.ok()?;
            match field.value {
                Value::Varint(value) if field.number == self.number => return Some(value),
                Value::Bytes(list) if field.number == self.number && !list.is_empty() => {
                    self.packed = list;
                    return take_varint(&mut self.packed).ok();
                }
                _ => {}
            }
        }
    }
}

impl Iterator for Numbers<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        match *self.packed {
            [] => self.next_field(),
            // Most ids have two bytes.
            [low @ 0x80..=0xff, high @ 0..0x80, ref rest @ ..] => {
                self.packed = rest;
                Some(u64::from(low & 0x7f) | u64::from(high) << 7)
            }
            _ => take_varint(&mut self.packed).ok(),
        }
    }
}

/// The locations of a sample's stack, innermost first. *Steady.*
#[derive(Clone, Debug)]
pub struct LocationIds<'a>(Numbers<'a>);

impl Iterator for LocationIds<'_> {
    type Item = LocationId;

    #[inline]
    fn next(&mut self) -> Option<LocationId> {
        self.0.next().map(LocationId)
    }
}

/// A sample's values. *Steady.*
#[derive(Clone, Debug)]
pub struct Values<'a>(Numbers<'a>);

impl Iterator for Values<'_> {
    type Item = i64;

    #[inline]
    fn next(&mut self) -> Option<i64> {
        self.0.next().map(|value| value as i64)
    }
}

/// A sample's labels. *Steady.*
#[derive(Clone, Debug)]
pub struct Labels<'a> {
    fields: protobuf::Reader<'a>,
}

impl Iterator for Labels<'_> {
    type Item = Label;

    fn next(&mut self) -> Option<Label> {
        loop {
            let field = self.fields.next()?.ok()?;
            if field.number == field::sample::LABEL {
                return label(&field).ok();
            }
        }
    }
}

/// The functions at a location, those inlined into the others first. *Steady.*
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    fields: protobuf::Reader<'a>,
}

impl Iterator for Lines<'_> {
    type Item = Line;

    fn next(&mut self) -> Option<Line> {
        loop {
            let field = self.fields.next()?.ok()?;
            if field.number == field::location::LINE {
                return line(&field).ok();
            }
        }
    }
}

/// Texts for people to read. *Steady.*
#[derive(Clone, Debug)]
pub struct Comments<'a>(Packed<'a>);

impl Iterator for Comments<'_> {
    type Item = StringId;

    fn next(&mut self) -> Option<StringId> {
        self.0.next()?.ok()?.try_into().ok().map(StringId)
    }
}
