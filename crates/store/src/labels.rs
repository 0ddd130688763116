//! Label sets: sorted by name, one allocation, cheap to clone.
//!
//! The bytes are `varint(len) name varint(len) value` for each label in order. A set never holds an
//! empty value, because to PromQL an absent label and an empty one are the same.

use std::fmt;
use std::sync::{Arc, OnceLock};

use xxhash_rust::xxh64::xxh64;

/// The label that holds the metric's name.
pub const METRIC_NAME: &str = "__name__";

/// An immutable label set, sorted by name, without duplicates and without empty values.
///
/// Cloning bumps a reference count; everything that changes a set goes through [`LabelsBuilder`].
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Labels {
    bytes: Arc<[u8]>,
}

impl Labels {
    /// The set without labels. Does not allocate after the first call.
    pub fn empty() -> Self {
        static EMPTY: OnceLock<Arc<[u8]>> = OnceLock::new();
        Labels { bytes: EMPTY.get_or_init(|| Arc::from([])).clone() }
    }

    /// Builds a set from pairs in any order; of pairs with the same name the last one stands.
    pub fn from_pairs<N: AsRef<str>, V: AsRef<str>>(
        pairs: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let mut builder = LabelsBuilder::new();
        for (name, value) in pairs {
            builder.set(name.as_ref(), value.as_ref());
        }
        builder.build()
    }

    /// Builds a set from pairs that are sorted by name already, without a builder between: two
    /// allocations. Pairs with an empty value are left out, as everywhere.
    ///
    /// # Panics
    /// In debug builds, where names are not ascending.
    pub fn from_sorted(pairs: &[(&str, &str)]) -> Self {
        debug_assert!(pairs.windows(2).all(|two| two[0].0 < two[1].0), "names ascend");
        let mut bytes = Vec::with_capacity(
            pairs.iter().map(|(name, value)| name.len() + value.len() + 4).sum(),
        );
        for (name, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
            put(&mut bytes, name);
            put(&mut bytes, value);
        }
        Labels { bytes: Arc::from(bytes) }
    }

    /// As [`Labels::from_sorted`], with `scratch` for the bytes: one allocation.
    pub(crate) fn from_sorted_with<'a>(
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
        scratch: &mut Vec<u8>,
    ) -> Self {
        scratch.clear();
        for (name, value) in pairs {
            put(scratch, name);
            put(scratch, value);
        }
        if scratch.is_empty() {
            return Labels::empty();
        }
        Labels { bytes: Arc::from(&scratch[..]) }
    }

    /// The value of the label `name`. Scans; label sets are short.
    pub fn get(&self, name: &str) -> Option<&str> {
        for (candidate, value) in self.iter() {
            match candidate.cmp(name) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => return Some(value),
                std::cmp::Ordering::Greater => return None,
            }
        }
        None
    }

    /// The metric's name, or the empty string.
    pub fn metric_name(&self) -> &str {
        self.get(METRIC_NAME).unwrap_or("")
    }

    /// The labels in the order of their names.
    pub fn iter(&self) -> LabelsIter<'_> {
        LabelsIter { rest: &self.bytes }
    }

    /// The number of labels.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether there is no label at all.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The hash that Prometheus gives the set: xxh64 over `name 0xff value 0xff …`.
    pub fn hash64(&self) -> u64 {
        let mut buffer = Vec::with_capacity(self.bytes.len() + 16);
        for (name, value) in self.iter() {
            buffer.extend_from_slice(name.as_bytes());
            buffer.push(0xff);
            buffer.extend_from_slice(value.as_bytes());
            buffer.push(0xff);
        }
        xxh64(&buffer, 0)
    }

    /// A builder that starts from this set.
    pub fn to_builder(&self) -> LabelsBuilder {
        let mut builder = LabelsBuilder::new();
        builder.reset(self);
        builder
    }

    /// The encoded bytes: `varint(len) name varint(len) value` for each label in order.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Default for Labels {
    fn default() -> Self {
        Labels::empty()
    }
}

impl PartialOrd for Labels {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Labels {
    /// Pair by pair, as Prometheus orders series.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.iter().cmp(other.iter())
    }
}

impl<'a> IntoIterator for &'a Labels {
    type Item = (&'a str, &'a str);
    type IntoIter = LabelsIter<'a>;
    fn into_iter(self) -> LabelsIter<'a> {
        self.iter()
    }
}

/// Writes `{name="value", …}` with Go's quoting of the values.
impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (index, (name, value)) in self.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            if is_legacy_name(name) {
                f.write_str(name)?;
            } else {
                write!(f, "{name:?}")?;
            }
            write!(f, "={value:?}")?;
        }
        f.write_str("}")
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Whether `name` is a label name of before UTF-8 names: `[a-zA-Z_][a-zA-Z0-9_]*`.
pub fn is_legacy_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// The labels of a set, in the order of their names.
#[derive(Clone)]
pub struct LabelsIter<'a> {
    rest: &'a [u8],
}

impl<'a> LabelsIter<'a> {
    fn take(&mut self) -> &'a str {
        let mut length = 0usize;
        let mut shift = 0;
        loop {
            let byte = self.rest[0];
            self.rest = &self.rest[1..];
            length |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
            shift += 7;
        }
        let (text, rest) = self.rest.split_at(length);
        self.rest = rest;
        std::str::from_utf8(text).expect("a label set is built from strings")
    }
}

impl<'a> Iterator for LabelsIter<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        Some((self.take(), self.take()))
    }
}

/// Builds label sets; reuse one to keep its buffers.
#[derive(Default)]
pub struct LabelsBuilder {
    pairs: Vec<(String, String)>,
}

impl LabelsBuilder {
    /// An empty builder.
    pub fn new() -> Self {
        LabelsBuilder::default()
    }

    /// Starts over from the labels of `base`.
    pub fn reset(&mut self, base: &Labels) {
        self.pairs.clear();
        self.pairs.extend(base.iter().map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    /// Starts over from nothing.
    pub fn clear(&mut self) {
        self.pairs.clear();
    }

    /// Sets a label; an empty value removes it.
    pub fn set(&mut self, name: &str, value: &str) -> &mut Self {
        match self.pairs.binary_search_by(|(candidate, _)| candidate.as_str().cmp(name)) {
            Ok(at) if value.is_empty() => drop(self.pairs.remove(at)),
            Ok(at) => value.clone_into(&mut self.pairs[at].1),
            Err(_) if value.is_empty() => {}
            Err(at) => self.pairs.insert(at, (name.to_owned(), value.to_owned())),
        }
        self
    }

    /// Removes a label, if it is there.
    pub fn remove(&mut self, name: &str) -> &mut Self {
        self.set(name, "")
    }

    /// Keeps the labels for which `keep` says so.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &str) -> bool) -> &mut Self {
        self.pairs.retain(|(name, value)| keep(name, value));
        self
    }

    /// The value of a label.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs
            .binary_search_by(|(candidate, _)| candidate.as_str().cmp(name))
            .ok()
            .map(|at| self.pairs[at].1.as_str())
    }

    /// The labels so far, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether there is no label.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The set as it stands. The builder keeps its labels.
    pub fn build(&self) -> Labels {
        if self.pairs.is_empty() {
            return Labels::empty();
        }
        let mut bytes = Vec::with_capacity(
            self.pairs.iter().map(|(name, value)| name.len() + value.len() + 4).sum(),
        );
        for (name, value) in &self.pairs {
            put(&mut bytes, name);
            put(&mut bytes, value);
        }
        Labels { bytes: Arc::from(bytes) }
    }
}

fn put(bytes: &mut Vec<u8>, text: &str) {
    let mut length = text.len();
    while length >= 0x80 {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorts_drops_empty_values_and_keeps_the_last_of_duplicates() {
        let labels = Labels::from_pairs([("b", "2"), ("a", "1"), ("c", ""), ("b", "3")]);
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "3")]);
        assert_eq!(labels.get("b"), Some("3"));
        assert_eq!(labels.get("c"), None);
        assert_eq!(labels.to_string(), r#"{a="1", b="3"}"#);
    }

    #[test]
    fn hash_is_that_of_prometheus() {
        // labels.FromStrings("foo", "bar", "baz", "qux").Hash() in Go, without the stringlabels build tag.
        let labels = Labels::from_pairs([("foo", "bar"), ("baz", "qux")]);
        assert_eq!(labels.hash64(), xxh64(b"baz\xffqux\xfffoo\xffbar\xff", 0));
    }

    #[test]
    fn long_values_survive_the_length_prefix() {
        let long = "x".repeat(70_000);
        let labels = Labels::from_pairs([("a", long.as_str()), ("b", "y")]);
        assert_eq!(labels.get("a"), Some(long.as_str()));
        assert_eq!(labels.get("b"), Some("y"));
    }

    #[test]
    fn order_is_by_pairs() {
        let a = Labels::from_pairs([("a", "1")]);
        let ab = Labels::from_pairs([("a", "1"), ("b", "1")]);
        let b = Labels::from_pairs([("b", "0")]);
        assert!(a < ab && ab < b);
    }
}
