//! What a query costs per sample that it decodes: `cargo bench -p promql`.
//!
//! A thousand counters over an hour, a sample and a step every 15 s. `cargo test --benches` runs it
//! small. The answers are checked; the median of the runs is printed.
#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::time::Instant;

use promql::{Engine, Limits, Options, Value};
use store::{Cursor, Labels, Matcher, Samples, Select, Series};

const STEP: i64 = 15_000;
/// As many samples as a chunk holds.
const RUN: usize = 120;

struct Memory {
    series: Vec<(Labels, Vec<(i64, f64)>)>,
}

struct Selected<'a> {
    labels: &'a Labels,
    samples: &'a [(i64, f64)],
}

impl Select for Memory {
    fn select(
        &self,
        matchers: &[Matcher],
        from: i64,
        to: i64,
    ) -> Result<Vec<Box<dyn Series + '_>>, store::Error> {
        let mut selected: Vec<Box<dyn Series + '_>> = Vec::new();
        for (labels, samples) in &self.series {
            if matchers.iter().all(|m| m.matches(labels.get(m.name()).unwrap_or(""))) {
                let low = samples.partition_point(|(time, _)| *time < from);
                let high = samples.partition_point(|(time, _)| *time <= to);
                selected.push(Box::new(Selected { labels, samples: &samples[low..high] }));
            }
        }
        Ok(selected)
    }
}

impl Series for Selected<'_> {
    fn labels(&self) -> &Labels {
        self.labels
    }

    fn cursor(&self) -> Box<dyn Cursor + '_> {
        Box::new(Reader(self.samples))
    }
}

struct Reader<'a>(&'a [(i64, f64)]);

impl Cursor for Reader<'_> {
    fn next(&mut self, samples: &mut Samples) -> Result<bool, store::Error> {
        let (run, rest) = self.0.split_at(self.0.len().min(RUN));
        self.0 = rest;
        for (time, value) in run {
            samples.push(*time, *value);
        }
        Ok(!run.is_empty())
    }
}

fn memory(series: usize, samples: usize) -> Memory {
    let series = (0..series).map(|index| {
        let labels = Labels::from_pairs([
            ("__name__", "m_total".to_owned()),
            ("instance", format!("host-{index}")),
            ("x", (index % 10).to_string()),
        ]);
        let values = (0..samples).map(|at| (at as i64 * STEP, (at * (index + 1)) as f64));
        (labels, values.collect())
    });
    Memory { series: series.collect() }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let small = !std::env::args().any(|argument| argument == "--bench");
    let (series, samples, runs) = if small { (20, 30, 1) } else { (1000, 241, 15) };
    let memory = memory(series, samples);
    let end = (samples as i64 - 1) * STEP;
    let queries = [
        "sum by (x) (rate(m_total[5m]))",
        "sum by (x) (m_total)",
        "max by (x) (max_over_time(m_total[5m]))",
        "avg by (x) (avg_over_time(m_total[5m]))",
        "quantile by (x) (0.9, rate(m_total[5m]))",
        "topk(5, rate(m_total[5m]))",
        "rate(m_total[5m]) / rate(m_total[5m])",
        "sum by (x) (max_over_time(rate(m_total[1m])[5m:15s]))",
    ];
    for threads in [1, 2] {
        let engine = Engine::new(Options { threads, ..Options::default() }).expect("threads start");
        for text in queries {
            let query = promql::parse(text).expect("the query parses");
            let mut times = Vec::new();
            for _ in 0..runs {
                let before = Instant::now();
                let outcome = engine
                    .range(&memory, &query, 0, end, STEP, &Limits::default())
                    .expect("the query has an answer");
                times.push(before.elapsed().as_secs_f64());
                let Value::Matrix(answer) = outcome.value else { panic!("a range is a matrix") };
                assert!(!answer.is_empty(), "{text} answers nothing");
                if text == queries[0] {
                    // Counter i grows by i + 1 per step; the last value is the sum over a group.
                    let grown: usize = (0..series).filter(|i| i % 10 == 0).map(|i| i + 1).sum();
                    let (_, last) = answer[0].floats[answer[0].floats.len() - 1];
                    let expected = grown as f64 / (STEP as f64 / 1000.0);
                    assert!((last - expected).abs() < 1e-9 * expected, "{last} is not {expected}");
                }
            }
            let seconds = median(times);
            let decoded = (series * samples) as f64;
            println!("{threads} threads: {:7.1} ns per sample  {text}", seconds * 1e9 / decoded);
        }
    }
}
