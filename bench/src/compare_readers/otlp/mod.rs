//! OTLP: requests drawn at random, written, and read by our reader and by the generated types of Go.
//!
//! ```text
//! model   requests as data, and the lines that should be read of them
//! write   a request through our writer
//! read    a request through our reader
//! export  a registry's request, through the exporter
//! ```
//! Nothing of a request is lost on the way, so that there are no deliberate differences here.

mod export;
mod model;
mod read;
mod write;

use std::collections::BTreeMap;

use bench::Failure;
use serde_json::Value;
use testkit::random::Random;
use unladen::Negotiated;

use crate::deliberate::By;
use crate::model::Case;
use crate::peer::Peer;
use crate::register;
pub use export::Sent;
use model::Request;

/// What came of one request.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How many points it has.
    pub points: u64,
    /// What each reader has otherwise than it was written, in the smallest request that shows it.
    pub faults: BTreeMap<By, String>,
}

/// Draws, writes and reads one request.
///
/// # Errors
/// The other process failed.
pub fn run(random: &mut Random, mut peer: Option<&mut Peer>) -> Result<Outcome, Failure> {
    let request = model::draw(random);
    let lines = model::told(&request);
    let points = lines.iter().filter(|line| line["event"] == "point").count() as u64;
    let mut outcome = Outcome { points, faults: BTreeMap::new() };
    for by in differing(&request, peer.as_deref_mut())?.into_keys() {
        let smallest = shrink(&request, by, peer.as_deref_mut())?;
        let told = differing(&smallest, peer.as_deref_mut())?.remove(&by).unwrap_or_default();
        outcome.faults.insert(by, told);
    }
    Ok(outcome)
}

/// Sends what the registry of a case has through the exporter, and compares what the readers make of it
/// with each other and with the numbers of the case.
///
/// # Errors
/// The other process failed, or the way to the collector.
pub fn export(case: &Case, sent: &mut Sent, peer: Option<&mut Peer>) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let registry = match register::registry(case) {
        Ok(registry) => registry,
        Err(error) => {
            outcome.faults.insert(By::Ours, error.to_string());
            return Ok(outcome);
        }
    };
    let body = sent.body(&registry)?;
    let lines = match read::lines(&body) {
        Ok(lines) => lines,
        Err(error) => {
            outcome.faults.insert(By::Ours, format!("refused: {error}; of {case:?}"));
            return Ok(outcome);
        }
    };
    outcome.points = lines.iter().filter(|line| line["event"] == "point").count() as u64;
    let mut wrong = export::wrong_numbers(case, &lines);
    // A collector that panicked would only be missing.
    let scrape = registry.write(Negotiated::default(), String::new(), |body, chunk| {
        body + &String::from_utf8_lossy(chunk)
    });
    wrong.extend(scrape.lines().filter(|line| line.starts_with("unladen_")).map(str::to_owned));
    if !wrong.is_empty() {
        outcome.faults.insert(By::Ours, wrong.join("\n  "));
    }
    if let Some(peer) = peer {
        for answer in peer.ask("otlp", &body)? {
            let read: Vec<_> = answer.lines.into_iter().map(without_reader).collect();
            if let Some(error) = answer.error {
                outcome.faults.insert(By::Otlp, format!("refused: {error}; of {case:?}"));
            } else if read != lines {
                outcome.faults.insert(By::Otlp, first_difference(&lines, &read));
            }
        }
    }
    Ok(outcome)
}

fn first_difference(written: &[Value], read: &[Value]) -> String {
    let at = written.iter().zip(read).take_while(|(written, read)| written == read).count();
    let line = |lines: &[Value]| lines.get(at).map(Value::to_string).unwrap_or_default();
    format!("written {}\n  read {}", line(written), line(read))
}

/// What each reader has otherwise.
fn differing(request: &Request, peer: Option<&mut Peer>) -> Result<BTreeMap<By, String>, Failure> {
    let mut faults = BTreeMap::new();
    let expected = model::told(request);
    let body = match write::body(request) {
        Ok(body) => body,
        Err(error) => {
            faults.insert(By::Ours, error);
            return Ok(faults);
        }
    };
    let mut take = |by: By, read: Result<Vec<Value>, String>| match read {
        Ok(read) if read == expected => {}
        Ok(read) => {
            faults.insert(by, first_difference(&expected, &read));
        }
        Err(error) => {
            faults.insert(by, format!("refused: {error}; written {expected:?}"));
        }
    };
    take(By::Ours, read::lines(&body));
    if let Some(peer) = peer {
        for answer in peer.ask("otlp", &body)? {
            take(
                By::Otlp,
                match answer.error {
                    Some(error) => Err(error),
                    None => Ok(answer.lines.into_iter().map(without_reader).collect()),
                },
            );
        }
    }
    Ok(faults)
}

/// A line without who printed it.
fn without_reader(mut line: Value) -> Value {
    if let Some(line) = line.as_object_mut() {
        line.remove("reader");
    }
    line
}

/// The request with the least in it in which `by` still differs.
fn shrink(request: &Request, by: By, mut peer: Option<&mut Peer>) -> Result<Request, Failure> {
    let mut smallest = request.clone();
    'smaller: loop {
        for next in smaller(&smallest) {
            if differing(&next, peer.as_deref_mut())?.contains_key(&by) {
                smallest = next;
                continue 'smaller;
            }
        }
        return Ok(smallest);
    }
}

/// The request with one resource, scope, metric or point less, each in its turn.
fn smaller(request: &Request) -> Vec<Request> {
    let mut all = Vec::new();
    for r in 0..request.len() {
        let mut next = request.clone();
        next.remove(r);
        all.push(next);
        for s in 0..request[r].members.len() {
            let mut next = request.clone();
            next[r].members.remove(s);
            all.push(next);
            for m in 0..request[r].members[s].members.len() {
                let mut next = request.clone();
                next[r].members[s].members.remove(m);
                all.push(next);
                for p in 0..request[r].members[s].members[m].points.len() {
                    let mut next = request.clone();
                    next[r].members[s].members[m].points.remove(p);
                    all.push(next);
                }
            }
        }
    }
    all
}
