//! A scrape of known series allocates nothing, reallocates nothing and frees nothing, from the body to
//! journal and head.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use server::config::{self, ScrapeConfig};
use server::scrape::ingest::{Body, Counts, Extra, Ingester, Report, TargetSeries};
use store::Labels;
use store::db::{Db, Options};
use store::disk::Directory;
use testkit::allocations::{Count, Counting, count};
use wire::exposition::Format;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

/// How a scrape of known series may differ from the one before.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Shape {
    /// The same lines in the same order.
    Same,
    /// The families in another order each time.
    Shuffled,
    /// Every tenth series is there in every second scrape only, and is a known one then.
    Flapping,
}

/// A body like those of exporters: 1,000 series in 100 families, every value new with `round`.
fn body(format: Format, shape: Shape, round: u64) -> String {
    let mut body = String::new();
    for place in 0..100u64 {
        let family = if shape == Shape::Shuffled { (place * 37 + round * 13) % 100 } else { place };
        let name = format!("node_network_thing_{family}_bytes");
        let total = if format == Format::OpenMetrics { "_total" } else { "" };
        writeln!(body, "# HELP {name} Something that is counted, number {family}.").unwrap();
        writeln!(body, "# TYPE {name} counter").unwrap();
        for device in 0..10u64 {
            if shape == Shape::Flapping && device == 3 && round % 2 == 1 {
                continue;
            }
            let value = (family * 1000 + device) as f64 * 1.25 + (round * 17) as f64;
            // One series is dropped by relabelling, one has its label displaced.
            let label = if device == 9 { "drop_me" } else { "device" };
            writeln!(body, "{name}{total}{{{label}=\"eth{device}\",job=\"x\"}} {value}").unwrap();
        }
    }
    if format == Format::OpenMetrics {
        body.push_str("# EOF\n");
    }
    body
}

fn job() -> ScrapeConfig {
    let text = "scrape_configs: [{job_name: a, extra_scrape_metrics: true, sample_limit: 5000,
        metric_relabel_configs: [{source_labels: [drop_me], regex: .+, action: drop},
        {source_labels: [device], regex: eth(.), target_label: number}]}]";
    let loaded =
        config::load_text(text, Path::new("t.yml"), Path::new(""), &config::Options::default());
    loaded.expect("the configuration is valid").config.scrape_configs.remove(0)
}

fn scrape(
    ingester: &mut Ingester,
    series: &mut TargetSeries,
    body: Body<'_>,
) -> Result<Counts, String> {
    let mut counts = ingester.read(series, body).map_err(|(fault, _)| fault.to_string())?;
    let extra = Some(Extra { timeout_seconds: 10.0, sample_limit: 5000, body_bytes: 1 });
    let report = Report::Scraped { up: true, seconds: 0.01, counts, extra };
    ingester.report(series, body.labels, body.now_ms, &report).map_err(|e| e.to_string())?;
    let again = ingester.commit(series, &mut counts).map_err(|e| e.to_string())?;
    assert!(!again, "the store forgot a series");
    Ok(counts)
}

#[test]
fn a_scrape_of_known_series_allocates_nothing() {
    let config = job();
    let labels = Labels::from_pairs([("instance", "localhost:9100"), ("job", "a")]);
    for format in [Format::Text, Format::OpenMetrics] {
        for shape in [Shape::Same, Shape::Shuffled, Shape::Flapping] {
            let folder = tempfile::tempdir().unwrap();
            let disk = Arc::new(Directory::open(folder.path()).unwrap());
            let start = 1_700_000_000_000;
            let (db, _) = Db::open(disk, Options::default(), start).unwrap();
            let mut ingester = Ingester::new(&db);
            let mut series = TargetSeries::default();
            let mut during = Count::ZERO;
            for round in 0..400u64 {
                let text = body(format, shape, round);
                let now_ms = start + round as i64 * 15_000;
                let bytes = text.as_bytes();
                let body = Body { bytes, format, now_ms, labels: &labels, config: &config };
                let mut result = None;
                let here =
                    count(|| result = Some(scrape(&mut ingester, &mut series, body).is_ok()));
                assert_eq!(result, Some(true), "{format:?} {shape:?} round {round}");
                // The first rounds make the series and grow every buffer to its size, also that of the chunks:
                // what follows holds the end of a chunk of every series.
                if round >= 260 {
                    during.allocations += here.allocations;
                    during.reallocations += here.reallocations;
                    during.frees += here.frees;
                    during.bytes += here.bytes;
                }
            }
            assert_eq!(during, Count::ZERO, "{format:?} {shape:?}");
        }
    }
}
