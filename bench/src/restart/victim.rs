//! A process that appends until it is killed: what it had told by then, and what it held.

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use bench::Failure;

use crate::process;
use crate::workload::Workload;

/// What is known of the dead.
#[derive(Clone, Copy, Debug)]
pub struct Remains {
    /// Samples that it had told to be in.
    pub committed: u64,
    /// Its resident memory with the last whole scrape, in bytes.
    pub resident: f64,
}

struct Victim {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    committed: u64,
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Victim {
    /// Reads until so many samples are in.
    fn wait(&mut self, samples: u64) -> Result<(), Failure> {
        while self.committed < samples {
            let line = self.lines.next().ok_or("it ended before it was killed")??;
            self.take(&line);
        }
        Ok(())
    }

    fn take(&mut self, line: &str) {
        let told = line.strip_prefix("COMMITTED ").and_then(|number| number.parse().ok());
        self.committed = self.committed.max(told.unwrap_or(0));
    }
}

/// Has `program` write the workload to `data` and kills it in the middle of the next scrape.
pub fn run(
    program: &Path,
    words: &[&str],
    workload: &Workload,
    data: &Path,
) -> Result<Remains, Failure> {
    let mut command = Command::new(program);
    command.args(words).args(workload.settings());
    let settings = [
        ("workers", std::thread::available_parallelism().map_or(1, usize::from).to_string()),
        ("data", data.display().to_string()),
    ];
    for (key, value) in settings {
        command.args(["--set", &format!("{key}={value}")]);
    }
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| format!("{}: {error}", program.display()))?;
    let lines = BufReader::new(child.stdout.take().ok_or("the child has no output")?).lines();
    let mut victim = Victim { child, lines, committed: 0 };
    let scrape = workload.all_series() as u64;
    victim.wait(workload.samples() - scrape)?;
    let begun = Instant::now();
    victim.wait(workload.samples())?;
    let resident = process::status(victim.child.id(), "VmRSS:")?;
    // Somewhere in the next scrape, wherever it is by then.
    std::thread::sleep(begun.elapsed().min(Duration::from_secs(5)).mul_f64(0.4));
    victim.child.kill()?;
    victim.child.wait()?;
    // What stands in the pipe was told.
    while let Some(Ok(line)) = victim.lines.next() {
        victim.take(&line);
    }
    Ok(Remains { committed: victim.committed, resident })
}
