//! Series of the head in the order of their labels, without all labels in memory at once.
//!
//! 1. Runs of some thousand series are labelled and sorted; of each, only the order stays.
//! 2. The runs are merged. Of each, the labels of the next few hundred series are in memory.
//!
//! Only maintenance removes series, and it is maintenance that reads here: what was labelled once can be
//! labelled again.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::maintain::Pace;
use super::{Core, SeriesId};
use crate::Labels;
use crate::head::row::ChunkRef;

/// Series of a run.
const RUN: usize = 1 << 14;
/// Series of a run that are labelled ahead.
const AHEAD: usize = 256;

/// A series and its last closed chunk.
type Closed = (SeriesId, ChunkRef);

/// See the module.
pub(super) struct Ordered<'a> {
    core: &'a Core,
    runs: Vec<Run>,
    /// The labels of each run's first series, with the run.
    front: BinaryHeap<Reverse<(Labels, usize)>>,
    scratch: Vec<u8>,
}

struct Run {
    rest: std::vec::IntoIter<Closed>,
    /// Behind the one whose labels are in `front`, which is here too.
    ahead: VecDeque<(Labels, SeriesId, ChunkRef)>,
}

impl<'a> Ordered<'a> {
    /// Of these series, in any order. Those that are gone are passed over.
    pub(super) fn new(core: &'a Core, series: &[Closed], pace: &mut Pace<'_>) -> Self {
        let mut ordered =
            Ordered { core, runs: Vec::new(), front: BinaryHeap::new(), scratch: Vec::new() };
        for run in series.chunks(RUN) {
            let mut labelled = Vec::with_capacity(run.len());
            for part in run.chunks(AHEAD) {
                ordered.label(part, &mut labelled);
            }
            labelled.sort_unstable_by(|a, b| a.0.cmp(&b.0));
            let rest: Vec<Closed> = labelled.iter().map(|&(_, id, closed)| (id, closed)).collect();
            ordered.runs.push(Run { rest: rest.into_iter(), ahead: VecDeque::new() });
            pace.did(run.len());
        }
        for run in 0..ordered.runs.len() {
            ordered.advance(run);
        }
        ordered
    }

    fn label(&mut self, series: &[Closed], labelled: &mut Vec<(Labels, SeriesId, ChunkRef)>) {
        let index = self.core.head.index.read();
        for &(id, closed) in series {
            let found = index.labels(id.slot(), &mut self.scratch);
            labelled.extend(
                found.filter(|(found, _)| *found == id).map(|(_, labels)| (labels, id, closed)),
            );
        }
    }

    /// Puts the labels of a run's next series to the front.
    fn advance(&mut self, run: usize) {
        if self.runs[run].ahead.is_empty() {
            let next: Vec<Closed> = self.runs[run].rest.by_ref().take(AHEAD).collect();
            let mut labelled = Vec::with_capacity(next.len());
            self.label(&next, &mut labelled);
            self.runs[run].ahead.extend(labelled);
        }
        if let Some((labels, ..)) = self.runs[run].ahead.front() {
            self.front.push(Reverse((labels.clone(), run)));
        }
    }

    /// The labels of the series that is next.
    pub(super) fn peek(&self) -> Option<&Labels> {
        self.front.peek().map(|Reverse((labels, _))| labels)
    }

    /// The series that is next.
    pub(super) fn next(&mut self) -> Option<(Labels, SeriesId, ChunkRef)> {
        let Reverse((_, run)) = self.front.pop()?;
        let next = self.runs[run].ahead.pop_front();
        self.advance(run);
        next
    }
}
