//! A line for each point, for people who want to see what a program measures.

use std::fmt;
use std::io::{self, BufWriter, Write};

use crate::reader::{
    Batch, ExponentialHistogramPoint, Head, HistogramPoint, Metric, Points, SummaryPoint,
    Temporalities, Temporality,
};
use crate::shape::Number;

use super::date::Rfc3339;
use super::error::{Error, Reason};
use super::{Counts, Data, Exporter, Outcome};

/// Writes a line for each point:
///
/// ```text
/// 2026-11-21T19:02:00.000Z requests_total{code="200"} 17 (sum since 18:00:00.000Z)
/// ```
/// The lines of one collection are followed by an empty one. They are not meant to be read by programs.
pub struct TextExporter<W: Write = io::Stdout> {
    out: BufWriter<W>,
    temporalities: Temporalities,
    counts: Option<Counts>,
}

impl<W: Write> fmt::Debug for TextExporter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextExporter").finish_non_exhaustive()
    }
}

impl TextExporter {
    /// To the process' standard output.
    pub fn stdout() -> Self {
        TextExporter::new(io::stdout())
    }
}

impl<W: Write + Send> TextExporter<W> {
    /// To `out`.
    pub fn new(out: W) -> Self {
        TextExporter {
            out: BufWriter::new(out),
            temporalities: Temporalities::CUMULATIVE,
            counts: None,
        }
    }

    /// With values that count from what `temporalities` says; everything cumulative without this.
    #[must_use]
    pub fn with_temporalities(self, temporalities: Temporalities) -> Self {
        TextExporter { temporalities, ..self }
    }
}

impl<W: Write + Send> Exporter for TextExporter<W> {
    fn name(&self) -> &'static str {
        "text"
    }

    fn temporalities(&self) -> Temporalities {
        self.temporalities
    }

    fn count_in(&mut self, counts: &Counts) {
        self.counts = Some(counts.clone());
    }

    fn export(&mut self, data: Data<'_>) -> Result<(), Error> {
        let batch = data.batch();
        let written = write(&mut self.out, &batch).and_then(|()| self.out.flush());
        let outcome = if written.is_ok() { Outcome::Sent } else { Outcome::Dropped };
        if let Some(counts) = &self.counts {
            counts.points(outcome, batch.point_count());
        }
        written.map_err(|error| Error::new("text", Reason::Io, error.to_string()))
    }
}

fn write(out: &mut impl Write, batch: &Batch<'_>) -> io::Result<()> {
    for metric in batch.metrics() {
        match metric.points() {
            Points::Gauge(points) => {
                for point in points {
                    begin(out, &metric, &point.head)?;
                    number(out, point.value)?;
                    end(out, &metric, "gauge", &point.head)?;
                }
            }
            Points::Sum { points, is_monotonic } => {
                let kind = if is_monotonic { "sum" } else { "up-down sum" };
                for point in points {
                    begin(out, &metric, &point.head)?;
                    number(out, point.value)?;
                    end(out, &metric, kind, &point.head)?;
                }
            }
            Points::Histogram(mut points) => points.try_for_each(|point| {
                begin(out, &metric, &point.head)?;
                histogram(out, &point)?;
                end(out, &metric, "histogram", &point.head)
            })?,
            Points::ExponentialHistogram(mut points) => points.try_for_each(|point| {
                begin(out, &metric, &point.head)?;
                exponential(out, &point)?;
                end(out, &metric, "native histogram", &point.head)
            })?,
            Points::Summary(mut points) => points.try_for_each(|point| {
                begin(out, &metric, &point.head)?;
                summary(out, &point)?;
                end(out, &metric, "summary", &point.head)
            })?,
        }
    }
    writeln!(out)
}

fn begin(out: &mut impl Write, metric: &Metric<'_>, head: &Head<'_>) -> io::Result<()> {
    write!(out, "{} {}", Rfc3339(head.time_unix_nano), metric.name())?;
    if !head.attributes.is_empty() {
        write!(out, "{{{}}}", head.attributes.labels().as_str())?;
    }
    write!(out, " ")
}

fn end(out: &mut impl Write, metric: &Metric<'_>, kind: &str, head: &Head<'_>) -> io::Result<()> {
    if !metric.unit().is_empty() {
        write!(out, " {}", metric.unit())?;
    }
    write!(out, " ({kind}")?;
    match metric.temporality() {
        Some(Temporality::Cumulative) => write!(out, " since {}", Rfc3339(head.start_unix_nano))?,
        Some(Temporality::Delta) => {
            let nanoseconds = head.time_unix_nano.saturating_sub(head.start_unix_nano);
            write!(out, " of {:.3} s", nanoseconds as f64 / 1e9)?;
        }
        None => {}
    }
    if !metric.scope().name().is_empty() {
        write!(out, ", {}", metric.scope().name())?;
    }
    for exemplar in head.exemplars.clone() {
        let trace = u128::from_be_bytes(exemplar.trace.trace_id);
        write!(out, ", {} in trace {trace:032x}", exemplar.value)?;
    }
    writeln!(out, ")")
}

fn number(out: &mut impl Write, value: Number) -> io::Result<()> {
    match value {
        Number::Unsigned(value) => write!(out, "{value}"),
        Number::Signed(value) => write!(out, "{value}"),
        Number::Float(value) => write!(out, "{value}"),
    }
}

fn histogram(out: &mut impl Write, point: &HistogramPoint<'_>) -> io::Result<()> {
    write!(out, "{} values, sum {}:", point.count(), point.sum)?;
    let bounds = point.bounds.clone().chain([f64::INFINITY]);
    for (bound, count) in bounds.zip(point.counts).filter(|(_, count)| **count > 0) {
        write!(out, " ≤{bound}: {count}")?;
    }
    Ok(())
}

fn exponential(out: &mut impl Write, point: &ExponentialHistogramPoint<'_>) -> io::Result<()> {
    write!(out, "{} values, sum {}:", point.count(), point.sum)?;
    // As many digits as the width of a bucket is worth.
    let bound = |index: i32| (f64::from(index) * (-f64::from(point.scale)).exp2()).exp2();
    let (below, above) = (point.negative, point.positive);
    for (at, count) in below.counts.iter().enumerate().rev().filter(|(_, count)| **count > 0) {
        write!(out, " ≤{:.4e}: {count}", -bound(below.offset + at as i32))?;
    }
    if point.zero_count > 0 {
        write!(out, " 0: {}", point.zero_count)?;
    }
    for (at, count) in above.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        write!(out, " ≤{:.4e}: {count}", bound(above.offset + at as i32 + 1))?;
    }
    Ok(())
}

fn summary(out: &mut impl Write, point: &SummaryPoint<'_>) -> io::Result<()> {
    write!(out, "{} values, sum {}:", point.count, point.sum)?;
    for (quantile, value) in point.quantiles.clone() {
        write!(out, " {quantile}: {value}")?;
    }
    Ok(())
}
