//! Series of floats in memory, handed out in short runs.

use store::{Cursor, Labels, Matcher, Samples, Select, Series};

/// Series with their samples.
pub(crate) struct Memory {
    series: Vec<(Labels, Vec<(i64, f64)>)>,
}

impl Memory {
    /// Series by selectors such as `m{a="b"}`.
    pub(crate) fn new<'n>(series: impl IntoIterator<Item = (&'n str, Vec<(i64, f64)>)>) -> Self {
        let mut series: Vec<_> = series
            .into_iter()
            .map(|(name, samples)| {
                let matchers = promql::parse_selector(name).expect("a selector");
                let pairs = matchers.iter().map(|m| (m.name().to_owned(), m.value().to_owned()));
                (Labels::from_pairs(pairs), samples)
            })
            .collect();
        series.sort_by(|a, b| a.0.cmp(&b.0));
        Memory { series }
    }
}

struct Selected<'a> {
    labels: &'a Labels,
    samples: &'a [(i64, f64)],
}

impl Select for Memory {
    fn select(
        &self,
        matchers: &[Matcher],
        from: i64,
        to: i64,
    ) -> Result<Vec<Box<dyn Series + '_>>, store::Error> {
        let mut selected: Vec<Box<dyn Series + '_>> = Vec::new();
        for (labels, samples) in &self.series {
            if matchers.iter().all(|m| m.matches(labels.get(m.name()).unwrap_or(""))) {
                let low = samples.partition_point(|(time, _)| *time < from);
                let high = samples.partition_point(|(time, _)| *time <= to);
                if low < high {
                    selected.push(Box::new(Selected { labels, samples: &samples[low..high] }));
                }
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
        Box::new(Reader(self.samples))
    }
}

struct Reader<'a>(&'a [(i64, f64)]);

impl Cursor for Reader<'_> {
    fn next(&mut self, samples: &mut Samples) -> Result<bool, store::Error> {
        let (run, rest) = self.0.split_at(self.0.len().min(7));
        self.0 = rest;
        for (time, value) in run {
            samples.push(*time, *value);
        }
        Ok(!run.is_empty())
    }
}
