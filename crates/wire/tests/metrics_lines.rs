//! Whole metrics of every kind, written as lines, are read back as the same series.

mod model;

use model::{
    ExemplarModel, FamilyModel, MetricModel, Pairs, ValueModel, as_they_are, body, family,
};
use proptest::prelude::*;
use wire::exposition::name::Escaping;
use wire::exposition::negotiate::Negotiated;
use wire::exposition::{Event, Format, Kind, Labels, Reader, Reading};
use wire::number::Buffer;

/// A line: the metric's name, its labels, its value and whether it may have this exemplar.
type Line<'m> = (String, Pairs, f64, Option<&'m ExemplarModel>);

/// The lines of `metric`, as the two formats have them, without the native histograms that have no
/// explicit bounds beside.
fn lines<'m>(family: &'m FamilyModel, metric: &'m MetricModel, format: Format) -> Vec<Line<'m>> {
    let is_openmetrics = format == Format::OpenMetrics;
    let base = match family.kind {
        Kind::Counter if is_openmetrics => family.name.strip_suffix("_total").unwrap(),
        _ => &family.name,
    };
    let mut all: Pairs = family.common.clone();
    all.extend(metric.labels.iter().cloned());
    let mut lines = Vec::new();
    let mut line = |suffix: &str, bound: Option<(&str, f64)>, value, exemplar| {
        let mut labels = all.clone();
        if let Some((name, bound)) = bound {
            // A gauge histogram of text is a histogram.
            let text = Buffer::new().openmetrics(bound).to_owned();
            labels.push((name.to_owned(), text));
        }
        lines.push((format!("{base}{suffix}"), labels, value, exemplar));
    };
    let is_gauge = is_openmetrics && family.kind == Kind::GaugeHistogram;
    let (sum_suffix, count_suffix) =
        if is_gauge { ("_gsum", "_gcount") } else { ("_sum", "_count") };
    let mut classic = |counts: &[(f64, u64, Option<&'m ExemplarModel>)], sum: f64, above: u64| {
        let mut total = 0;
        for (bound, count, exemplar) in counts {
            total += count;
            let value = if *bound == f64::INFINITY { total.max(above) } else { total };
            line("_bucket", Some(("le", *bound)), value as f64, *exemplar);
        }
        line(sum_suffix, None, sum, None);
        line(count_suffix, None, total.max(above) as f64, None);
    };
    let mut has_created = matches!(family.kind, Kind::Histogram | Kind::Summary);
    match &metric.value {
        ValueModel::Number(value, exemplar) => {
            let is_counter = family.kind == Kind::Counter;
            has_created = is_counter;
            let suffix = if is_counter && is_openmetrics { "_total" } else { "" };
            line(suffix, None, *value, exemplar.as_ref().filter(|_| is_counter));
        }
        ValueModel::Buckets(bounds, counts, sum) => {
            let bounds = bounds.iter().copied().chain([f64::INFINITY]);
            let counts: Vec<_> = bounds
                .zip(counts)
                .map(|(bound, (count, exemplar))| (bound, *count, exemplar.as_ref()))
                .collect();
            classic(&counts, *sum, 0);
        }
        ValueModel::Native(native) => {
            let Some(beside) = &native.beside else { return Vec::new() };
            let mut counts: Vec<_> =
                beside.iter().map(|(bound, count)| (*bound, *count, None)).collect();
            counts.push((f64::INFINITY, 0, None));
            classic(&counts, native.sum, 0);
        }
        ValueModel::Summary(quantiles, sum, count) => {
            for (quantile, value) in quantiles {
                line("", Some(("quantile", *quantile)), *value, None);
            }
            line("_sum", None, *sum, None);
            line("_count", None, *count as f64, None);
        }
    }
    if let (true, true, Some(created_ms)) = (has_created, is_openmetrics, metric.created_ms) {
        line("_created", None, created_ms as f64 / 1000.0, None);
    }
    lines
}

fn owned(labels: Labels<'_>) -> Pairs {
    labels.map(|label| (label.name.to_string(), label.value.to_string())).collect()
}

/// Seconds in floating point hold a millisecond only to within one.
fn close(read: Option<i64>, written: Option<i64>) -> bool {
    match (read, written) {
        (Some(read), Some(written)) => (read - written).abs() <= 1,
        (read, written) => read == written,
    }
}

fn same(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan())
}

fn check_exemplar(read: &Reading<'_>, written: Option<&ExemplarModel>) {
    match (read.exemplar, written) {
        (Some(read), Some(written)) => {
            // No reader takes a NUL there.
            let labels = written.labels.iter();
            let labels: Pairs = labels
                .map(|(name, value)| (name.clone(), value.replace('\0', "\u{fffd}")))
                .collect();
            assert_eq!(owned(read.labels()), labels);
            assert_eq!(read.value, written.value);
            assert!(close(read.timestamp_ms, written.timestamp_ms));
        }
        (read, written) => assert!(read.is_none() && written.is_none(), "{read:?} {written:?}"),
    }
}

/// `+Inf` and its like are spelt so in the label, and the reader may give a number in its own spelling.
fn check(family: &FamilyModel, format: Format) {
    let body = body(std::slice::from_ref(family), as_they_are(format));
    let mut samples = Vec::new();
    let mut metadata = 0;
    for event in Reader::new(&body, format) {
        match event.unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&body))) {
            Event::Sample(sample) => samples.push(sample),
            _ => metadata += 1,
        }
    }
    assert_eq!(metadata, 1 + usize::from(!family.help.is_empty()));
    let mut samples = samples.into_iter().peekable();
    for metric in &family.metrics {
        let lines = lines(family, metric, format);
        if lines.is_empty() {
            // A native histogram: as many buckets as it takes, which rise up to the count.
            let ValueModel::Native(native) = &metric.value else { panic!("no lines") };
            let (mut before, mut buckets) = (0.0, 0);
            while let Some(sample) =
                samples.next_if(|s| s.metric_name().to_string().ends_with("_bucket"))
            {
                assert!(sample.reading.value >= before);
                before = sample.reading.value;
                buckets += 1;
            }
            assert!((1..=22).contains(&buckets));
            assert_eq!(before, native.count() as f64);
            assert!(same(samples.next().unwrap().reading.value, native.sum));
            assert_eq!(samples.next().unwrap().reading.value, native.count() as f64);
            let is_created = |name: String| name.ends_with("_created");
            samples.next_if(|sample| is_created(sample.metric_name().to_string()));
            continue;
        }
        for (name, labels, value, exemplar) in lines {
            let sample = samples.next().expect("a sample");
            let mut expected = vec![("__name__".to_owned(), name)];
            expected.extend(labels);
            let mut read = owned(sample.labels());
            if family.kind == Kind::GaugeHistogram
                && let (Some(read), Some(written)) = (read.last_mut(), expected.last())
                && read.0 == "le"
                && read.1.parse::<f64>() == written.1.parse::<f64>()
            {
                read.1.clone_from(&written.1);
            }
            assert_eq!(read, expected);
            assert!(same(sample.reading.value, value), "{} {value}", sample.reading.value);
            assert!(close(sample.reading.timestamp_ms, metric.timestamp_ms));
            check_exemplar(&sample.reading, exemplar.filter(|_| format == Format::OpenMetrics));
        }
    }
    assert!(samples.next().is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn metrics_of_every_kind_read_back(family in family()) {
        check(&family, Format::Text);
        check(&family, Format::OpenMetrics);
    }

    /// However names are spelt, what comes out can be read: no label stands twice in a line.
    #[test]
    fn every_spelling_can_be_read(family in family()) {
        for format in [Format::Text, Format::OpenMetrics] {
            for escaping in [Escaping::Underscores, Escaping::Dots, Escaping::Values] {
                let body = body(std::slice::from_ref(&family), Negotiated { format, escaping });
                prop_assert!(body.is_ascii() || escaping != Escaping::AllowUtf8);
                for event in Reader::new(&body, format) {
                    prop_assert!(event.is_ok(), "{event:?}: {}", String::from_utf8_lossy(&body));
                }
            }
        }
    }
}
