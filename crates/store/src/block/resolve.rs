//! From matchers to the series of an index.
//!
//! 1. `=` with a value: the list of that pair. `=~` and `!~` and `!=` that no absent label passes: the
//!    lists of the values that pass, joined. All of these are intersected, small ones first.
//! 2. A matcher that an absent label passes lets every series through but those with a value that
//!    does not pass: the lists of these values are subtracted.
//! 3. A matcher that could only thin out few series by reading many lists is left for the caller, who
//!    reads these few series anyway and looks at their labels.
//!
//! Which values pass is asked of each value of the label, unless the matcher lists them (`a|b`, which
//! is looked up) or tells what they begin with.
//!
//! What is lent by the index is copied once, at the first list, and thinned out in place from there.

use super::index::{Index, Postings};
use crate::Error;
use crate::matcher::{MatchOp, Matcher};

/// A label that is looked at in place of its postings, if there are this many times more lists to read
/// than series left.
const LISTS_PER_SERIES: usize = 2;

/// References of series that may match, ascending, and the matchers that they have yet to pass.
pub(crate) struct Resolved<'m> {
    pub(crate) series: Vec<u32>,
    pub(crate) remaining: Vec<&'m Matcher>,
}

/// Whether the labels of a series pass.
pub(crate) fn passes(matchers: &[&Matcher], labels: &[(&str, &str)]) -> bool {
    matchers.iter().all(|matcher| {
        let found = labels.iter().find(|(name, _)| *name == matcher.name());
        matcher.matches(found.map_or("", |(_, value)| value))
    })
}

/// Finds the series.
pub(crate) fn resolve<'m>(index: &Index, matchers: &'m [Matcher]) -> Result<Resolved<'m>, Error> {
    let mut series: Option<Vec<u32>> = None;
    let mut remaining = Vec::new();
    let nothing = || Resolved { series: Vec::new(), remaining: Vec::new() };

    let mut exact = Vec::new();
    for matcher in matchers.iter().filter(|matcher| is_exact(matcher)) {
        match index.postings(matcher.name(), matcher.value())? {
            Some(postings) => exact.push(postings),
            None => return Ok(nothing()),
        }
    }
    exact.sort_by_key(Postings::len);
    for postings in &exact {
        match &mut series {
            None => series = Some(postings.iter().collect()),
            Some(series) => intersect(series, postings),
        }
    }

    // Matchers with few lists to read first: they are cheap and may leave little to do.
    let mut others: Vec<(bool, usize, &Matcher)> = matchers
        .iter()
        .filter(|matcher| !is_exact(matcher))
        .map(|matcher| {
            let subtracts = matcher.matches_empty();
            let lists = match Wanted::of(matcher, !subtracts) {
                Wanted::Listed(values) => values.len(),
                Wanted::One(_) => 1,
                Wanted::Prefixed(_) => index.value_count(matcher.name()) as usize,
            };
            (subtracts, lists, matcher)
        })
        .collect();
    others.sort_by_key(|&(subtracts, lists, _)| (subtracts, lists));
    for (subtracts, lists, matcher) in others {
        if let Some(series) = &series {
            if series.is_empty() {
                return Ok(nothing());
            }
            if lists > series.len() * LISTS_PER_SERIES {
                remaining.push(matcher);
                continue;
            }
        }
        // Of values that pass, or of values that do not.
        let joined = join(index, matcher, !subtracts)?;
        match (&mut series, subtracts) {
            (None, false) => series = Some(joined),
            (None, true) => {
                let mut all: Vec<u32> = index.all()?.iter().collect();
                subtract(&mut all, &joined);
                series = Some(all);
            }
            (Some(series), false) => retain_common(series, &joined),
            (Some(series), true) => subtract(series, &joined),
        }
    }
    let series = match series {
        Some(series) => series,
        None => index.all()?.iter().collect(),
    };
    Ok(Resolved { series, remaining })
}

fn is_exact(matcher: &Matcher) -> bool {
    matcher.op() == MatchOp::Equal && !matcher.value().is_empty()
}

/// The values of a label whose postings are to be joined.
enum Wanted<'m> {
    /// These, as far as they are there.
    Listed(&'m [Box<str>]),
    /// This one, if it is there.
    One(&'m str),
    /// Those that pass, or don't, among the ones that begin with this.
    Prefixed(&'m str),
}

impl<'m> Wanted<'m> {
    /// Those of the values that pass, or of those that don't.
    fn of(matcher: &'m Matcher, passing: bool) -> Self {
        match (matcher.op(), matcher.pattern()) {
            (MatchOp::Equal, _) if passing => Wanted::One(matcher.value()),
            (MatchOp::NotEqual, _) if !passing => Wanted::One(matcher.value()),
            (op, Some(pattern)) if (op == MatchOp::Match) == passing => match pattern.literals() {
                Some(literals) => Wanted::Listed(literals),
                None => Wanted::Prefixed(pattern.prefix()),
            },
            _ => Wanted::Prefixed(""),
        }
    }
}

/// The postings of all values that pass, or of all that don't.
fn join(index: &Index, matcher: &Matcher, passing: bool) -> Result<Vec<u32>, Error> {
    let mut joined = Vec::new();
    let mut lists = 0;
    let mut add = |postings: Postings<'_>| {
        joined.extend(postings.iter());
        lists += 1;
    };
    match Wanted::of(matcher, passing) {
        Wanted::One(value) => index.postings(matcher.name(), value)?.into_iter().for_each(&mut add),
        Wanted::Listed(values) => {
            for value in values {
                index.postings(matcher.name(), value)?.into_iter().for_each(&mut add);
            }
        }
        Wanted::Prefixed(prefix) => {
            for value in index.values(matcher.name(), prefix) {
                let (value, postings) = value?;
                if matcher.matches(value) == passing {
                    add(index.postings_at(postings)?);
                }
            }
        }
    }
    // A series has one value of a label: the lists have nothing in common, but interleave.
    if lists > 1 {
        joined.sort_unstable();
        // Unless a value was listed twice.
        joined.dedup();
    }
    Ok(joined)
}

/// Keeps what is in the list too. Walks it in growing strides, as it may be far longer.
fn intersect(series: &mut Vec<u32>, postings: &Postings<'_>) {
    let mut at = 0;
    series.retain(|&reference| {
        at = seek(postings, at, reference);
        at < postings.len() && postings.get(at) == reference
    });
}

/// The first place from `start` on that does not hold less than `reference`.
fn seek(postings: &Postings<'_>, start: usize, reference: u32) -> usize {
    let mut low = start;
    let mut stride = 1;
    while low + stride <= postings.len() && postings.get(low + stride - 1) < reference {
        low += stride;
        stride *= 2;
    }
    let mut high = (low + stride).min(postings.len());
    while low < high {
        let middle = low + (high - low) / 2;
        if postings.get(middle) < reference {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Whether the lists have anything in common.
pub(crate) fn overlaps(series: &[u32], postings: &Postings<'_>) -> bool {
    let mut at = 0;
    if postings.len() < series.len() {
        return postings.iter().any(|reference| {
            at += series[at..].partition_point(|&candidate| candidate < reference);
            series.get(at) == Some(&reference)
        });
    }
    series.iter().any(|&reference| {
        at = seek(postings, at, reference);
        at < postings.len() && postings.get(at) == reference
    })
}

fn retain_common(series: &mut Vec<u32>, other: &[u32]) {
    let mut rest = other;
    series.retain(|reference| {
        rest = &rest[rest.partition_point(|candidate| candidate < reference)..];
        rest.first() == Some(reference)
    });
}

fn subtract(series: &mut Vec<u32>, other: &[u32]) {
    let mut rest = other.iter().copied().peekable();
    series.retain(|&reference| {
        while rest.next_if(|&candidate| candidate < reference).is_some() {}
        rest.peek() != Some(&reference)
    });
}
