//! A batch job that counts its work and pushes it by OTLP at its end, since nobody would scrape it in
//! time.
//!
//! ```sh
//! OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 OTEL_SERVICE_NAME=word-count \
//!     cargo run -p unladen --example batch --features otlp -- *.md
//! ```
//! Prometheus takes it with `--web.enable-otlp-receiver` at the endpoint
//! `http://localhost:9090/api/v1/otlp`, an OpenTelemetry collector at `http://localhost:4318`.
#![expect(clippy::print_stderr, reason = "a job tells its user why it failed")]

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use unladen::export::{OtlpExporter, PeriodicReader};
use unladen::process::Process;
use unladen::{Buckets, Registry, Resource, Spec};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let registry = Registry::builder().resource(Resource::from_environment()).build();
    registry.collect(Process::new());
    let reader = PeriodicReader::start(&registry, OtlpExporter::from_environment()?)?;

    let files: Vec<String> = std::env::args().skip(1).collect();
    let failed = work(&registry, &files)?;

    // Without this, dropping the reader would do the same and keep what went wrong to itself.
    reader.shutdown()?;
    if failed > 0 {
        return Err(format!("{failed} files could not be read").into());
    }
    Ok(())
}

/// Counts the words of all files; tells how many could not be read.
pub(crate) fn work(registry: &Registry, files: &[String]) -> Result<u64, unladen::Error> {
    let done = registry.counter(("job_files_total", "Files by what came of them."), ["outcome"])?;
    let (ok, failed) = (done.with(["ok"]), done.with(["failed"]));
    let words = registry.counter(("job_words_total", "Words found."), [])?.with([]);
    let took = Spec::new("job_file_duration_seconds", "Time for a file.").unit("seconds");
    let took = registry.histogram(took, [], Buckets::native())?.with([]);
    let spec =
        Spec::new("job_last_success_timestamp_seconds", "When the job last did all it should.");
    let success = registry.gauge(spec.unit("seconds"), ["job"])?;

    for file in files {
        let begin = Instant::now();
        match count_words(Path::new(file)) {
            Ok(count) => {
                words.add(count);
                ok.increment();
            }
            Err(_) => failed.increment(),
        }
        took.record(begin.elapsed().as_secs_f64());
    }
    if failed.value() == 0 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        success.with(["word-count"]).set(now.as_secs_f64());
    }
    Ok(failed.value())
}

fn count_words(path: &Path) -> std::io::Result<u64> {
    Ok(std::fs::read_to_string(path)?.split_whitespace().count() as u64)
}
