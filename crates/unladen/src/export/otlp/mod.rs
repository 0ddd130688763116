//! OTLP over HTTP, in the protobuf encoding: to a collector, an agent, or a backend that takes it.
//!
//! ```text
//! options   Options: where to, and how; from the program or the environment
//! encode    a batch as request bodies
//! values    attributes as OTLP has them
//! queue     requests that wait for another attempt
//! client    one attempt, and what the other side says to it
//! ```
//! 1. A batch becomes one or more requests of at most so many points, since receivers bound a body.
//! 2. Each is sent, behind those that wait. What the other side takes in part is not sent again: the
//!    rest is counted, and why is in the error.
//! 3. Where nobody answers, or with the status 429, 502, 503 or 504, the request waits. The time to the
//!    next attempt doubles from a second to a minute, with jitter, and is at least what `Retry-After`
//!    says. Meanwhile nothing is sent.
//! 4. What waits is bounded in bytes, and beyond that the oldest goes, counted. A request without
//!    differences goes as soon as a newer batch has to wait, which tells all of it again.
//!
//! An exporter without a [`PeriodicReader`](crate::export::PeriodicReader) has to be called to
//! [`retry`](crate::export::Exporter::retry) by the program.
//!
//! Not done here: gRPC and the JSON encoding; certificates of the program's own. TLS is behind the
//! feature `otlp-tls`.

mod client;
mod encode;
mod options;
mod queue;
mod values;

use std::fmt;
use std::time::{Duration, Instant};

use crate::reader::Temporalities;

use super::error::{Error, Reason};
use super::{Counts, Data, Exporter, Outcome};

pub use options::{Invalid, Options};

use client::{Answer, Client};
use encode::Encoder;
use queue::{Queue, Request};

/// What it is called in metrics and errors.
const NAME: &str = "otlp";

/// The first wait for another attempt, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Sends what is collected by OTLP over HTTP.
pub struct OtlpExporter {
    options: Options,
    client: Client,
    encoder: Encoder,
    queue: Queue,
    /// Failures since the last success, and when to try again.
    failures: u32,
    retry_at: Option<Instant>,
    counts: Option<Counts>,
}

impl fmt::Debug for OtlpExporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtlpExporter").field("options", &self.options).finish_non_exhaustive()
    }
}

impl OtlpExporter {
    /// One with these options. *Setup*; nothing is connected yet.
    pub fn new(options: Options) -> Self {
        OtlpExporter {
            client: Client::new(&options),
            encoder: Encoder::new(options.is_compressed),
            queue: Queue::new(options.waiting_bytes),
            options,
            failures: 0,
            retry_at: None,
            counts: None,
        }
    }

    /// One with what OpenTelemetry's environment variables say: see [`Options::from_environment`].
    ///
    /// # Errors
    /// A variable that can't be understood.
    pub fn from_environment() -> Result<Self, Invalid> {
        Options::from_environment().map(OtlpExporter::new)
    }

    fn count(&self, outcome: Outcome, points: usize) {
        if let Some(counts) = &self.counts
            && points > 0
        {
            counts.points(outcome, points);
        }
    }

    /// Sends what waits, the oldest first, until nothing does or something fails.
    fn send_waiting(&mut self) -> Result<(), Error> {
        let mut result = Ok(());
        while let Some(request) = self.queue.first() {
            let points = request.points;
            match self.client.send(&request.body) {
                Answer::Taken { rejected, message } => {
                    self.begin_again(points.saturating_sub(rejected), rejected);
                    if rejected > 0 || !message.is_empty() {
                        let message = format!(
                            "{rejected} of {points} points were rejected, for good: {message}"
                        );
                        result = Err(Error::new(NAME, Reason::Partial, message));
                    }
                }
                Answer::Refused { message } => {
                    self.begin_again(0, points);
                    let message = format!("{points} points were refused, for good: {message}");
                    result = Err(Error::new(NAME, Reason::Refused, message));
                }
                Answer::Later { reason, after, message } => {
                    self.retry_at = Some(Instant::now() + self.backoff(after));
                    self.failures = self.failures.saturating_add(1);
                    return Err(Error::new(NAME, reason, message).kept());
                }
            }
        }
        result
    }

    /// The first request is done with.
    fn begin_again(&mut self, sent: usize, rejected: usize) {
        if let Some(request) = self.queue.remove_first() {
            self.encoder.recycle(request.body);
        }
        self.failures = 0;
        self.retry_at = None;
        self.count(Outcome::Sent, sent);
        self.count(Outcome::Rejected, rejected);
    }

    /// How long to wait: twice as long as the last time, half of it by chance, so that the clients of a
    /// server that comes back do not come all at once.
    fn backoff(&self, after: Option<Duration>) -> Duration {
        let longest = (BACKOFF.0 * (1 << self.failures.min(10))).min(BACKOFF.1);
        let wait = longest / 2 + longest.mul_f64(chance() / 2.0);
        after.map_or(wait, |after| after.max(wait))
    }

    fn tell_waiting(&self) {
        if let Some(counts) = &self.counts {
            counts.waiting_bytes(self.queue.bytes());
        }
    }
}

/// From 0 to 1; what the standard library seeds its maps with is random enough.
fn chance() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    let bits = RandomState::new().hash_one(Instant::now());
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

impl Exporter for OtlpExporter {
    fn name(&self) -> &'static str {
        NAME
    }

    fn temporalities(&self) -> Temporalities {
        self.options.temporalities
    }

    fn count_in(&mut self, counts: &Counts) {
        self.counts = Some(counts.clone());
    }

    fn export(&mut self, data: Data<'_>) -> Result<(), Error> {
        let batch = data.batch();
        let superseded = self.queue.supersede();
        self.count(Outcome::Superseded, superseded);
        let is_delta = encode::has_differences(&batch);
        let total = batch.point_count();
        let mut is_waiting = self.retry_at.is_some_and(|at| Instant::now() < at);
        let mut result = Ok(());
        if is_waiting {
            let message = "an earlier failure has to be waited for";
            result = Err(Error::new(NAME, Reason::Waiting, message).kept());
        }
        let mut from = 0;
        // One body after the other, so that only those that have to wait are there at the same time.
        while from < total {
            let to = total.min(from + self.options.points_per_request);
            let Some(body) = self.encoder.encode(&batch, from..to) else { break };
            let dropped = self.queue.push(Request { body, points: to - from, is_delta });
            self.count(Outcome::Dropped, dropped);
            if !is_waiting && let Err(error) = self.send_waiting() {
                is_waiting = error.is_kept();
                result = Err(error);
            }
            from = to;
        }
        self.tell_waiting();
        result
    }

    fn retry_at(&self) -> Option<Instant> {
        self.retry_at.filter(|_| self.queue.first().is_some())
    }

    fn retry(&mut self) -> Result<(), Error> {
        let result = self.send_waiting();
        self.tell_waiting();
        result
    }

    fn shutdown(&mut self) -> Result<(), Error> {
        let lost = self.queue.clear();
        if lost == 0 {
            return Ok(());
        }
        self.count(Outcome::Dropped, lost);
        let message = format!("{lost} points still waited when the time was over and are lost");
        Err(Error::new(NAME, Reason::Timeout, message))
    }
}
