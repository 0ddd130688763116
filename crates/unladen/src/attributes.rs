//! Sets of attributes, which are sets of labels: given in any order, escaped once, stored once for all
//! instruments of a registry.
//!
//! A set is looked up by a hash that does not depend on the order, and compared with what is stored, so
//! that a known set costs no sorting and no allocation. Two attributes of one name count as one, and the
//! last of them is taken. Values are text: the number 200 and the text "200" are one set, since an
//! exposition could not tell them apart; which of the two it was first is what OTLP is told.

use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use hashbrown::HashTable;
use parking_lot::Mutex;
use triomphe::ThinArc;
use wire::exposition::writer::{LabelsRef, escape_into};

/// What type a value had before it became text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
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

impl ValueType {
    const ALL: [ValueType; 5] = [
        ValueType::Text,
        ValueType::Boolean,
        ValueType::Integer,
        ValueType::Float,
        ValueType::Array,
    ];
}

/// One attribute on its way into a set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attribute<'a> {
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

/// The name that an attribute gets: Prometheus keeps names that begin with `__`, so they lose underscores;
/// those of the scope's labels lose the `otel_`; `le` is spelt as a scraper spells what it finds taken.
/// None for an empty one.
#[inline(never)]
pub(crate) fn fitting(name: &str, is_histogram: bool) -> Option<&str> {
    match name {
        "" => None,
        "le" if is_histogram => Some("exported_le"),
        _ if name.starts_with("__") => {
            Some(&name[name.len() - name.trim_start_matches('_').len() - 1..])
        }
        _ => name.strip_prefix("otel_").filter(|rest| rest.starts_with("scope_")).or(Some(name)),
    }
}

/// Whether a name stands more than once. Compares each with each.
pub(crate) fn repeats<'a>(given: impl Given<'a>) -> bool {
    let mut rest = given;
    while let Some(attribute) = rest.next() {
        if rest.clone().any(|later| later.name == attribute.name) {
            return true;
        }
    }
    false
}

/// Attributes of what was given, each name once: the last one counts. Allocates for more than 16.
pub(crate) struct Gathered<'a> {
    few: [Attribute<'a>; Gathered::FEW],
    many: Vec<Attribute<'a>>,
    count: usize,
}

impl<'a> Gathered<'a> {
    const FEW: usize = 16;

    pub(crate) fn new(given: impl Iterator<Item = Attribute<'a>>) -> Self {
        let few = [Attribute::from(("", "")); Gathered::FEW];
        let mut gathered = Gathered { few, many: Vec::new(), count: 0 };
        given.for_each(|attribute| gathered.put(attribute));
        gathered
    }

    fn put(&mut self, attribute: Attribute<'a>) {
        let known = match self.count {
            ..=Gathered::FEW => &mut self.few[..self.count],
            _ => &mut self.many,
        };
        if let Some(known) = known.iter_mut().find(|known| known.name == attribute.name) {
            *known = attribute;
            return;
        }
        match self.few.get_mut(self.count) {
            Some(place) => *place = attribute,
            None => {
                if self.many.is_empty() {
                    self.many.extend_from_slice(&self.few);
                }
                self.many.push(attribute);
            }
        }
        self.count += 1;
    }

    pub(crate) fn iter<'g>(&'g self) -> impl Given<'a> + use<'a, 'g> {
        self.few.get(..self.count).unwrap_or(&self.many).iter().copied()
    }
}

/// The hash of a set, whatever the order of what is given. *Steady.*
#[inline]
pub(crate) fn hash<'a>(given: impl Given<'a>) -> u64 {
    let secrets = &*SECRETS;
    let mut hash = 0u64;
    for attribute in given {
        // A sum does not depend on the order.
        hash = hash.wrapping_add(Words::of(&attribute).hash(secrets, &attribute));
    }
    hash
}

/// Unknown to whoever chooses attributes, so that nobody can have all of them collide.
static SECRETS: LazyLock<[u64; 4]> = LazyLock::new(|| {
    let state = RandomState::new();
    std::array::from_fn(|index| state.hash_one(index))
});

/// Folds two words into one by a multiplication of 128 bits, as wyhash does.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// An attribute as few words: all of it where name and value have up to 16 bytes, as nearly all have, so
/// that it is hashed and compared without a loop.
#[derive(Clone, Copy)]
struct Words {
    name: [u64; 2],
    value: [u64; 2],
    /// The name's, and above it the value's.
    lengths: u64,
}

impl Words {
    #[inline]
    fn of(attribute: &Attribute<'_>) -> Self {
        let (name, value) = (attribute.name.as_bytes(), attribute.value.as_bytes());
        Words {
            name: ends(name),
            value: ends(value),
            lengths: (value.len() as u64) << 32 | name.len() as u64,
        }
    }

    /// Those of the part at this place.
    #[inline]
    fn read(parts: &[u8], at: usize) -> Words {
        let from = &parts[at * Part::SIZE..][..Words::SIZE];
        let number = |at| u64::from_le_bytes(word(from, at));
        Words { name: [number(0), number(8)], value: [number(16), number(24)], lengths: number(32) }
    }

    const SIZE: usize = 5 * 8;

    /// The lengths of what had to be escaped, which is compared byte by byte: no attribute's words have
    /// them. Those of its text stand where otherwise the name is.
    const ESCAPED: u64 = u64::MAX;

    #[inline]
    fn is(&self, other: &Words) -> bool {
        (self.lengths ^ other.lengths)
            | (self.value[0] ^ other.value[0])
            | (self.value[1] ^ other.value[1])
            | (self.name[0] ^ other.name[0])
            | (self.name[1] ^ other.name[1])
            == 0
    }

    /// Whether there is more of the attribute than is in the words.
    #[inline]
    fn is_long(&self) -> bool {
        self.lengths >> 32 > 16 || self.lengths as u32 > 16
    }

    #[inline]
    fn hash(&self, secrets: &[u64; 4], attribute: &Attribute<'_>) -> u64 {
        let mut hash = fold(self.name[0] ^ secrets[0], self.name[1] ^ secrets[1] ^ self.lengths);
        if self.is_long() {
            hash = hash_middle(hash, secrets, attribute.name.as_bytes());
            hash = hash_middle(hash, secrets, attribute.value.as_bytes());
        }
        fold(self.value[0] ^ secrets[2], self.value[1] ^ secrets[3] ^ hash)
    }
}

/// Takes along what lies between the first and the last eight bytes.
#[inline]
fn hash_middle(hash: u64, secrets: &[u64; 4], text: &[u8]) -> u64 {
    match text.len() {
        ..=16 => hash,
        17..=32 => {
            let [low, high] = middle(text);
            fold(low ^ hash, high ^ secrets[3])
        }
        _ => hash_long(hash, secrets, text),
    }
}

#[cold]
#[inline(never)]
fn hash_long(mut hash: u64, secrets: &[u64; 4], text: &[u8]) -> u64 {
    for block in text.chunks(16) {
        let [low, high] = ends(block);
        hash = fold(low ^ hash, high ^ secrets[3]);
    }
    hash
}

/// What lies between the first and the last eight of 17 to 32 bytes, in two words that may overlap.
#[inline]
fn middle(text: &[u8]) -> [u64; 2] {
    [u64::from_le_bytes(word(text, 8)), u64::from_le_bytes(word(text, text.len() - 16))]
}

/// Whether two texts of one length are the same, those of up to 32 bytes without a call.
#[inline]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let ([a, b], [c, d]) = (ends(one), ends(other));
    (a ^ c) | (b ^ d) == 0 && has_same_middle(one, other)
}

/// Whether two texts of one length whose first and last eight bytes are the same are the same.
#[inline]
fn has_same_middle(one: &[u8], other: &[u8]) -> bool {
    match one.len() {
        ..=16 => true,
        17..=32 => {
            let ([a, b], [c, d]) = (middle(one), middle(other));
            (a ^ c) | (b ^ d) == 0
        }
        _ => one == other,
    }
}

/// The first and the last eight bytes, which overlap in a short text.
#[inline]
fn ends(text: &[u8]) -> [u64; 2] {
    let length = text.len();
    if length >= 8 {
        [u64::from_le_bytes(word(text, 0)), u64::from_le_bytes(word(text, length - 8))]
    } else if length >= 4 {
        let half = |at| u64::from(u32::from_le_bytes(word(text, at)));
        [half(0), half(length - 4)]
    } else if length > 0 {
        let byte = |at: usize| u64::from(text[at]);
        [byte(0) | byte(length / 2) << 8, byte(length - 1)]
    } else {
        [0, 0]
    }
}

#[inline]
fn word<const N: usize>(text: &[u8], at: usize) -> [u8; N] {
    text[at..at + N].try_into().expect("a slice of N bytes")
}

/// A stored set: sorted by name, each name once. Cloning gives another reference to the same set.
///
/// One allocation, in which the text comes first, because that is what every exposition copies:
/// ```text
/// references, hash, lengths | a="b",c="d" | a part for each attribute, little-endian
/// ```
#[derive(Clone)]
pub struct Attributes(ThinArc<Header, u8>);

#[derive(Clone, Copy)]
struct Header {
    hash: u64,
    text: u32,
    parts: u16,
    is_legacy: bool,
    /// Whether the text has no escapes and no quoted names: no quotes but those around values.
    is_plain: bool,
}

/// The order in which somebody gives the attributes of a set: four bits for each, its place in the set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order(u64);

impl Order {
    /// Of more than 15 attributes, or of none that are known.
    pub(crate) const UNKNOWN: Order = Order(u64::MAX);
}

/// Where an attribute stands in the stored text.
#[derive(Clone, Copy)]
struct Part {
    words: Words,
    name: u32,
    value_type: ValueType,
    /// Whether the name stands in quotes.
    is_quoted: bool,
}

/// The attributes a set may have; more are left out.
const MOST: usize = u16::MAX as usize;

impl Attributes {
    fn new<'a>(given: impl Given<'a>) -> Self {
        let mut sorted: Vec<Attribute<'a>> = Vec::with_capacity(given.len());
        for attribute in given {
            match sorted.binary_search_by(|known| known.name.cmp(attribute.name)) {
                Ok(at) => sorted[at] = attribute,
                Err(at) => sorted.insert(at, attribute),
            }
        }
        sorted.truncate(MOST);
        let mut text = String::new();
        let is_legacy = escape_into(sorted.iter().map(|a| (a.name, a.value)), &mut text);
        let header = Header {
            hash: hash(sorted.iter().copied()),
            text: u32::try_from(text.len()).expect("less than 4 GiB of attributes"),
            parts: sorted.len() as u16,
            is_legacy,
            is_plain: is_legacy
                && text.bytes().filter(|&b| b == b'"').count() == 2 * sorted.len()
                && !text.contains('\\'),
        };
        let mut bytes = Vec::with_capacity(text.len() + sorted.len() * Part::SIZE);
        bytes.extend_from_slice(text.as_bytes());
        let mut at = 0;
        for attribute in &sorted {
            let part = Part::find(&text, at, attribute);
            at = part.value_begin() + part.lengths().1 + 2;
            part.write(&mut bytes);
        }
        Attributes(ThinArc::from_header_and_slice(header, &bytes))
    }

    #[inline]
    pub(crate) fn hash(&self) -> u64 {
        self.0.header.header.hash
    }

    /// The set in the form in which it is written.
    #[inline]
    pub fn labels(&self) -> LabelsRef<'_> {
        LabelsRef::from_bytes(self.text(), self.0.header.header.is_legacy)
    }

    #[inline]
    fn text(&self) -> &[u8] {
        &self.0.slice[..self.0.header.header.text as usize]
    }

    fn part(&self, index: usize) -> Part {
        Part::read(self.parts(), index)
    }

    /// How many attributes there are.
    pub fn len(&self) -> usize {
        usize::from(self.0.header.header.parts)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether both are the same stored set.
    #[inline]
    pub(crate) fn is(&self, other: &Attributes) -> bool {
        self.0.as_ptr() == other.0.as_ptr()
    }

    /// Whether this is the set of what is given, in any order. *Steady.*
    #[inline]
    pub(crate) fn is_set_of<'a>(&self, hash: u64, given: impl Given<'a>) -> bool {
        let count = self.len();
        if self.hash() != hash || given.len() != count {
            return false;
        }
        let parts = self.parts();
        // Most callers give the same order each time, and most of these the sorted one: look at the
        // place that comes next, and only then at the others.
        let mut next = 0;
        let mut seen = 0u64;
        for attribute in given {
            // Made again rather than kept: they are in registers when they are compared.
            let words = Words::of(&attribute);
            let mut at = next;
            if at >= count || !self.is_at(parts, at, &words, &attribute) {
                at = 0;
                while at < count && !self.is_at(parts, at, &words, &attribute) {
                    at += 1;
                }
                if at == count {
                    return false;
                }
            }
            // What is given twice stands for another part than itself.
            let bit = 1u64 << (at % 64);
            if seen & bit != 0 && count <= 64 {
                return false;
            }
            seen |= bit;
            next = at + 1;
        }
        true
    }

    /// Whether this is the set of what is given in this order: without hashing. *Steady.*
    #[inline]
    pub(crate) fn is_set_in_order<'a>(&self, order: Order, given: impl Given<'a>) -> bool {
        let parts = self.parts();
        let mut places = order.0;
        given.len() == self.len()
            && order != Order::UNKNOWN
            && given.into_iter().all(|attribute| {
                let at = (places & 15) as usize;
                places >>= 4;
                self.is_at(parts, at, &Words::of(&attribute), &attribute)
            })
    }

    /// The order in which the attributes of this set are given.
    pub(crate) fn order_of<'a>(&self, given: impl Given<'a>) -> Order {
        let parts = self.parts();
        if given.len() > 15 {
            return Order::UNKNOWN;
        }
        let mut order = 0;
        for (index, attribute) in given.enumerate() {
            let words = Words::of(&attribute);
            let place = (0..self.len()).find(|&at| self.is_at(parts, at, &words, &attribute));
            let Some(place) = place else { return Order::UNKNOWN };
            order |= (place as u64) << (4 * index);
        }
        Order(order)
    }

    #[inline]
    fn parts(&self) -> &[u8] {
        &self.0.slice[self.0.header.header.text as usize..]
    }

    /// Whether the part at this place is `attribute`, of which these are the words.
    #[inline(always)]
    fn is_at(&self, parts: &[u8], at: usize, words: &Words, attribute: &Attribute<'_>) -> bool {
        let known = Words::read(parts, at);
        match known.is(words) {
            true => !words.is_long() || self.is_rest_at(parts, at, attribute),
            false => known.lengths == Words::ESCAPED && self.is_all_at(at, attribute),
        }
    }

    /// The same of what is long and has these words.
    #[inline(always)]
    fn is_rest_at(&self, parts: &[u8], at: usize, attribute: &Attribute<'_>) -> bool {
        // The lengths are those of the attribute, so only the places have to be read.
        let end = (at + 1) * Part::SIZE;
        let Some(place) = parts.get(end - 5..end) else { return false };
        let is_quoted = place[4] & Part::QUOTED != 0;
        let name = u32::from_le_bytes(word(place, 0)) as usize;
        let value = name + attribute.name.len() + 2 + usize::from(is_quoted);
        let text = self.text();
        let is_same = |at: usize, plain: &[u8]| {
            text.get(at..at + plain.len()).is_some_and(|text| has_same_middle(text, plain))
        };
        is_same(name, attribute.name.as_bytes()) && is_same(value, attribute.value.as_bytes())
    }

    /// The same byte by byte, of what had to be escaped.
    #[cold]
    #[inline(never)]
    fn is_all_at(&self, at: usize, attribute: &Attribute<'_>) -> bool {
        let part = self.part(at);
        let is_same = |text: &[u8], plain: &str| unescaped_bytes(text).eq(plain.bytes());
        is_same(part.name(self.text()), attribute.name)
            && is_same(part.value(self.text()), attribute.value)
    }

    /// Whether this is the set of what is given, sorted by name: without hashing. *Steady.*
    #[inline]
    pub(crate) fn is_list_of<'a>(&self, given: impl Given<'a>) -> bool {
        if given.len() != self.len() {
            return false;
        }
        if self.0.header.header.is_plain {
            return self.is_text_of(given);
        }
        let parts = self.parts();
        given
            .enumerate()
            .all(|(at, attribute)| self.is_at(parts, at, &Words::of(&attribute), &attribute))
    }

    /// Whether the text is that of as many attributes. Where they are as many and the text is plain, a
    /// quote within one of them would be one too many, so that comparing the text is enough.
    #[inline]
    fn is_text_of<'a>(&self, given: impl Given<'a>) -> bool {
        let mut rest = self.text();
        let mut comma = 0;
        for attribute in given {
            let (name, value) = (attribute.name.as_bytes(), attribute.value.as_bytes());
            let begin = comma + name.len() + 2;
            let end = begin + value.len();
            let Some(now) = rest.get(..=end) else { return false };
            let is_it = (comma == 0 || now[0] == b',')
                && now[begin - 2] == b'='
                && now[begin - 1] == b'"'
                && now[end] == b'"'
                && is_same(&now[begin..end], value)
                && is_same(&now[comma..begin - 2], name);
            if !is_it {
                return false;
            }
            rest = &rest[end + 1..];
            comma = 1;
        }
        rest.is_empty()
    }

    /// Names and values as they were given, sorted by name. Allocates for those that had to be escaped.
    pub fn iter(
        &self,
    ) -> impl ExactSizeIterator<Item = (Cow<'_, str>, Cow<'_, str>, ValueType)> + Clone {
        (0..self.len()).map(|index| {
            let part = self.part(index);
            let (name, value) = (part.name(self.text()), part.value(self.text()));
            match part.is_escaped() {
                true => (unescaped(name), unescaped(value), part.value_type),
                false => {
                    let text =
                        |bytes| Cow::Borrowed(std::str::from_utf8(bytes).unwrap_or_default());
                    (text(name), text(value), part.value_type)
                }
            }
        })
    }

    /// The name and value that stand at `index`, as they were given; none where either had to be escaped.
    /// *Steady.*
    #[cfg(feature = "otlp")]
    #[inline]
    pub(crate) fn stored_at(&self, index: usize) -> Option<(&str, &str, ValueType)> {
        if index >= self.len() {
            return None;
        }
        let part = self.part(index);
        let text = |bytes| std::str::from_utf8(bytes).ok();
        let (name, value) = (text(part.name(self.text()))?, text(part.value(self.text()))?);
        (!part.is_escaped()).then_some((name, value, part.value_type))
    }

    /// [`stored_at`](Attributes::stored_at) for each. *Steady.*
    #[cfg(feature = "otlp")]
    pub(crate) fn stored(&self) -> impl Iterator<Item = Option<(&str, &str, ValueType)>> {
        (0..self.len()).map(|index| self.stored_at(index))
    }

    /// The bytes on the heap.
    pub fn memory_usage(&self) -> usize {
        // The references and the length, too.
        16 + size_of::<Header>() + self.0.slice.len()
    }
}

impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{}}}", self.labels().as_str())
    }
}

impl PartialEq for Attributes {
    fn eq(&self, other: &Self) -> bool {
        self.is(other) || self.text() == other.text()
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
        let (name_text, value_text) = (&text[name..name_end], &text[value..value_end]);
        let is_escaped = name_text != attribute.name || value_text != attribute.value;
        let written = Attribute { name: name_text, value: value_text, ..*attribute };
        let mut words = Words::of(&written);
        if is_escaped {
            words = Words { name: [words.lengths, 0], value: [0, 0], lengths: Words::ESCAPED };
        }
        Part {
            words,
            name: name as u32,
            value_type: attribute.value_type,
            is_quoted: equals > name_end,
        }
    }

    /// Bytes in a set: the words of the text, the place of the name, and flags.
    const SIZE: usize = Words::SIZE + 4 + 1;

    const QUOTED: u8 = 1 << 7;

    fn write(&self, to: &mut Vec<u8>) {
        let Words { name, value, lengths } = self.words;
        for word in [name[0], name[1], value[0], value[1], lengths] {
            to.extend_from_slice(&word.to_le_bytes());
        }
        to.extend_from_slice(&self.name.to_le_bytes());
        let quoted = if self.is_quoted { Part::QUOTED } else { 0 };
        to.push(self.value_type as u8 | quoted);
    }

    #[inline]
    fn read(parts: &[u8], at: usize) -> Part {
        let flags = parts[at * Part::SIZE + Part::SIZE - 1];
        let value_type = usize::from(flags & !Part::QUOTED);
        Part {
            words: Words::read(parts, at),
            name: u32::from_le_bytes(word(&parts[at * Part::SIZE..], Words::SIZE)),
            value_type: ValueType::ALL[value_type % ValueType::ALL.len()],
            is_quoted: flags & Part::QUOTED != 0,
        }
    }

    /// Whether the text of name or value is not what it stands for.
    fn is_escaped(&self) -> bool {
        self.words.lengths == Words::ESCAPED
    }

    /// Those of the text of name and value.
    #[inline]
    fn lengths(&self) -> (usize, usize) {
        let lengths = if self.is_escaped() { self.words.name[0] } else { self.words.lengths };
        (lengths as u32 as usize, (lengths >> 32) as usize)
    }

    #[inline]
    fn name<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        &text[self.name as usize..][..self.lengths().0]
    }

    /// `="` stands between name and value, and before it the quote that ends a quoted name.
    #[inline]
    fn value_begin(&self) -> usize {
        let name_end = self.name as usize + self.lengths().0;
        name_end + 2 + usize::from(self.is_quoted)
    }

    #[inline]
    fn value<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        &text[self.value_begin()..][..self.lengths().1]
    }
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

fn unescaped(escaped: &[u8]) -> Cow<'_, str> {
    let plain: Vec<u8> = unescaped_bytes(escaped).collect();
    Cow::Owned(String::from_utf8_lossy(&plain).into_owned())
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
        let is_it = |set: &Attributes| set.is_set_of(hash, given.clone());
        if let Some(set) = known.table.find(hash, is_it) {
            return set.clone();
        }
        let new = Attributes::new(given);
        if let Some(set) = known.table.find(new.hash(), |set| *set == new) {
            // A name stood twice in what was given, so the hash was another.
            return set.clone();
        }
        if known.table.len() >= known.sweep_at.max(SWEEP_AT_LEAST) {
            known.table.retain(|set| ThinArc::strong_count(&set.0) > 1);
            known.sweep_at = 2 * known.table.len();
        }
        known.table.insert_unique(new.hash(), new.clone(), Attributes::hash);
        new
    }

    /// The set without attributes.
    pub(crate) fn empty(&self) -> Attributes {
        let none = std::iter::empty();
        self.get(hash(none.clone()), none)
    }

    /// Whether this very set is stored here.
    pub(crate) fn has(&self, set: &Attributes) -> bool {
        self.0.lock().table.find(set.hash(), |known| known.is(set)).is_some()
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
    fn of_a_name_that_stands_twice_the_last_is_gathered() {
        let names: Vec<String> = (0..20).map(|index| format!("name{index}")).collect();
        for count in [1, 3, 15, 16, 17, 20] {
            let given = names[..count].iter().flat_map(|name| [(name.as_str(), "first")]);
            let given: Vec<_> = given.chain([(names[0].as_str(), "last")]).collect();
            assert!(repeats(given.iter().map(Attribute::from)));
            assert!(!repeats(given[1..].iter().map(Attribute::from)));
            let gathered = Gathered::new(given.iter().map(Attribute::from));
            assert!(!repeats(gathered.iter()) && gathered.iter().len() == count);
            let values: Vec<_> = gathered.iter().map(|attribute| attribute.value).collect();
            let is_right = |at: usize| values[at] == if at == 0 { "last" } else { "first" };
            assert!((0..count).all(is_right), "{values:?}");
        }
    }

    #[test]
    fn a_list_is_compared_as_text_only_where_that_is_enough() {
        let sets = Sets::default();
        let is_list = |set: &Attributes, pairs: &[(&str, &str)]| {
            set.is_list_of(pairs.iter().map(Attribute::from))
        };
        let set = get(&sets, &[("a", "x"), ("b", "y"), ("c", "z")]);
        assert!(is_list(&set, &[("a", "x"), ("b", "y"), ("c", "z")]));
        for other in [
            [("a", "x\",b=\"y"), ("c", "z"), ("d", "")].as_slice(),
            &[("a", "x\",b=\"y"), ("c", "z")],
            &[("a=\"x\",b", "y"), ("c", "z"), ("", "")],
            &[("a", "x"), ("b", "y")],
            &[("a", "x"), ("b", "y"), ("c", "z"), ("d", "")],
            &[("a", "x"), ("c", "z"), ("b", "y")],
            &[("a", "x"), ("b", "y"), ("c", "zz")],
        ] {
            assert!(!is_list(&set, other), "{other:?}");
        }
        let escaped = get(&sets, &[("a", "\"")]);
        assert!(is_list(&escaped, &[("a", "\"")]) && !is_list(&escaped, &[("a", "\\\"")]));
        let backslash = get(&sets, &[("a", "\\")]);
        assert!(is_list(&backslash, &[("a", "\\")]) && !is_list(&backslash, &[("a", "\\\\")]));
        let newline = get(&sets, &[("a", "\n")]);
        assert!(is_list(&newline, &[("a", "\n")]) && !is_list(&newline, &[("a", "\\n")]));
        let quoted = get(&sets, &[("a.b", "x")]);
        assert!(is_list(&quoted, &[("a.b", "x")]) && !is_list(&quoted, &[("\"a.b\"", "x")]));
        assert!(is_list(&get(&sets, &[]), &[]));
    }

    #[test]
    fn every_byte_counts() {
        let sets = Sets::default();
        let text: String = ('a'..='z').chain('A'..='Z').collect();
        for length in 1..text.len() {
            let set = get(&sets, &[("b", &text[..length]), (&text[..length], "c")]);
            for at in 0..length {
                let mut other = text[..length].to_owned();
                other.replace_range(at..=at, "!");
                let is_other = |pairs: &[(&str, &str)]| !get(&sets, pairs).is(&set);
                assert!(is_other(&[("b", &other), (&text[..length], "c")]), "{length} {at}");
                assert!(is_other(&[("b", &text[..length]), (&other, "c")]), "{length} {at}");
            }
            assert!(get(&sets, &[(&text[..length], "c"), ("b", &text[..length])]).is(&set));
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
