//! What the parts of one running query share: limits, counts, annotations.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use store::{Labels, Samples};

use super::Environment;
use super::column::Column;
use super::plan::Plan;
use super::source::Meta;
use super::window::Buffer;
use crate::annotations::Annotations;
use crate::ast::Query;
use crate::error::QueryError;

/// Labels that describe what a metric is and that don't survive a change of it.
const METADATA_LABELS: [&str; 3] = ["__name__", "__type__", "__unit__"];

/// One running query.
pub(crate) struct Context<'a> {
    pub(crate) environment: &'a Environment<'a>,
    pub(crate) query: &'a Query,
    pub(crate) plan: &'a Plan,
    counts: Counts,
    annotations: Mutex<Annotations>,
}

#[derive(Default)]
struct Counts {
    current: AtomicU64,
    peak: AtomicU64,
    total: AtomicU64,
    read: AtomicU64,
}

/// Buffers of one thread, reused from series to series, and what it noticed.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) annotations: Annotations,
    pub(crate) samples: Samples,
    columns: Vec<Column>,
    buffers: Vec<Buffer>,
    /// Samples looked at.
    pub(crate) total: u64,
    /// Samples decoded.
    pub(crate) read: u64,
}

impl Scratch {
    pub(crate) fn take_column(&mut self, count: usize) -> Column {
        let mut column = self.columns.pop().unwrap_or_default();
        column.reset(count);
        column
    }

    pub(crate) fn give_column(&mut self, column: Column) {
        self.columns.push(column);
    }

    pub(crate) fn take_buffer(&mut self) -> Buffer {
        let mut buffer = self.buffers.pop().unwrap_or_default();
        buffer.clear();
        buffer
    }

    pub(crate) fn give_buffer(&mut self, buffer: Buffer) {
        self.buffers.push(buffer);
    }
}

impl<'a> Context<'a> {
    pub(crate) fn new(environment: &'a Environment<'a>, plan: &'a Plan) -> Self {
        Context {
            environment,
            query: environment.query,
            plan,
            counts: Counts::default(),
            annotations: Mutex::default(),
        }
    }

    /// Whether the query may go on.
    pub(crate) fn check(&self) -> Result<(), QueryError> {
        if self.environment.cancel.is_cancelled() {
            return Err(QueryError::Cancelled);
        }
        match self.environment.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(QueryError::Timeout),
            _ => Ok(()),
        }
    }

    /// Counts samples that are held from now on.
    pub(crate) fn hold(&self, samples: u64) -> Result<(), QueryError> {
        let current = self.counts.current.fetch_add(samples, Ordering::Relaxed) + samples;
        self.counts.peak.fetch_max(current, Ordering::Relaxed);
        if current > self.environment.options.max_samples {
            return Err(QueryError::TooManySamples);
        }
        Ok(())
    }

    /// Looks whether `samples` could be held for a moment.
    pub(crate) fn pass(&self, samples: u64) -> Result<(), QueryError> {
        let current = self.counts.current.load(Ordering::Relaxed) + samples;
        self.counts.peak.fetch_max(current, Ordering::Relaxed);
        if current > self.environment.options.max_samples {
            return Err(QueryError::TooManySamples);
        }
        Ok(())
    }

    /// How many samples are held, for [`Context::settle`].
    pub(crate) fn held(&self) -> u64 {
        self.counts.current.load(Ordering::Relaxed)
    }

    /// Only `samples` more are held than at `mark`: the inputs of an operation are gone.
    pub(crate) fn settle(&self, mark: u64, samples: u64) -> Result<(), QueryError> {
        self.counts.current.store(mark, Ordering::Relaxed);
        self.hold(samples)
    }

    /// Takes over what a thread noticed.
    pub(crate) fn absorb(&self, scratch: &mut Scratch) {
        self.counts.total.fetch_add(std::mem::take(&mut scratch.total), Ordering::Relaxed);
        self.counts.read.fetch_add(std::mem::take(&mut scratch.read), Ordering::Relaxed);
        if !scratch.annotations.is_empty() {
            let found = std::mem::take(&mut scratch.annotations);
            self.annotate(|annotations| annotations.merge(found));
        }
    }

    /// Adds annotations.
    pub(crate) fn annotate(&self, add: impl FnOnce(&mut Annotations)) {
        let mut annotations =
            self.annotations.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        add(&mut annotations);
    }

    /// All annotations, and the counts of samples: total, read, peak.
    pub(crate) fn finish(self) -> (Annotations, [u64; 3]) {
        let counts = [&self.counts.total, &self.counts.read, &self.counts.peak]
            .map(|count| count.load(Ordering::Relaxed));
        let annotations =
            self.annotations.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        (annotations, counts)
    }

    /// Whether metric names are dropped at the end of the query.
    pub(crate) fn delays_names(&self) -> bool {
        self.environment.options.delayed_name_removal
    }

    /// The series without its name, now or at the end.
    pub(crate) fn without_name(&self, meta: &Meta) -> Meta {
        if self.delays_names() {
            Meta { labels: meta.labels.clone(), drop_name: true }
        } else {
            Meta { labels: without_metadata(&meta.labels), drop_name: true }
        }
    }
}

/// The labels without those that describe the metric.
pub(crate) fn without_metadata(labels: &Labels) -> Labels {
    if METADATA_LABELS.iter().all(|name| labels.get(name).is_none()) {
        return labels.clone();
    }
    let mut builder = labels.to_builder();
    for name in METADATA_LABELS {
        builder.remove(name);
    }
    builder.build()
}
