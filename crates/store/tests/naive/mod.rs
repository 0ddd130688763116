//! A naive store, and reading a real one in the same form.
#![allow(dead_code, reason = "each test takes what it needs")]

use std::collections::BTreeMap;

use store::{Db, Labels, Matcher, Samples, Select};

/// Series by their labels, samples as time and bits.
pub(crate) type Content = BTreeMap<Labels, Vec<(i64, u64)>>;

/// Everything that a selection gives, after checks of its order.
pub(crate) fn read(db: &Db, matchers: &[Matcher], from: i64, to: i64) -> Content {
    read_from(&db.querier(from, to), matchers, from, to)
}

/// As [`read`], with a querier of before.
pub(crate) fn read_from(
    querier: &store::Querier,
    matchers: &[Matcher],
    from: i64,
    to: i64,
) -> Content {
    let mut content = Content::new();
    let mut last: Option<Labels> = None;
    for series in querier.select(matchers, from, to).expect("nothing is damaged") {
        let labels = series.labels().clone();
        assert!(last.as_ref().is_none_or(|last| *last < labels), "sorted, each once: {labels}");
        let mut cursor = series.cursor();
        let mut samples = Samples::default();
        loop {
            let before = samples.len();
            let more = cursor.next(&mut samples).expect("nothing is damaged");
            assert_eq!(samples.len() > before, more, "a run has samples");
            if !more {
                break;
            }
        }
        assert!(samples.timestamps.is_sorted_by(|a, b| a < b), "each time once: {labels}");
        assert!(samples.timestamps.iter().all(|time| (from..=to).contains(time)));
        let bits = samples.values.iter().map(|value| value.to_bits());
        let pairs: Vec<_> = samples.timestamps.iter().copied().zip(bits).collect();
        if !pairs.is_empty() {
            content.insert(labels.clone(), pairs);
        }
        last = Some(labels);
    }
    content
}

/// Samples of `content` that a selection should give.
pub(crate) fn select(content: &Content, matchers: &[Matcher], from: i64, to: i64) -> Content {
    let mut selected = Content::new();
    for (labels, samples) in content {
        if matchers.iter().all(|m| m.matches(labels.get(m.name()).unwrap_or(""))) {
            let within: Vec<_> =
                samples.iter().copied().filter(|(time, _)| (from..=to).contains(time)).collect();
            if !within.is_empty() {
                selected.insert(labels.clone(), within);
            }
        }
    }
    selected
}

/// The first difference, in words.
pub(crate) fn difference(found: &Content, expected: &Content) -> Option<String> {
    for (labels, samples) in expected {
        let Some(others) = found.get(labels) else {
            return Some(format!("{labels} is missing with {} samples", samples.len()));
        };
        if samples != others {
            let at = samples.iter().zip(others).position(|(a, b)| a != b);
            let at = at.unwrap_or(samples.len().min(others.len()));
            return Some(format!(
                "{labels}: {} samples found, {} expected; sample {at} is {:?} and should be {:?}",
                others.len(),
                samples.len(),
                others.get(at),
                samples.get(at),
            ));
        }
    }
    let extra = found.keys().find(|labels| !expected.contains_key(*labels))?;
    Some(format!("{extra} should not be there"))
}
