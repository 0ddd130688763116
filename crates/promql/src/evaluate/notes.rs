//! The annotations that evaluation makes, one function each, with the texts that clients know.

use crate::annotations::Annotations;
use crate::ast::Span;
use crate::number::general;

fn for_metric(text: &str, name: &str) -> String {
    if name.is_empty() { text.to_owned() } else { format!("{text} for metric name {name:?}") }
}

pub(crate) fn mixed_floats(annotations: &mut Annotations, span: Span, name: &str) {
    annotations
        .warn(span, format!("encountered a mix of histograms and floats for metric name {name:?}"));
}

pub(crate) fn mixed_floats_in_aggregation(annotations: &mut Annotations, span: Span) {
    annotations.warn(span, "encountered a mix of histograms and floats for aggregation".to_owned());
}

pub(crate) fn mixed_buckets(annotations: &mut Annotations, span: Span, name: &str) {
    let text = "vector contains a mix of histograms with exponential and custom buckets schemas \
                for metric name";
    annotations.warn(span, format!("{text} {name:?}"));
}

pub(crate) fn not_counter(annotations: &mut Annotations, span: Span, name: &str) {
    annotations.warn(span, format!("this native histogram metric is not a counter: {name:?}"));
}

pub(crate) fn not_gauge(annotations: &mut Annotations, span: Span, name: &str) {
    annotations.warn(span, format!("this native histogram metric is not a gauge: {name:?}"));
}

/// `operation`: `addition`, `subtraction` or `aggregation`.
pub(crate) fn collision(annotations: &mut Annotations, span: Span, operation: &str) {
    annotations.warn(span, format!("conflicting counter resets during histogram {operation}"));
}

pub(crate) fn reconciled(annotations: &mut Annotations, span: Span, operation: &str) {
    annotations.info(span, format!("mismatched custom buckets were reconciled during {operation}"));
}

pub(crate) fn ignored_in_range(annotations: &mut Annotations, span: Span, name: &str) {
    let text =
        "ignored histograms in a range containing both floats and histograms for metric name";
    annotations.info(span, format!("{text} {name:?}"));
}

pub(crate) fn ignored_in_aggregation(annotations: &mut Annotations, span: Span, name: &str) {
    annotations.info(span, format!("ignored histogram in {name} aggregation"));
}

pub(crate) fn invalid_quantile(annotations: &mut Annotations, span: Span, q: f64) {
    let text = "quantile value should be between 0 and 1, got";
    annotations.warn(span, format!("{text} {}", general(q)));
}

pub(crate) fn invalid_ratio(annotations: &mut Annotations, span: Span, ratio: f64, cap: f64) {
    let text = "ratio value should be between -1 and 1, got";
    annotations.warn(span, format!("{text} {}, capping to {}", general(ratio), general(cap)));
}

pub(crate) fn maybe_no_counter(annotations: &mut Annotations, span: Span, name: &str) {
    let text = "metric might not be a counter, name does not end in _total/_sum/_count/_bucket:";
    annotations.info(span, format!("{text} {name:?}"));
}

pub(crate) fn maybe_no_counter_type(
    annotations: &mut Annotations,
    span: Span,
    name: &str,
    kind: &str,
) {
    let text = "metric might not be a counter, __type__ label is not set to \"counter\" or \
                \"histogram\", got";
    annotations.info(span, format!("{text} {kind:?}: {name:?}"));
}

pub(crate) fn start_overlaps(annotations: &mut Annotations, span: Span, name: &str) {
    let text = "sample has start time that overlaps with previous sample timestamp for metric";
    annotations.occurred(span, format!("{text} {name:?}"));
}

pub(crate) fn incompatible_types(
    annotations: &mut Annotations,
    span: Span,
    left: &str,
    op: &str,
    right: &str,
) {
    let text = "incompatible sample types encountered for binary operator";
    annotations.info(span, format!("{text} {op:?}: {left} {op} {right}"));
}

pub(crate) fn incompatible_buckets(annotations: &mut Annotations, span: Span, op: &str) {
    let text = "incompatible bucket layout encountered for binary operator";
    annotations.warn(span, format!("{text} {op}"));
}

pub(crate) fn sort_in_range(annotations: &mut Annotations, span: Span) {
    let text = "sort is ineffective for range queries since results are always ordered by labels";
    annotations.warn(span, text.to_owned());
}

pub(crate) fn bad_bucket(annotations: &mut Annotations, span: Span, name: &str, bucket: &str) {
    let text = format!("bucket label \"le\" is missing or has a malformed value of {bucket:?}");
    annotations.warn(span, for_metric(&text, name));
}

pub(crate) fn mixed_classic(annotations: &mut Annotations, span: Span, name: &str) {
    let text = "vector contains a mix of classic and native histograms";
    annotations.warn(span, for_metric(text, name));
}

pub(crate) fn quantile_nan(annotations: &mut Annotations, span: Span, name: &str) {
    let text = "input to histogram_quantile has NaN observations, result is NaN";
    annotations.info(span, for_metric(text, name));
}

pub(crate) fn quantile_skewed(annotations: &mut Annotations, span: Span, name: &str) {
    let text = "input to histogram_quantile has NaN observations, result is skewed higher";
    annotations.info(span, for_metric(text, name));
}

pub(crate) fn fraction_nan(annotations: &mut Annotations, span: Span, name: &str) {
    let text = "input to histogram_fraction has NaN observations, which are excluded from all \
                fractions";
    annotations.info(span, for_metric(text, name));
}

/// What [`Annotations::repaired`] says.
pub(crate) fn repaired_text(name: &str) -> String {
    let text = "input to histogram_quantile needed to be fixed for monotonicity (see \
                https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile)";
    for_metric(text, name)
}
