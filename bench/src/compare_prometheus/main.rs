//! unladen and Prometheus 3 side by side: the same targets, the same relabel rules, then every series
//! with every value of both is compared.
//!
//! 1. [`fixtures`] serves bodies that depend only on how often a client has asked for them, so that the
//!    n-th scrape of both servers sees the same bytes whenever it comes.
//! 2. [`servers`] runs both on one `prometheus.yml` until each has scraped every target often enough.
//! 3. [`report`] reads all samples back through the HTTP API of both and lists what differs.
//!
//! The last line is `RESULT compare series_same=… series_missing=… series_extra=… values_differing=…`.

mod fixtures;
mod report;
mod servers;

use std::error::Error;
use std::path::{Path, PathBuf};

/// After so many scrapes of a target its bodies stop changing, so that both servers end on the same one.
pub const CHANGING_SCRAPES: usize = 8;

/// The binary under comparison: `UNLADEN_BIN`, or the release build.
fn unladen_binary(root: &Path) -> PathBuf {
    std::env::var_os("UNLADEN_BIN")
        .map_or_else(|| root.join("target/release/unladen"), PathBuf::from)
}

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("bench/ has a parent");
    let fixtures = fixtures::start(root)?;
    let directory = tempfile::tempdir()?;
    let config = directory.path().join("prometheus.yml");
    std::fs::write(&config, fixtures.config())?;

    let prometheus = servers::Server::start(
        "prometheus",
        &root.join("bench/bin/prometheus"),
        &[],
        &config,
        &directory.path().join("prometheus"),
    )?;
    let unladen = servers::Server::start(
        "unladen",
        &unladen_binary(root),
        &["serve"],
        &config,
        &directory.path().join("unladen"),
    )?;
    fixtures.wait_for_scrapes(CHANGING_SCRAPES + 4)?;

    let difference = report::compare(&prometheus, &unladen)?;
    difference.print();
    if difference.is_empty() { Ok(()) } else { Err("the two differ".into()) }
}
