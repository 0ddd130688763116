//! Series in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use store::histogram::CounterResetHint;
use store::labels::METRIC_NAME;
use store::{Cursor, FloatHistogram, Labels, Matcher, Samples, Select, Series};

use super::read::Load;
use super::series::Point;

#[derive(Clone)]
struct Stored {
    value: Result<f64, Arc<FloatHistogram>>,
    start: i64,
}

/// Everything that a script has loaded.
#[derive(Default)]
pub(crate) struct Storage {
    series: BTreeMap<Labels, BTreeMap<i64, Stored>>,
    /// With the hints that a store gives when it reads histograms back.
    read: BTreeMap<Labels, Vec<(i64, Stored)>>,
}

impl Storage {
    /// Adds series.
    pub(crate) fn load(&mut self, load: &Load) {
        for line in &load.series {
            let samples = self.series.entry(line.labels.clone()).or_default();
            for (index, point) in line.points.iter().enumerate() {
                let time = index as i64 * load.interval;
                let start = line.starts.get(index).copied().flatten().map_or(0, |s| time + s);
                let value = match point {
                    Point::Nothing => continue,
                    Point::Float(value) => Ok(*value),
                    Point::Histogram { histogram, .. } => Err(histogram.clone()),
                };
                samples.insert(time, Stored { value, start });
            }
        }
        if load.with_nhcb {
            self.convert(load);
        }
        self.read = self
            .series
            .iter()
            .map(|(labels, samples)| (labels.clone(), with_hints(samples)))
            .collect();
    }

    /// Adds classic histograms once more, as native ones with custom buckets.
    fn convert(&mut self, load: &Load) {
        let mut classic: BTreeMap<(Labels, i64), Classic> = BTreeMap::new();
        for line in &load.series {
            let name = line.labels.metric_name();
            let part = ["_bucket", "_count", "_sum"]
                .into_iter()
                .find_map(|suffix| Some((suffix, name.strip_suffix(suffix)?)));
            let Some((suffix, base)) = part else { continue };
            let upper = line.labels.get("le").and_then(|le| le.parse::<f64>().ok());
            let mut builder = line.labels.to_builder();
            builder.set(METRIC_NAME, base).remove("le");
            let labels = builder.build();
            for (index, point) in line.points.iter().enumerate() {
                let Point::Float(value) = point else { continue };
                let time = index as i64 * load.interval;
                let histogram = classic.entry((labels.clone(), time)).or_default();
                match (suffix, upper) {
                    ("_bucket", Some(upper)) => histogram.buckets.push((upper, *value)),
                    ("_count", _) => histogram.count = Some(*value),
                    ("_sum", _) => histogram.sum = *value,
                    _ => {}
                }
            }
        }
        for ((labels, time), histogram) in classic {
            let value = Err(Arc::new(histogram.native()));
            self.series.entry(labels).or_default().insert(time, Stored { value, start: 0 });
        }
    }
}

#[derive(Default)]
struct Classic {
    buckets: Vec<(f64, f64)>,
    count: Option<f64>,
    sum: f64,
}

impl Classic {
    fn native(mut self) -> FloatHistogram {
        self.buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        let last = self.buckets.last().map(|(_, count)| *count);
        let count = self.count.or(last).unwrap_or(0.0);
        if self.buckets.last().is_none_or(|(upper, _)| *upper != f64::INFINITY) {
            self.buckets.push((f64::INFINITY, count));
        }
        let mut before = 0.0;
        let mut counts = Vec::new();
        for (_, cumulative) in &self.buckets {
            counts.push(cumulative - before);
            before = *cumulative;
        }
        let bounds = self.buckets.iter().map(|(upper, _)| *upper);
        super::series::compact(FloatHistogram {
            schema: store::histogram::CUSTOM_BUCKETS_SCHEMA,
            count,
            sum: self.sum,
            positive_spans: vec![store::histogram::Span { offset: 0, length: counts.len() as u32 }],
            positive_buckets: counts,
            custom_values: bounds.filter(|bound| bound.is_finite()).collect(),
            ..FloatHistogram::default()
        })
    }
}

fn is_stale(histogram: &FloatHistogram) -> bool {
    histogram.sum.to_bits() == 0x7ff0_0000_0000_0002
}

/// What a store says about resets: nothing of the first histogram of a chunk, and that there was none
/// of the others, because a reset begins a new chunk.
fn with_hints(samples: &BTreeMap<i64, Stored>) -> Vec<(i64, Stored)> {
    let mut previous: Option<Arc<FloatHistogram>> = None;
    let mut list = Vec::with_capacity(samples.len());
    for (time, stored) in samples {
        let mut stored = stored.clone();
        let Err(histogram) = &stored.value else {
            previous = None;
            list.push((*time, stored));
            continue;
        };
        let original = histogram.clone();
        let mut copy = FloatHistogram::clone(histogram);
        if copy.counter_reset_hint != CounterResetHint::Gauge {
            let continues = previous.as_ref().is_some_and(|p| continues(p, &original));
            copy.counter_reset_hint =
                if continues { CounterResetHint::NoReset } else { CounterResetHint::Unknown };
        }
        stored.value = Err(Arc::new(copy));
        previous = Some(original);
        list.push((*time, stored));
    }
    list
}

/// Whether a histogram goes into the chunk of the one before.
fn continues(previous: &FloatHistogram, current: &FloatHistogram) -> bool {
    let gauge = |h: &FloatHistogram| h.counter_reset_hint == CounterResetHint::Gauge;
    if gauge(previous) || gauge(current) || current.counter_reset_hint == CounterResetHint::Reset {
        return false;
    }
    if is_stale(current) {
        return true;
    }
    !is_stale(previous)
        && current.count >= previous.count
        && current.schema == previous.schema
        && current.zero_threshold == previous.zero_threshold
        && current.custom_values == previous.custom_values
        && current.zero_count >= previous.zero_count
        && covers(
            &super::series::sparse(&current.positive_spans, &current.positive_buckets),
            &super::series::sparse(&previous.positive_spans, &previous.positive_buckets),
        )
        && covers(
            &super::series::sparse(&current.negative_spans, &current.negative_buckets),
            &super::series::sparse(&previous.negative_spans, &previous.negative_buckets),
        )
}

fn covers(current: &BTreeMap<i32, f64>, previous: &BTreeMap<i32, f64>) -> bool {
    previous.iter().all(|(index, count)| current.get(index).copied().unwrap_or(0.0) >= *count)
}

struct Selected<'a> {
    labels: &'a Labels,
    samples: &'a [(i64, Stored)],
}

impl Select for Storage {
    fn select(
        &self,
        matchers: &[Matcher],
        from: i64,
        to: i64,
    ) -> Result<Vec<Box<dyn Series + '_>>, store::Error> {
        let mut selected: Vec<Box<dyn Series + '_>> = Vec::new();
        for (labels, samples) in &self.read {
            let matches = |m: &Matcher| m.matches(labels.get(m.name()).unwrap_or(""));
            if !matchers.iter().all(matches) {
                continue;
            }
            let low = samples.partition_point(|(time, _)| *time < from);
            let high = samples.partition_point(|(time, _)| *time <= to);
            if low < high {
                selected.push(Box::new(Selected { labels, samples: &samples[low..high] }));
            }
        }
        Ok(selected)
    }
}

impl Series for Selected<'_> {
    fn labels(&self) -> &Labels {
        self.labels
    }

    fn cursor(&self) -> Box<dyn Cursor + '_> {
        Box::new(Reader { rest: self.samples })
    }
}

struct Reader<'a> {
    rest: &'a [(i64, Stored)],
}

impl Cursor for Reader<'_> {
    /// In runs of three, so that readers meet the ends of runs.
    fn next(&mut self, samples: &mut Samples) -> Result<bool, store::Error> {
        let (run, rest) = self.rest.split_at(self.rest.len().min(3));
        self.rest = rest;
        for (time, stored) in run {
            match &stored.value {
                Ok(value) => samples.push(*time, *value),
                Err(histogram) => samples.push_histogram(*time, histogram.clone()),
            }
            if stored.start != 0 {
                samples.set_start_timestamp(stored.start);
            }
        }
        Ok(!run.is_empty())
    }
}
