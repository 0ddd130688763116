//! What stops a query: samples, time, whoever asked. And what must not: depth.

mod memory;

use std::time::Duration;

use memory::Memory;
use promql::{Cancel, Engine, Limits, Options, QueryError, Value};

fn engine(max_samples: u64) -> Engine {
    Engine::new(Options { max_samples, threads: 2, ..Options::default() }).expect("threads start")
}

/// A hundred series of eleven samples, a minute apart.
fn memory() -> Memory {
    let names: Vec<String> = (0..100).map(|i| format!("m{{i=\"{i}\"}}")).collect();
    let samples: Vec<(i64, f64)> = (0..=10).map(|i| (i * 60_000, i as f64)).collect();
    Memory::new(names.iter().map(|name| (name.as_str(), samples.clone())))
}

#[test]
fn samples_are_bounded() {
    let memory = memory();
    let cases = [
        // The samples of all steps at once.
        ("m", 1099, false),
        ("m", 1100, true),
        // What an aggregation has gone through counts until it is done.
        ("sum(m)", 1099, false),
        ("sum(m)", 1100, true),
        // Once it is done, only its result counts.
        ("sum(m) + sum(m)", 1150, true),
        ("rate(m[5m])", 900, false),
        ("1 + 1", 1, true),
    ];
    for (text, max_samples, fits) in cases {
        let query = promql::parse(text).expect("the query parses");
        let limits = Limits::default();
        let outcome = engine(max_samples).range(&memory, &query, 0, 600_000, 60_000, &limits);
        match outcome {
            Ok(_) => assert!(fits, "{text} must not fit in {max_samples}"),
            Err(error) => {
                assert!(matches!(error, QueryError::TooManySamples), "{text}: {error}");
                assert!(!fits, "{text} must fit in {max_samples}");
                assert_eq!(
                    error.to_string(),
                    "query processing would load too many samples into memory in query execution"
                );
            }
        }
    }
}

#[test]
fn counts_are_reported() {
    let query = promql::parse("sum(rate(m[2m]))").expect("the query parses");
    let outcome = engine(10_000)
        .range(&memory(), &query, 0, 600_000, 60_000, &Limits::default())
        .expect("it has an answer");
    // At each step but the first the window holds two samples; each is decoded once.
    assert_eq!(outcome.stats.samples_total, 100 * (1 + 10 * 2));
    assert_eq!(outcome.stats.samples_read, 1100);
    assert!(outcome.stats.samples_peak >= 1000);
}

#[test]
fn time_is_bounded_and_queries_can_be_cancelled() {
    let memory = memory();
    let query = promql::parse("sum(m)").expect("the query parses");
    let engine = engine(10_000);
    let hurried = Limits { timeout: Some(Duration::ZERO), ..Limits::default() };
    let error = engine.instant(&memory, &query, 0, &hurried).expect_err("there is no time");
    assert!(matches!(error, QueryError::Timeout));
    assert_eq!(error.to_string(), "query timed out in expression evaluation");
    let cancel = Cancel::default();
    cancel.cancel();
    let cancelled = Limits { cancel, ..Limits::default() };
    let error = engine.instant(&memory, &query, 0, &cancelled).expect_err("it was cancelled");
    assert!(matches!(error, QueryError::Cancelled));
    assert_eq!(error.to_string(), "query was canceled in expression evaluation");
}

#[test]
fn depth_is_no_danger() {
    let memory = memory();
    let engine = engine(1_000_000);
    let nested = |open: &str, inner: &str, close: &str, times: usize| {
        format!("{}{inner}{}", open.repeat(times), close.repeat(times))
    };
    let texts = [
        nested("(", "m", ")", 900),
        nested("-(", "m", ")", 900),
        nested("abs(", "m", ")", 900),
        nested("1 + (", "m", ")", 450),
        nested("sum(", "m", ")", 900),
        nested("", "m", " + m", 900),
        nested("2 ^ ", "m", "", 900),
        nested("max_over_time(", "m", "[1m:1m])", 100),
    ];
    for text in texts {
        let Ok(query) = promql::parse(&text) else { continue };
        let outcome = engine.instant(&memory, &query, 0, &Limits::default());
        match outcome.expect("it has an answer").value {
            Value::Vector(samples) => assert!(!samples.is_empty(), "{}", &text[..40]),
            other => panic!("{} answers {other:?}", &text[..40]),
        }
    }
}

#[test]
fn a_range_needs_a_step_and_a_vector() {
    let memory = memory();
    let engine = engine(1000);
    let range = promql::parse("m[5m]").expect("the query parses");
    let error = engine.range(&memory, &range, 0, 1, 1, &Limits::default()).expect_err("a matrix");
    assert_eq!(
        error.to_string(),
        "invalid expression type \"range vector\" for range query, must be Scalar or instant Vector"
    );
    let vector = promql::parse("m").expect("the query parses");
    assert!(engine.range(&memory, &vector, 0, 1, 0, &Limits::default()).is_err());
    let outcome = engine.range(&memory, &vector, 1, 0, 1, &Limits::default()).expect("no steps");
    assert_eq!(outcome.value, Value::Matrix(Vec::new()));
}
