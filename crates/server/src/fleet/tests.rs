//! What bodies promise, read back with the reader that servers read them with.

use std::collections::{BTreeMap, HashMap, HashSet};

use wire::exposition::{Event, Format, Kind, Reader};

use super::options::{Churn, Options, Shape, Values};
use super::shape::{Plan, build};
use super::stock::Stock;
use super::template::Template;
use super::value::{Moment, mix};

const SHAPES: [Shape; 4] = [Shape::Node, Shape::Kubernetes, Shape::Histogram, Shape::Broker];
/// Fewer than any shape's table, not many more, many.
const SIZES: [usize; 6] = [1, 7, 40, 200, 1000, 20_000];

fn plan(shape: Shape, series: usize) -> Plan {
    Plan { shape, series, values: Values::Natural, openmetrics: false, seed: 1 }
}

fn at(tick: u64) -> Moment {
    Moment { tick, unix_ms: 1_795_276_800_000 + tick * 5000 }
}

/// Series with their values; kinds by family.
struct Read {
    values: HashMap<String, f64>,
    kinds: BTreeMap<String, Kind>,
    order: Vec<String>,
}

fn read(body: &[u8], format: Format) -> Read {
    let mut read = Read { values: HashMap::new(), kinds: BTreeMap::new(), order: Vec::new() };
    let mut helped = HashSet::new();
    let mut last_family = String::new();
    for event in Reader::new(body, format) {
        match event.unwrap_or_else(|error| panic!("{error}")) {
            Event::Sample(sample) => {
                let series = sample.series.to_owned();
                let key = normal(&series);
                assert!(read.values.insert(key, sample.reading.value).is_none(), "{series} twice");
                assert_eq!(sample.reading.timestamp_ms, None);
                let name = sample.metric_name().raw().to_owned();
                assert!(name.starts_with(&last_family), "{name} under {last_family}");
                read.order.push(series);
            }
            Event::Type { family, kind } => {
                last_family = family.raw().to_owned();
                assert!(read.kinds.insert(last_family.clone(), kind).is_none(), "{last_family}");
            }
            Event::Help { family, text } => {
                assert!(helped.insert(family.raw().to_owned()), "HELP of {} twice", family.raw());
                assert!(!text.raw().is_empty());
            }
            other => panic!("{other:?}"),
        }
    }
    read
}

/// Labels sorted: what differs in their order only is the same series.
fn normal(series: &str) -> String {
    let Some((name, labels)) = series.split_once('{') else { return series.to_owned() };
    let mut labels: Vec<_> = labels.trim_end_matches('}').split(',').collect();
    labels.sort_unstable();
    format!("{name}{labels:?}")
}

#[test]
fn bodies_have_the_promised_series() {
    for shape in SHAPES {
        for series in SIZES {
            for openmetrics in [false, true] {
                let mut template = build(Plan { openmetrics, ..plan(shape, series) });
                let format = if openmetrics { Format::OpenMetrics } else { Format::Text };
                for (target, tick) in [(0, 0), (1, 3), (77, 100_000)] {
                    let body = template.body(target, at(tick));
                    let read = read(body, format);
                    assert_eq!(read.values.len(), series, "{shape:?}");
                    assert!(read.values.values().all(|value| value.is_finite() && *value >= 0.0));
                }
            }
        }
    }
}

/// Whether a family's series only grow.
fn grows(kinds: &BTreeMap<String, Kind>, series: &str) -> bool {
    let name = series.split('[').next().unwrap_or_default();
    let of = |suffix: &str| name.strip_suffix(suffix).and_then(|family| kinds.get(family));
    kinds.get(name) == Some(&Kind::Counter)
        || [of("_bucket"), of("_sum"), of("_count")].contains(&Some(&Kind::Histogram))
}

#[test]
fn counters_grow_and_gauges_move() {
    let all = [
        (Values::Natural, 0.3, 0.85),
        (Values::Constant, 0.0, 0.0),
        (Values::Busy, 0.8, 1.0),
        (Values::Random, 0.8, 1.0),
        (Values::Share(0.2), 0.1, 0.3),
    ];
    for shape in SHAPES {
        for (values, least, most) in all {
            let mut template = build(Plan { values, ..plan(shape, 1500) });
            let first = read(template.body(5, at(0)), Format::Text);
            let mut last = first.values.clone();
            let mut moved = HashSet::new();
            for tick in 1..10 {
                let now = read(template.body(5, at(tick)), Format::Text);
                for (series, value) in &now.values {
                    let before = last[series];
                    if grows(&first.kinds, series) {
                        assert!(
                            *value >= before,
                            "{shape:?} {series} fell from {before} to {value}"
                        );
                    }
                    if *value != before {
                        moved.insert(series.clone());
                    }
                }
                last = now.values;
            }
            let share = moved.len() as f64 / 1500.0;
            assert!((least..=most).contains(&share), "{shape:?} {values:?}: {share} moved");
        }
    }
}

#[test]
fn histograms_add_up() {
    for values in [Values::Natural, Values::Constant, Values::Share(0.5)] {
        let mut template = build(Plan { values, ..plan(Shape::Histogram, 5000) });
        for tick in [0, 1, 1000, 90_000] {
            let body = String::from_utf8(template.body(9, at(tick)).to_vec()).unwrap();
            let (mut last, mut histograms) = (0.0, 0);
            for line in body.lines().filter(|line| !line.starts_with('#')) {
                let (series, value) = line.rsplit_once(' ').unwrap();
                let value: f64 = value.parse().unwrap();
                if series.contains("_bucket{") {
                    assert!(value >= last, "{series}: {value} after {last}");
                    last = value;
                } else if series.contains("_count{") {
                    assert_eq!(value, last, "{series}");
                    (last, histograms) = (0.0, histograms + 1);
                } else if !series.contains("_sum{") {
                    last = 0.0;
                }
            }
            assert!(histograms > 200, "{histograms}");
        }
    }
}

#[test]
fn a_body_can_be_made_in_any_pieces() {
    for shape in SHAPES {
        let mut template = build(plan(shape, 500));
        let whole = template.body(3, at(7)).to_vec();
        let other = template.body(4, at(7)).to_vec();
        assert_eq!(whole.len(), other.len());
        assert_ne!(whole, other);
        for size in [1, 13, 1000, whole.len()] {
            let mut made = Vec::new();
            while made.len() < whole.len() {
                let end = (made.len() + size).min(whole.len());
                // Somebody else's turn in between.
                template.load(4, at(9));
                template.render(made.len()..end);
                template.load(3, at(7));
                made.extend_from_slice(template.render(made.len()..end));
                if size == 1 && made.len() > 2000 {
                    break;
                }
            }
            assert_eq!(made, whole[..made.len()], "{shape:?} in pieces of {size}");
        }
    }
}

fn with_churn(shape: Shape, share: f64) -> Template {
    let churn = Some(Churn { share, period: std::time::Duration::from_secs(500) });
    let options = Options { shape, churn, ..Options::default() };
    let mut template = build(plan(shape, 2000));
    template.churn = super::stock::churn(&options, &template, 5.0).unwrap();
    template
}

#[test]
fn churn_replaces_the_promised_share() {
    for shape in SHAPES {
        for share in [0.05, 0.2] {
            let mut template = with_churn(shape, share);
            // In so long a time each unit is replaced once, in tenths of it some of them.
            let life = template.churn.life_ticks;
            let series = |template: &mut Template, tenth: u32| -> HashSet<String> {
                let tick = (life * f64::from(tenth) / 10.0) as u64;
                read(template.body(mix(3), at(tick)), Format::Text).values.into_keys().collect()
            };
            let (mut replaced, mut now) = (0.0, series(&mut template, 0));
            for tenth in 1..=10 {
                let later = series(&mut template, tenth);
                replaced += later.difference(&now).count() as f64;
                now = later;
            }
            // A period is 100 ticks.
            let promised = share * 2000.0 * life / 100.0;
            let ratio = replaced / promised;
            assert!((0.9..1.1).contains(&ratio), "{shape:?} {share}: {replaced} for {promised}");
        }
    }
}

#[test]
fn without_churn_series_stay_and_targets_differ() {
    for shape in SHAPES {
        let mut template = build(plan(shape, 1000));
        let first = read(template.body(1, at(0)), Format::Text).order;
        assert_eq!(read(template.body(1, at(1_000_000)), Format::Text).order, first);
        assert_ne!(read(template.body(2, at(0)), Format::Text).order, first, "{shape:?}");
    }
}

#[test]
fn too_few_series_for_churn_are_refused() {
    let churn = Some(Churn { share: 0.1, period: std::time::Duration::from_secs(60) });
    let options = Options { series: 3, churn, ..Options::default() };
    let error = Stock::new(&options, 5.0).err().expect("nothing there comes and goes");
    assert!(error.contains("of 3 series of the shape node none comes and goes"), "{error}");
}

#[test]
fn numbers_look_as_their_exporters_write_them() {
    let sample = |shape: Shape, name: &str| {
        let mut template = build(plan(shape, 1000));
        let body = String::from_utf8(template.body(1, at(3)).to_vec()).unwrap();
        let line = body.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        line.rsplit_once(' ').unwrap().1.to_owned()
    };
    for (shape, name, digits, end) in [
        (Shape::Node, "node_context_switches_total", 12, "e+11"),
        (Shape::Node, "node_cpu_seconds_total", 8, ""),
        (Shape::Node, "node_time_seconds", 13, "e+09"),
        (Shape::Kubernetes, "container_memory_rss", 9, "e+08"),
        (Shape::Histogram, "istio_requests_total", 9, "e+08"),
        (Shape::Broker, "rabbitmq_detailed_queue_messages_published_total", 9, ""),
    ] {
        let value = sample(shape, name);
        let mantissa = value.strip_suffix(end).unwrap_or_else(|| panic!("{name} {value}"));
        let found = mantissa.bytes().filter(u8::is_ascii_digit).count();
        assert_eq!(found, digits, "{name} {value}");
        assert!(!mantissa.contains('e'), "{name} {value}");
    }
}
