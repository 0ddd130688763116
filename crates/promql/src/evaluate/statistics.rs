//! Series whose histograms are needed for their count and sum only.
//!
//! Their buckets are dropped as soon as they are decoded, after they have served to tell whether the
//! counter was reset.

use std::sync::Arc;

use store::histogram::CounterResetHint;
use store::{Cursor, FloatHistogram, Labels, Samples, Series};

use crate::histogram;

/// A series without the buckets of its histograms.
pub(crate) struct StatisticsSeries<'a>(pub(crate) Box<dyn Series + 'a>);

impl Series for StatisticsSeries<'_> {
    fn labels(&self) -> &Labels {
        self.0.labels()
    }

    fn cursor(&self) -> Box<dyn Cursor + '_> {
        Box::new(StatisticsCursor { inner: self.0.cursor(), previous: None })
    }
}

struct StatisticsCursor<'a> {
    inner: Box<dyn Cursor + 'a>,
    /// The histogram before, with its buckets.
    previous: Option<Arc<FloatHistogram>>,
}

impl Cursor for StatisticsCursor<'_> {
    fn next(&mut self, samples: &mut Samples) -> Result<bool, store::Error> {
        let first = samples.histograms.len();
        let more = self.inner.next(samples)?;
        for slot in samples.histograms.iter_mut().skip(first) {
            let Some(full) = slot else { continue };
            let hint = if histogram::is_stale(full) {
                full.counter_reset_hint
            } else {
                let hint = self.hint(full);
                self.previous = Some(full.clone());
                hint
            };
            *slot = Some(Arc::new(FloatHistogram {
                counter_reset_hint: hint,
                schema: full.schema,
                count: full.count,
                sum: full.sum,
                ..FloatHistogram::default()
            }));
        }
        Ok(more)
    }
}

impl StatisticsCursor<'_> {
    fn hint(&self, current: &FloatHistogram) -> CounterResetHint {
        match &self.previous {
            Some(previous) if current.counter_reset_hint == CounterResetHint::Unknown => {
                if histogram::is_reset(current, previous) {
                    CounterResetHint::Reset
                } else {
                    CounterResetHint::NoReset
                }
            }
            _ => current.counter_reset_hint,
        }
    }
}
