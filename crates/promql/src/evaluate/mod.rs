//! Evaluation, series by series across all steps.

use std::time::Instant;

use store::Select;

use crate::annotations::Annotations;
use crate::ast::{Kind, Query};
use crate::engine::{Cancel, Options, Outcome, Stats};
use crate::error::QueryError;
use crate::value::Value;

/// Stack of the thread that evaluates.
pub(crate) const STACK_BYTES: usize = 16 << 20;

/// The times to evaluate at, in milliseconds; one time where `step` is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) step: i64,
}

/// What is the same for the whole query.
pub(crate) struct Environment<'a> {
    pub(crate) options: &'a Options,
    pub(crate) pool: &'a rayon::ThreadPool,
    pub(crate) select: &'a dyn Select,
    pub(crate) query: &'a Query,
    pub(crate) lookback_delta: i64,
    pub(crate) deadline: Option<Instant>,
    pub(crate) cancel: Cancel,
}

/// Evaluates a query.
pub(crate) fn run(
    environment: &Environment<'_>,
    range: Range,
    started: Instant,
) -> Result<Outcome, QueryError> {
    let query = environment.query;
    let value = match &query.node(query.root).kind {
        Kind::String(text) => Value::String { time: range.start, value: text.clone() },
        Kind::Number { value, .. } if range.step == 0 => {
            Value::Scalar { time: range.start, value: *value }
        }
        _ => {
            return Err(QueryError::execution(format!(
                "evaluating \"{}\" is not supported yet",
                query.text
            )));
        }
    };
    Ok(Outcome {
        value,
        annotations: Annotations::default(),
        stats: Stats { evaluation: started.elapsed(), ..Stats::default() },
    })
}
