//! A process that was started for the test: its log, and its end, which is also that of the test.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How many of the last lines of a log are shown.
const LINES: usize = 12;

/// How long a process may take to be ready.
const READY: Duration = Duration::from_secs(600);

/// From one look whether a process is ready to the next.
const LOOK: Duration = Duration::from_millis(2);

/// A process; killed when dropped.
pub(super) struct Started {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Started {
    /// Starts `program` with its output, both kinds, in the file `log`.
    ///
    /// # Errors
    /// It can't be started, or the log can't be written.
    pub(super) fn start(
        name: &str,
        program: &Path,
        arguments: &[String],
        log: &Path,
    ) -> Result<Self, String> {
        let in_log = |error: std::io::Error| format!("{}: {error}", log.display());
        let file = File::options().create(true).append(true).open(log).map_err(in_log)?;
        let errors = file.try_clone().map_err(in_log)?;
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .map_err(|error| format!("cannot start {name} ({}): {error}", program.display()))?;
        Ok(Started { name: name.to_owned(), child, log: log.to_path_buf() })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Fails with the last lines of the log when the process has ended.
    pub(super) fn check(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!(
                "{} ended by itself ({status}). The last lines of its log:\n{}",
                self.name,
                self.last_lines()
            )),
            Err(error) => Err(format!("{}: its state is unknown: {error}", self.name)),
        }
    }

    /// Waits until `address` answers 200 to `path`; gives the time that took.
    ///
    /// # Errors
    /// The process ends before, or ten minutes pass.
    pub(super) async fn ready(&mut self, address: &str, path: &str) -> Result<Duration, String> {
        let begun = Instant::now();
        while !super::ask::answers(address, path).await {
            self.check()?;
            if begun.elapsed() > READY {
                return Err(format!(
                    "{} does not answer http://{address}{path} after {READY:?}. The last lines of its \
                     log:\n{}",
                    self.name,
                    self.last_lines()
                ));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(begun.elapsed())
    }

    /// `kill -9`, and waits for the end.
    pub(super) fn kill(&mut self) {
        // Both fail only for what has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn last_lines(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let mut shown = String::new();
        for line in &lines[lines.len().saturating_sub(LINES)..] {
            shown.push_str("  ");
            shown.extend(plain(line).take(400));
            shown.push('\n');
        }
        if shown.is_empty() { "  (it said nothing)\n".to_owned() } else { shown }
    }
}

/// What others wrote, without what would steer the terminal or hide text in it: control characters, also those
/// that turn the direction of what follows.
pub(super) fn plain(text: &str) -> impl Iterator<Item = char> {
    let steers = |c: char| {
        (c.is_control() && c != '\t')
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(move |c| if steers(c) { '\u{fffd}' } else { c })
}

impl Drop for Started {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port that is free now, on all addresses.
///
/// # Errors
/// The system has none.
pub(super) fn free_port() -> Result<u16, String> {
    TcpListener::bind("0.0.0.0:0")
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| format!("no free port: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_ends_is_told_with_the_last_lines() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let script =
            "for i in $(seq 20); do echo \"line $i\"; done; printf '\\033[1mbold\\n'; exit 3";
        let words = ["-c".to_owned(), script.to_owned()];
        let mut child = Started::start("sh", Path::new("/bin/sh"), &words, &log).unwrap();
        let port = free_port().unwrap();
        let said = child.ready(&format!("127.0.0.1:{port}"), "/").await.unwrap_err();
        assert!(said.starts_with("sh ended by itself (exit status: 3)"), "{said}");
        assert!(said.contains("line 20") && !said.contains("line 9\n"), "{said}");
        assert!(!said.contains('\u{1b}') && said.contains("[1mbold"), "{said}");
    }

    #[test]
    fn what_is_dropped_is_ended() {
        let directory = tempfile::tempdir().unwrap();
        let words = ["60".to_owned()];
        let log = directory.path().join("log");
        let child = Started::start("sleep", Path::new("/bin/sleep"), &words, &log).unwrap();
        let id = child.id();
        drop(child);
        assert!(!Path::new(&format!("/proc/{id}/stat")).exists());
    }
}
