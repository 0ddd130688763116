//! The targets that a server scrapes to go on with the series that it came back with.
//!
//! Every target is a path of one address. Labels of the targets are in the configuration, the others in the
//! body, so that a sample is of the same series as those of before.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bench::Failure;

use crate::workload::{self, Workload};

/// Threads that answer.
const WORKERS: usize = 2;

/// Serves until the process ends.
pub struct Targets {
    address: SocketAddr,
    workload: Workload,
    /// By target: how often it was asked.
    asked: Arc<[AtomicUsize]>,
}

impl Targets {
    /// Listens on a port of its own.
    pub fn serve(workload: &Workload) -> Result<Targets, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let asked = (0..workload.targets).map(|_| AtomicUsize::new(0)).collect();
        let targets = Targets { address: listener.local_addr()?, workload: *workload, asked };
        for _ in 0..WORKERS {
            let listener = listener.try_clone()?;
            let (asked, workload) = (targets.asked.clone(), *workload);
            std::thread::spawn(move || {
                let mut body = String::new();
                // Who hangs up is asked again.
                listener.incoming().flatten().for_each(|stream| {
                    let _ = answer(stream, &workload, &asked, &mut body);
                });
            });
        }
        Ok(targets)
    }

    /// The configuration of a server that scrapes all of them.
    pub fn config(&self, interval_seconds: u64) -> String {
        let mut config = format!(
            "global: {{scrape_interval: {interval_seconds}s, scrape_timeout: {interval_seconds}s}}\n\
             scrape_configs:\n- job_name: {}\n  static_configs:\n",
            workload::JOB
        );
        for t in 0..self.workload.targets {
            let (address, instance) = (self.address, workload::instance(t));
            let labels = format!("{{instance: \"{instance}\", __metrics_path__: \"/{t}\"}}");
            let _ = writeln!(config, "  - targets: [\"{address}\"]\n    labels: {labels}");
        }
        config
    }

    /// Waits until each was asked so many times more.
    pub fn wait(&self, times: usize, patience: Duration) -> Result<(), Failure> {
        let counts = || self.asked.iter().map(|asked| asked.load(Ordering::Relaxed));
        let (before, begun): (Vec<usize>, _) = (counts().collect(), Instant::now());
        while counts().zip(&before).any(|(asked, before)| asked < before + times) {
            if begun.elapsed() > patience {
                return Err("the server does not scrape its targets".into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

fn answer(
    stream: TcpStream,
    workload: &Workload,
    asked: &[AtomicUsize],
    body: &mut String,
) -> Result<(), Failure> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut lines = BufReader::new(&stream).lines();
    let first = lines.next().ok_or("nothing was asked")??;
    while !lines.next().ok_or("the head of a request has no end")??.is_empty() {}
    let path = first.split(' ').nth(1).and_then(|path| path.strip_prefix('/'));
    let t: usize = path.and_then(|path| path.parse().ok()).ok_or("no such target")?;
    let times = asked.get(t).ok_or("no such target")?;
    // Behind the scrape in which the one before was killed.
    let k = workload.scrapes + 1 + times.load(Ordering::Relaxed);
    body.clear();
    let mut pairs = Vec::new();
    for s in 0..workload.series {
        workload::labels(t, s, &mut pairs);
        let mut separator = '{';
        for (name, value) in &pairs {
            match *name {
                "__name__" => body.push_str(value),
                "instance" | "job" => {}
                _ => {
                    write!(body, "{separator}{name}=\"{value}\"")?;
                    separator = ',';
                }
            }
        }
        writeln!(body, "}} {}", workload::value(t, s, k))?;
    }
    let kind = "text/plain; version=0.0.4";
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    (&stream).write_all(head.as_bytes())?;
    (&stream).write_all(body.as_bytes())?;
    times.fetch_add(1, Ordering::Relaxed);
    Ok(())
}
