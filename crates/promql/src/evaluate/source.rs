//! Vectors: series that are there, and series that are computed when somebody asks.
//!
//! A [`Source`] computes any of its series on its own, in any thread, into a column of the caller.
//! [`for_each`] goes through a vector in the order of its series: it computes a batch of columns in
//! parallel and hands them on one by one, so that whoever consumes sees the same order, and so the
//! same rounding, whatever the number of threads.

use hashbrown::HashMap;
use rayon::prelude::*;
use store::Labels;

use super::column::Column;
use super::context::{Context, Scratch, without_metadata};
use crate::error::QueryError;

/// Fewer series than this are computed by the thread that asks.
const PARALLEL_SERIES: usize = 16;
/// Columns that are computed at once, per thread.
const BATCH_PER_THREAD: usize = 8;

/// Who a series is.
#[derive(Clone, Debug)]
pub(crate) struct Meta {
    pub(crate) labels: Labels,
    /// Its name goes at the end of the query.
    pub(crate) drop_name: bool,
}

impl Meta {
    pub(crate) fn new(labels: Labels) -> Self {
        Meta { labels, drop_name: false }
    }
}

/// Series that are computed one at a time.
pub(crate) trait Source: Send + Sync {
    /// Who they are. A series may turn out to have no samples.
    fn metas(&self) -> &[Meta];

    /// Computes a series into an empty column.
    fn fill(
        &self,
        context: &Context<'_>,
        index: usize,
        scratch: &mut Scratch,
        out: &mut Column,
    ) -> Result<(), QueryError>;
}

/// A series with its samples.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) meta: Meta,
    pub(crate) column: Column,
}

/// An instant vector across all steps.
pub(crate) enum Vector<'a> {
    Held(Vec<Held>),
    Lazy(Box<dyn Source + 'a>),
}

impl Vector<'_> {
    pub(crate) fn metas(&self) -> Box<dyn Iterator<Item = &Meta> + '_> {
        match self {
            Vector::Held(series) => Box::new(series.iter().map(|held| &held.meta)),
            Vector::Lazy(source) => Box::new(source.metas().iter()),
        }
    }
}

/// Held series as a source, for operations that are computed when asked.
pub(crate) struct HeldSource {
    metas: Vec<Meta>,
    columns: Vec<Column>,
}

impl HeldSource {
    pub(crate) fn new(series: Vec<Held>) -> Self {
        let (metas, columns) = series.into_iter().map(|held| (held.meta, held.column)).unzip();
        HeldSource { metas, columns }
    }
}

impl Source for HeldSource {
    fn metas(&self) -> &[Meta] {
        &self.metas
    }

    fn fill(
        &self,
        _: &Context<'_>,
        index: usize,
        _: &mut Scratch,
        out: &mut Column,
    ) -> Result<(), QueryError> {
        out.clone_from(&self.columns[index]);
        Ok(())
    }
}

impl<'a> Vector<'a> {
    pub(crate) fn into_source(self) -> Box<dyn Source + 'a> {
        match self {
            Vector::Held(series) => Box::new(HeldSource::new(series)),
            Vector::Lazy(source) => source,
        }
    }
}

#[derive(Default)]
struct Slot {
    column: Column,
    scratch: Scratch,
    failed: Option<QueryError>,
}

/// Hands all series of a vector to `consume`, in order, with their place in it.
///
/// # Errors
/// The first one in the order of the series.
pub(crate) fn for_each(
    context: &Context<'_>,
    vector: Vector<'_>,
    steps: usize,
    mut consume: impl FnMut(usize, &Meta, &mut Column) -> Result<(), QueryError>,
) -> Result<(), QueryError> {
    let source = match vector {
        Vector::Held(series) => {
            for (index, mut held) in series.into_iter().enumerate() {
                consume(index, &held.meta, &mut held.column)?;
            }
            return context.check();
        }
        Vector::Lazy(source) => source,
    };
    let metas = source.metas();
    let threads = context.environment.pool.current_num_threads();
    let batch = if threads < 2 || metas.len() < PARALLEL_SERIES {
        1
    } else {
        (threads * BATCH_PER_THREAD).min(metas.len())
    };
    let mut slots: Vec<Slot> = std::iter::repeat_with(Slot::default).take(batch).collect();
    for first in (0..metas.len()).step_by(batch) {
        let filled = batch.min(metas.len() - first);
        let fill = |(place, slot): (usize, &mut Slot)| {
            slot.column.reset(steps);
            let result = context.check().and_then(|()| {
                source.fill(context, first + place, &mut slot.scratch, &mut slot.column)
            });
            slot.failed = result.err();
        };
        if batch == 1 {
            fill((0, &mut slots[0]));
        } else {
            context.environment.pool.install(|| {
                slots[..filled].par_iter_mut().enumerate().for_each(fill);
            });
        }
        for (place, slot) in slots[..filled].iter_mut().enumerate() {
            context.absorb(&mut slot.scratch);
            if let Some(error) = slot.failed.take() {
                return Err(error);
            }
            context.hold(slot.column.weight())?;
            consume(first + place, &metas[first + place], &mut slot.column)?;
        }
    }
    Ok(())
}

/// All series of a vector that have samples.
pub(crate) fn collect(
    context: &Context<'_>,
    vector: Vector<'_>,
    steps: usize,
) -> Result<Vec<Held>, QueryError> {
    if let Vector::Held(series) = vector {
        return Ok(series);
    }
    let mut series = Vec::new();
    for_each(context, vector, steps, |_, meta, column| {
        if !column.is_empty() {
            series.push(Held { meta: meta.clone(), column: std::mem::take(column) });
        }
        Ok(())
    })?;
    Ok(series)
}

/// The samples of all series.
pub(crate) fn weight(series: &[Held]) -> u64 {
    series.iter().map(|held| held.column.weight()).sum()
}

#[cold]
pub(crate) fn same_labelset() -> QueryError {
    QueryError::execution("vector cannot contain metrics with the same labelset")
}

/// Makes one series of those with the same labels.
///
/// # Errors
/// Two of them have a sample at the same step.
pub(crate) fn merge_same<'a>(
    context: &Context<'_>,
    vector: Vector<'a>,
    steps: usize,
) -> Result<Vector<'a>, QueryError> {
    let mut seen = hashbrown::HashSet::with_hasher(foldhash::fast::RandomState::default());
    if vector.metas().all(|meta| seen.insert(meta.labels.clone())) {
        return Ok(vector);
    }
    let series = collect(context, vector, steps)?;
    Ok(Vector::Held(merge_held(series)?))
}

/// [`merge_same`] of series that are there.
pub(crate) fn merge_held(series: Vec<Held>) -> Result<Vec<Held>, QueryError> {
    let mut places: HashMap<Labels, usize, foldhash::fast::RandomState> = HashMap::default();
    let mut merged: Vec<Held> = Vec::with_capacity(series.len());
    for held in series {
        match places.entry(held.meta.labels.clone()) {
            hashbrown::hash_map::Entry::Vacant(entry) => {
                entry.insert(merged.len());
                merged.push(held);
            }
            hashbrown::hash_map::Entry::Occupied(entry) => {
                let into = &mut merged[*entry.get()].column;
                for step in 0..held.column.len() {
                    if !held.column.is_present(step) {
                        continue;
                    }
                    if into.is_present(step) {
                        return Err(same_labelset());
                    }
                    into.set(step, held.column.output(step));
                }
            }
        }
    }
    Ok(merged)
}

/// Drops the names that were kept until now, and merges what has the same labels then.
pub(crate) fn drop_names(series: Vec<Held>) -> Result<Vec<Held>, QueryError> {
    let mut series = series;
    for held in &mut series {
        if held.meta.drop_name {
            held.meta.labels = without_metadata(&held.meta.labels);
        }
    }
    merge_held(series)
}
