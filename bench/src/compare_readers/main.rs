//! Whether what is written is read back the same, by our readers and by those of others.
//!
//! ```text
//! draw        what names, texts and numbers are drawn from
//! model       families and series as data, drawn at random
//! write       a case straight through the writer
//! register    a case through a registry: handles, callbacks, collectors, scopes
//! canonical   what a reader understood, in a form in which readers can be compared
//! expect      what a case should be read as, made from the case alone
//! ours        our readers
//! peer        Go's expfmt, Prometheus' textparse, OTLP's generated types: one process
//! deliberate  differences that are meant, each with its reason
//! compare     one case: written, read, compared, made smaller
//! otlp        the same for OTLP, and what a registry exports by it
//! ```
//! `compare-readers [--seed N] [--cases N] [--smoke]`: a case is one body. `--smoke` is few cases with our
//! readers alone. The exit code is 1 where a reader differs.

mod canonical;
mod compare;
mod deliberate;
mod draw;
mod expect;
mod model;
mod otlp;
mod ours;
mod peer;
mod register;
mod write;

use std::collections::BTreeMap;
use std::process::ExitCode;

use bench::Failure;
use bench::engine::peer_binary;
use testkit::random::Random;

use compare::Outcome;
use deliberate::By;
use model::Case;
use peer::Peer;

/// What was asked for.
struct Options {
    seed: u64,
    cases: u64,
    has_peer: bool,
}

/// Differences of one reader that are printed; further ones are counted.
const MOST_SHOWN: u64 = 3;

fn main() -> ExitCode {
    match Options::read(std::env::args().skip(1)).and_then(|options| run(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("compare-readers: {error}");
            ExitCode::FAILURE
        }
    }
}

impl Options {
    fn read(arguments: impl IntoIterator<Item = String>) -> Result<Options, Failure> {
        let mut options = Options { seed: 1, cases: 4_000, has_peer: true };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut number = || -> Result<u64, Failure> {
                let text = arguments.next().ok_or(format!("{argument}: a number is missing"))?;
                text.parse().map_err(|error| format!("{argument} {text}: {error}").into())
            };
            match &*argument {
                "--smoke" => (options.cases, options.has_peer) = (200, false),
                "--seed" => options.seed = number()?,
                "--cases" => options.cases = number()?,
                _ => {
                    return Err(
                        format!("{argument}: unknown; there are --seed, --cases, --smoke").into()
                    );
                }
            }
        }
        Ok(options)
    }
}

/// What was counted.
#[derive(Default)]
struct Counted {
    bodies: u64,
    series: u64,
    differing: BTreeMap<By, u64>,
    deliberate: BTreeMap<(usize, By), u64>,
}

/// Says whether all readers agreed.
fn run(options: &Options) -> Result<bool, Failure> {
    let mut peer = None;
    if options.has_peer {
        let program = peer_binary("readers");
        peer = Peer::start(&program)?;
        if peer.is_none() {
            println!("missing: {}: only our readers are asked", program.display());
        }
    }
    let has_peer = peer.is_some();
    let mut sent = otlp::Sent::listen()?;
    let mut counted = Counted::default();
    for number in 0..options.cases {
        let seed = options.seed.wrapping_mul(1 << 32).wrapping_add(number);
        let mut random = Random::new(seed);
        if number % 4 == 3 {
            let outcome = otlp::run(&mut random, peer.as_mut())?;
            counted.take_otlp(number, &outcome);
            continue;
        }
        let case = Case::draw(&mut random);
        // A registry's metrics leave by the exporter, too; some of them, as each is a request over HTTP.
        if case.resource.is_some() && number % 4 == 2 {
            let outcome = otlp::export(&case, &mut sent, peer.as_mut())?;
            counted.take_otlp(number, &outcome);
        }
        let outcome = compare::run(&case, peer.as_mut())?;
        counted.bodies += 1;
        counted.series += case.series() as u64;
        counted.take(&outcome);
        for by in outcome.faults.keys().copied() {
            if counted.differing[&by] <= MOST_SHOWN {
                show(number, &case, by, peer.as_mut())?;
            }
        }
    }
    counted.print(has_peer);
    Ok(counted.differing.is_empty())
}

/// Prints the smallest case in which the reader differs.
fn show(number: u64, case: &Case, by: By, mut peer: Option<&mut Peer>) -> Result<(), Failure> {
    let smallest = compare::shrink(case, by, peer.as_deref_mut())?;
    let outcome = compare::run(&smallest, peer)?;
    println!("case {number}, {} differs:", by.name());
    for told in outcome.faults.get(&by).into_iter().flatten() {
        println!("  {told}");
    }
    println!("  of {smallest:?}");
    println!("  as {:?}", String::from_utf8_lossy(&outcome.body));
    Ok(())
}

impl Counted {
    fn take(&mut self, outcome: &Outcome) {
        for by in outcome.faults.keys() {
            *self.differing.entry(*by).or_default() += 1;
        }
        for met in &outcome.deliberate {
            *self.deliberate.entry(*met).or_default() += 1;
        }
    }

    fn take_otlp(&mut self, number: u64, outcome: &otlp::Outcome) {
        self.bodies += 1;
        self.series += outcome.points;
        for (by, told) in &outcome.faults {
            let count = self.differing.entry(*by).or_default();
            *count += 1;
            if *count <= MOST_SHOWN {
                println!("case {number}, {} differs:\n  {told}", by.name());
            }
        }
    }

    fn print(&self, has_peer: bool) {
        for ((place, by), count) in &self.deliberate {
            println!(
                "deliberate, {} bodies, {}: {}",
                count,
                by.name(),
                deliberate::ALL[*place].reason
            );
        }
        let mut line = format!("RESULT readers bodies={} series={}", self.bodies, self.series);
        for by in By::ALL {
            let count = self.differing.get(&by).copied().unwrap_or_default();
            let count = if has_peer || by == By::Ours { count.to_string() } else { "n/a".into() };
            line += &format!(" differing_{}={count}", by.name());
        }
        println!("{line}");
    }
}
