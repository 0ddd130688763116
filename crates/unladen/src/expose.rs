//! Registered families, written into an exposition straight from their cells.
//!
//! A family's table is locked while series are written into what is free of the chunk, and never while
//! the sink has one: however slow a scraper reads, nobody waits for it, neither another scraper nor who
//! makes a new series.

use wire::exposition::writer::{
    Bucket, Buckets, Exemplar as WireExemplar, Extra, LabelSet, LabelsRef, Native, Writer, dense,
};

use crate::attributes::Attributes;
use crate::clock::Clock;
use crate::collector::Samples;
use crate::exemplar::Exemplar;
use crate::native;
use crate::observed::Column;
use crate::segment::{Row, Segment, State};
use crate::shape::{self, NATIVE_EXEMPLARS, Shape};
use crate::table::{Core, Table};

/// What is needed beside the chunk to write histograms; kept for its memory.
#[derive(Default)]
pub(crate) struct Scratch {
    totals: Vec<u64>,
    kept: Vec<Option<Kept>>,
    total: native::Snapshot,
    cell: native::Snapshot,
}

/// A label that has to be respelt takes at most so many times its bytes.
const MOST_SPELT: usize = 5;

/// How far a family is written.
#[derive(Default)]
struct At {
    segment: usize,
    row: usize,
    /// The series that waits for the next chunk: the filter is asked once about each.
    chosen: Option<Attributes>,
}

/// What is still to be written.
enum Left {
    Nothing,
    Segments,
    /// This first, which the chunk has no room for.
    Series {
        row: Row,
        set: Attributes,
        bound: usize,
    },
}

/// How many bytes a metric takes at most: without labels, for each line that has them, for an exemplar.
struct Bound {
    base: usize,
    lines: usize,
    exemplar: usize,
}

/// How the rows of one body are written.
pub(crate) struct Rows<'r> {
    pub(crate) clock: &'r Clock,
    pub(crate) scratch: &'r mut Scratch,
    /// Series that began later are left for the next body, so that one which goes and comes again
    /// meanwhile is not in it twice.
    pub(crate) started: u32,
    /// Whether the body tells when series began.
    pub(crate) has_created: bool,
    /// Whether the segment that is being written has exemplars.
    pub(crate) has_exemplars: bool,
}

impl Rows<'_> {
    /// Writes all series of a family. *Steady.*
    pub(crate) fn write(&mut self, core: &Core, samples: &mut Samples<'_, '_>) {
        if !samples.is_open() {
            return;
        }
        let mut at = At::default();
        while samples.is_open() {
            let bound = self.bound(&core.shape, samples.writer());
            match core.look(|table| self.write_some(table, &mut at, &bound, samples)) {
                Left::Nothing => return,
                Left::Segments => {}
                Left::Series { row, set, bound } => {
                    samples.writer().flush();
                    if bound > samples.writer().room() {
                        // Goes across several chunks, so it is written without the lock.
                        self.row(row.segment(), row.index(), &set, samples.writer());
                        at.row += 1;
                    } else {
                        at.chosen = Some(set);
                    }
                }
            }
        }
    }

    /// Writes series while there is room in the chunk; where most are passed over, those of one segment,
    /// so that the table is not locked for long.
    fn write_some(
        &mut self,
        table: &Table,
        at: &mut At,
        bound: &Bound,
        samples: &mut Samples<'_, '_>,
    ) -> Left {
        while let (Some(segment), Some(sets)) =
            (table.segments.get(at.segment), table.sets.get(at.segment))
        {
            self.has_exemplars = segment.known_exemplars().is_some();
            let mut base = bound.base;
            if self.has_exemplars {
                base += segment.shape.exemplars() * bound.exemplar;
            }
            for (row, set) in sets.iter().enumerate().skip(at.row) {
                let Some(set) = self.series(segment, row, set) else { continue };
                if samples.is_choosy()
                    && !at.chosen.take().is_some_and(|chosen| chosen.is(set))
                    && !samples.wants(set.labels())
                {
                    continue;
                }
                let writer = samples.writer();
                let labels = set.labels().as_bytes().len();
                let bound = base + bound.lines * MOST_SPELT * labels;
                if writer.room() < bound {
                    at.row = row;
                    return Left::Series { row: Row::hold(segment, row), set: set.clone(), bound };
                }
                self.row(segment, row, set, writer);
            }
            segment.forget_visits();
            (at.segment, at.row) = (at.segment + 1, 0);
            if samples.is_choosy() {
                return Left::Segments;
            }
        }
        Left::Nothing
    }

    /// How many bytes a metric takes at most.
    fn bound(&self, shape: &Shape, writer: &Writer<'_>) -> Bound {
        let none = LabelsRef::EMPTY;
        let (base, lines) = match shape {
            Shape::Unsigned | Shape::Signed | Shape::Float => {
                let lines = 1 + usize::from(self.has_created);
                (lines * writer.line_bound(none), lines)
            }
            Shape::Explicit(bounds) => {
                (writer.histogram_bound(none, bounds.len()), bounds.len() + 5)
            }
            Shape::Native(shape) => (writer.native_bound(none, shape.width(), 0), 25),
        };
        Bound { base, lines, exemplar: writer.exemplar_bound(none) + MOST_SPELT * Kept::LENGTH }
    }

    #[inline]
    fn series<'t>(
        &self,
        segment: &Segment,
        row: usize,
        set: &'t Option<Attributes>,
    ) -> Option<&'t Attributes> {
        let is_there = segment.state(row) == State::Live && segment.created(row) <= self.started;
        if is_there { set.as_ref() } else { None }
    }

    #[inline]
    fn row(&mut self, segment: &Segment, row: usize, set: &Attributes, writer: &mut Writer<'_>) {
        let labels = LabelSet::Stored(set.labels());
        match &segment.shape {
            Shape::Unsigned | Shape::Signed | Shape::Float => {
                let value = shape::number(segment, row).into();
                if !self.has_created && !self.has_exemplars {
                    return writer.number(labels, value, &Extra::NONE);
                }
                self.keep_exemplars(segment, row, 1);
                let exemplar = self.scratch.kept[0].as_ref().map(Kept::lend);
                let created_ms = self.created_ms(segment, row);
                writer.number(labels, value, &Extra { timestamp_ms: None, created_ms, exemplar });
            }
            Shape::Explicit(bounds) => self.explicit(segment, row, bounds, labels, writer),
            Shape::Native(shape) => self.native(segment, row, shape, labels, writer),
        }
    }

    fn created_ms(&self, segment: &Segment, row: usize) -> Option<i64> {
        self.has_created.then(|| self.clock.to_ms(segment.created(row)))
    }

    fn keep_exemplars(&mut self, segment: &Segment, row: usize, places: usize) {
        // As it was when the bound was made: one that came since is for the next body.
        let known = segment.known_exemplars().filter(|_| self.has_exemplars);
        let kept = &mut self.scratch.kept;
        kept.clear();
        kept.extend((0..places).map(|place| known?.get(row, place).as_ref().map(Kept::new)));
    }

    fn explicit(
        &mut self,
        segment: &Segment,
        row: usize,
        bounds: &[f64],
        labels: LabelSet<'_>,
        writer: &mut Writer<'_>,
    ) {
        let created_ms = self.created_ms(segment, row);
        self.keep_exemplars(segment, row, bounds.len() + 1);
        let Scratch { totals, kept, .. } = &mut *self.scratch;
        totals.resize(bounds.len() + 2, 0);
        shape::buckets(segment, row, totals);
        let Some((sum, counts)) = totals.split_last() else { return };
        let counts = counts
            .iter()
            .zip(&*kept)
            .map(|(&count, kept)| Bucket { count, exemplar: kept.as_ref().map(Kept::lend) });
        let sum = f64::from_bits(*sum);
        writer.histogram(labels, Buckets { bounds, counts, sum, created_ms, timestamp_ms: None });
    }

    fn native(
        &mut self,
        segment: &Segment,
        row: usize,
        shape: &native::Shape,
        labels: LabelSet<'_>,
        writer: &mut Writer<'_>,
    ) {
        let created_ms = self.created_ms(segment, row);
        self.keep_exemplars(segment, row, NATIVE_EXEMPLARS);
        let Scratch { total, cell, kept, .. } = &mut *self.scratch;
        if !shape::native(segment, row, shape, total, cell) {
            return;
        }
        let mut exemplars = [NO_EXEMPLAR; NATIVE_EXEMPLARS];
        let mut count = 0;
        for kept in kept.iter().flatten() {
            exemplars[count] = kept.lend();
            count += 1;
        }
        let [above, below] = total.infinite();
        let beyond = total.overflow_index() + 1;
        // Prometheus' index is one above OpenTelemetry's, and its outermost bucket has the infinite.
        let outermost = |count: u64| (count > 0).then_some((beyond, count)).into_iter();
        writer.native_histogram(
            labels,
            &Native {
                schema: total.schema(),
                zero_threshold: total.zero_threshold(),
                zero_count: total.zero_count(),
                positive: buckets(total.positive()).chain(outermost(above)),
                negative: buckets(total.negative()).chain(outermost(below)),
                sum: total.sum(),
                count: total.count(),
                exemplars: &exemplars[..count],
                created_ms,
                timestamp_ms: None,
            },
        );
    }
}

fn buckets(of: &native::Buckets) -> impl DoubleEndedIterator<Item = (i32, u64)> + Clone {
    dense(of.first().saturating_add(1), of.counts())
}

/// Writes what callbacks said. *Steady.*
pub(crate) fn write_column(
    column: &Column,
    clock: &Clock,
    has_created: bool,
    samples: &mut Samples<'_, '_>,
) {
    for at in 0..column.len() {
        let observed = column.get(at);
        let created_ms = has_created.then(|| clock.to_ms(observed.created));
        let extra = Extra { timestamp_ms: None, created_ms, exemplar: None };
        samples.number(LabelSet::Stored(observed.set.labels()), observed.value, &extra);
    }
}

const NO_EXEMPLAR: WireExemplar<'static> =
    WireExemplar { labels: LabelSet::Pairs(&[]), value: 0.0, timestamp_ms: None };

/// An exemplar whose trace is written as labels.
struct Kept {
    labels: [u8; Kept::LENGTH],
    value: f64,
    time_ms: i64,
}

impl Kept {
    const LENGTH: usize = 70;

    fn new(exemplar: &Exemplar) -> Self {
        let mut labels =
            *b"trace_id=\"................................\",span_id=\"................\"";
        write_hexadecimal(&exemplar.trace.trace_id, &mut labels[10..42]);
        write_hexadecimal(&exemplar.trace.span_id, &mut labels[53..69]);
        Kept { labels, value: exemplar.value, time_ms: exemplar.time_ms }
    }

    fn lend(&self) -> WireExemplar<'_> {
        let text = std::str::from_utf8(&self.labels).unwrap_or_default();
        WireExemplar {
            labels: LabelSet::Stored(LabelsRef::new(text, true)),
            value: self.value,
            timestamp_ms: Some(self.time_ms),
        }
    }
}

fn write_hexadecimal(bytes: &[u8], to: &mut [u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (byte, to) in bytes.iter().zip(to.chunks_exact_mut(2)) {
        to.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exemplar::Trace;

    #[test]
    fn a_trace_is_labels() {
        let trace = Trace { trace_id: [0x1f; 16], span_id: [0xa0; 8] };
        let kept = Kept::new(&Exemplar { trace, value: 1.0, time_ms: 2 });
        let LabelSet::Stored(labels) = kept.lend().labels else { unreachable!() };
        let expected = format!("trace_id=\"{}\",span_id=\"{}\"", "1f".repeat(16), "a0".repeat(8));
        assert_eq!(labels.as_str(), expected);
    }
}
