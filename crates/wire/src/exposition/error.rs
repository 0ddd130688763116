//! What is wrong with a line, and where.

use std::fmt;

use crate::number::ParseError;

/// A line that can't be read. The reader stops at the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// The line, counted from 1.
    pub line: u64,
    /// The byte of the body at which reading failed.
    pub offset: u64,
    /// What was expected or what is wrong there.
    pub reason: Reason,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, byte {}: {}", self.line, self.offset, self.reason)
    }
}

impl std::error::Error for ReadError {}

/// Why a line can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A line begins with something that is neither a metric name, `{` nor `#`.
    Start,
    /// OpenMetrics knows no comments beside `# HELP`, `# TYPE`, `# UNIT` and `# EOF`.
    Comment,
    /// HELP, TYPE or UNIT without the name of a family.
    FamilyName,
    /// HELP, TYPE or UNIT without a text after the name.
    MetadataText,
    /// A TYPE that the format does not have.
    Kind,
    /// A UNIT that is no suffix of the family's name.
    Unit,
    /// Bytes that are no UTF-8.
    Utf8,
    /// No name where a label's or the metric's should be.
    LabelName,
    /// No `=` after a label's name.
    Equal,
    /// No quoted value after `=`.
    LabelValue,
    /// Neither `,` nor `}` after a label.
    CommaOrBrace,
    /// The metric's name stands twice.
    NameTwice,
    /// No name, or an empty one.
    NameMissing,
    /// A label stands twice.
    LabelTwice,
    /// No value after the series.
    ValueMissing,
    /// A value that is no number.
    Value(ParseError),
    /// A timestamp that is no number of the format, or out of range.
    Timestamp,
    /// Something stands after the sample.
    Trailing,
    /// An exemplar without `{labels} value [timestamp]`.
    Exemplar,
    /// An OpenMetrics body that ends without `# EOF`.
    EofMissing,
    /// Something stands after `# EOF`.
    AfterEof,
    /// The format is protobuf, whose bodies have no lines.
    NoLines,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Start => "expected a metric name, '{' or '#' at the start of the line",
            Reason::Comment => {
                "expected HELP, TYPE, UNIT or EOF after '# ': OpenMetrics has no other comments"
            }
            Reason::FamilyName => "expected the name of a metric family",
            Reason::MetadataText => "expected a text after the name of the family",
            Reason::Kind => "invalid metric type",
            Reason::Unit => "the unit is not a suffix of the name of the family",
            Reason::Utf8 => "invalid UTF-8",
            Reason::LabelName => "expected a label name",
            Reason::Equal => "expected '=' after the label name",
            Reason::LabelValue => "expected a quoted label value",
            Reason::CommaOrBrace => "expected ',' or '}' after the label value",
            Reason::NameTwice => "the metric name is already set",
            Reason::NameMissing => "the metric name is not set",
            Reason::LabelTwice => "the label name is not unique",
            Reason::ValueMissing => "expected a value after the series",
            Reason::Value(error) => return write!(f, "invalid value: {error}"),
            Reason::Timestamp => "invalid timestamp",
            Reason::Trailing => "expected the end of the line after the sample",
            Reason::Exemplar => "expected labels, a value and at most a timestamp in the exemplar",
            Reason::EofMissing => "the body does not end with '# EOF'",
            Reason::NoLines => "protobuf messages are not read as lines",
            Reason::AfterEof => "unexpected data after '# EOF'",
        })
    }
}
