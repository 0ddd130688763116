//! One target's life: wait, fetch, ingest, report; and at the end mark its series.
//!
//! The future of a task holds a connection and the known lines; buffers, appenders and everything else
//! that only a running scrape needs is borrowed from all tasks together. Ingesting is synchronous and
//! happens on the thread on which the last bytes came.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use store::Labels;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::Shared;
use super::accept;
use super::counters::Count;
use super::failure_log::FailureLog;
use super::ingest::{Body, Counts, Extra, Fault, Ingester, Report, TargetSeries};
use super::intervals::Distances;
use super::schedule::{self, Schedule};
use super::status::{Cost, CostSums, Health};
use super::target::Target;
use crate::config::ScrapeConfig;
use crate::cpu_span::CpuSpan;
use crate::http_client::{self, Answer, Client, Get, LARGE_BODY, Session};
use crate::worker::stand_aside;

/// What the scrapes of one job go by. Never changes; a reload makes a new one.
pub(super) struct Settings {
    pub(super) config: Arc<ScrapeConfig>,
    pub(super) client: Client,
    pub(super) failure_log: Option<Arc<FailureLog>>,
    /// The header lines of requests, for the job's own timeout.
    headers: Arc<str>,
}

impl Settings {
    pub(super) fn new(
        config: ScrapeConfig,
        client: Client,
        failure_log: Option<Arc<FailureLog>>,
    ) -> Self {
        let headers = accept::request_headers(&config, config.scrape_timeout).into();
        Settings { config: Arc::new(config), client, failure_log, headers }
    }

    /// Relabelling may give a target a timeout of its own.
    fn headers(&self, timeout: Duration) -> Arc<str> {
        if timeout == self.config.scrape_timeout {
            self.headers.clone()
        } else {
            accept::request_headers(&self.config, timeout).into()
        }
    }
}

/// What the tasks of one job share.
pub(super) struct PoolShared {
    pub(super) name: Arc<str>,
    pub(super) settings: ArcSwap<Settings>,
    /// Why no target of the pool may be scraped.
    pub(super) forced_error: ArcSwapOption<String>,
    pub(super) syncs: Count,
    /// Targets that could not be made.
    pub(super) sync_failed: Count,
    /// What the scrapes of all its targets took, also of those that are gone.
    pub(super) cost: CostSums,
}

/// What a task is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Scrape.
    Run,
    /// The target is gone: mark its series stale in a while, unless it comes back.
    Depart,
    /// End at once: the server stops, or another task takes over.
    Stop,
}

/// What one task leaves to the next.
pub(super) struct Carry {
    series: TargetSeries,
    session: Session,
}

/// See the module.
pub(super) struct Task {
    pub(super) target: Arc<Target>,
    pub(super) pool: Arc<PoolShared>,
    pub(super) shared: Arc<Shared>,
    /// Where in its interval the target is scraped.
    at: Duration,
    pub(super) phase: watch::Receiver<Phase>,
    /// Who scraped the same series before.
    pub(super) predecessor: Option<JoinHandle<Carry>>,
    carry: Carry,
    settings: Arc<Settings>,
    headers: Arc<str>,
    last_started: Option<Instant>,
    distances: Arc<Distances>,
}

/// Why a scrape failed.
enum Failure {
    Forced(Arc<String>),
    Fetch(http_client::Error),
    Answer(String),
    Ingest(Fault),
    /// What was scraped could not be kept.
    Store(store::Error),
    /// A panic: a fault of ours.
    Internal(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Forced(reason) => f.write_str(reason),
            Failure::Fetch(error) => error.fmt(f),
            Failure::Answer(reason) => f.write_str(reason),
            Failure::Ingest(fault) => fault.fmt(f),
            Failure::Store(error) => write!(f, "cannot store the scrape: {error}"),
            Failure::Internal(reason) => write!(f, "internal: {reason}"),
        }
    }
}

impl Task {
    pub(super) fn new(
        target: Arc<Target>,
        pool: Arc<PoolShared>,
        shared: Arc<Shared>,
        at: Duration,
        phase: watch::Receiver<Phase>,
        predecessor: Option<JoinHandle<Carry>>,
    ) -> Self {
        let settings = pool.settings.load_full();
        let series = TargetSeries::new(target.families.clone());
        Task {
            distances: shared.intervals.of(target.interval),
            headers: settings.headers(target.timeout),
            carry: Carry { series, session: Session::default() },
            target,
            pool,
            shared,
            at,
            phase,
            predecessor,
            settings,
            last_started: None,
        }
    }

    /// Scrapes until told otherwise.
    pub(super) async fn run(mut self) -> Carry {
        if let Some(predecessor) = self.predecessor.take()
            && let Ok(mut carry) = predecessor.await
        {
            carry.series.set_families(self.target.families.clone());
            self.carry = carry;
        }
        let interval = self.target.interval;
        let wait = schedule::wait(self.at, interval, self.shared.clock.now());
        let mut schedule = Schedule::starting(Instant::now() + wait, interval);
        let sleep = sleep_until(schedule.next());
        tokio::pin!(sleep);
        loop {
            tokio::select! {
                biased;
                _ = self.phase.wait_for(|phase| *phase != Phase::Run) => {}
                () = &mut sleep => {}
            }
            let phase = *self.phase.borrow();
            match phase {
                Phase::Run => {}
                Phase::Depart => return self.depart(&schedule).await,
                Phase::Stop => return self.carry,
            }
            let now_ms = schedule.tick(Instant::now(), self.shared.clock.now());
            let mut phase = self.phase.clone();
            tokio::select! {
                biased;
                _ = phase.wait_for(|phase| *phase == Phase::Stop) => return self.carry,
                () = self.scrape(now_ms) => {}
            }
            sleep.as_mut().reset(schedule.next());
        }
    }

    /// One scrape, whatever comes of it.
    async fn scrape(&mut self, now_ms: i64) {
        let started = Instant::now();
        if let Some(last) = self.last_started.replace(started) {
            self.distances.observe(started - last, started);
        }
        self.adopt_settings();
        let fetched = match self.pool.forced_error.load_full() {
            Some(reason) => Err(Failure::Forced(reason)),
            None => {
                let mut fetch = std::pin::pin!(self.fetch());
                // The stage is that of whichever thread polls, and for as long as it does.
                poll_fn(|context| {
                    let _stage = profiler::stage("fetch");
                    fetch.as_mut().poll(context)
                })
                .await
            }
        };
        let fetched_at = Instant::now();
        let large = fetched.as_ref().is_ok_and(|answer| answer.body().len() > LARGE_BODY);
        let mut cost = if large {
            stand_aside(|| self.finish_or_fail(fetched, now_ms, started))
        } else {
            self.finish_or_fail(fetched, now_ms, started)
        };
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        cost.fetch_nanoseconds = nanoseconds(fetched_at - started);
        cost.ingest_nanoseconds = nanoseconds(fetched_at.elapsed());
        cost.cpu_nanoseconds += self.carry.session.take_inflating_nanoseconds();
        self.note_cost(&cost);
    }

    /// Adds what a scrape took to what all scrapes took: the target's, the job's, and the server's.
    fn note_cost(&self, cost: &Cost) {
        let counters = &self.shared.counters;
        counters.samples_scraped.add(cost.samples);
        counters.body_bytes.add(cost.body_bytes);
        counters.transferred_bytes.add(cost.transferred_bytes);
        counters.fetch_nanoseconds.add(cost.fetch_nanoseconds);
        counters.ingest_nanoseconds.add(cost.ingest_nanoseconds);
        self.pool.cost.add(cost);
        self.target.note(|state| state.cost.add(cost));
        // Last: whoever waits for a scrape finds the rest of it counted.
        counters.scrapes.add(cost.scrapes);
    }

    async fn fetch(&mut self) -> Result<Answer, Failure> {
        let get = Get {
            url: &self.target.url,
            endpoint: &self.target.endpoint,
            headers: &self.headers,
            body_limit: self.settings.config.limits.body_size,
            timeout: self.target.timeout,
        };
        let session = &mut self.carry.session;
        let answer = session
            .get(&self.settings.client, &self.shared.buffers, get)
            .await
            .map_err(Failure::Fetch)?;
        if answer.status != 200 {
            let status = session.status_line();
            return Err(Failure::Answer(format!("server returned HTTP status {status}")));
        }
        Ok(answer)
    }

    /// [`Task::finish`], whose panic is a failed scrape and no end of scraping: what is remembered of
    /// the target may be half changed and goes, and the ingester with it.
    fn finish_or_fail(
        &mut self,
        fetched: Result<Answer, Failure>,
        now_ms: i64,
        started: Instant,
    ) -> Cost {
        let mut cost = Cost { scrapes: 1, ..Cost::default() };
        if let Ok(answer) = &fetched {
            cost.body_bytes = answer.body().len() as u64;
            cost.transferred_bytes = answer.transferred() as u64;
        }
        let before = profiler::heap::thread_counts().allocated_bytes;
        let span = CpuSpan::begin();
        match catch_unwind(AssertUnwindSafe(|| self.finish(fetched, now_ms, started))) {
            Ok(counts) => cost.samples = counts.scraped,
            Err(panic) => self.fail(&*panic, now_ms, started),
        }
        // Ingesting does not change threads.
        cost.cpu_nanoseconds = span.nanoseconds();
        cost.allocated_bytes = profiler::heap::thread_counts().allocated_bytes - before;
        cost
    }

    #[cold]
    fn fail(&mut self, panic: &(dyn std::any::Any + Send), now_ms: i64, started: Instant) {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        self.carry.series = TargetSeries::new(self.target.families.clone());
        let failure = Failure::Internal(text.to_owned());
        self.conclude(Some(&failure), None, &Counts::default(), now_ms, started.elapsed());
    }

    /// Everything after the last byte: synchronous. Steady: does not allocate when all is known.
    fn finish(
        &mut self,
        fetched: Result<Answer, Failure>,
        now_ms: i64,
        started: Instant,
    ) -> Counts {
        let mut ingester = self.shared.take_ingester();
        let series = &mut self.carry.series;
        let labels = &self.target.public;
        let config = &*self.settings.config;
        let mut counts = Counts::default();
        let mut failure = None;
        let mut report = None;
        // The second round is for a store that had forgotten a series.
        for _ in 0..2 {
            if let Ok(answer) = &fetched {
                let content_type = self.carry.session.content_type();
                let target = Place { labels, config, now_ms };
                (counts, failure) = read(&mut ingester, series, answer, content_type, target);
            }
            let up = failure.is_none() && fetched.is_ok();
            if !up {
                ingester.mark_all_stale(series, now_ms);
            }
            let report = report.get_or_insert_with(|| Report::Scraped {
                up,
                seconds: started.elapsed().as_secs_f64(),
                counts,
                extra: config.extra_scrape_metrics.then(|| Extra {
                    timeout_seconds: self.target.timeout.as_secs_f64(),
                    sample_limit: config.limits.samples.unwrap_or(0),
                    body_bytes: body_bytes(&fetched),
                }),
            });
            if let Err(error) = ingester.report(series, labels, now_ms, report) {
                tracing::warn!(target = %self.target.shown_url, %error, "Cannot report a scrape");
            }
            match ingester.commit(series, &mut counts) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    failure = Some(Failure::Store(error));
                    break;
                }
            }
        }
        self.shared.return_ingester(ingester);
        let (failure, answer) = match fetched {
            Ok(answer) => (failure, Some(answer)),
            // That the target is down is said first; that the store is, its other targets say.
            Err(failure) => (Some(failure), None),
        };
        self.conclude(failure.as_ref(), answer.as_ref(), &counts, now_ms, started.elapsed());
        counts
    }

    /// Counts, logs, and shows how it went.
    fn conclude(
        &self,
        failure: Option<&Failure>,
        answer: Option<&Answer>,
        counts: &Counts,
        now_ms: i64,
        duration: Duration,
    ) {
        let counters = &self.shared.counters;
        counters.scrapes_failed.add(u64::from(failure.is_some()));
        counters.scrapes_sample_duplicate_timestamp.add(counts.duplicates);
        counters.scrapes_sample_out_of_order.add(counts.out_of_order);
        counters.scrapes_sample_out_of_bounds.add(counts.out_of_bounds);
        match failure {
            Some(Failure::Ingest(fault)) if fault.is_sample_limit() => {
                counters.scrapes_exceeded_sample_limit.add(1);
            }
            Some(Failure::Ingest(fault)) if fault.is_label_limit() => {
                counters.scrape_pool_exceeded_label_limits.add(1);
            }
            Some(Failure::Fetch(error)) if error.is_too_large() => {
                counters.scrapes_exceeded_body_size_limit.add(1);
            }
            _ => {}
        }
        self.log_rejected(counts);
        let error = failure.map(Failure::to_string);
        if let (Some(log), Some(error)) = (&self.settings.failure_log, &error) {
            log.write(now_ms, &self.pool.name, &self.target.shown_url, error);
        }
        let mut before = Health::Unknown;
        self.target.note(|state| {
            before = state.health;
            state.health = if error.is_some() { Health::Down } else { Health::Up };
            if state.last_error.as_deref() != error.as_deref() {
                state.last_error = error.as_deref().map(Arc::from);
            }
            state.last_scrape_ms = Some(now_ms);
            state.duration = duration;
            state.samples_scraped = counts.scraped;
            state.samples_post_relabel = counts.post_relabel;
            state.body_bytes = answer.map_or(0, |answer| answer.body().len() as u64);
            state.memory_bytes = self.carry.series.memory_usage() as u64;
            state.transferred_bytes = answer.map_or(0, |answer| answer.transferred() as u64);
        });
        let (job, target) = (&*self.pool.name, &*self.target.shown_url);
        match error {
            // Said aloud when it begins; a target that stays down does not fill the log.
            Some(error) if before != Health::Down => {
                tracing::warn!(job, target, error, "Scrape failed");
            }
            Some(error) => tracing::debug!(job, target, error, "Scrape failed again"),
            None if before == Health::Down => tracing::info!(job, target, "Scrape works again"),
            None => {}
        }
    }

    fn log_rejected(&self, counts: &Counts) {
        let (job, target) = (&*self.pool.name, &*self.target.shown_url);
        if counts.out_of_order > 0 {
            let dropped = counts.out_of_order;
            tracing::warn!(job, target, dropped, "Samples older than the last of their series");
        }
        if counts.duplicates > 0 {
            let dropped = counts.duplicates;
            tracing::warn!(job, target, dropped, "Several samples of a series at the same time");
        }
        if counts.out_of_bounds > 0 {
            let dropped = counts.out_of_bounds;
            tracing::warn!(job, target, dropped, "Samples too old or too far in the future");
        }
    }

    /// Takes over the job's settings, if a reload has changed them.
    fn adopt_settings(&mut self) {
        let settings = self.pool.settings.load();
        if Arc::ptr_eq(&settings, &self.settings) {
            return;
        }
        let settings = settings.clone();
        let (old, new) = (&self.settings.config, &settings.config);
        if !same_series(old, new) {
            self.carry.series.reset();
        }
        if old.http != new.http {
            self.carry.session.close();
        }
        self.headers = settings.headers(self.target.timeout);
        self.settings = settings;
    }

    /// The target is gone. If nobody takes over, its series end where its next scrape would have
    /// been. That is written only after the scrape that would have followed: a target that comes back
    /// by then has its own samples.
    async fn depart(mut self, schedule: &Schedule) -> Carry {
        if self.carry.series.is_untouched() {
            return self.carry;
        }
        self.carry.session.close();
        let interval = self.target.interval;
        let stopped = |phase: &Phase| *phase == Phase::Stop;
        tokio::select! {
            _ = self.phase.wait_for(stopped) => return self.carry,
            () = sleep_until(schedule.next()) => {}
        }
        let stale_ms = self.shared.clock.now_ms();
        tokio::select! {
            _ = self.phase.wait_for(stopped) => return self.carry,
            () = tokio::time::sleep(interval + interval / 10) => {}
        }
        let mut ingester = self.shared.take_ingester();
        let series = &mut self.carry.series;
        ingester.mark_all_stale(series, stale_ms);
        let extra = self.settings.config.extra_scrape_metrics;
        let report = Report::Gone { extra };
        let written = ingester
            .report(series, &self.target.public, stale_ms, &report)
            .and_then(|()| ingester.commit(series, &mut Counts::default()));
        if let Err(error) = written {
            ingester.rollback();
            tracing::warn!(target = %self.target.shown_url, %error, "Cannot mark series stale");
        }
        self.shared.return_ingester(ingester);
        self.carry
    }
}

/// Where a body came from.
#[derive(Clone, Copy)]
struct Place<'a> {
    labels: &'a Labels,
    config: &'a ScrapeConfig,
    now_ms: i64,
}

/// Reads an answer into the batch: what it brought, and why it failed.
fn read(
    ingester: &mut Ingester,
    series: &mut TargetSeries,
    answer: &Answer,
    content_type: &str,
    Place { labels, config, now_ms }: Place<'_>,
) -> (Counts, Option<Failure>) {
    let bytes = answer.body();
    if bytes.is_empty() {
        // An empty answer has no series, whatever its type.
        ingester.mark_all_stale(series, now_ms);
        return (Counts::default(), None);
    }
    let format = match accept::format_of(content_type, config.fallback_scrape_protocol) {
        Ok(format) => format,
        Err(reason) => return (Counts::default(), Some(Failure::Answer(reason))),
    };
    match ingester.read(series, Body { bytes, format, now_ms, labels, config }) {
        Ok(counts) => (counts, None),
        Err((fault, counts)) => (counts, Some(Failure::Ingest(fault))),
    }
}

/// The inflated size for `scrape_body_size_bytes`.
fn body_bytes(fetched: &Result<Answer, Failure>) -> i64 {
    match fetched {
        Ok(answer) => answer.body().len() as i64,
        Err(Failure::Fetch(error)) if error.is_too_large() => -1,
        Err(_) => 0,
    }
}

/// Whether the same line makes the same series under both.
fn same_series(a: &ScrapeConfig, b: &ScrapeConfig) -> bool {
    a.honor_labels == b.honor_labels
        && a.metric_relabel_configs == b.metric_relabel_configs
        && a.validation == b.validation
        && a.limits == b.limits
}
