//! `scrape_failure_log_file`: a line of JSON for each failed scrape.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use parking_lot::Mutex;

/// The open file of one or several jobs.
pub(super) struct FailureLog {
    file: Mutex<File>,
}

impl FailureLog {
    /// Opens the file for appending, and creates it where there is none.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(super) fn open(path: &Path) -> std::io::Result<Self> {
        let file = File::options().append(true).create(true).open(path)?;
        Ok(FailureLog { file: Mutex::new(file) })
    }

    /// Writes one line. A line that cannot be written is lost: scraping goes on.
    pub(super) fn write(&self, time_ms: i64, job: &str, target: &str, error: &str) {
        let mut line = serde_json::json!({
            "time_ms": time_ms,
            "level": "ERROR",
            "msg": error,
            "job_name": job,
            "target": target,
        })
        .to_string();
        line.push('\n');
        if let Err(error) = self.file.lock().write_all(line.as_bytes()) {
            tracing::debug!(%error, "Cannot write to the scrape failure log");
        }
    }
}
