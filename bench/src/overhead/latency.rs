//! The latency of the example service, with a profile fetched every ten seconds and without.
//!
//! 1. The example runs as it is built for people: with its profiler, on any free port.
//! 2. Connections that stay open ask at a fixed rate. A request that could not be sent in time, because the
//!    answer before it was late, counts from when it should have been sent.
//! 3. Slices of ten seconds: in every second one the wall-clock profile of nearly all of it and the heap's
//!    are fetched, symbols and all. What counts is the p99 of one slice against that of its neighbour.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use bench::Failure;
use bench::engine::Measured;
use bench::protocol::Line;

use crate::Size;

const CONNECTIONS: u32 = 4;
/// Requests a second, of all connections together.
const RATE: u32 = 2000;

/// Runs all slices and gives what they came to.
pub fn measure(size: &Size) -> Result<Measured, Failure> {
    let program = example();
    let mut measured = Measured::default();
    if !program.exists() {
        println!("missing: {}: latency is left out", program.display());
        return Ok(measured);
    }
    let service = Service::start(&program)?;
    let seconds = size.latency_seconds as u64;
    service.slice(seconds.min(3), false)?;
    for pair in 0..size.latency_slices / 2 {
        let mut found = [Vec::new(), Vec::new()];
        for place in 0..2 {
            let has_exports = (pair + place) % 2 == 0;
            found[usize::from(has_exports)] = service.slice(seconds, has_exports)?;
        }
        let mut line = Line::new("service");
        for (name, quantile) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)] {
            let [without, with] = [0, 1].map(|which: usize| at(&mut found[which], quantile));
            line.set(&format!("{name}_us"), without / 1000.0);
            line.set(&format!("{name}_ratio"), with / without);
        }
        println!("pair {}: {line}", pair + 1);
        measured.take(&line);
    }
    Ok(measured)
}

/// Where `make` leaves the example.
fn example() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target =
        target.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target"));
    target.join("release/example-axum")
}

fn at(latencies: &mut [u64], quantile: f64) -> f64 {
    latencies.sort_unstable();
    let place = (latencies.len() as f64 * quantile) as usize;
    latencies.get(place.min(latencies.len().saturating_sub(1))).map_or(f64::NAN, |ns| *ns as f64)
}

struct Service {
    child: Child,
    address: String,
    /// Kept open: the example writes more than the line that is waited for.
    output: BufReader<ChildStdout>,
}

impl Service {
    fn start(program: &PathBuf) -> Result<Service, Failure> {
        let mut child = Command::new(program)
            .arg("127.0.0.1:0")
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()?;
        let output = child.stdout.take().ok_or("the example has no output")?;
        let output = BufReader::new(output);
        let mut service = Service { child, address: String::new(), output: output };
        let mut line = String::new();
        while service.output.read_line(&mut line)? > 0 {
            if let Some(rest) = line.split_once("http://").map(|(_, rest)| rest) {
                service.address = rest.split('/').next().unwrap_or_default().to_owned();
                return Ok(service);
            }
            line.clear();
        }
        Err("the example ended before it said where it listens".into())
    }

    /// The latencies of a slice, in nanoseconds.
    fn slice(&self, seconds: u64, has_exports: bool) -> Result<Vec<u64>, Failure> {
        thread::scope(|scope| {
            let loads: Vec<_> = (0..CONNECTIONS)
                .map(|number| scope.spawn(move || self.load(number, seconds).map_err(text)))
                .collect();
            let exports = has_exports.then(|| {
                // So that it is over within the slice.
                let collecting = seconds.saturating_sub(1).max(1);
                let wall = format!("/debug/pprof/wall?seconds={collecting}");
                scope.spawn(move || {
                    self.fetch(&wall).map_err(text)?;
                    self.fetch("/debug/pprof/heap").map_err(text)
                })
            });
            let mut all = Vec::new();
            for load in loads {
                all.extend(load.join().map_err(|_| "a connection's thread panicked")??);
            }
            if let Some(exports) = exports {
                exports.join().map_err(|_| "the thread that fetches panicked")??;
            }
            Ok(all)
        })
    }

    /// One connection's requests.
    fn load(&self, number: u32, seconds: u64) -> Result<Vec<u64>, Failure> {
        let mut connection = TcpStream::connect(&self.address)?;
        connection.set_nodelay(true)?;
        let request =
            format!("GET /queues/orders-{number} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address);
        let every = Duration::from_secs(1) * CONNECTIONS / RATE;
        let (began, mut answer, mut latencies) = (Instant::now(), vec![0; 4096], Vec::new());
        // Connections do not ask all at once.
        let mut due = began + every * number / CONNECTIONS;
        while due < began + Duration::from_secs(seconds) {
            let wait = due.saturating_duration_since(Instant::now());
            let from = if wait.is_zero() {
                due
            } else {
                thread::sleep(wait);
                Instant::now()
            };
            connection.write_all(request.as_bytes())?;
            read_answer(&mut connection, &mut answer)?;
            latencies.push(from.elapsed().as_nanos() as u64);
            due += every;
        }
        Ok(latencies)
    }

    /// Fetches a path on a connection of its own; an answer that is none is an error.
    fn fetch(&self, path: &str) -> Result<(), Failure> {
        let mut connection = TcpStream::connect(&self.address)?;
        let host = &self.address;
        write!(connection, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer)?;
        let head = String::from_utf8_lossy(&answer[..answer.len().min(300)]).into_owned();
        if head.starts_with("HTTP/1.1 200") && answer.len() > 500 {
            return Ok(());
        }
        Err(format!("{path} was answered by {head}").into())
    }
}

fn text(error: Failure) -> String {
    error.to_string()
}

/// Reads one answer whose length is told, and checks that it is one.
fn read_answer(connection: &mut TcpStream, room: &mut [u8]) -> Result<(), Failure> {
    let mut length = 0;
    loop {
        let read = connection.read(&mut room[length..])?;
        if read == 0 {
            return Err("the service closed the connection".into());
        }
        length += read;
        let Some(head) = room[..length].windows(4).position(|window| window == b"\r\n\r\n") else {
            continue;
        };
        let text = std::str::from_utf8(&room[..head])?;
        if !text.starts_with("HTTP/1.1 200") {
            return Err(format!("the service answered {text}").into());
        }
        let told = text.lines().find_map(|line| line.strip_prefix("content-length: "));
        let body: usize = told.ok_or("an answer without a length")?.parse()?;
        if length >= head + 4 + body {
            return Ok(());
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Ours, and of no use without the bench.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
