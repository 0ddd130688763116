//! From a body to events, one line at a time, without a copy.
//!
//! A scrape sees the same lines again and again. Whoever remembers what came last time asks for it
//! first: [`Reader::sample_if`] and [`Reader::comment_if`] compare bytes and parse the number only;
//! [`Reader::next`] reads a line it knows nothing about. Both agree on every line.

use memchr::{memchr, memchr_iter};

use super::error::{ReadError, Reason};
use super::labels::{Escaped, Label, Labels, Names};
use super::{Format, Kind, openmetrics, text};

/// What stands in a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event<'a> {
    /// What a family is about.
    Help {
        /// The family's name.
        family: Escaped<'a>,
        /// The text.
        text: Escaped<'a>,
    },
    /// What a family measures. Holds for the samples up to the next `Type`.
    Type {
        /// The family's name.
        family: Escaped<'a>,
        /// Its kind.
        kind: Kind,
    },
    /// What a family is counted in. OpenMetrics only.
    Unit {
        /// The family's name.
        family: Escaped<'a>,
        /// The unit, a suffix of the name; may be empty.
        unit: Escaped<'a>,
    },
    /// Any other line that begins with `#`, as it stands. Text 0.0.4 only.
    Comment(&'a [u8]),
    /// A series and its value.
    Sample(Sample<'a>),
}

/// A series and what was read for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample<'a> {
    /// Name and labels as they stand, blanks included: the key under which a scrape remembers it.
    pub series: &'a str,
    /// Value, timestamp and exemplar.
    pub reading: Reading<'a>,
    pub(super) kind: Kind,
    pub(super) format: Format,
}

/// What follows a series in its line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading<'a> {
    /// The value; a NaN is always [`NORMAL_NAN`](crate::number::NORMAL_NAN).
    pub value: f64,
    /// Milliseconds since 1970, where the line says when.
    pub timestamp_ms: Option<i64>,
    /// The exemplar. OpenMetrics only.
    pub exemplar: Option<Exemplar<'a>>,
}

/// One observation behind a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exemplar<'a> {
    /// The labels as they stand, braces included.
    pub series: &'a str,
    /// The value observed.
    pub value: f64,
    /// Milliseconds since 1970, where the line says when.
    pub timestamp_ms: Option<i64>,
}

impl<'a> Sample<'a> {
    /// The labels in the order in which they stand, `__name__` among them. *Steady.*
    ///
    /// `le` of a histogram and `quantile` of a summary come in OpenMetrics' spelling (`1.0` for `1`),
    /// as Prometheus stores them.
    pub fn labels(&self) -> Labels<'a> {
        Labels::new(self.series, self.kind)
    }

    /// The metric's name.
    pub fn metric_name(&self) -> Escaped<'a> {
        self.labels().find(Label::is_metric_name).map_or(Escaped::plain(""), |label| label.value)
    }

    /// The kind of the last `Type` before this line.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether the value is the time, in seconds since 1970, at which the series of the same labels
    /// without `_created` began: OpenMetrics' counters, histograms and summaries have such lines.
    pub fn is_created(&self) -> bool {
        self.format == Format::OpenMetrics
            && self.kind.has_created()
            && self.metric_name().raw().ends_with("_created")
    }
}

impl<'a> Exemplar<'a> {
    /// The labels in the order in which they stand. *Steady.*
    pub fn labels(&self) -> Labels<'a> {
        Labels::new(self.series, Kind::Unknown)
    }
}

/// The bytes of a line of an earlier scrape: as many as it `shared` with the line that was taken last,
/// and the `rest`. Neighbours in a body have most of their bytes in common, so that who keeps a scrape's
/// lines keeps and compares a fraction of them.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// Bytes at its beginning that are those of the line before.
    pub shared: usize,
    /// The bytes behind them.
    pub rest: &'a [u8],
}

impl<'a> From<&'a [u8]> for Expected<'a> {
    /// A line that shares nothing.
    fn from(line: &'a [u8]) -> Self {
        Expected { shared: 0, rest: line }
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Expected<'a> {
    fn from(line: &'a [u8; N]) -> Self {
        Expected::from(&line[..])
    }
}

/// Where reading failed and why; becomes a [`ReadError`] once the line is counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    pub(super) at: usize,
    pub(super) reason: Reason,
}

pub(super) type Read<T> = Result<T, Fault>;

/// Reads a body. *Steady*, except that the first series with more than 16 labels allocates once.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    pub(super) cursor: Cursor<'a>,
    format: Format,
    kind: Kind,
    /// The line that was read last, without its end.
    last_line: (usize, usize),
    /// The last `# TYPE` line, where it was recognised and not read: `kind` is of before.
    last_type: Option<(usize, usize)>,
    finished: bool,
    names: Names,
}

impl<'a> Reader<'a> {
    /// Starts at the beginning of `body`. One of protobuf messages is refused: it has no lines.
    pub fn new(body: &'a [u8], format: Format) -> Self {
        Reader {
            cursor: Cursor { body, at: 0 },
            format,
            kind: Kind::Unknown,
            last_line: (0, 0),
            last_type: None,
            finished: false,
            names: Names::default(),
        }
    }

    /// Takes the next line if it is a sample of exactly `expected`, the [`Sample::series`] of an
    /// earlier scrape; otherwise leaves everything as it is and gives `None`. *Steady.*
    ///
    /// A line that is one but has a bad value is an error, as it is from [`next`](Iterator::next).
    #[inline]
    pub fn sample_if<'e>(
        &mut self,
        expected: impl Into<Expected<'e>>,
    ) -> Option<Result<Reading<'a>, ReadError>> {
        let begin = self.cursor.at;
        let mut cursor = self.cursor;
        cursor.at = self.behind(expected.into())?;
        // A name without braces may go on (`foobar`), or have labels after all (`foo{`, `foo {`).
        if cursor.body[cursor.at - 1] != b'}' {
            if self.format == Format::Text {
                let blanks = cursor.skip_blanks();
                if !blanks || cursor.peek() == Some(b'{') {
                    return None;
                }
            } else if cursor.peek() != Some(b' ') {
                return None;
            }
        }
        let reading = match self.format {
            Format::Text => text::reading(&mut cursor),
            Format::OpenMetrics => openmetrics::reading(&mut cursor),
            Format::Protobuf => return None,
        };
        Some(match reading {
            Ok(reading) => {
                self.last_line = (begin, cursor.at);
                cursor.at += 1;
                self.cursor = cursor;
                Ok(reading)
            }
            Err(fault) => Err(self.fail(fault)),
        })
    }

    /// Takes the next line if it is exactly `expected`, the [`last_line`](Reader::last_line) after an
    /// event of an earlier scrape that was no sample. *Steady.*
    #[inline]
    pub fn comment_if<'e>(&mut self, expected: impl Into<Expected<'e>>) -> bool {
        let begin = self.cursor.at;
        if self.cursor.peek() != Some(b'#') {
            return false;
        }
        let Some(end) = self.behind(expected.into()) else { return false };
        match self.cursor.body.get(end) {
            Some(b'\n') => {}
            None if self.format == Format::Text => {}
            _ => return false,
        }
        if is_type_line(&self.cursor.body[begin..end]) {
            // Its kind holds for the samples that follow. Only those that are read as a whole ask.
            self.last_type = Some((begin, end));
        }
        self.last_line = (begin, end);
        self.cursor.at = end + 1;
        true
    }

    /// Where the body goes on behind `expected`, if that comes next.
    #[inline]
    fn behind(&self, expected: Expected<'_>) -> Option<usize> {
        let Expected { shared, rest } = expected;
        let Cursor { body, at } = self.cursor;
        let from = self.last_line.0;
        // Lines that resemble each other differ at their ends: those first.
        let own = at + shared;
        let end = own + rest.len();
        let same = equal(body.get(own..end)?, rest)
            && equal(&body[at..own], body.get(from..from + shared)?);
        (same && end > at && !self.finished).then_some(end)
    }

    /// The line that was taken last, without its end: the key for [`comment_if`](Reader::comment_if).
    pub fn last_line(&self) -> &'a [u8] {
        &self.cursor.body[self.last_line.0..self.last_line.1]
    }

    /// The bytes taken so far.
    pub fn offset(&self) -> usize {
        self.cursor.at.min(self.cursor.body.len())
    }

    /// The kind of the last `Type`.
    pub fn kind(&self) -> Kind {
        let read = self.last_type.and_then(|(begin, end)| self.kind_of(begin, end));
        read.unwrap_or(self.kind)
    }

    /// The kind that a line tells which was read in an earlier scrape.
    #[cold]
    fn kind_of(&self, begin: usize, end: usize) -> Option<Kind> {
        let body = self.cursor.body;
        // With its newline, which OpenMetrics asks for.
        let line = &body[begin..body.len().min(end + 1)];
        match Reader::new(line, self.format).next() {
            Some(Ok(Event::Type { kind, .. })) => Some(kind),
            _ => None,
        }
    }

    #[cold]
    fn fail(&mut self, fault: Fault) -> ReadError {
        self.finished = true;
        let body = self.cursor.body;
        let at = fault.at.min(body.len());
        ReadError {
            line: 1 + memchr_iter(b'\n', &body[..at]).count() as u64,
            offset: at as u64,
            reason: fault.reason,
        }
    }

    fn read(&mut self) -> Read<Option<Event<'a>>> {
        self.kind = self.kind();
        self.last_type = None;
        let line = match self.format {
            Format::Text => text::line(&mut self.cursor, &mut self.names)?,
            Format::OpenMetrics => openmetrics::line(&mut self.cursor, &mut self.names)?,
            Format::Protobuf => return self.cursor.fault(Reason::NoLines),
        };
        let Some((begin, line)) = line else { return Ok(None) };
        self.last_line = (begin, self.cursor.at);
        // Past the end of the line. Where text ends without one this is one past the body.
        self.cursor.at += 1;
        Ok(Some(match line {
            Line::Event(event) => {
                if let Event::Type { kind, .. } = event {
                    self.kind = kind;
                }
                event
            }
            Line::Sample(series, reading) => {
                Event::Sample(Sample { series, reading, kind: self.kind, format: self.format })
            }
        }))
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Event<'a>, ReadError>;

    /// Reads the next line. After the end or an error there is nothing more.
    fn next(&mut self) -> Option<Self::Item> {
        if self.finished {
            return None;
        }
        match self.read() {
            Ok(Some(event)) => Some(Ok(event)),
            Ok(None) => {
                self.finished = true;
                None
            }
            Err(fault) => Some(Err(self.fail(fault))),
        }
    }
}

impl std::iter::FusedIterator for Reader<'_> {}

/// Whether two texts of the same length are equal. Short ones, as these mostly are, take less here than
/// the call of a general comparison.
#[inline]
fn equal(a: &[u8], b: &[u8]) -> bool {
    match a.len() {
        0 => true,
        1..=7 => a.iter().zip(b).all(|(a, b)| a == b),
        8..=15 => equal_by::<8>(a, b),
        16..=128 => equal_by::<16>(a, b),
        _ => a == b,
    }
}

/// The same for texts of `N` bytes at least: the last `N` may overlap those before.
#[inline]
fn equal_by<const N: usize>(a: &[u8], b: &[u8]) -> bool {
    let same = |at: usize| a[at..].first_chunk::<N>() == b[at..].first_chunk::<N>();
    let last = a.len() - N;
    let mut at = 0;
    while at < last {
        if !same(at) {
            return false;
        }
        at += N;
    }
    same(last)
}

/// A line as the grammars hand it over; the cursor stands at its end.
pub(super) enum Line<'a> {
    Event(Event<'a>),
    Sample(&'a str, Reading<'a>),
}

/// `# TYPE …`; without a blank before the word it is a comment.
fn is_type_line(line: &[u8]) -> bool {
    let is_blank = |b: &u8| *b == b' ' || *b == b'\t';
    let blanks = line.iter().skip(1).take_while(|b| is_blank(b)).count();
    let rest = line[1 + blanks..].strip_prefix(b"TYPE");
    blanks > 0 && rest.is_some_and(|rest| rest.first().is_some_and(is_blank))
}

/// A place in a body, and the tokens both grammars share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    pub(super) body: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.body.get(self.at..).unwrap_or_default()
    }

    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
        self.body.get(self.at).copied()
    }

    /// Whether there was a blank or tab.
    #[inline]
    pub(super) fn skip_blanks(&mut self) -> bool {
        let before = self.at;
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
        self.at > before
    }

    #[inline]
    pub(super) fn take_while(&mut self, mut keep: impl FnMut(u8) -> bool) -> &'a [u8] {
        let rest = self.rest();
        let length = rest.iter().position(|&b| !keep(b)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// A number in digits that a blank or the end of a line ends; otherwise stays where it is.
    #[inline]
    pub(super) fn usual_number(&mut self) -> Option<f64> {
        let (value, length) = crate::number::leading(self.rest())?;
        let ends = matches!(self.body.get(self.at + length), Some(b'\n' | b' '));
        if ends {
            self.at += length;
        }
        ends.then_some(value)
    }

    /// Up to the end of the line or of the body.
    pub(super) fn take_line(&mut self) -> &'a [u8] {
        let rest = self.rest();
        let length = memchr(b'\n', rest).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    #[cold]
    pub(super) fn fault<T>(&self, reason: Reason) -> Read<T> {
        Err(Fault { at: self.at, reason })
    }

    /// The bytes from `begin` up to here as text.
    pub(super) fn text_from(&self, begin: usize) -> Read<&'a str> {
        utf8(&self.body[begin..self.at], begin)
    }

    /// A token in double quotes; the cursor stands at the first. A backslash takes the next character
    /// along, whatever it is, except the end of the line.
    pub(super) fn quoted(&mut self, rules: Quoting, reason: Reason) -> Read<()> {
        if self.peek() != Some(b'"') {
            return self.fault(reason);
        }
        let begin = self.at;
        loop {
            self.at += 1;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.at += 1;
                    while rules.nul && self.peek() == Some(0) {
                        self.at += 1;
                    }
                    if matches!(self.peek(), None | Some(b'\n' | 0)) {
                        break;
                    }
                }
                Some(b'\n') if !rules.newline => break,
                Some(0) if !rules.nul => break,
                Some(_) => {}
                None => break,
            }
        }
        self.at = begin;
        self.fault(reason)
    }

    /// `[a-zA-Z_:][a-zA-Z0-9_:]*` or a quoted name, after HELP, TYPE and UNIT.
    pub(super) fn family(&mut self) -> Read<Escaped<'a>> {
        let begin = self.at;
        match self.peek() {
            Some(b'"') => {
                self.quoted(Quoting { newline: true, nul: false }, Reason::FamilyName)?;
                let quoted = self.text_from(begin)?;
                let name = &quoted[1..quoted.len() - 1];
                if name.is_empty() {
                    return Err(Fault { at: begin, reason: Reason::FamilyName });
                }
                Ok(Escaped::label(name))
            }
            Some(byte) if is_name_start(byte) => {
                self.take_while(is_name_byte);
                Ok(Escaped::plain(self.text_from(begin)?))
            }
            _ => self.fault(Reason::FamilyName),
        }
    }

    /// A series: a name, labels in braces, or a quoted name within the braces.
    pub(super) fn series(&mut self, rules: Grammar, names: &mut Names) -> Read<&'a str> {
        let begin = self.at;
        names.clear();
        let mut named = false;
        if self.peek().is_some_and(is_name_start) {
            self.take_while(is_name_byte);
            named = true;
            let end = self.at;
            if rules.blanks {
                self.skip_blanks();
            }
            if self.peek() != Some(b'{') {
                self.at = end;
                return self.text_from(begin);
            }
        } else if self.peek() != Some(b'{') {
            return self.fault(Reason::Start);
        }
        self.braces(rules, named, names)?;
        // Before the names are compared: an escape can't split a character.
        let series = self.text_from(begin)?;
        if let Some(at) = names.duplicate(self.body) {
            return Err(Fault { at, reason: Reason::LabelTwice });
        }
        Ok(series)
    }

    /// The labels; the cursor stands at the opening brace.
    pub(super) fn braces(
        &mut self,
        rules: Grammar,
        mut named: bool,
        names: &mut Names,
    ) -> Read<()> {
        let open = self.at;
        self.at += 1;
        let blanks = |cursor: &mut Self| {
            if rules.blanks {
                cursor.skip_blanks();
            }
        };
        loop {
            blanks(self);
            let name = self.at;
            let is_quoted = match self.peek() {
                Some(b'}') => {
                    self.at += 1;
                    break;
                }
                Some(b'"') => {
                    self.quoted(rules.name, Reason::LabelName)?;
                    true
                }
                Some(byte) if byte.is_ascii_alphabetic() || byte == b'_' => {
                    self.take_while(|b| b.is_ascii_alphanumeric() || b == b'_');
                    false
                }
                _ => return self.fault(Reason::LabelName),
            };
            let quote = usize::from(is_quoted);
            let (inner, inner_end) = (name + quote, self.at - quote);
            blanks(self);
            if is_quoted && rules.metric && matches!(self.peek(), Some(b',' | b'}')) {
                if named {
                    return Err(Fault { at: name, reason: Reason::NameTwice });
                }
                if inner == inner_end {
                    return Err(Fault { at: name, reason: Reason::NameMissing });
                }
                named = true;
                self.at += usize::from(self.peek() == Some(b','));
                continue;
            }
            if inner == inner_end {
                return Err(Fault { at: name, reason: Reason::LabelName });
            }
            if self.peek() != Some(b'=') {
                return self.fault(Reason::Equal);
            }
            self.at += 1;
            blanks(self);
            self.quoted(rules.value, Reason::LabelValue)?;
            names.push(inner, inner_end);
            blanks(self);
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {}
                // Prometheus reads text without the commas.
                _ if rules.blanks => {}
                _ => return self.fault(Reason::CommaOrBrace),
            }
        }
        if rules.metric && !named {
            return Err(Fault { at: open, reason: Reason::NameMissing });
        }
        Ok(())
    }
}

/// What a quoted token may hold as it stands.
#[derive(Clone, Copy)]
pub(super) struct Quoting {
    pub(super) newline: bool,
    pub(super) nul: bool,
}

/// Where the two formats and exemplars differ within braces.
#[derive(Clone, Copy)]
pub(super) struct Grammar {
    /// Blanks may stand between tokens, and commas may be missing.
    pub(super) blanks: bool,
    /// A quoted string alone is the metric's name, and there has to be one.
    pub(super) metric: bool,
    pub(super) name: Quoting,
    pub(super) value: Quoting,
}

pub(super) fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte == b':'
}

pub(super) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':'
}

/// `bytes`, which stand at `begin` in the body, as text.
pub(super) fn utf8(bytes: &[u8], begin: usize) -> Read<&str> {
    std::str::from_utf8(bytes)
        .map_err(|error| Fault { at: begin + error.valid_up_to(), reason: Reason::Utf8 })
}
