//! `--calibrate`: a series of short loads of which each has much of something else, and the coefficients of
//! `unladen plan` fitted to what they took.
//!
//! Hours are put into seconds: targets are scraped every 150 ms, and a block has 18 s, so that a series has
//! chunks of 120 samples, as always. Warm-up ends when they are full, at the same place between two blocks for
//! each load, so that exactly one is cut in the measured time.

use std::path::Path;
use std::time::Duration;

use super::contender::{self, Wanted};
use super::lane::{self, Lane};
use super::options::{Load, Request};
use super::outcome::{Machine, Outcome};
use super::{Clock, Progress};
use crate::app::now_ms;
use crate::plan::{Coefficients, Measured};

/// From one scrape to the next.
const INTERVAL: Duration = Duration::from_millis(150);

/// The length of a block: 120 samples.
const BLOCK: u64 = 18;

/// Where between two boundaries of blocks the measured time begins, in seconds: blocks are cut when half of the
/// next one is there, at the latest five seconds after that.
const BEGIN: f64 = 16.0;

/// The least that passes before it: chunks are full, and a block was cut.
const WARMUP: f64 = 24.0;

/// What is asked to see what queries cost, and how often.
const QUERIES: usize = 5;
const QUERY: &str = "count(last_over_time({__name__=~\".+\"}[10s]))";

/// Shape, targets, series of each, and the fleet's churn.
const LOADS: &[(&str, u64, u64, Option<&str>)] = &[
    ("mixed", 1, 10, None),
    ("mixed", 200, 250, None),
    ("node", 20, 2500, None),
    ("kubernetes", 100, 500, None),
    ("histogram", 50, 1000, None),
    ("broker", 10, 5000, None),
    ("mixed", 1000, 20, None),
    ("mixed", 100, 500, Some("0.2/10s")),
    ("mixed", 300, 500, None),
];

/// Runs the loads, and gives the coefficients.
///
/// # Errors
/// A load failed, or what it took can't be fitted.
pub(super) async fn calibrate(
    request: &Request,
    place: &Path,
    progress: &Progress,
) -> Result<Coefficients, String> {
    let flags = vec![format!("--storage.tsdb.min-block-duration={BLOCK}s")];
    let contenders = contender::recognise(&[Wanted::ours_with(flags)])?;
    let mut loads = Vec::new();
    let mut per_query_sample = None;
    for (number, &(shape, targets, series, churn)) in LOADS.iter().enumerate() {
        let mut fleet = vec![format!("--shape={shape}")];
        fleet.extend(churn.map(|churn| format!("--churn={churn}")));
        let load = Load { targets, series, interval: INTERVAL, fleet };
        progress.say(&format!(
            "{} of {}: {targets} targets with {series} series each, {shape}{}",
            number + 1,
            LOADS.len(),
            churn.map_or(String::new(), |churn| format!(", churn {churn}"))
        ));
        let place = place.join(format!("calibrate-{number}"));
        let mut lane = Lane::start(&contenders[0], &load, &place, "").await?;
        let outcome = measured(&mut lane).await?;
        if number == 1 {
            per_query_sample = Some(lane.query_cost(QUERY, QUERIES, outcome.cpu.cores).await?);
        }
        loads.push(taken(shape, &load, &outcome));
        drop(lane);
        if request.directory.is_none() {
            // What follows shall not have a fuller disk.
            let _ = std::fs::remove_dir_all(&place);
        }
    }
    let date = crate::time::rfc3339(Some(now_ms()));
    let query = per_query_sample.unwrap_or(0.0);
    Coefficients::fitted(date, Machine::here().line(), loads, query)
}

async fn measured(lane: &mut Lane) -> Result<Outcome, String> {
    let block = BLOCK as f64;
    let earliest = lane::now() + WARMUP;
    let begin = ((earliest - BEGIN) / block).ceil() * block + BEGIN;
    let mut clock = Clock::new();
    let mut lanes = [lane];
    let warmup = Duration::from_secs_f64(begin - lane::now());
    clock.pass(warmup, &mut lanes, |lane, _| lane.check()).await?;
    lanes[0].begin().await?;
    clock.pass(Duration::from_secs(BLOCK), &mut lanes, |lane, elapsed| lane.tick(elapsed)).await?;
    lanes[0].end().await
}

/// The features of a load, as they were and not as they were meant.
fn taken(shape: &str, load: &Load, outcome: &Outcome) -> Measured {
    let seconds = outcome.samples as f64 / outcome.samples_per_second.max(1e-9);
    let series = (load.targets * load.series) as f64;
    let blocks = &outcome.disk.blocks;
    Measured {
        shape: shape.to_owned(),
        targets: load.targets as f64,
        series,
        head_series: outcome.series.unwrap_or(series),
        interval_seconds: load.interval.as_secs_f64(),
        scrapes_per_second: outcome.scrapes as f64 / seconds,
        samples_per_second: outcome.samples_per_second,
        body_bytes_per_second: outcome.body_bytes as f64 / seconds,
        new_series_per_second: outcome.series_created.unwrap_or(0.0) / seconds,
        cores: outcome.cpu.cores,
        rss_bytes: outcome.memory.rss_average_bytes,
        written_bytes_per_second: outcome.disk.written_bytes as f64 / seconds,
        descriptors: outcome.descriptors as f64,
        journal_bytes_per_sample: outcome.disk.journal_bytes_per_sample.unwrap_or(0.0),
        chunk_bytes_per_sample: blocks.chunk_bytes as f64 / blocks.samples.max(1) as f64,
        index_bytes_per_series: blocks.index_bytes as f64 / blocks.series.max(1) as f64,
    }
}

/// Says what was found, for people.
pub(super) fn summary(found: &Coefficients) -> String {
    let errors = &found.errors;
    let percent = |share: f64| format!("{:.1}%", share * 100.0);
    let mut text = String::new();
    for (name, residual) in
        [("CPU", &errors.cpu), ("memory", &errors.memory), ("disk", &errors.disk)]
    {
        // Plain pushes: nothing here can fail.
        text.push_str(&format!(
            "{name}: ± {} of what was measured, at worst {}\n",
            percent(residual.rms),
            percent(residual.worst)
        ));
    }
    text
}
