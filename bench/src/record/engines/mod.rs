//! The engines: each records the cases it can.

mod metrics_exporter;
mod opentelemetry_sdk;
mod prometheus;
mod prometheus_client;
mod unladen;
mod unladen_doors;

use bench::Failure;

use crate::case::Built;

type Build = fn() -> Result<Built, Failure>;

/// All engines, in the order of the table.
pub static ENGINES: [(&str, Build); 8] = [
    ("unladen", unladen::build),
    ("unladen-declared", unladen::build_declared),
    ("unladen-opentelemetry", unladen_doors::build_opentelemetry),
    ("unladen-metrics", unladen_doors::build_metrics),
    ("opentelemetry_sdk", opentelemetry_sdk::build),
    ("prometheus", prometheus::build),
    ("prometheus-client", prometheus_client::build),
    ("metrics", metrics_exporter::build),
];

/// Builds the engine of that name.
pub fn build(name: &str) -> Result<Built, Failure> {
    let found = ENGINES.iter().find(|(known, _)| *known == name);
    let (_, build) = found.ok_or_else(|| format!("there is no engine {name}"))?;
    build()
}

/// All that the body of a scrape says was added to counters and recorded in histograms.
fn written(body: &str) -> u64 {
    let lines = body.lines().filter(|line| !line.starts_with('#'));
    let counted = lines.filter_map(|line| {
        let (name, rest) = line.split_once('{')?;
        let is_count =
            ["requests", "requests_total", "latency_count", "native_count"].contains(&name);
        is_count.then(|| rest.rsplit_once(' ')?.1.parse::<f64>().ok()).flatten()
    });
    counted.map(|count| count as u64).sum()
}
