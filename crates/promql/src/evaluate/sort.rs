//! The order of an instant vector: `sort`, `sort_desc`, `sort_by_label`, `sort_by_label_desc`.

use std::cmp::Ordering;

use super::column::Item;
use super::source::Held;

/// Sorts by value, NaN last; drops histograms.
pub(crate) fn by_value(mut series: Vec<Held>, descending: bool) -> Vec<Held> {
    let value = |held: &Held| match held.column.get(0) {
        Some(Item::Float(value)) => Some(value),
        _ => None,
    };
    series.retain(|held| value(held).is_some());
    series.sort_by(|a, b| {
        let (a, b) = (value(a).unwrap_or(f64::NAN), value(b).unwrap_or(f64::NAN));
        let order = if descending { b.partial_cmp(&a) } else { a.partial_cmp(&b) };
        order.unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
    });
    series
}

/// Sorts by the values of labels, numbers in them by value; then by all labels.
pub(crate) fn by_labels(mut series: Vec<Held>, names: &[&str], descending: bool) -> Vec<Held> {
    series.sort_by(|a, b| {
        let (a, b) = (&a.meta.labels, &b.meta.labels);
        let order = names
            .iter()
            .map(|name| natural(a.get(name).unwrap_or(""), b.get(name).unwrap_or("")))
            .find(|order| *order != Ordering::Equal)
            .unwrap_or_else(|| a.cmp(b));
        if descending { order.reverse() } else { order }
    });
    series
}

/// Compares runs of digits as numbers and everything else as text.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    while let (Some((x, rest_x)), Some((y, rest_y))) = (chunk(left), chunk(right)) {
        let order = match (x.parse::<u64>(), y.parse::<u64>()) {
            (Ok(x), Ok(y)) => x.cmp(&y),
            _ => x.cmp(y),
        };
        if order != Ordering::Equal {
            return order;
        }
        (left, right) = (rest_x, rest_y);
    }
    left.len().cmp(&right.len()).then_with(|| a.cmp(b))
}

/// The first run of digits or of other characters, and the rest.
fn chunk(text: &str) -> Option<(&str, &str)> {
    let digits = text.chars().next()?.is_ascii_digit();
    let end = text.find(|c: char| c.is_ascii_digit() != digits).unwrap_or(text.len());
    Some(text.split_at(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_texts_count_as_numbers() {
        let mut texts = ["cpu10", "cpu2", "a", "cpu2x", "10", "9", ""];
        texts.sort_by(|a, b| natural(a, b));
        assert_eq!(texts, ["", "9", "10", "a", "cpu2", "cpu2x", "cpu10"]);
    }
}
