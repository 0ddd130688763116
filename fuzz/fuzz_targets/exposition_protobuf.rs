//! The protobuf exposition: reading ends with metrics or an error whose place is within the body, and
//! what was read, written and read again is the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::exposition::messages::{Event, Exemplar, Family, Metric, Reader, Value};
use wire::exposition::name::Escaping;
use wire::exposition::negotiate::Negotiated;
use wire::exposition::writer::{self, Buffer, Extra, LabelSet, Summary, to_io};
use wire::exposition::{Format, Kind};

fuzz_target!(|body: &[u8]| {
    let mut family = Family::default();
    for event in Reader::new(body) {
        match event {
            Ok(Event::Family(next)) => family = next,
            Ok(Event::Metric(metric)) => again(&family, &metric),
            Err(error) => assert!(error.offset <= body.len(), "{error}"),
        }
    }
});

/// Writes what the writer has a call for, and reads it.
fn again(family: &Family<'_>, metric: &Metric<'_>) {
    let labels: Vec<_> = metric.labels().collect();
    let before = seen(metric);
    if family.name.contains('\0') || labels.iter().any(|(name, _)| name.contains('\0')) {
        return;
    }
    let labels = LabelSet::Pairs(&labels);
    let negotiated = Negotiated { format: Format::Protobuf, escaping: Escaping::AllowUtf8 };
    let mut body = Vec::new();
    let mut was_written = true;
    to_io(&mut Buffer::new(), negotiated, &mut body, |out| {
        out.family(&writer::Family {
            unit: family.unit,
            ..writer::Family::new(family.name, family.help, family.kind)
        });
        let timestamp_ms = metric.timestamp_ms;
        let mut number = |value: f64, exemplar: Option<&Exemplar<'_>>, created_ms| {
            let pairs: Vec<_> = exemplar.map(|of| of.labels().collect()).unwrap_or_default();
            let exemplar = exemplar.map(|of| writer::Exemplar {
                labels: LabelSet::Pairs(&pairs),
                value: of.value,
                timestamp_ms: of.timestamp_ms,
            });
            let extra = Extra { timestamp_ms, created_ms, exemplar };
            out.number(labels, writer::Value::Float(value), &extra);
        };
        match &metric.value {
            Value::Counter { value, exemplar, created_ms } => {
                number(*value, exemplar.as_ref(), *created_ms);
            }
            Value::Gauge(value) | Value::Unknown(value) => number(*value, None, None),
            Value::Summary(summary) => {
                let quantiles: Vec<_> =
                    summary.quantiles().map(|of| (of.quantile, of.value)).collect();
                let (sum, count, created_ms) = (summary.sum, summary.count, summary.created_ms);
                let summary = Summary { quantiles: &quantiles, sum, count, created_ms, timestamp_ms };
                out.summary(labels, &summary);
            }
            // A writer's are tidier than a reader's.
            Value::Histogram(_) => was_written = false,
        }
    })
    .unwrap();
    if !was_written {
        return;
    }
    let mut events = Reader::new(&body).map(|event| event.expect("just written"));
    let Some(Event::Family(read)) = events.next() else { panic!("no family") };
    assert_eq!(read, *family);
    let Some(Event::Metric(read)) = events.next() else { panic!("no metric") };
    assert_eq!(seen(&read), before);
    assert!(events.next().is_none());
    assert!(matches!(family.kind, Kind::Counter | Kind::Gauge | Kind::Unknown | Kind::Summary));
}

/// Everything in a metric, as text; asks for all of it.
fn seen(metric: &Metric<'_>) -> String {
    let labels: Vec<_> = metric.labels().collect();
    let exemplar = |of: &Exemplar<'_>| {
        format!("{:?} {} {:?}", of.labels().collect::<Vec<_>>(), of.value, of.timestamp_ms)
    };
    let value = match &metric.value {
        Value::Counter { value, exemplar: with, created_ms } => {
            format!("{value} {:?} {created_ms:?}", with.as_ref().map(exemplar))
        }
        Value::Gauge(value) | Value::Unknown(value) => value.to_string(),
        Value::Summary(summary) => {
            let quantiles: Vec<_> = summary.quantiles().collect();
            format!("{quantiles:?} {} {} {:?}", summary.sum, summary.count, summary.created_ms)
        }
        Value::Histogram(of) => {
            let exemplars: Vec<_> = of.exemplars().map(|of| exemplar(&of)).collect();
            format!(
                "{exemplars:?} {} {} {} {} {} {}",
                of.buckets().count(),
                of.positive_spans().chain(of.negative_spans()).count(),
                of.positive_deltas().chain(of.negative_deltas()).count(),
                of.positive_counts().chain(of.negative_counts()).count(),
                of.is_native(),
                of.is_float(),
            )
        }
    };
    format!("{labels:?} {:?} {value}", metric.timestamp_ms)
}
