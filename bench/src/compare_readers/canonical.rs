//! What a reader understood of an exposition, in a form in which readers can be compared.
//!
//! Values are their bits. The order of samples and of labels is no part of what is compared: `expfmt`
//! gives families from a map.

use std::collections::BTreeMap;

use crate::draw::Pairs;

/// A body as it was read, or as it should be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exposition {
    /// By name.
    pub families: BTreeMap<String, Family>,
    /// Sorted by [`Exposition::sort`].
    pub samples: Vec<Sample>,
    /// Likewise.
    pub histograms: Vec<Histogram>,
}

/// What was told about a family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Family {
    /// A word of Prometheus' metadata.
    pub kind: String,
    /// Empty for none.
    pub help: String,
    /// Empty for none.
    pub unit: String,
}

/// A value, as text has it: a histogram is several.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sample {
    /// With `_bucket` and the like.
    pub name: String,
    /// Sorted.
    pub labels: Pairs,
    /// The value's bits.
    pub value: u64,
    /// Milliseconds since 1970.
    pub timestamp_ms: Option<i64>,
    /// Milliseconds since 1970.
    pub created_ms: Option<i64>,
    /// In their order.
    pub exemplars: Vec<Exemplar>,
}

/// An exemplar.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Exemplar {
    /// Sorted.
    pub labels: Pairs,
    /// The value's bits.
    pub value: u64,
    /// Milliseconds since 1970.
    pub timestamp_ms: Option<i64>,
}

/// A native histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Histogram {
    /// The family's name.
    pub name: String,
    /// Sorted.
    pub labels: Pairs,
    /// Milliseconds since 1970.
    pub timestamp_ms: Option<i64>,
    /// Milliseconds since 1970.
    pub created_ms: Option<i64>,
    /// Of values that may fall.
    pub is_gauge: bool,
    /// Buckets in a power of two, as a power of two.
    pub schema: i64,
    /// Its bits.
    pub zero_threshold: u64,
    /// Observations near zero.
    pub zero_count: u64,
    /// All observations.
    pub count: u64,
    /// Its bits.
    pub sum: u64,
    /// Index and count of the buckets that are not empty.
    pub positive: Vec<(i64, u64)>,
    /// Likewise.
    pub negative: Vec<(i64, u64)>,
    /// In their order.
    pub exemplars: Vec<Exemplar>,
}

impl Exposition {
    /// Brings everything into an order that does not depend on the reader.
    pub fn sort(mut self) -> Self {
        self.samples.iter_mut().for_each(|sample| sample.labels.sort());
        self.histograms.iter_mut().for_each(|histogram| histogram.labels.sort());
        for exemplar in self.exemplars_mut() {
            exemplar.labels.sort();
        }
        self.samples.sort();
        self.histograms.sort();
        self
    }

    /// Every exemplar.
    pub fn exemplars_mut(&mut self) -> impl Iterator<Item = &mut Exemplar> {
        let of_samples = self.samples.iter_mut().flat_map(|sample| &mut sample.exemplars);
        of_samples.chain(self.histograms.iter_mut().flat_map(|histogram| &mut histogram.exemplars))
    }

    /// Every time there is: of samples, of their beginnings, of exemplars.
    pub fn times_mut(&mut self) -> impl Iterator<Item = &mut Option<i64>> {
        let of_samples = self.samples.iter_mut().flat_map(|sample| {
            let exemplars = sample.exemplars.iter_mut().map(|exemplar| &mut exemplar.timestamp_ms);
            [&mut sample.timestamp_ms, &mut sample.created_ms].into_iter().chain(exemplars)
        });
        let of_histograms = self.histograms.iter_mut().flat_map(|histogram| {
            let exemplars =
                histogram.exemplars.iter_mut().map(|exemplar| &mut exemplar.timestamp_ms);
            [&mut histogram.timestamp_ms, &mut histogram.created_ms].into_iter().chain(exemplars)
        });
        of_samples.chain(of_histograms)
    }

    /// What `read` has otherwise, in words, at most a few of each.
    pub fn differences(&self, read: &Exposition) -> Vec<String> {
        let mut told = Vec::new();
        for (name, family) in &self.families {
            match read.families.get(name) {
                Some(other) if other == family => {}
                other => told.push(format!("family {name:?}: written {family:?}, read {other:?}")),
            }
        }
        let unknown = read.families.iter().filter(|(name, _)| !self.families.contains_key(*name));
        told.extend(
            unknown.map(|(name, family)| format!("family {name:?} was not written: {family:?}")),
        );
        only_in(&self.samples, &read.samples, "written", &mut told);
        only_in(&read.samples, &self.samples, "read", &mut told);
        only_in(&self.histograms, &read.histograms, "written", &mut told);
        only_in(&read.histograms, &self.histograms, "read", &mut told);
        told
    }
}

fn only_in<T: Ord + std::fmt::Debug>(these: &[T], those: &[T], what: &str, told: &mut Vec<String>) {
    let missing = these.iter().filter(|item| those.binary_search(item).is_err());
    told.extend(missing.take(3).map(|item| format!("only {what}: {item:?}")));
    if these.len() > those.len() {
        let twice = these.windows(2).filter(|pair| pair[0] == pair[1]).take(1);
        told.extend(twice.map(|pair| format!("{what} twice: {:?}", pair[0])));
    }
}
