//! A profile, streamed field by field into a sink.
//!
//! A profile is one message whose fields may come in any order, so that a writer needs to know nothing in
//! advance: samples may go out before the locations they name, and the strings last. What is written may be
//! kept in the form in which it is written and copied next time: location ids with
//! [`encode_location_ids`], labels with [`encode_label`], anything with [`Writer::encoded`].

use super::record::{
    Function, Label, LabelValue, Line, Location, LocationId, Mapping, Sample, StringId, ValueType,
    field,
};
use crate::protobuf::{Message, Sink, varint_len};

/// Takes a profile's fields, in any order, and writes each into `S` as it comes. *Steady*, as far as the
/// sink is.
///
/// ```
/// use wire::protobuf::{Buffer, fold};
/// use wire::pprof::{
///     Function, FunctionId, Line, Location, LocationId, Sample, StringId, ValueType, Writer,
/// };
///
/// let append = |mut all: Vec<u8>, chunk: &[u8]| { all.extend_from_slice(chunk); all };
/// let profile = fold(&mut Buffer::new(), Vec::new(), append, |out| {
///     let mut out = Writer::new(out);
///     out.string("");
///     let kind = out.string("cpu");
///     let unit = out.string("nanoseconds");
///     let name = out.string("main");
///     out.sample_type(ValueType { kind, unit });
///     out.function(&Function { id: FunctionId(1), name, ..Function::default() });
///     out.location(&Location {
///         id: LocationId(1),
///         lines: [Line { function: FunctionId(1), line: 7, column: 0 }].into_iter(),
///         mapping: Default::default(),
///         address: 0,
///         is_folded: false,
///     });
///     out.sample(&Sample {
///         locations: [LocationId(1)].into_iter(),
///         values: [10_000_000].into_iter(),
///         labels: [].into_iter(),
///     });
/// });
/// let document = wire::pprof::Document::read(&profile).expect("ours");
/// let sample = document.samples().next().expect("the one");
/// let frame = document.frames(sample.locations).next().expect("the one");
/// assert_eq!(document.text(frame.function.expect("the one").name), "main");
/// ```
#[derive(Debug)]
pub struct Writer<S> {
    sink: S,
    strings: u32,
}

/// A sample whose lists are already encoded: writing it is a copy of each.
#[derive(Clone, Copy, Debug)]
pub struct EncodedSample<'a> {
    /// The stack, innermost first, as [`encode_location_ids`] writes it: varints one behind the other.
    pub locations: &'a [u8],
    /// A value for each of the profile's types.
    pub values: &'a [i64],
    /// Labels, each as [`encode_label`] writes it: any number of them in each piece, so that a thread's and
    /// a request's need not be put together.
    pub labels: &'a [&'a [u8]],
}

/// Writes `ids` as [`EncodedSample::locations`] has them; pieces may be appended to each other.
#[inline]
pub fn encode_location_ids(ids: impl IntoIterator<Item = LocationId>, sink: &mut impl Sink) {
    ids.into_iter().for_each(|id| sink.varint(id.0));
}

/// Writes `label` as [`EncodedSample::labels`] has it; pieces may be appended to each other.
#[inline]
pub fn encode_label(label: &Label, sink: &mut impl Sink) {
    sink.message(field::sample::LABEL, label);
}

impl<S: Sink> Writer<S> {
    /// Begins a profile.
    pub fn new(sink: S) -> Self {
        Writer { sink, strings: 0 }
    }

    /// Adds a column of values. The samples' values are in the order of these.
    pub fn sample_type(&mut self, value_type: ValueType) {
        self.sink.message(field::profile::SAMPLE_TYPE, &value_type);
    }

    /// Adds a sample.
    pub fn sample<L, V, B>(&mut self, sample: &Sample<L, V, B>)
    where
        L: Iterator<Item = LocationId> + Clone,
        V: Iterator<Item = i64> + Clone,
        B: Iterator<Item = Label> + Clone,
    {
        self.sink.message(field::profile::SAMPLE, sample);
    }

    /// Adds a sample whose lists are already encoded.
    #[inline]
    pub fn encoded_sample(&mut self, sample: &EncodedSample<'_>) {
        self.sink.message(field::profile::SAMPLE, sample);
    }

    /// Adds a mapping.
    pub fn mapping(&mut self, mapping: &Mapping) {
        self.sink.message(field::profile::MAPPING, mapping);
    }

    /// Adds a location.
    pub fn location<L: Iterator<Item = Line> + Clone>(&mut self, location: &Location<L>) {
        self.sink.message(field::profile::LOCATION, location);
    }

    /// Adds a function.
    pub fn function(&mut self, function: &Function) {
        self.sink.message(field::profile::FUNCTION, function);
    }

    /// Adds a string to the table and says which it is. The first one has to be the empty one; the same one
    /// twice is allowed, and a waste.
    ///
    /// # Panics
    /// When the first string is not empty: no reader accepts that.
    #[inline]
    pub fn string(&mut self, string: impl AsRef<[u8]>) -> StringId {
        let string = string.as_ref();
        assert!(self.strings > 0 || string.is_empty(), "the first string of a profile is empty");
        let id = StringId(self.strings);
        self.sink.bytes(field::profile::STRING_TABLE, string);
        self.strings += 1;
        id
    }

    /// The pattern of functions that are dropped from stacks, with all that they call.
    pub fn drop_frames(&mut self, pattern: StringId) {
        optional(&mut self.sink, field::profile::DROP_FRAMES, pattern.0.into());
    }

    /// The pattern of functions that are kept though they match the other.
    pub fn keep_frames(&mut self, pattern: StringId) {
        optional(&mut self.sink, field::profile::KEEP_FRAMES, pattern.0.into());
    }

    /// When the profile was taken, in nanoseconds since 1970. Write it once: Go's reader takes a second one
    /// for the begin of a second profile.
    pub fn time_nanos(&mut self, time: i64) {
        optional(&mut self.sink, field::profile::TIME_NANOS, time as u64);
    }

    /// How long it took, in nanoseconds.
    pub fn duration_nanos(&mut self, duration: i64) {
        optional(&mut self.sink, field::profile::DURATION_NANOS, duration as u64);
    }

    /// What [`period`](Self::period) counts.
    pub fn period_type(&mut self, value_type: ValueType) {
        self.sink.message(field::profile::PERIOD_TYPE, &value_type);
    }

    /// How much of the period's type lies between two samples.
    pub fn period(&mut self, period: i64) {
        optional(&mut self.sink, field::profile::PERIOD, period as u64);
    }

    /// Adds a text for people to read.
    pub fn comment(&mut self, comment: StringId) {
        self.sink.uint64(field::profile::COMMENT, comment.0.into());
    }

    /// The kind of the column that is shown when none is asked for: without it, the last.
    pub fn default_sample_type(&mut self, kind: StringId) {
        optional(&mut self.sink, field::profile::DEFAULT_SAMPLE_TYPE, kind.0.into());
    }

    /// Where this kind of profile is explained: an absolute URL.
    pub fn doc_url(&mut self, url: StringId) {
        optional(&mut self.sink, field::profile::DOC_URL, url.0.into());
    }

    /// Takes fields that a writer has written before, whole ones, as they are. Strings among them have to
    /// be counted: `strings` is how many they are.
    #[inline]
    pub fn encoded(&mut self, fields: &[u8], strings: u32) {
        self.strings += strings;
        self.sink.put(fields);
    }

    /// The strings so far.
    pub fn strings(&self) -> u32 {
        self.strings
    }

    /// Gives the sink back.
    pub fn into_inner(self) -> S {
        self.sink
    }
}

/// A number that is left out when it is 0.
#[inline]
fn optional(sink: &mut impl Sink, field: u32, value: u64) {
    if value != 0 {
        sink.uint64(field, value);
    }
}

#[inline]
fn switch(sink: &mut impl Sink, field: u32, value: bool) {
    optional(sink, field, value.into());
}

/// A packed list, left out when it is empty.
#[inline]
fn packed(sink: &mut impl Sink, field: u32, values: impl Iterator<Item = u64> + Clone) {
    let length = values.clone().map(varint_len).sum();
    if length > 0 {
        sink.nested(field, length);
        values.for_each(|value| sink.varint(value));
    }
}

impl Message for ValueType {
    fn write<S: Sink>(&self, sink: &mut S) {
        optional(sink, field::value_type::TYPE, self.kind.0.into());
        optional(sink, field::value_type::UNIT, self.unit.0.into());
    }
}

impl<L, V, B> Message for Sample<L, V, B>
where
    L: Iterator<Item = LocationId> + Clone,
    V: Iterator<Item = i64> + Clone,
    B: Iterator<Item = Label> + Clone,
{
    fn write<S: Sink>(&self, sink: &mut S) {
        packed(sink, field::sample::LOCATION_ID, self.locations.clone().map(|id| id.0));
        packed(sink, field::sample::VALUE, self.values.clone().map(|value| value as u64));
        self.labels.clone().for_each(|label| encode_label(&label, sink));
    }
}

impl Message for EncodedSample<'_> {
    #[inline]
    fn write<S: Sink>(&self, sink: &mut S) {
        if !self.locations.is_empty() {
            sink.bytes(field::sample::LOCATION_ID, self.locations);
        }
        packed(sink, field::sample::VALUE, self.values.iter().map(|&value| value as u64));
        self.labels.iter().for_each(|labels| sink.put(labels));
    }
}

impl Message for Label {
    #[inline]
    fn write<S: Sink>(&self, sink: &mut S) {
        optional(sink, field::label::KEY, self.key.0.into());
        // Which of the two it is shows even when it is 0.
        match self.value {
            LabelValue::Text(text) => sink.uint64(field::label::STR, text.0.into()),
            LabelValue::Number { value, unit } => {
                sink.int64(field::label::NUM, value);
                optional(sink, field::label::NUM_UNIT, unit.0.into());
            }
        }
    }
}

impl Message for Mapping {
    fn write<S: Sink>(&self, sink: &mut S) {
        optional(sink, field::mapping::ID, self.id.0);
        optional(sink, field::mapping::MEMORY_START, self.memory_start);
        optional(sink, field::mapping::MEMORY_LIMIT, self.memory_limit);
        optional(sink, field::mapping::FILE_OFFSET, self.file_offset);
        optional(sink, field::mapping::FILENAME, self.filename.0.into());
        optional(sink, field::mapping::BUILD_ID, self.build_id.0.into());
        switch(sink, field::mapping::HAS_FUNCTIONS, self.has_functions);
        switch(sink, field::mapping::HAS_FILENAMES, self.has_filenames);
        switch(sink, field::mapping::HAS_LINE_NUMBERS, self.has_line_numbers);
        switch(sink, field::mapping::HAS_INLINE_FRAMES, self.has_inline_frames);
    }
}

impl<L: Iterator<Item = Line> + Clone> Message for Location<L> {
    fn write<S: Sink>(&self, sink: &mut S) {
        optional(sink, field::location::ID, self.id.0);
        optional(sink, field::location::MAPPING_ID, self.mapping.0);
        optional(sink, field::location::ADDRESS, self.address);
        self.lines.clone().for_each(|line| sink.message(field::location::LINE, &line));
        switch(sink, field::location::IS_FOLDED, self.is_folded);
    }
}

impl Message for Line {
    fn write<S: Sink>(&self, sink: &mut S) {
        optional(sink, field::line::FUNCTION_ID, self.function.0);
        optional(sink, field::line::LINE, self.line as u64);
        optional(sink, field::line::COLUMN, self.column as u64);
    }
}

impl Message for Function {
    fn write<S: Sink>(&self, sink: &mut S) {
        optional(sink, field::function::ID, self.id.0);
        optional(sink, field::function::NAME, self.name.0.into());
        optional(sink, field::function::SYSTEM_NAME, self.system_name.0.into());
        optional(sink, field::function::FILENAME, self.filename.0.into());
        optional(sink, field::function::START_LINE, self.start_line as u64);
    }
}
