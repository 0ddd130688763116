//! `--calibrate`: a series of short loads of which each has much of something else, and the coefficients of
//! `unladen plan` fitted to what they took.
//!
//! Hours are put into seconds: targets are scraped every 150 ms, and a block has 18 s, so that a series has
//! chunks of 120 samples, as always. Warm-up ends when they are full, at the same place between two blocks for
//! each load, so that exactly one is cut in the measured time.
//!
//! A load that was not held says nothing: where less than 98% of the scrapes came, it follows once more, every
//! target asked half as often, with blocks twice as long. The warm-up has a rehearsal that tells it early.

use std::path::Path;
use std::time::Duration;

use super::contender::{self, Contender, Wanted};
use super::lane::{self, Lane};
use super::options::{Load, Request};
use super::outcome::{Machine, Outcome};
use super::process::in_memory;
use super::{Clock, Progress};
use crate::app::now_ms;
use crate::plan::{Coefficients, Measured};

/// Samples of a series in a block: a full chunk.
const SAMPLES: u32 = 120;

/// What is asked to see what queries cost, and how often.
const QUERIES: usize = 5;
const QUERY: &str = "count(last_over_time({__name__=~\".+\"}[10s]))";

/// The share of the scrapes that must have come.
const HELD: f64 = 0.98;

/// The share of the scrapes that may count as missed although as many came as were meant: late by half an
/// interval, 75 ms, and made up for.
const LATE: f64 = 0.1;

/// How often a load is tried, each time at twice the interval.
const TRIES: u32 = 3;

/// A load of the series.
struct Step {
    shape: &'static str,
    targets: u64,
    /// Of each target.
    series: u64,
    milliseconds: u64,
    /// As the fleet has it.
    churn: Option<&'static str>,
}

const fn step(shape: &'static str, targets: u64, series: u64, milliseconds: u64) -> Step {
    Step { shape, targets, series, milliseconds, churn: None }
}

/// Small enough that two processors hold them while others use these, too.
const STEPS: &[Step] = &[
    step("mixed", 1, 10, 150),
    step("mixed", 200, 100, 150),
    step("node", 20, 1000, 150),
    step("kubernetes", 30, 500, 150),
    step("histogram", 20, 1000, 150),
    step("broker", 5, 4000, 150),
    step("mixed", 200, 20, 150),
    Step { churn: Some("0.5/10s"), ..step("mixed", 40, 500, 150) },
    // As much memory as a load of hours has: what is asked for is not in the caches any more.
    step("mixed", 200, 500, 500),
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
    if in_memory(place) {
        return Err(format!(
            "{} is in memory, where nothing counts as written: give a --directory on a disk",
            place.display()
        ));
    }
    let contender = contender::recognise(&[Wanted::ours()])?.remove(0);
    let mut loads = Vec::new();
    let mut per_query_sample = None;
    for (number, step) in STEPS.iter().enumerate() {
        let Step { shape, targets, series, churn, .. } = step;
        progress.say(&format!(
            "{} of {}: {targets} targets with {series} series each, {shape}{}",
            number + 1,
            STEPS.len(),
            churn.map_or(String::new(), |churn| format!(", churn {churn}"))
        ));
        let asks = number == 1;
        let place = place.join(format!("calibrate-{number}"));
        let (load, query) = held(&contender, step, asks, &place, progress).await?;
        per_query_sample = per_query_sample.or(query);
        loads.push(load);
        if request.directory.is_none() {
            // What follows shall not have a fuller disk.
            let _ = std::fs::remove_dir_all(&place);
        }
    }
    let date = crate::time::rfc3339(Some(now_ms()));
    let query = per_query_sample.unwrap_or(0.0);
    Coefficients::fitted(date, Machine::here().line(), loads, query)
}

/// Tries a step until it is held, and gives what it took; with `asks` also what queries cost.
///
/// # Errors
/// It was not held at all.
async fn held(
    contender: &Contender,
    step: &Step,
    asks: bool,
    place: &Path,
    progress: &Progress,
) -> Result<(Measured, Option<f64>), String> {
    let mut said = String::new();
    for attempt in 0..TRIES {
        let interval = Duration::from_millis(step.milliseconds << attempt);
        let block = interval * SAMPLES;
        let mut fleet = vec![format!("--shape={}", step.shape)];
        fleet.extend(step.churn.map(|churn| format!("--churn={churn}")));
        let load = Load { targets: step.targets, series: step.series, interval, fleet };
        let mut contender = contender.clone();
        contender.flags =
            vec![format!("--storage.tsdb.min-block-duration={}", crate::duration::format(block))];
        let mut lane = Lane::start(&contender, &load, &place.join(attempt.to_string()), "").await?;
        match measured(&mut lane, block, &load).await? {
            Ok(outcome) => {
                let query = match asks {
                    true => Some(lane.query_cost(QUERY, QUERIES, outcome.cpu.cores).await?),
                    false => None,
                };
                return Ok((taken(step.shape, &load, block, &outcome), query));
            }
            Err(behind) => {
                progress.say(&format!("  every {}: {behind}", crate::duration::format(interval)));
                said = behind;
            }
        }
    }
    Err(format!(
        "the server falls behind with {} targets of {} series each, and what a load takes that is not held says \
         nothing: {said}. Leave the machine alone meanwhile, or take a faster one",
        step.targets, step.series
    ))
}

/// Holds a load; the inner error says how it was not held.
async fn measured(
    lane: &mut Lane,
    block: Duration,
    load: &Load,
) -> Result<Result<Outcome, String>, String> {
    let (first, second) = warmup(lane::now(), block.as_secs_f64());
    let mut clock = Clock::new();
    let mut lanes = [lane];
    clock.pass(first, &mut lanes, |lane, _| lane.check()).await?;
    lanes[0].begin().await?;
    clock.pass(second, &mut lanes, |lane, elapsed| lane.tick(elapsed)).await?;
    if let Err(behind) = is_held(&lanes[0].end().await?, load) {
        return Ok(Err(behind));
    }
    lanes[0].begin().await?;
    clock.pass(block, &mut lanes, |lane, elapsed| lane.tick(elapsed)).await?;
    let outcome = lanes[0].end().await?;
    Ok(is_held(&outcome, load).map(|()| outcome))
}

/// How long nothing is looked at, and how long the rehearsal is that follows: in all until chunks are full and a
/// block was cut. Blocks are cut when half of the next one is there, at the latest five seconds after that.
fn warmup(now: f64, block: f64) -> (Duration, Duration) {
    let begin = block / 2.0 + 7.0;
    let earliest = now + block + 6.0;
    let in_all = ((earliest - begin) / block).ceil() * block + begin - now;
    let rehearsal = block / 3.0;
    (Duration::from_secs_f64(in_all - rehearsal), Duration::from_secs_f64(rehearsal))
}

/// Whether as many scrapes came as were meant to.
///
/// # Errors
/// How many didn't.
fn is_held(outcome: &Outcome, load: &Load) -> Result<(), String> {
    let seconds = outcome.samples as f64 / outcome.samples_per_second.max(1e-9);
    let meant = load.targets as f64 * seconds / load.interval.as_secs_f64();
    // The answer at either end may fall out, of each target.
    let least = HELD * meant - load.targets as f64;
    let most = (LATE * meant).max(1.0);
    let missed = outcome.scrapes_missed as f64;
    if outcome.scrapes > 0 && outcome.scrapes as f64 >= least && missed <= most {
        return Ok(());
    }
    Err(format!("{} of {meant:.0} scrapes came, {missed:.0} were missed", outcome.scrapes))
}

/// The features of a load, as they were and not as they were meant.
fn taken(shape: &str, load: &Load, block: Duration, outcome: &Outcome) -> Measured {
    let seconds = outcome.samples as f64 / outcome.samples_per_second.max(1e-9);
    let series = (load.targets * load.series) as f64;
    let blocks = &outcome.disk.blocks;
    let created = outcome.series_created.unwrap_or(0.0);
    Measured {
        shape: shape.to_owned(),
        targets: load.targets as f64,
        series,
        // What came in the measured time was there for half of it.
        head_series: outcome.series.unwrap_or(series) - created / 2.0,
        interval_seconds: load.interval.as_secs_f64(),
        block_seconds: block.as_secs_f64(),
        scrapes_per_second: outcome.scrapes as f64 / seconds,
        samples_per_second: outcome.samples_per_second,
        body_bytes_per_second: outcome.body_bytes as f64 / seconds,
        new_series_per_second: created / seconds,
        cores: outcome.cpu.cores,
        rss_bytes: outcome.memory.rss_average_bytes,
        written_bytes_per_second: outcome.disk.written_bytes.unwrap_or(0) as f64 / seconds,
        descriptors: outcome.descriptors as f64,
        journal_bytes_per_sample: outcome.disk.journal_bytes_per_sample.unwrap_or(0.0),
        chunk_bytes_per_sample: blocks.chunk_bytes as f64 / blocks.samples.max(1) as f64,
        index_bytes_per_series: blocks.index_bytes as f64 / blocks.series.max(1) as f64,
        load_average: load_average(),
    }
}

/// Of the last minute; 0 where the kernel doesn't say.
fn load_average() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_is_not_held_is_told() {
        let interval = Duration::from_millis(150);
        let mut load = Load { targets: 20, series: 1000, interval, fleet: Vec::new() };
        // 18 s at 150 ms: 120 of each target, 2,400 in all.
        for (targets, scrapes, missed, expected) in [
            (20, 2400, 0, true),
            (20, 2360, 40, true),
            (20, 2331, 0, false),
            (20, 2400, 230, true),
            (20, 2400, 250, false),
            (20, 1200, 1200, false),
            (20, 600, 1800, false),
            (20, 0, 2400, false),
            (1, 120, 1, true),
            (1, 119, 11, true),
            (1, 120, 13, false),
        ] {
            load.targets = targets;
            let outcome = Outcome {
                scrapes,
                scrapes_missed: missed,
                samples: scrapes * 1000,
                samples_per_second: scrapes as f64 * 1000.0 / 18.0,
                ..Outcome::default()
            };
            let found = is_held(&outcome, &load);
            assert_eq!(found.is_ok(), expected, "{scrapes} scrapes, {missed} missed: {found:?}");
        }
    }

    #[test]
    fn what_is_measured_begins_at_the_same_place_of_a_block() {
        for block in [18.0, 36.0, 60.0] {
            for now in [0.0, 5.5, 17.9, 1_000_000.3] {
                let (first, second) = warmup(now, block);
                let warm = (first + second).as_secs_f64();
                assert!(warm >= block + 6.0 && warm < 2.0 * block + 6.0 + 1e-6, "{warm}");
                let place = (now + warm) % block;
                assert!((place - (block / 2.0 + 7.0) % block).abs() < 1e-6, "{place} of {block}");
            }
        }
    }
}
