//! Sets of attributes, which are sets of labels: given in any order, escaped once, stored once for all
//! instruments of a registry.
//!
//! A set is looked up by a hash that does not depend on the order, and compared with what is stored, so
//! that a known set costs no sorting and no allocation. Two attributes of one name count as one, and the
//! last of them is taken. Values are text: the number 200 and the text "200" are one set, since an
//! exposition could not tell them apart; which of the two it was first is what OTLP is told.

use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, LazyLock};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use parking_lot::Mutex;
use wire::exposition::writer::StoredLabels;

static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::default);

/// What type a value had before it became text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ValueType {
    /// A text.
    #[default]
    Text,
    /// `true` or `false`.
    Boolean,
    /// A whole number.
    Integer,
    /// A number with a fraction.
    Float,
    /// Several values, as JSON.
    Array,
}

/// One attribute on its way into a set.
#[derive(Clone, Copy, Debug)]
pub struct Attribute<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its value as text.
    pub value: &'a str,
    /// What the text stands for.
    pub value_type: ValueType,
}

impl<'a> From<(&'a str, &'a str)> for Attribute<'a> {
    #[inline]
    fn from((name, value): (&'a str, &'a str)) -> Self {
        Attribute { name, value, value_type: ValueType::Text }
    }
}

impl<'a> From<&(&'a str, &'a str)> for Attribute<'a> {
    #[inline]
    fn from(pair: &(&'a str, &'a str)) -> Self {
        (*pair).into()
    }
}

/// Attributes in any order, as often as asked.
pub(crate) trait Given<'a>:
    Iterator<Item = Attribute<'a>> + Clone + ExactSizeIterator
{
}

impl<'a, G: Iterator<Item = Attribute<'a>> + Clone + ExactSizeIterator> Given<'a> for G {}

/// The hash of a set, whatever the order of what is given. *Steady.*
#[inline]
pub(crate) fn hash<'a>(given: impl Given<'a>) -> u64 {
    let hasher = &*HASHER;
    given.fold(0, |sum: u64, attribute| {
        let mut state = hasher.build_hasher();
        state.write(attribute.name.as_bytes());
        state.write(attribute.value.as_bytes());
        // Where the name ends and the value begins tells "ab","c" from "a","bc".
        state.write_usize(attribute.name.len());
        sum.wrapping_add(state.finish())
    })
}

/// A stored set: sorted by name, each name once. Cloning gives another reference to the same set.
#[derive(Clone)]
pub struct Attributes(Arc<Set>);

struct Set {
    hash: u64,
    labels: StoredLabels,
    parts: Box<[Part]>,
}

/// Where an attribute stands in the stored text.
#[derive(Clone, Copy)]
struct Part {
    name: u32,
    name_length: u32,
    value: u32,
    value_length: u32,
    value_type: ValueType,
    /// Whether the text of name or value is not what it stands for.
    is_escaped: bool,
}

impl Attributes {
    fn new<'a>(given: impl Given<'a>) -> Self {
        let mut sorted: Vec<Attribute<'a>> = Vec::with_capacity(given.len());
        for attribute in given {
            match sorted.binary_search_by(|known| known.name.cmp(attribute.name)) {
                Ok(at) => sorted[at] = attribute,
                Err(at) => sorted.insert(at, attribute),
            }
        }
        let labels = StoredLabels::new(sorted.iter().map(|a| (a.name, a.value)));
        let hash = hash(sorted.iter().copied());
        let mut parts = Vec::with_capacity(sorted.len());
        let mut at = 0;
        for attribute in &sorted {
            let part = Part::find(labels.as_str(), at, attribute);
            at = (part.value + part.value_length) as usize + 2;
            parts.push(part);
        }
        Attributes(Arc::new(Set { hash, labels, parts: parts.into_boxed_slice() }))
    }

    pub(crate) fn hash(&self) -> u64 {
        self.0.hash
    }

    /// The set in the form in which it is written.
    pub fn labels(&self) -> &StoredLabels {
        &self.0.labels
    }

    /// How many attributes there are.
    pub fn len(&self) -> usize {
        self.0.parts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.parts.is_empty()
    }

    /// Whether both are the same stored set.
    #[inline]
    pub(crate) fn is(&self, other: &Attributes) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether this is the set of what is given, in any order. *Steady.*
    #[inline]
    pub(crate) fn is_set_of<'a>(&self, given: impl Given<'a>) -> bool {
        let parts = &*self.0.parts;
        if given.len() != parts.len() {
            return false;
        }
        // Most callers give the same order each time, and most of these the sorted one: look at the
        // place that comes next, and only then at the others.
        let text = self.0.labels.as_str();
        let mut next = 0;
        let mut seen = 0u64;
        for attribute in given {
            let in_order = next < parts.len() && parts[next].is(text, &attribute);
            let at = if in_order {
                next
            } else {
                match parts.iter().position(|part| part.is(text, &attribute)) {
                    Some(at) => at,
                    None => return false,
                }
            };
            // What is given twice stands for another part than itself.
            let bit = 1u64 << (at % 64);
            if seen & bit != 0 && parts.len() <= 64 {
                return false;
            }
            seen |= bit;
            next = at + 1;
        }
        true
    }

    /// Names and values as they were given, sorted by name. Allocates for those that had to be escaped.
    pub fn iter(
        &self,
    ) -> impl Iterator<Item = (std::borrow::Cow<'_, str>, std::borrow::Cow<'_, str>, ValueType)> + Clone
    {
        let text = self.0.labels.as_str();
        self.0.parts.iter().map(move |part| {
            let (name, value) = (part.name(text), part.value(text));
            if part.is_escaped {
                (unescaped(name).into(), unescaped(value).into(), part.value_type)
            } else {
                (name.into(), value.into(), part.value_type)
            }
        })
    }

    /// The bytes on the heap.
    pub fn memory_usage(&self) -> usize {
        size_of::<Set>() + 16 + self.0.labels.memory_usage() + size_of_val(&*self.0.parts)
    }
}

impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{}}}", self.0.labels.as_str())
    }
}

impl PartialEq for Attributes {
    fn eq(&self, other: &Self) -> bool {
        self.is(other) || self.0.labels == other.0.labels
    }
}

impl Eq for Attributes {}

impl Part {
    /// The part that begins at byte `at` of `text`, which is `attribute` written out.
    fn find(text: &str, at: usize, attribute: &Attribute<'_>) -> Part {
        let bytes = text.as_bytes();
        let end_of_quoted = |from: usize| {
            let mut at = from;
            while bytes[at] != b'"' {
                at += 1 + usize::from(bytes[at] == b'\\');
            }
            at
        };
        let (name, name_end, equals) = if bytes[at] == b'"' {
            let end = end_of_quoted(at + 1);
            (at + 1, end, end + 1)
        } else {
            let end = at + attribute.name.len();
            (at, end, end)
        };
        let value = equals + 2;
        let value_end = end_of_quoted(value);
        Part {
            name: name as u32,
            name_length: (name_end - name) as u32,
            value: value as u32,
            value_length: (value_end - value) as u32,
            value_type: attribute.value_type,
            is_escaped: &text[name..name_end] != attribute.name
                || &text[value..value_end] != attribute.value,
        }
    }

    fn name<'t>(&self, text: &'t str) -> &'t str {
        &text[self.name as usize..][..self.name_length as usize]
    }

    fn value<'t>(&self, text: &'t str) -> &'t str {
        &text[self.value as usize..][..self.value_length as usize]
    }

    #[inline]
    fn is(&self, text: &str, attribute: &Attribute<'_>) -> bool {
        if self.is_escaped {
            return is_escape_of(self.name(text), attribute.name)
                && is_escape_of(self.value(text), attribute.value);
        }
        let bytes = text.as_bytes();
        is_same(
            &bytes[self.value as usize..][..self.value_length as usize],
            attribute.value.as_bytes(),
        ) && is_same(
            &bytes[self.name as usize..][..self.name_length as usize],
            attribute.name.as_bytes(),
        )
    }
}

/// Whether both hold the same bytes. Names and values are short: up to 16 bytes are compared as two
/// overlapping words, which is a third of the time of a call.
#[inline]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    fn word<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
        bytes[at..at + N].try_into().expect("a slice of N bytes")
    }
    let length = one.len();
    if length != other.len() {
        return false;
    }
    match length {
        0 => true,
        1..4 => {
            one[0] == other[0]
                && one[length / 2] == other[length / 2]
                && one[length - 1] == other[length - 1]
        }
        4..8 => {
            word::<4>(one, 0) == word::<4>(other, 0)
                && word::<4>(one, length - 4) == word::<4>(other, length - 4)
        }
        8..=16 => {
            word::<8>(one, 0) == word::<8>(other, 0)
                && word::<8>(one, length - 8) == word::<8>(other, length - 8)
        }
        _ => one == other,
    }
}

fn is_escape_of(escaped: &str, plain: &str) -> bool {
    unescaped_bytes(escaped.as_bytes()).eq(plain.bytes())
}

fn unescaped_bytes(escaped: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let mut bytes = escaped.iter().copied();
    std::iter::from_fn(move || match bytes.next()? {
        b'\\' => match bytes.next()? {
            b'n' => Some(b'\n'),
            other => Some(other),
        },
        other => Some(other),
    })
}

fn unescaped(escaped: &str) -> String {
    String::from_utf8_lossy(&unescaped_bytes(escaped.as_bytes()).collect::<Vec<u8>>()).into_owned()
}

/// Where sets are stored once. A set that nobody else refers to any more goes when the table has doubled
/// since the last time that was looked after.
#[derive(Default)]
pub(crate) struct Sets(Mutex<Known>);

#[derive(Default)]
struct Known {
    table: HashTable<Attributes>,
    sweep_at: usize,
}

/// Fewer than these are not worth a sweep.
const SWEEP_AT_LEAST: usize = 1024;

impl Sets {
    /// The set of what is given. *Growth*: a known one is found under a lock without allocating.
    pub(crate) fn get<'a>(&self, hash: u64, given: impl Given<'a>) -> Attributes {
        let mut known = self.0.lock();
        if let Some(set) = known.table.find(hash, |set| set.is_set_of(given.clone())) {
            return set.clone();
        }
        let new = Attributes::new(given);
        if let Some(set) = known.table.find(new.hash(), |set| *set == new) {
            // A name stood twice in what was given, so the hash was another.
            return set.clone();
        }
        if known.table.len() >= known.sweep_at.max(SWEEP_AT_LEAST) {
            known.table.retain(|set| Arc::strong_count(&set.0) > 1);
            known.sweep_at = 2 * known.table.len();
        }
        known.table.insert_unique(new.hash(), new.clone(), Attributes::hash);
        new
    }

    /// The bytes on the heap.
    pub(crate) fn memory_usage(&self) -> usize {
        let known = self.0.lock();
        let sets = known.table.iter().map(Attributes::memory_usage);
        sets.sum::<usize>() + known.table.allocation_size()
    }

    /// How many are stored.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.lock().table.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(sets: &Sets, pairs: &[(&str, &str)]) -> Attributes {
        let given = pairs.iter().map(Attribute::from);
        sets.get(hash(given.clone()), given)
    }

    #[test]
    fn the_order_does_not_matter_and_a_name_counts_once() {
        let sets = Sets::default();
        let set = get(&sets, &[("b", "2"), ("a", "1"), ("c.d", "x\"y\n\\z")]);
        assert_eq!(set.labels().as_str(), "a=\"1\",b=\"2\",\"c.d\"=\"x\\\"y\\n\\\\z\"");
        for same in [
            [("a", "1"), ("b", "2"), ("c.d", "x\"y\n\\z")].as_slice(),
            &[("c.d", "x\"y\n\\z"), ("b", "2"), ("a", "1")],
            &[("a", "0"), ("c.d", "x\"y\n\\z"), ("b", "2"), ("a", "1")],
        ] {
            assert!(get(&sets, same).is(&set), "{same:?}");
        }
        for other in [
            [("a", "1"), ("b", "2")].as_slice(),
            &[("a", "1"), ("b", "2"), ("c.d", "x")],
            &[("a", "2"), ("b", "1"), ("c.d", "x\"y\n\\z")],
            &[("a1", ""), ("b", "2"), ("c.d", "x\"y\n\\z")],
            &[("a", "1"), ("a", "1"), ("c.d", "x\"y\n\\z")],
        ] {
            assert!(!get(&sets, other).is(&set), "{other:?}");
        }
        let pairs: Vec<_> =
            set.iter().map(|(name, value, _)| (name.into_owned(), value.into_owned())).collect();
        let expected = [("a", "1"), ("b", "2"), ("c.d", "x\"y\n\\z")];
        assert_eq!(pairs, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn bytes_are_compared_whole() {
        let text = b"abcdefghijklmnopqrstuvwxyz";
        for length in 0..text.len() {
            assert!(is_same(&text[..length], &text[..length]));
            for at in 0..length {
                let mut other = text[..length].to_vec();
                other[at] = b'!';
                assert!(!is_same(&text[..length], &other), "{length} {at}");
            }
        }
    }

    #[test]
    fn sets_that_nobody_has_go() {
        let sets = Sets::default();
        let kept = get(&sets, &[("id", "kept")]);
        for index in 0..20_000 {
            get(&sets, &[("id", &index.to_string())]);
        }
        assert!(sets.len() <= SWEEP_AT_LEAST, "{}", sets.len());
        assert!(get(&sets, &[("id", "kept")]).is(&kept));
    }
}
