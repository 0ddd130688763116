//! From a new line of a body to the labels under which it is stored.
//!
//! Steps: the labels of the line, unescaped; the target's labels, which win, and what they displace
//! becomes `exported_…` (with `honor_labels` the line's win); `metric_relabel_configs`; the checks of
//! names, then of limits. Growth: runs once per new series.

use std::borrow::Cow;

use store::Labels;
use store::labels::METRIC_NAME;
use wire::exposition::Sample;

use crate::config::ScrapeConfig;
use crate::relabel::{LabelSet, Scratch};

/// What becomes of a series.
pub(super) enum Resolved {
    Keep(Labels),
    Drop,
}

/// Why a series makes its scrape fail.
#[derive(Debug)]
pub(super) enum Refused {
    /// The labels are none.
    Invalid(String),
    /// A label limit of the configuration is exceeded.
    Limit(String),
}

pub(super) fn resolve(
    sample: &Sample<'_>,
    target: &Labels,
    config: &ScrapeConfig,
    scratch: &mut Scratch,
) -> Result<Resolved, Refused> {
    // The few texts with escapes live here while the set borrows them.
    let own: Vec<(Cow<'_, str>, Cow<'_, str>)> =
        sample.labels().map(|label| (label.name.to_cow(), label.value.to_cow())).collect();
    let mut set = scratch.start();
    for (name, value) in &own {
        set.lend(name, value);
    }
    if config.honor_labels {
        for (name, value) in target {
            if set.get(name).is_none() {
                set.lend(name, value);
            }
        }
    } else {
        displace(&mut set, target);
    }
    if !set.apply(&config.metric_relabel_configs) || set.is_empty() {
        return Ok(Resolved::Drop);
    }
    check_names(&set, config)?;
    check_limits(&set, config)?;
    Ok(Resolved::Keep(set.to_labels()))
}

/// Sets the target's labels; what they displace moves to the first free `exported_…` name, the
/// shortest name first.
fn displace<'a>(set: &mut LabelSet<'a, '_>, target: &'a Labels) {
    let mut displaced: Vec<(&str, String)> = Vec::new();
    for (name, value) in target {
        if let Some(exposed) = set.get(name) {
            displaced.push((name, exposed.to_owned()));
        }
        set.lend(name, value);
    }
    displaced.sort_by_key(|(name, _)| name.len());
    for (name, value) in displaced {
        let mut free = format!("exported_{name}");
        while set.get(&free).is_some() {
            free.insert_str(0, "exported_");
        }
        set.set(&free, &value);
    }
}

fn check_names(set: &LabelSet<'_, '_>, config: &ScrapeConfig) -> Result<(), Refused> {
    let Some(metric) = set.get(METRIC_NAME) else {
        return Err(Refused::Invalid(format!(
            "missing metric name ({METRIC_NAME} label) after relabelling: {}",
            set.to_labels()
        )));
    };
    let valid = config.validation.is_metric_name(metric)
        && set.iter().all(|(name, _)| config.validation.is_label_name(name));
    if !valid {
        return Err(Refused::Invalid(format!(
            "invalid metric name or label names: {}",
            set.to_labels()
        )));
    }
    Ok(())
}

fn check_limits(set: &LabelSet<'_, '_>, config: &ScrapeConfig) -> Result<(), Refused> {
    let limits = &config.limits;
    let metric = || short(set.get(METRIC_NAME).unwrap_or(""));
    let count = set.len() as u64;
    if let Some(limit) = limits.labels.filter(|limit| count > *limit) {
        return Err(Refused::Limit(format!(
            "label_limit exceeded (metric: {}, number of labels: {count}, limit: {limit})",
            metric()
        )));
    }
    if limits.label_name_length.is_none() && limits.label_value_length.is_none() {
        return Ok(());
    }
    for (name, value) in set.iter() {
        let length = name.len() as u64;
        if let Some(limit) = limits.label_name_length.filter(|limit| length > *limit) {
            return Err(Refused::Limit(format!(
                "label_name_length_limit exceeded (metric: {}, label name: {}, length: {length}, \
                 limit: {limit})",
                metric(),
                short(name)
            )));
        }
        let length = value.len() as u64;
        if let Some(limit) = limits.label_value_length.filter(|limit| length > *limit) {
            return Err(Refused::Limit(format!(
                "label_value_length_limit exceeded (metric: {}, label name: {}, value: {:?}, \
                 length: {length}, limit: {limit})",
                metric(),
                short(name),
                short(value)
            )));
        }
    }
    Ok(())
}

/// The first 50 characters.
fn short(text: &str) -> &str {
    text.char_indices().nth(50).map_or(text, |(at, _)| &text[..at])
}
