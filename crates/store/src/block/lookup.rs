//! What is asked of an index: series, names and values that pass matchers.

use std::collections::BTreeSet;

use super::index::Index;
use super::index_writer::ChunkEntry;
use super::resolve;
use crate::{Error, Matcher};

/// Calls `each` with the reference, the labels and the chunks of every series that passes, in the order
/// of their labels.
///
/// # Errors
/// The index is damaged where it had to be read.
pub(crate) fn each_series<'a>(
    index: &'a Index,
    matchers: &[Matcher],
    mut each: impl FnMut(u32, &[(&'a str, &'a str)], &[ChunkEntry]),
) -> Result<(), Error> {
    let resolved = resolve::resolve(index, matchers)?;
    let (mut labels, mut chunks) = (Vec::new(), Vec::new());
    for reference in resolved.series {
        index.series(reference, &mut labels, &mut chunks)?;
        if resolve::passes(&resolved.remaining, &labels) {
            each(reference, &labels, &chunks);
        }
    }
    Ok(())
}

/// The names of the labels of all series that pass, sorted. Without matchers none of the series is read.
///
/// # Errors
/// As [`each_series`].
pub(crate) fn label_names<'a>(
    index: &'a Index,
    matchers: &[Matcher],
) -> Result<Vec<&'a str>, Error> {
    if matchers.is_empty() {
        return Ok(index.names().collect());
    }
    let mut names = BTreeSet::new();
    each_series(index, matchers, |_, labels, _| {
        names.extend(labels.iter().map(|&(name, _)| name));
    })?;
    Ok(names.into_iter().collect())
}

/// The values of the label `name` of all series that pass, sorted. Without matchers of other labels none
/// of the series is read.
///
/// # Errors
/// As [`each_series`].
pub(crate) fn label_values<'a>(
    index: &'a Index,
    name: &str,
    matchers: &[Matcher],
) -> Result<Vec<&'a str>, Error> {
    let (own, others): (Vec<_>, Vec<_>) =
        matchers.iter().cloned().partition(|matcher| matcher.name() == name);
    let own: Vec<&Matcher> = own.iter().collect();
    let mut values = Vec::new();
    for value in index.values(name, "") {
        let (value, postings) = value?;
        if resolve::passes(&own, &[(name, value)]) {
            values.push((value, postings));
        }
    }
    if others.is_empty() || values.is_empty() {
        return Ok(values.into_iter().map(|(value, _)| value).collect());
    }
    let resolved = resolve::resolve(index, &others)?;
    if resolved.remaining.is_empty() && resolved.series.len() > values.len() {
        // Fewer lists than series: see which lists have one of the series.
        let mut seen = Vec::new();
        for (value, postings) in values {
            if resolve::overlaps(&resolved.series, &index.postings_at(postings)?) {
                seen.push(value);
            }
        }
        return Ok(seen);
    }
    let mut seen = BTreeSet::new();
    let (mut labels, mut chunks) = (Vec::new(), Vec::new());
    for reference in resolved.series {
        index.series(reference, &mut labels, &mut chunks)?;
        if let Some(&(_, value)) = labels.iter().find(|(candidate, _)| *candidate == name) {
            let all = resolve::passes(&resolved.remaining, &labels);
            if all && resolve::passes(&own, &[(name, value)]) {
                seen.insert(value);
            }
        }
    }
    Ok(seen.into_iter().collect())
}
