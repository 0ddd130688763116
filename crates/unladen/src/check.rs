//! Reads a body back and tells what a scraper would hold against it.

use std::collections::HashSet;

use wire::exposition::name::Escaping;
use wire::exposition::negotiate::Negotiated;
use wire::exposition::{Event, Format, Reader};

pub(crate) fn check(write: impl Fn(Negotiated) -> Vec<u8>) -> Vec<String> {
    let mut problems = Vec::new();
    for format in [Format::Text, Format::OpenMetrics] {
        let body = write(Negotiated { format, escaping: Escaping::AllowUtf8 });
        let mut families = HashSet::new();
        let mut series = HashSet::new();
        for event in Reader::new(&body, format) {
            match event {
                Ok(Event::Type { family, .. }) => {
                    if !families.insert(family.to_string()) {
                        problems.push(format!("{format:?}: the family {family} comes twice"));
                    }
                }
                Ok(Event::Sample(sample)) => {
                    let mut labels: Vec<_> = sample
                        .labels()
                        .map(|label| (label.name.to_string(), label.value.to_string()))
                        .collect();
                    labels.sort_unstable();
                    if sample.metric_name().raw().starts_with("unladen_families_refused") {
                        problems.push(format!(
                            "{format:?}: {} families came twice or without a name",
                            sample.reading.value
                        ));
                    }
                    if !series.insert(labels) {
                        problems.push(format!("{format:?}: {} comes twice", sample.series));
                    }
                }
                Ok(_) => {}
                Err(error) => problems.push(format!("{format:?}: {error}")),
            }
        }
    }
    problems
}
