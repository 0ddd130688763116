//! Reads a body with our own readers.

use std::collections::BTreeMap;

use unladen::Format;
use wire::exposition::messages::{self, Metric, Value};
use wire::exposition::{Event, Kind, Labels, Reader};

use crate::canonical::{Exemplar, Exposition, Family, Histogram, Sample};
use crate::draw::Pairs;
use crate::expect::number;

/// What our reader understands.
///
/// # Errors
/// What it refuses.
pub fn read(body: &[u8], format: Format) -> Result<Exposition, String> {
    let read = match format {
        Format::Protobuf => read_messages(body),
        _ => read_lines(body, format),
    };
    read.map(Exposition::sort)
}

fn owned(labels: Labels<'_>) -> Pairs {
    let others = labels.filter(|label| !label.is_metric_name());
    others.map(|label| (label.name.to_string(), label.value.to_string())).collect()
}

fn read_lines(body: &[u8], format: Format) -> Result<Exposition, String> {
    let mut read = Exposition::default();
    // A family, labels, and when they began.
    let mut created: Vec<(String, Pairs, i64)> = Vec::new();
    let mut families = Vec::new();
    let mut current = String::new();
    for event in Reader::new(body, format) {
        match event.map_err(|error| error.to_string())? {
            Event::Help { family, text } => {
                read.families.entry(family.to_string()).or_default().help = text.to_string();
            }
            Event::Unit { family, unit } => {
                read.families.entry(family.to_string()).or_default().unit = unit.to_string();
            }
            Event::Type { family, kind } => {
                current = family.to_string();
                let known = read.families.entry(current.clone()).or_default();
                if !known.kind.is_empty() {
                    return Err(format!("the family {current:?} comes twice"));
                }
                kind.name().clone_into(&mut known.kind);
            }
            Event::Comment(text) => {
                return Err(format!("a comment: {}", String::from_utf8_lossy(text)));
            }
            Event::Sample(sample) if sample.is_created() => {
                let ms = (sample.reading.value * 1_000.0) as i64;
                let mut labels = owned(sample.labels());
                labels.sort();
                created.push((current.clone(), labels, ms));
            }
            Event::Sample(sample) => {
                families.push((current.clone(), sample.kind()));
                let exemplars = sample.reading.exemplar.iter().map(|exemplar| Exemplar {
                    labels: owned(exemplar.labels()),
                    value: exemplar.value.to_bits(),
                    timestamp_ms: exemplar.timestamp_ms,
                });
                read.samples.push(Sample {
                    name: sample.metric_name().to_string(),
                    labels: owned(sample.labels()),
                    value: sample.reading.value.to_bits(),
                    timestamp_ms: sample.reading.timestamp_ms,
                    created_ms: None,
                    exemplars: exemplars.collect(),
                });
            }
        }
    }
    for (sample, (family, kind)) in read.samples.iter_mut().zip(&families) {
        normalize(sample, *kind);
        sample.labels.sort();
        let own = || {
            let own = match kind {
                Kind::Histogram => "le",
                Kind::Summary => "quantile",
                _ => "",
            };
            sample.labels.iter().filter(move |(name, _)| name != own)
        };
        let known = created.iter().find(|(of, labels, _)| of == family && own().eq(labels));
        sample.created_ms = known.map(|(_, _, ms)| *ms);
    }
    let known = |(family, ..): &(String, Pairs, i64)| families.iter().any(|(of, _)| of == family);
    match created.iter().find(|of| !known(of)) {
        Some((family, ..)) => Err(format!("{family} has a creation and no samples")),
        None => Ok(read),
    }
}

/// `le` of a gauge histogram is left as it stands by our reader and by Prometheus'.
fn normalize(sample: &mut Sample, kind: Kind) {
    if kind == Kind::GaugeHistogram
        && let Some((_, le)) = sample.labels.iter_mut().find(|(name, _)| name == "le")
        && let Ok(bound) = le.parse()
    {
        *le = number(bound);
    }
}

fn read_messages(body: &[u8]) -> Result<Exposition, String> {
    let mut read = Exposition::default();
    let mut family = messages::Family::default();
    let mut order: BTreeMap<&str, usize> = BTreeMap::new();
    for (place, event) in messages::Reader::new(body).enumerate() {
        match event.map_err(|error| error.to_string())? {
            messages::Event::Family(next) => {
                let is_first = order.insert(next.name, place).is_none();
                if !is_first && next != family {
                    return Err(format!("the family {:?} comes twice", next.name));
                }
                family = next;
                let (help, unit) = (family.help.to_owned(), family.unit.to_owned());
                let kind = family.kind.name().to_owned();
                read.families.insert(family.name.to_owned(), Family { kind, help, unit });
            }
            messages::Event::Metric(metric) => read_metric(family, &metric, &mut read),
        }
    }
    Ok(read)
}

fn owned_pairs(pairs: messages::Pairs<'_>) -> Pairs {
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn exemplar(of: &messages::Exemplar<'_>) -> Exemplar {
    let (value, timestamp_ms) = (of.value.to_bits(), of.timestamp_ms);
    Exemplar { labels: owned_pairs(of.labels()), value, timestamp_ms }
}

fn read_metric(family: messages::Family<'_>, metric: &Metric<'_>, read: &mut Exposition) {
    let plain = Sample {
        name: family.name.to_owned(),
        labels: owned_pairs(metric.labels()),
        timestamp_ms: metric.timestamp_ms,
        ..Sample::default()
    };
    match metric.value {
        Value::Counter { value, exemplar: of, created_ms } => {
            let exemplars = of.iter().map(exemplar).collect();
            read.samples.push(Sample { value: value.to_bits(), created_ms, exemplars, ..plain });
        }
        Value::Gauge(value) | Value::Unknown(value) => {
            read.samples.push(Sample { value: value.to_bits(), ..plain });
        }
        Value::Summary(summary) => {
            let plain = Sample { created_ms: summary.created_ms, ..plain };
            for quantile in summary.quantiles() {
                let mut sample = Sample { value: quantile.value.to_bits(), ..plain.clone() };
                sample.labels.push(("quantile".to_owned(), number(quantile.quantile)));
                read.samples.push(sample);
            }
            parts(&plain, summary.sum, summary.count, read);
        }
        Value::Histogram(histogram) => read_histogram(family, &plain, &histogram, read),
    }
}

fn parts(of: &Sample, sum: f64, count: u64, read: &mut Exposition) {
    let part = |suffix: &str, value: f64| Sample {
        name: format!("{}{suffix}", of.name),
        value: value.to_bits(),
        ..of.clone()
    };
    read.samples.extend([part("_sum", sum), part("_count", count as f64)]);
}

fn read_histogram(
    family: messages::Family<'_>,
    plain: &Sample,
    histogram: &messages::Histogram<'_>,
    read: &mut Exposition,
) {
    let plain = Sample { created_ms: histogram.created_ms, ..plain.clone() };
    if histogram.is_native() {
        read.histograms.push(Histogram {
            name: plain.name.clone(),
            labels: plain.labels.clone(),
            timestamp_ms: plain.timestamp_ms,
            created_ms: plain.created_ms,
            is_gauge: family.kind == Kind::GaugeHistogram,
            schema: histogram.schema.into(),
            zero_threshold: histogram.zero_threshold.to_bits(),
            zero_count: histogram.zero_count,
            count: histogram.count,
            sum: histogram.sum.to_bits(),
            positive: side(histogram.positive_spans(), histogram.positive_deltas()),
            negative: side(histogram.negative_spans(), histogram.negative_deltas()),
            exemplars: histogram.exemplars().map(|of| exemplar(&of)).collect(),
        });
        if histogram.buckets().next().is_none() {
            return;
        }
    }
    let mut bucket = |bound: f64, count: u64, exemplars: Vec<Exemplar>| {
        let mut sample = Sample { value: (count as f64).to_bits(), exemplars, ..plain.clone() };
        sample.name += "_bucket";
        sample.labels.push(("le".to_owned(), number(bound)));
        read.samples.push(sample);
    };
    let mut last = 0.0;
    for of in histogram.buckets() {
        bucket(of.upper_bound, of.cumulative_count, of.exemplar.iter().map(exemplar).collect());
        last = of.upper_bound;
    }
    if last != f64::INFINITY {
        bucket(f64::INFINITY, histogram.count, Vec::new());
    }
    parts(&plain, histogram.sum, histogram.count, read);
}

fn side(
    spans: impl Iterator<Item = messages::Span>,
    deltas: impl Iterator<Item = i64>,
) -> Vec<(i64, u64)> {
    let (mut index, mut count) = (0, 0u64);
    let mut deltas = deltas;
    let mut buckets = Vec::new();
    for span in spans {
        index += i64::from(span.offset);
        for _ in 0..span.length {
            count = count.wrapping_add_signed(deltas.next().unwrap_or_default());
            if count > 0 {
                buckets.push((index, count));
            }
            index += 1;
        }
    }
    buckets
}
