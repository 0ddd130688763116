//! Sliding windows against the plain definition: take the samples of the range, compute.
//!
//! Also: an answer over a range is, step by step, that of instant queries, and the number of threads
//! changes nothing.

mod memory;

use memory::Memory;
use promql::value::{Sample, SeriesPoints};
use promql::{Engine, Limits, Options, Value};
use proptest::prelude::*;

const STALE: f64 = f64::from_bits(0x7ff0_0000_0000_0002);

fn engine(threads: usize) -> Engine {
    let options = Options { threads, ..Options::default() };
    Engine::new(options).expect("threads start")
}

/// Times that ascend by irregular distances, and values of which some are not numbers.
fn samples() -> impl Strategy<Value = Vec<(i64, f64)>> {
    let value = prop_oneof![
        8 => (-20i32..20).prop_map(f64::from),
        4 => (0u32..1000).prop_map(|v| f64::from(v) * 0.1),
        1 => Just(f64::NAN),
        1 => Just(STALE),
    ];
    prop::collection::vec((1i64..40_000, value), 0..60).prop_map(|steps| {
        let mut time = 0;
        steps
            .into_iter()
            .map(|(distance, value)| {
                time += distance;
                (time, value)
            })
            .collect()
    })
}

fn is_stale(value: f64) -> bool {
    value.to_bits() == STALE.to_bits()
}

/// The answer by definition; none if there is none.
fn plainly(function: &str, window: &[(i64, f64)], start: i64, end: i64) -> Option<f64> {
    let values: Vec<f64> = window.iter().map(|(_, value)| *value).collect();
    let (first, last) = (*values.first()?, *values.last()?);
    let pairs = || values.windows(2).map(|pair| (pair[0], pair[1]));
    let real = || values.iter().copied().filter(|value| !value.is_nan());
    Some(match function {
        "count_over_time" => values.len() as f64,
        "sum_over_time" => values.iter().sum(),
        "avg_over_time" => values.iter().sum::<f64>() / values.len() as f64,
        "min_over_time" => real().reduce(f64::min).unwrap_or(f64::NAN),
        "max_over_time" => real().reduce(f64::max).unwrap_or(f64::NAN),
        "first_over_time" => first,
        "last_over_time" => last,
        "changes" => pairs().filter(|(a, b)| a != b && !(a.is_nan() && b.is_nan())).count() as f64,
        "resets" => pairs().filter(|(a, b)| b < a).count() as f64,
        "increase" | "delta" => {
            if values.len() < 2 {
                return None;
            }
            let counter = function == "increase";
            let mut difference = last - first;
            if counter {
                difference += pairs().filter(|(a, b)| b < a).map(|(a, _)| a).sum::<f64>();
            }
            let (first_time, last_time) = (window[0].0, window[window.len() - 1].0);
            let sampled = (last_time - first_time) as f64;
            let distance = sampled / (values.len() - 1) as f64;
            let mut before = (first_time - start) as f64;
            let mut behind = (end - last_time) as f64;
            if before >= distance * 1.1 {
                before = distance / 2.0;
            }
            if counter && difference > 0.0 && first >= 0.0 {
                before = before.min(sampled * (first / difference));
            }
            if behind >= distance * 1.1 {
                behind = distance / 2.0;
            }
            difference * (sampled + before + behind) / sampled
        }
        other => unreachable!("no definition of {other}"),
    })
}

fn close(a: f64, b: f64) -> bool {
    (a.is_nan() && b.is_nan()) || a == b || (a - b).abs() <= 1e-9 * (a.abs() + b.abs()).max(1.0)
}

fn range(engine: &Engine, memory: &Memory, text: &str, grid: (i64, i64, i64)) -> Vec<SeriesPoints> {
    let query = promql::parse(text).expect("the query parses");
    let (start, end, step) = grid;
    let outcome = engine.range(memory, &query, start, end, step, &Limits::default());
    match outcome.expect("the query has an answer").value {
        Value::Matrix(series) => series,
        other => panic!("{text} answers {other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn windows_slide_as_if_they_were_taken_anew(
        samples in samples(),
        window in 1i64..200_000,
        step in 1i64..90_000,
        offset in -50_000i64..50_000,
    ) {
        let engine = engine(1);
        let memory = Memory::new([("m", samples.clone())]);
        let grid = (0, 900_000, step);
        let functions = [
            "count_over_time", "sum_over_time", "avg_over_time", "min_over_time", "max_over_time",
            "first_over_time", "last_over_time", "changes", "resets", "increase", "delta",
        ];
        for function in functions {
            let sign = if offset < 0 { "-" } else { "" };
            let text = format!("{function}(m[{window}ms] offset {sign}{}ms)", offset.abs());
            let answer = range(&engine, &memory, &text, grid);
            let found = answer.first().map(|series| series.floats.clone()).unwrap_or_default();
            let mut expected = Vec::new();
            for time in (grid.0..=grid.1).step_by(step as usize) {
                let end = time - offset;
                let start = end - window;
                let inside: Vec<(i64, f64)> = samples
                    .iter()
                    .copied()
                    .filter(|(t, value)| *t > start && *t <= end && !is_stale(*value))
                    .collect();
                if let Some(value) = plainly(function, &inside, start, end) {
                    expected.push((time, value));
                }
            }
            prop_assert_eq!(found.len(), expected.len(), "{}", text);
            for ((time, value), (at, wanted)) in found.iter().zip(&expected) {
                prop_assert_eq!(time, at);
                prop_assert!(close(*value, *wanted), "{} at {}: {} != {}", text, time, value, wanted);
            }
        }
    }

    #[test]
    fn a_range_is_a_row_of_instants_whatever_the_threads(
        first in samples(),
        second in samples(),
        step in 1_000i64..90_000,
    ) {
        let series: Vec<(String, Vec<(i64, f64)>)> = (0..24)
            .map(|index| {
                let samples = if index % 2 == 0 { &first } else { &second };
                let scaled = samples.iter().map(|(t, v)| {
                    (t + index, if is_stale(*v) { *v } else { v * (index + 1) as f64 })
                });
                (format!("m{{g=\"{}\",i=\"{index}\"}}", index % 3), scaled.collect())
            })
            .collect();
        let memory = Memory::new(series.iter().map(|(name, s)| (name.as_str(), s.clone())));
        let (one, many) = (engine(1), engine(4));
        let grid = (0, 600_000, step);
        for text in [
            "m",
            "sum by (g) (rate(m[2m]))",
            "avg without (i) (m offset 30s)",
            "topk by (g) (2, m)",
            "quantile by (g) (0.3, m)",
            "count by (g) (m > 1) or max by (g) (m)",
            "m - on (g) group_left () min by (g) (m)",
            "max_over_time(sum by (g) (m)[3m:20s])",
            "count_values by (g) (\"v\", changes(m[1m]))",
            "absent(m > 50)",
            "sum(m @ 120) + scalar(max(m))",
        ] {
            let answer = range(&many, &memory, text, grid);
            let alone = range(&one, &memory, text, grid);
            prop_assert_eq!(format!("{:?}", &answer), format!("{:?}", alone), "{}", text);
            let query = promql::parse(text).expect("the query parses");
            for time in (grid.0..=grid.1).step_by(step as usize) {
                let outcome = one.instant(&memory, &query, time, &Limits::default());
                let Value::Vector(mut vector) = outcome.expect("it has an answer").value else {
                    panic!("{text} is no vector");
                };
                vector.sort_by(|a, b| a.labels.cmp(&b.labels));
                let column: Vec<_> = answer
                    .iter()
                    .filter_map(|s| Some((&s.labels, s.floats.iter().find(|(t, _)| *t == time)?.1)))
                    .collect();
                prop_assert_eq!(vector.len(), column.len(), "{} at {}", text, time);
                for (sample, (labels, value)) in vector.iter().zip(column) {
                    prop_assert_eq!(&sample.labels, labels);
                    let Sample::Float(found) = sample.sample else { panic!("no histograms here") };
                    prop_assert!(close(found, value), "{} at {}: {} != {}", text, time, found, value);
                }
            }
        }
    }
}
