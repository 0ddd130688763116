//! Runs queries: limits, then evaluation, then the shape of the answer.
//!
//! An [`Engine`] is made once and shared. A query runs on the thread that calls it, on a stack of
//! its own that suffices for the deepest query the parser lets through; the series of a selector are
//! decoded on the engine's pool. Nothing here asks for the time of day: `now` is an argument of
//! whoever builds the query, and only the timeout reads a monotonic clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use store::Select;

use crate::annotations::Annotations;
use crate::ast::{Query, ValueType};
use crate::error::QueryError;
use crate::evaluate;
use crate::value::Value;

/// What holds for all queries of an engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// The most samples that a query may hold at once; a native histogram counts as many samples as
    /// it is larger than a float.
    pub max_samples: u64,
    /// The longest that a query may run.
    pub timeout: Duration,
    /// How many milliseconds a sample stands for its series unless a newer one comes.
    pub lookback_delta: i64,
    /// The step of subqueries that name none, in milliseconds (`global.evaluation_interval`).
    pub default_evaluation_interval: i64,
    /// Metric names are dropped at the end of the query, and not by each operation.
    pub delayed_name_removal: bool,
    /// `rate` and `increase` judge a metric's type by its label `__type__`.
    pub type_and_unit_labels: bool,
    /// `rate`, `increase`, `irate` and `resets` use the start timestamps of samples.
    pub start_timestamps: bool,
    /// Threads that decode series; 0 takes as many as there are cores.
    pub threads: usize,
}

impl Default for Options {
    /// As `prometheus` without flags.
    fn default() -> Self {
        Options {
            max_samples: 50_000_000,
            timeout: Duration::from_secs(120),
            lookback_delta: 5 * 60 * 1000,
            default_evaluation_interval: 60 * 1000,
            delayed_name_removal: false,
            type_and_unit_labels: false,
            start_timestamps: false,
            threads: 0,
        }
    }
}

/// What holds for one query.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// A shorter timeout than the engine's.
    pub timeout: Option<Duration>,
    /// Another lookback delta than the engine's, in milliseconds.
    pub lookback_delta: Option<i64>,
    /// Stops the query from outside.
    pub cancel: Cancel,
}

/// Stops a query from another thread. Clones stop the same query.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Asks the query to stop; it returns [`QueryError::Cancelled`] soon.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What came out of a query.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The answer.
    pub value: Value,
    /// Warnings and infos.
    pub annotations: Annotations,
    /// What it cost.
    pub stats: Stats,
}

/// What a query cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Samples that the steps looked at; a sample in the windows of three steps counts three times.
    pub samples_total: u64,
    /// Samples decoded.
    pub samples_read: u64,
    /// The most samples held at once, as `max_samples` counts them.
    pub samples_peak: u64,
    /// From the call to the finished evaluation.
    pub evaluation: Duration,
    /// Sorting the answer.
    pub sorting: Duration,
}

/// Evaluates queries. Shared between threads.
pub struct Engine {
    options: Options,
    pool: rayon::ThreadPool,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Engine {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system gives no more threads.
    pub fn new(options: Options) -> Result<Self, QueryError> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(options.threads)
            .stack_size(evaluate::STACK_BYTES)
            .thread_name(|index| format!("promql-{index}"))
            .build()
            .map_err(|error| QueryError::execution(format!("cannot start threads: {error}")))?;
        Ok(Engine { options, pool })
    }

    /// The options that it was made with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Evaluates at one time (milliseconds since the epoch). Blocks.
    ///
    /// # Errors
    /// See [`QueryError`].
    pub fn instant(
        &self,
        select: &dyn Select,
        query: &Query,
        time: i64,
        limits: &Limits,
    ) -> Result<Outcome, QueryError> {
        self.run(select, query, evaluate::Range { start: time, end: time, step: 0 }, limits)
    }

    /// Evaluates at `start`, `start + step`, … up to and including `end`, all in milliseconds; the
    /// answer is a matrix. Blocks.
    ///
    /// # Errors
    /// See [`QueryError`]; also a query that is neither a scalar nor an instant vector, and a step
    /// that isn't positive.
    pub fn range(
        &self,
        select: &dyn Select,
        query: &Query,
        start: i64,
        end: i64,
        step: i64,
        limits: &Limits,
    ) -> Result<Outcome, QueryError> {
        if step <= 0 {
            return Err(QueryError::execution("the step of a range query must be positive"));
        }
        let kind = query.value_type(query.root);
        if !matches!(kind, ValueType::Scalar | ValueType::Vector) {
            return Err(QueryError::execution(format!(
                "invalid expression type \"{}\" for range query, must be Scalar or instant Vector",
                kind.documented()
            )));
        }
        self.run(select, query, evaluate::Range { start, end, step }, limits)
    }

    fn run(
        &self,
        select: &dyn Select,
        query: &Query,
        range: evaluate::Range,
        limits: &Limits,
    ) -> Result<Outcome, QueryError> {
        let started = Instant::now();
        let timeout = limits.timeout.map_or(self.options.timeout, |t| t.min(self.options.timeout));
        let environment = evaluate::Environment {
            options: &self.options,
            pool: &self.pool,
            select,
            query,
            lookback_delta: limits.lookback_delta.unwrap_or(self.options.lookback_delta),
            deadline: started.checked_add(timeout),
            cancel: limits.cancel.clone(),
        };
        evaluate::run(&environment, range, started)
    }
}
