//! Which families and series a scrape asks for, decided before anything is rendered.
//!
//! 1. At a family's beginning, conditions on the name and on labels that all its series share are
//!    decided. What no selector can match any more is passed over without a look at its rows, and what a
//!    selector matches already is written without a look at its labels.
//! 2. For the others, a series' labels are gone through once; each sets the bits of the conditions that
//!    it meets. A selector matches if all its bits are set.
//! 3. Families mostly have the same label sets in the same order. The verdict on the series at each place
//!    is kept with a hash of its labels, and taken again in the next family that leaves the same
//!    conditions to be decided: then a series that is not wanted costs a hash and a comparison.

use std::cell::RefCell;
use std::hash::{BuildHasher, Hasher};

use foldhash::fast::RandomState;
use wire::exposition::name::Escaping;
use wire::exposition::writer::{Family, LabelSet, LabelsRef};
use wire::exposition::{Escaped, Kind};

use super::query::Query;
use super::selector::{Matcher, NAME};
use crate::collector::{Share, Wanted};

/// Verdicts that are kept, of 8 bytes each; series behind these are looked at in every family.
const MOST_KEPT: usize = 1 << 17;

/// A set of conditions, as bits.
type Bits = u64;

/// What a query asks for. Kept from scrape to scrape of the same query, for what it has compiled.
#[derive(Debug)]
pub(super) struct Filter {
    /// The query string it was made of.
    pub(super) source: String,
    names: Option<Vec<String>>,
    matchers: Vec<Matcher>,
    /// The conditions of each selector.
    selectors: Vec<Bits>,
    /// The conditions on the metric's name.
    on_name: Bits,
    /// The conditions that a metric without the label meets.
    when_absent: Bits,
    escaping: Escaping,
    hasher: RandomState,
    state: RefCell<State>,
}

/// What is known in the middle of a body.
#[derive(Debug, Default)]
struct State {
    /// What is left to decide for each series, for each selector that may match.
    open: Vec<Bits>,
    before: Vec<Bits>,
    /// A hash of the labels at each place, the last bit being the verdict.
    kept: Vec<u64>,
    place: usize,
    scratch: String,
}

impl Filter {
    /// Makes the conditions ready. *Setup.*
    pub(super) fn new(source: &str, query: Query) -> Self {
        let (mut matchers, mut selectors) = (Vec::new(), Vec::new());
        for selector in query.selectors {
            let begin = matchers.len();
            matchers.extend(selector.matchers);
            selectors.push((begin..matchers.len()).fold(0, |bits, index| bits | bit(index)));
        }
        let those = |which: &dyn Fn(&Matcher) -> bool| {
            let met = matchers.iter().enumerate().filter(|(_, matcher)| which(matcher));
            met.fold(0, |bits, (index, _)| bits | bit(index))
        };
        let on_name = those(&|matcher| matcher.label == NAME);
        let when_absent = those(&|matcher| matcher.holds("")) & !on_name;
        Filter {
            source: source.to_owned(),
            names: query.names,
            on_name,
            when_absent,
            matchers,
            selectors,
            escaping: Escaping::default(),
            hasher: RandomState::default(),
            state: RefCell::default(),
        }
    }

    /// Makes it ready for a body in which names are spelt by `escaping`.
    pub(super) fn begin(&mut self, escaping: Escaping) {
        if self.escaping != escaping {
            self.escaping = escaping;
            // The same labels may be told by other names now.
            self.state.get_mut().before.clear();
            self.state.get_mut().kept.clear();
        }
    }

    /// The conditions that labels meet, out of those they have anything to do with.
    fn met<'l>(
        &self,
        labels: impl Iterator<Item = (Name<'l>, Text<'l>)>,
        scratch: &mut String,
    ) -> Met {
        let mut met = Met::default();
        for (name, value) in labels {
            for (index, matcher) in self.matchers.iter().enumerate() {
                if !name.is(&matcher.label, self.escaping, scratch) {
                    continue;
                }
                met.decided |= bit(index);
                if matcher.holds(value.resolve(scratch)) {
                    met.holding |= bit(index);
                }
            }
        }
        met
    }

    fn verdict(&self, labels: LabelSet<'_>, open: &[Bits], scratch: &mut String) -> bool {
        let met = match labels {
            LabelSet::Stored(labels) => self.met(stored(labels), scratch),
            LabelSet::Pairs(pairs) => {
                let pairs =
                    pairs.iter().map(|(name, value)| (Name::Plain(name), Text::Plain(value)));
                self.met(pairs, scratch)
            }
        };
        let holding = met.holding | (self.when_absent & !met.decided);
        open.iter().any(|left| holding & left == *left)
    }
}

/// Conditions that some labels have to do with, and those of them that hold.
#[derive(Default)]
struct Met {
    decided: Bits,
    holding: Bits,
}

const fn bit(index: usize) -> Bits {
    1 << index
}

impl Wanted for Filter {
    fn share_of(&self, family: &Family<'_>, spelt: &str) -> Share {
        let state = &mut *self.state.borrow_mut();
        let is_named = |names: &Vec<String>| {
            any_name(family, spelt, &mut state.scratch, &mut |name| {
                names.binary_search_by(|known| known.as_str().cmp(name)).is_ok()
            })
        };
        if !self.names.as_ref().is_none_or(is_named) {
            return Share::None;
        }
        if self.selectors.is_empty() {
            return Share::All;
        }
        let Met { mut decided, mut holding } = self.met(stored(family.common), &mut state.scratch);
        decided |= self.on_name;
        for (index, matcher) in self.matchers.iter().enumerate() {
            if self.on_name & bit(index) != 0 {
                let scratch = &mut state.scratch;
                let holds = matcher.holds_for_any(|is| any_name(family, spelt, scratch, is));
                holding |= if holds { bit(index) } else { 0 };
            }
        }
        std::mem::swap(&mut state.open, &mut state.before);
        state.open.clear();
        let possible = self.selectors.iter().filter(|bits| **bits & decided & !holding == 0);
        state.open.extend(possible.map(|bits| bits & !decided));
        state.place = 0;
        if state.open.is_empty() {
            return Share::None;
        }
        if state.open.contains(&0) {
            return Share::All;
        }
        if state.open != state.before {
            state.kept.clear();
        }
        Share::Some
    }

    fn wants_series(&self, labels: LabelSet<'_>) -> bool {
        let State { open, kept, place, scratch, .. } = &mut *self.state.borrow_mut();
        let LabelSet::Stored(stored) = labels else { return self.verdict(labels, open, scratch) };
        let mut hasher = self.hasher.build_hasher();
        hasher.write(stored.as_bytes());
        let hash = hasher.finish() & !1;
        let at = *place;
        *place += 1;
        match kept.get(at) {
            Some(known) if known & !1 == hash => return known & 1 == 1,
            _ => {}
        }
        let verdict = self.verdict(labels, open, scratch);
        let word = hash | u64::from(verdict);
        if let Some(known) = kept.get_mut(at) {
            *known = word;
        } else if at == kept.len() && at < MOST_KEPT {
            kept.push(word);
        }
        verdict
    }
}

/// Whether `is` says so of one of the names that a family or its series may be asked for by: the name it
/// is registered under and the one that the body has, with and without what its kind adds.
fn any_name(
    family: &Family<'_>,
    spelt: &str,
    scratch: &mut String,
    is: &mut dyn FnMut(&str) -> bool,
) -> bool {
    let (ending, suffixes): (&str, &[&str]) = match family.kind {
        Kind::Counter => ("_total", &["_total", "_created"]),
        Kind::Histogram => ("", &["_bucket", "_sum", "_count", "_created"]),
        Kind::GaugeHistogram => ("", &["_bucket", "_sum", "_count", "_gsum", "_gcount"]),
        Kind::Summary => ("", &["_sum", "_count", "_created"]),
        Kind::Info => ("_info", &["_info"]),
        Kind::Gauge | Kind::StateSet | Kind::Unknown => ("", &[]),
    };
    let mut any = |name: &str| {
        let base = name.strip_suffix(ending).unwrap_or(name);
        is(name)
            || (base != name && is(base))
            || suffixes.iter().any(|suffix| {
                scratch.clear();
                scratch.push_str(base);
                scratch.push_str(suffix);
                is(scratch)
            })
    };
    any(family.name) || (spelt != family.name && any(spelt))
}

/// A label's name as it is, or with escapes.
enum Name<'l> {
    /// One that is never spelt otherwise.
    Legacy(&'l str),
    Plain(&'l str),
    Escaped(Escaped<'l>),
}

impl Name<'_> {
    /// Whether somebody who reads the body would call it that.
    #[inline]
    fn is(&self, asked: &str, escaping: Escaping, scratch: &mut String) -> bool {
        match self {
            Name::Legacy(name) => *name == asked,
            Name::Plain(name) => *name == asked || is_spelt(name, asked, escaping, scratch),
            Name::Escaped(name) => match name.as_plain() {
                Some(name) => name == asked || is_spelt(name, asked, escaping, scratch),
                None => {
                    let name = name.to_cow();
                    name == asked || is_spelt(&name, asked, escaping, scratch)
                }
            },
        }
    }
}

fn is_spelt(name: &str, asked: &str, escaping: Escaping, scratch: &mut String) -> bool {
    // A name that is spelt otherwise holds something that is no letter, digit or `_`.
    let is_legacy = || name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if escaping == Escaping::AllowUtf8 || is_legacy() {
        return false;
    }
    scratch.clear();
    escaping.label_into(name, scratch);
    scratch == asked
}

/// A label's value as it is, or with escapes.
enum Text<'l> {
    Plain(&'l str),
    Escaped(Escaped<'l>),
}

impl Text<'_> {
    fn resolve<'s>(&'s self, scratch: &'s mut String) -> &'s str {
        match self {
            Text::Plain(text) => text,
            Text::Escaped(text) => text.resolve(scratch),
        }
    }
}

fn stored<'l>(labels: LabelsRef<'l>) -> impl Iterator<Item = (Name<'l>, Text<'l>)> {
    let is_legacy = labels.is_legacy();
    labels.iter().map(move |label| {
        let name = match is_legacy {
            true => Name::Legacy(label.name.raw()),
            false => Name::Escaped(label.name),
        };
        (name, Text::Escaped(label.value))
    })
}
