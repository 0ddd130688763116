//! What a query reads: head and blocks as one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::departed::Departed;
use super::{Core, SeriesId, View};
use crate::block::Block;
use crate::chunk::{self, Encoding};
use crate::exemplar::{Exemplar, SeriesExemplars};
use crate::head::SeriesChunks;
use crate::select::merge::merge;
use crate::select::{Cursor, Samples, Select, Series};
use crate::{Error, Labels, Matcher};

/// Reads the store between two times. As long as a querier lives, what it can see stays, whatever
/// maintenance does; it holds appends up for no longer than copying an open chunk takes.
pub struct Querier {
    core: Arc<Core>,
    view: Arc<View>,
    from: i64,
    to: i64,
}

fn bound(limit: usize) -> usize {
    if limit == 0 { usize::MAX } else { limit }
}

impl Querier {
    pub(super) fn new(core: Arc<Core>, from: i64, to: i64) -> Self {
        let view = core.view.read().clone();
        Querier { core, view, from, to }
    }

    fn blocks(&self, from: i64, to: i64) -> impl Iterator<Item = &Arc<Block>> {
        self.view.blocks.iter().filter(move |block| block.overlaps(from, to))
    }

    /// From where on the head is read; `None` if it has nothing until `to`.
    fn head_from(&self, from: i64, to: i64) -> Option<i64> {
        let from = from.max(self.view.head_from);
        let newest = self.core.head.max_time.load(Ordering::Acquire);
        (from <= to && from <= newest).then_some(from)
    }

    /// The files of departed series that may have something in `from..=to`, and from where on each is
    /// read; the first one is believed most.
    fn departed(&self, from: i64, to: i64) -> impl Iterator<Item = (&Arc<Departed>, i64)> {
        let from = from.max(self.view.head_from);
        let all = self.view.departed.iter().rev();
        all.filter(move |departed| departed.overlaps(from, to)).map(move |found| (found, from))
    }

    fn head_series(
        &self,
        matchers: &[Matcher],
        from: i64,
        to: i64,
    ) -> Result<Vec<(SeriesId, Labels)>, Error> {
        match self.head_from(from, to) {
            Some(from) => self.core.head.select(matchers, from, to),
            None => Ok(Vec::new()),
        }
    }

    /// Label names of the series that match, sorted; at most `limit` unless it is 0.
    ///
    /// # Errors
    /// A block that can't be read.
    pub fn label_names(&self, matchers: &[Matcher], limit: usize) -> Result<Vec<String>, Error> {
        let mut names = BTreeSet::new();
        let mut add = |name: &str| {
            if !names.contains(name) {
                names.insert(name.to_owned());
            }
        };
        if !matchers.is_empty() {
            for (_, labels) in self.head_series(matchers, self.from, self.to)? {
                labels.iter().for_each(|(name, _)| add(name));
            }
        } else if self.head_from(self.from, self.to).is_some() {
            self.core.head.index.read().each_name(&mut add);
        }
        for (departed, _) in self.departed(self.from, self.to) {
            departed.label_names(matchers)?.into_iter().for_each(&mut add);
        }
        for block in self.blocks(self.from, self.to) {
            block.label_names(matchers)?.into_iter().for_each(&mut add);
        }
        Ok(names.into_iter().take(bound(limit)).collect())
    }

    /// Values of the label `name` of the series that match, sorted; at most `limit` unless it is 0.
    ///
    /// # Errors
    /// A block that can't be read.
    pub fn label_values(
        &self,
        name: &str,
        matchers: &[Matcher],
        limit: usize,
    ) -> Result<Vec<String>, Error> {
        let mut values = BTreeSet::new();
        let mut add = |value: &str| {
            if !values.contains(value) {
                values.insert(value.to_owned());
            }
        };
        if matchers.iter().any(|matcher| matcher.name() != name) {
            for (_, labels) in self.head_series(matchers, self.from, self.to)? {
                labels.get(name).into_iter().for_each(&mut add);
            }
        } else if self.head_from(self.from, self.to).is_some() {
            self.core.head.index.read().each_value(name, |value| {
                if matchers.iter().all(|matcher| matcher.matches(value)) {
                    add(value);
                }
            });
        }
        for (departed, _) in self.departed(self.from, self.to) {
            departed.label_values(name, matchers)?.into_iter().for_each(&mut add);
        }
        for block in self.blocks(self.from, self.to) {
            block.label_values(name, matchers)?.into_iter().for_each(&mut add);
        }
        Ok(values.into_iter().take(bound(limit)).collect())
    }

    /// The label sets that match, sorted, without reading samples; at most `limit` unless it is 0.
    ///
    /// # Errors
    /// A block that can't be read.
    pub fn series(&self, matchers: &[Matcher], limit: usize) -> Result<Vec<Labels>, Error> {
        let head = self.head_series(matchers, self.from, self.to)?;
        let mut found: Vec<_> = head.into_iter().map(|(_, labels)| labels).collect();
        for (departed, from) in self.departed(self.from, self.to) {
            let lists = departed.select(&self.core, matchers, from, self.to)?;
            found.extend(lists.iter().flatten().map(|series| series.labels().clone()));
        }
        for block in self.blocks(self.from, self.to) {
            let series = block.select(matchers, self.from, self.to)?;
            found.extend(series.iter().map(|series| series.labels().clone()));
        }
        found.sort();
        found.dedup();
        found.truncate(bound(limit));
        Ok(found)
    }

    /// Exemplars within the querier's time of the series that pass any of the `selectors`, sorted by
    /// the labels of the series.
    pub fn exemplars(&self, selectors: &[Vec<Matcher>]) -> Vec<SeriesExemplars> {
        let head = &self.core.head;
        let ids: Vec<_> = head.exemplars.lock().series().collect();
        let mut scratch = Vec::new();
        let mut found = BTreeMap::new();
        let index = head.index.read();
        for id in ids {
            let labels = index.labels(id.slot(), &mut scratch);
            let Some((_, labels)) = labels.filter(|(other, _)| *other == id) else { continue };
            let matches = selectors.iter().any(|matchers| {
                matchers.iter().all(|m| m.matches(labels.get(m.name()).unwrap_or("")))
            });
            if matches {
                found.insert(labels, id);
            }
        }
        drop(index);
        let ring = head.exemplars.lock();
        let series = found.into_iter().filter_map(|(labels, id)| {
            let within = ring.of(id).filter(|slot| (self.from..=self.to).contains(&slot.timestamp));
            let mut exemplars: Vec<_> = within
                .map(|slot| Exemplar {
                    labels: Labels::from_pairs(slot.labels()),
                    value: slot.value,
                    timestamp: slot.timestamp,
                })
                .collect();
            exemplars.reverse();
            (!exemplars.is_empty()).then_some(SeriesExemplars { labels, exemplars })
        });
        series.collect()
    }
}

impl Select for Querier {
    fn select(
        &self,
        matchers: &[Matcher],
        from: i64,
        to: i64,
    ) -> Result<Vec<Box<dyn Series + '_>>, Error> {
        let mut lists: Vec<Vec<Box<dyn Series + '_>>> = Vec::new();
        if let Some(head_from) = self.head_from(from, to) {
            let mut found = self.core.head.select(matchers, head_from, to)?;
            found.sort_unstable_by(|a, b| a.1.cmp(&b.1));
            let series = found.into_iter().map(|(id, labels)| {
                let core = &*self.core;
                Box::new(HeadSeries { core, id, labels, from: head_from, to }) as Box<dyn Series>
            });
            lists.push(series.collect());
        }
        for (departed, from) in self.departed(from, to) {
            for series in departed.select(&self.core, matchers, from, to)? {
                let series = series.into_iter();
                lists.push(series.map(|series| Box::new(series) as Box<dyn Series>).collect());
            }
        }
        for block in self.blocks(from, to) {
            let series = block.select(matchers, from, to)?.into_iter();
            lists.push(series.map(|series| Box::new(series) as Box<dyn Series>).collect());
        }
        Ok(merge(lists))
    }
}

/// A series of the head. Its chunks are looked up when they are read.
struct HeadSeries<'a> {
    core: &'a Core,
    id: SeriesId,
    labels: Labels,
    from: i64,
    to: i64,
}

impl Series for HeadSeries<'_> {
    fn labels(&self) -> &Labels {
        &self.labels
    }

    fn cursor(&self) -> Box<dyn Cursor + '_> {
        Box::new(HeadCursor { series: self, chunks: None, next: 0 })
    }
}

struct HeadCursor<'a> {
    series: &'a HeadSeries<'a>,
    chunks: Option<SeriesChunks>,
    next: usize,
}

impl Cursor for HeadCursor<'_> {
    fn next(&mut self, samples: &mut Samples) -> Result<bool, Error> {
        let HeadSeries { core, id, from, to, labels } = self.series;
        if self.chunks.is_none() {
            self.chunks = Some(core.head.chunks(*id, *from)?);
        }
        let Some(chunks) = &mut self.chunks else { return Ok(false) };
        let before = samples.len();
        loop {
            let index = self.next;
            self.next += 1;
            let decoded = if let Some(chunk) = chunks.closed.get(index) {
                if chunk.header().min_time > *to {
                    return Ok(false);
                }
                chunk::decode(chunk.header().encoding, chunk.data(), *from, *to, samples)
            } else if let Some(open) = chunks.open.take() {
                chunk::decode(Encoding::XOR, &open, *from, *to, samples)
            } else {
                return Ok(false);
            };
            if let Err(damage) = decoded {
                samples.truncate(before);
                return Err(Error::corrupt(format!("head chunk of {labels}"), damage.to_string()));
            }
            if samples.len() > before {
                return Ok(true);
            }
        }
    }
}
