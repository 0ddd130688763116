//! Labels in the form in which lines hold them: `a="b",c="d"`, escaped once and copied ever after.

use super::labels::{Escaped, Label};
use super::name::{Escaping, is_legacy};

/// Labels in the form in which they are written, lent: to be copied and not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct LabelsRef<'a> {
    /// UTF-8, but kept as bytes: whoever keeps it in memory of its own can lend it without a check.
    text: &'a [u8],
    /// Whether every name is in the legacy alphabet, so that no scheme respells it.
    legacy: bool,
}

impl<'a> LabelsRef<'a> {
    /// No labels.
    pub const EMPTY: LabelsRef<'static> = LabelsRef { text: b"", legacy: true };

    /// Lends what [`escape_into`] wrote: its text, and what it gave. Any other text ends up in the body
    /// as it is, and spoils it.
    pub const fn new(text: &'a str, legacy: bool) -> Self {
        LabelsRef { text: text.as_bytes(), legacy }
    }

    /// The same of the text's bytes. Where they are not UTF-8, there are no names and values in them.
    #[inline]
    pub const fn from_bytes(text: &'a [u8], legacy: bool) -> Self {
        LabelsRef { text, legacy }
    }

    /// `a="b",c="d"`, checked to be UTF-8.
    pub fn as_str(&self) -> &'a str {
        std::str::from_utf8(self.text).unwrap_or_default()
    }

    /// The bytes of the same: one copy writes them.
    #[inline]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.text
    }

    /// Whether every name is in the legacy alphabet.
    pub const fn is_legacy(&self) -> bool {
        self.legacy
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Names and values, in the order in which they stand. *Steady.*
    pub fn iter(&self) -> StoredIter<'a> {
        StoredIter { rest: self.as_str() }
    }

    /// Whether they may be copied as they are where names are spelt by `escaping`.
    #[inline]
    pub(super) fn is_direct(&self, escaping: Escaping) -> bool {
        self.legacy || matches!(escaping, Escaping::AllowUtf8) || self.text.is_empty()
    }
}

impl<'a> IntoIterator for LabelsRef<'a> {
    type Item = Label<'a>;
    type IntoIter = StoredIter<'a>;

    fn into_iter(self) -> StoredIter<'a> {
        self.iter()
    }
}

/// The names and values of [`LabelsRef`].
#[derive(Clone, Debug)]
pub struct StoredIter<'a> {
    rest: &'a str,
}

impl<'a> Iterator for StoredIter<'a> {
    type Item = Label<'a>;

    #[inline]
    fn next(&mut self) -> Option<Label<'a>> {
        let rest = self.rest;
        let (name, after) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let end = closing_quote(quoted)?;
                (Escaped::label(&quoted[..end]), quoted.get(end + 2..)?)
            }
            None => {
                let end = rest.bytes().position(|b| b == b'=')?;
                (Escaped::plain(&rest[..end]), &rest[end + 1..])
            }
        };
        let quoted = after.strip_prefix('"')?;
        let end = closing_quote(quoted)?;
        let after = &quoted[end + 1..];
        self.rest = after.strip_prefix(',').unwrap_or(after);
        Some(Label { name, value: Escaped::label(&quoted[..end]) })
    }
}

/// Where the first quote stands that no backslash takes along.
fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    })
}

/// Labels in the form in which they are written, owned.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct StoredLabels {
    text: Box<str>,
    legacy: bool,
}

impl StoredLabels {
    /// Escapes `pairs` once. *Setup.*
    pub fn new<'p>(pairs: impl IntoIterator<Item = (&'p str, &'p str)>) -> Self {
        let mut text = String::new();
        let legacy = escape_into(pairs, &mut text);
        StoredLabels { text: text.into_boxed_str(), legacy }
    }

    /// The same, lent.
    pub const fn borrow(&self) -> LabelsRef<'_> {
        LabelsRef { text: self.text.as_bytes(), legacy: self.legacy }
    }

    /// `a="b",c="d"`.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The bytes on the heap.
    pub fn memory_usage(&self) -> usize {
        self.text.len()
    }
}

impl<'a> From<&'a StoredLabels> for LabelsRef<'a> {
    fn from(stored: &'a StoredLabels) -> Self {
        stored.borrow()
    }
}

/// Appends `pairs` to `out` in the form in which they are written, and says whether every name is in the
/// legacy alphabet. What stood in `out` before is left as it is. *Growth* of `out`, otherwise steady.
pub fn escape_into<'p>(
    pairs: impl IntoIterator<Item = (&'p str, &'p str)>,
    out: &mut String,
) -> bool {
    let begin = out.len();
    let mut all_legacy = true;
    for (name, value) in pairs {
        if out.len() > begin {
            out.push(',');
        }
        all_legacy &= push_name(name, out);
        out.push_str("=\"");
        push_escaped(value, out);
        out.push('"');
    }
    all_legacy
}

/// Appends a label's name, in quotes where it needs them; says whether it needed none.
pub(super) fn push_name(name: &str, out: &mut String) -> bool {
    let legacy = is_legacy(name);
    if legacy {
        out.push_str(name);
    } else {
        out.push('"');
        push_without_nul(name, out, push_escaped);
        out.push('"');
    }
    legacy
}

/// What stands for a NUL where no reader takes one: in names, and in all of an exemplar. Otherwise one
/// such text would keep the whole body from being read.
pub(super) const NUL: &str = "\u{fffd}";

/// Appends `text` by `push`, without its NULs.
pub(super) fn push_without_nul(text: &str, out: &mut String, push: fn(&str, &mut String)) {
    let mut parts = text.split('\0');
    push(parts.next().unwrap_or_default(), out);
    for part in parts {
        out.push_str(NUL);
        push(part, out);
    }
}

/// Whether one of the eight is `byte`.
#[inline]
const fn has_byte(eight: u64, byte: u8) -> bool {
    const ONES: u64 = u64::MAX / 0xff;
    let differences = eight ^ (ONES * byte as u64);
    differences.wrapping_sub(ONES) & !differences & (ONES << 7) != 0
}

/// Whether a byte of `text` has to be escaped in quotes.
#[inline]
pub(super) fn needs_escape(text: &str) -> bool {
    let is_one = |byte: u8| matches!(byte, b'\\' | b'"' | b'\n');
    let bytes = text.as_bytes();
    let Some(last) = bytes.last_chunk::<8>() else { return bytes.iter().any(|byte| is_one(*byte)) };
    // Eight bytes at a time; the last eight may have been seen before.
    let (eights, _) = bytes.as_chunks::<8>();
    eights.iter().chain([last]).any(|eight| {
        let eight = u64::from_le_bytes(*eight);
        has_byte(eight, b'\\') | has_byte(eight, b'"') | has_byte(eight, b'\n')
    })
}

/// Appends `text` so that it ends neither a line nor the quotes that it stands in.
pub(super) fn push_escaped(text: &str, out: &mut String) {
    // Nearly no text needs it, and looking at all of it without a branch is fast.
    if !needs_escape(text) {
        return out.push_str(text);
    }
    for part in text.split_inclusive(['\\', '"', '\n']) {
        let (before, escape) = match part.as_bytes().last() {
            Some(b'\\') => (&part[..part.len() - 1], "\\\\"),
            Some(b'"') => (&part[..part.len() - 1], "\\\""),
            Some(b'\n') => (&part[..part.len() - 1], "\\n"),
            _ => (part, ""),
        };
        out.push_str(before);
        out.push_str(escape);
    }
}

/// Labels, escaped beforehand or now.
#[derive(Clone, Copy, Debug)]
pub enum LabelSet<'a> {
    /// Stored in the form in which they are written: one copy.
    Stored(LabelsRef<'a>),
    /// Names and values as they are.
    Pairs(&'a [(&'a str, &'a str)]),
}

impl LabelSet<'_> {
    /// No labels.
    pub const EMPTY: LabelSet<'static> = LabelSet::Stored(LabelsRef::EMPTY);
}

impl<'a> From<LabelsRef<'a>> for LabelSet<'a> {
    fn from(labels: LabelsRef<'a>) -> Self {
        LabelSet::Stored(labels)
    }
}

impl<'a> From<&'a StoredLabels> for LabelSet<'a> {
    fn from(labels: &'a StoredLabels) -> Self {
        LabelSet::Stored(labels.borrow())
    }
}

impl<'a> From<&'a [(&'a str, &'a str)]> for LabelSet<'a> {
    fn from(pairs: &'a [(&'a str, &'a str)]) -> Self {
        LabelSet::Pairs(pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_labels_give_their_names_and_values_back() {
        let pairs = [
            ("a", "b"),
            ("c.d", "e\"\\\n,=\""),
            ("\\", "\\"),
            ("\"q\"=", ""),
            ("z", "花\u{2028}\r\0"),
        ];
        let stored = StoredLabels::new(pairs);
        let read: Vec<_> = stored
            .borrow()
            .iter()
            .map(|label| (label.name.to_string(), label.value.to_string()))
            .collect();
        let expected: Vec<_> =
            pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        assert_eq!(read, expected);
        assert!(!stored.borrow().is_legacy() && StoredLabels::new([("a", ".")]).legacy);
        assert_eq!(LabelsRef::EMPTY.iter().count(), 0);
        for broken in ["a", "a=", "a=\"", "\"", "\"a", "\"a\"", "\"a\"=", "=", "a=\"\\\"", "\"é\"é"]
        {
            assert_eq!(LabelsRef::new(broken, false).iter().count(), 0, "{broken}");
        }
    }
}
