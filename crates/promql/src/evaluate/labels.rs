//! Functions that look at labels only: `label_replace`, `label_join`, the labels of `absent`.

use std::fmt::Write;

use store::{Labels, LabelsBuilder, MatchOp, Matcher};

use super::source::Meta;

/// Whether a label may have this name: any text that isn't empty. The replacement character stands in
/// a literal for bytes that are no text.
pub(crate) fn is_label_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(char::REPLACEMENT_CHARACTER)
}

/// The series with label `target` set to `value`; whoever sets the name keeps it.
pub(crate) fn with_label(meta: &Meta, target: &str, value: &str) -> Meta {
    let mut builder = meta.labels.to_builder();
    builder.set(target, value);
    let drop_name = meta.drop_name && target != store::labels::METRIC_NAME;
    Meta { labels: builder.build(), drop_name }
}

/// The values of labels with a separator between them.
pub(crate) fn join(labels: &Labels, sources: &[&str], separator: &str) -> String {
    let mut joined = String::new();
    for (index, source) in sources.iter().enumerate() {
        let separator = if index == 0 { "" } else { separator };
        // Writing to a string cannot fail.
        let _ = write!(joined, "{separator}{}", labels.get(source).unwrap_or(""));
    }
    joined
}

/// The labels that a selector fixes to one value. A label with several matchers has none.
pub(crate) fn fixed_labels(matchers: &[Matcher]) -> Labels {
    let mut builder = LabelsBuilder::new();
    let mut seen: Vec<&str> = Vec::new();
    for matcher in matchers.iter().filter(|m| m.name() != store::labels::METRIC_NAME) {
        if matcher.op() == MatchOp::Equal && !seen.contains(&matcher.name()) {
            builder.set(matcher.name(), matcher.value());
            seen.push(matcher.name());
        } else {
            builder.remove(matcher.name());
        }
    }
    builder.build()
}
