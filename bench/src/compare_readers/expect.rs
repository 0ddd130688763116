//! What a case should be read as.
//!
//! Made from the case alone, with names respelt and labels joined here again: what is compared with it
//! shares no code with it. Two things nobody can know beforehand, and they are taken from our own reading
//! once what is known of them was checked: the times of a registry's clock, and the bounds that the
//! writer finds for a native histogram in a format that has none.

use std::collections::BTreeMap;

use unladen::Format;
use wire::exposition::Kind;
use wire::exposition::name::Escaping;

use crate::canonical::{Exemplar, Exposition, Family, Histogram, Sample};
use crate::draw::Pairs;
use crate::model::{self, Case, Native, Series, SeriesValue, Via};
use crate::write::beside_counts;

/// What should be read, as far as it is known.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// What is known.
    pub exposition: Exposition,
    /// Samples and histograms whose beginning the clock gave: name and labels.
    clocked: Vec<(String, Pairs)>,
    /// Native histograms in a format that has none.
    in_lines: Vec<InLines>,
    /// Histograms that a registry made of observations: name, labels, count, and place in the exposition.
    observed: Vec<(String, Pairs, u64)>,
}

/// A native histogram whose bounds are the writer's choice.
#[derive(Clone, Debug)]
struct InLines {
    /// Without its value.
    bucket: Sample,
    native: Option<Native>,
    count: u64,
}

/// What a family's samples have in common.
struct Named<'c> {
    case: &'c Case,
    family: &'c model::Family,
    /// The name of HELP and TYPE, and of all samples that have a suffix.
    name: String,
    /// The name of a sample without a suffix.
    own: String,
    kind: Kind,
}

/// What should be read of `case`.
pub fn expect(case: &Case) -> Expected {
    let mut expected = Expected::default();
    let target = case.resource.iter().filter(|resource| !resource.is_empty());
    let target: Vec<_> = target.map(target_info).collect();
    for family in target.iter().chain(&case.families) {
        let named = Named::new(case, family);
        // A protobuf message is there for its metrics.
        if case.format != Format::Protobuf || !family.series.is_empty() {
            expected.exposition.families.insert(named.name.clone(), named.told());
        }
        for series in &family.series {
            named.series(series, &mut expected);
        }
    }
    expected.exposition = std::mem::take(&mut expected.exposition).sort();
    expected
}

fn target_info(resource: &Pairs) -> model::Family {
    let series = Series {
        labels: resource.clone(),
        is_stored: true,
        timestamp_ms: None,
        created_ms: None,
        value: SeriesValue::Number(1u64.into(), None),
    };
    model::Family {
        name: "target_info".to_owned(),
        help: "Target metadata".to_owned(),
        unit: String::new(),
        kind: Kind::Info,
        common: Pairs::new(),
        via: Via::Collector,
        series: vec![series],
    }
}

impl<'c> Named<'c> {
    fn new(case: &'c Case, family: &'c model::Family) -> Self {
        let own = spell(&family.name, case.escaping, true);
        let (mut name, mut kind) = (own.clone(), family.kind);
        let suffix = match kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            _ => "",
        };
        if case.format == Format::OpenMetrics && !suffix.is_empty() {
            match own.strip_suffix(suffix) {
                Some(rest) if !rest.is_empty() => name = rest.to_owned(),
                _ => kind = Kind::Unknown,
            }
        }
        Named { case, family, name, own, kind }
    }

    fn told(&self) -> Family {
        let unit = &self.family.unit;
        let is_told = match self.case.format {
            Format::Text => false,
            Format::OpenMetrics => self.name.ends_with(&format!("_{unit}")),
            Format::Protobuf => true,
        };
        let kind = match (self.case.format, self.kind) {
            (Format::OpenMetrics, kind) => kind.name(),
            (_, Kind::Info | Kind::StateSet) => "gauge",
            (Format::Text, Kind::GaugeHistogram) => "histogram",
            (_, kind) => kind.name(),
        };
        let unit = if is_told { unit.clone() } else { String::new() };
        Family { kind: kind.to_owned(), help: self.family.help.clone(), unit }
    }

    fn series(&self, series: &Series, to: &mut Expected) {
        let format = self.case.format;
        if !self.is_tellable(series.timestamp_ms) {
            return;
        }
        let labels = self.labels(series);
        let has_created = match format {
            Format::Text => false,
            Format::OpenMetrics => self.case.created_lines && self.kind.has_created(),
            Format::Protobuf => self.kind.has_created() || self.kind == Kind::GaugeHistogram,
        };
        if has_created && self.family.via != Via::Collector {
            to.clocked.push((self.name.clone(), labels.clone()));
            to.clocked.push((self.own.clone(), labels.clone()));
        }
        let sample = Sample {
            name: self.own.clone(),
            labels,
            timestamp_ms: series.timestamp_ms,
            created_ms: series.created_ms.filter(|ms| has_created && self.is_tellable(Some(*ms))),
            ..Sample::default()
        };
        match &series.value {
            SeriesValue::Number(value, exemplar) => {
                let has_exemplar = self.kind == Kind::Counter && format != Format::Text;
                let exemplars =
                    exemplar.iter().filter(|_| has_exemplar).map(|of| self.exemplar(of));
                let value = value.as_f64().to_bits();
                let exemplars = exemplars.collect();
                to.exposition.samples.push(Sample { value, exemplars, ..sample });
            }
            SeriesValue::Buckets(bounds, counts, sum) => {
                let counts = counts
                    .iter()
                    .map(|(count, of)| (*count, of.as_ref().map(|of| self.exemplar(of))));
                self.buckets(&sample, bounds, counts, *sum, to);
            }
            SeriesValue::Native(native, beside) => {
                self.native(&sample, native, beside.as_deref(), to)
            }
            SeriesValue::Summary(quantiles, sum, count) => {
                for (quantile, value) in quantiles {
                    let mut at = Sample { value: value.to_bits(), ..sample.clone() };
                    at.labels.push(("quantile".to_owned(), number(*quantile)));
                    to.exposition.samples.push(at);
                }
                self.parts(&sample, *sum, *count, to);
            }
            SeriesValue::Observed(bounds, values) => {
                self.observed(&sample, bounds.as_deref(), values, to)
            }
        }
    }

    fn exemplar(&self, of: &model::Exemplar) -> Exemplar {
        let labels = joined(of.labels.iter().cloned(), self.case.escaping);
        let timestamp_ms = of.timestamp_ms.filter(|ms| self.is_tellable(Some(*ms)));
        Exemplar { labels, value: of.value.to_bits(), timestamp_ms }
    }

    /// Text has digits for a time and no sign, OpenMetrics a number that floating point may round up.
    fn is_tellable(&self, ms: Option<i64>) -> bool {
        ms.is_none_or(|ms| match self.case.format {
            Format::Text => ms >= 0,
            Format::OpenMetrics => ms.unsigned_abs() < i64::MAX as u64 - 512,
            Format::Protobuf => true,
        })
    }

    /// Labels that are stored lose their NULs when they are stored, others when they are written.
    fn labels(&self, series: &Series) -> Pairs {
        let stored = |(name, value): &(String, String)| (without_nul(name), value.clone());
        let own = series.labels.iter().map(|(name, value)| match self.family.via {
            Via::Collector if series.is_stored => (without_nul(name), value.clone()),
            Via::Collector => (name.clone(), value.clone()),
            _ => (without_nul(&self.fitting(name)), value.clone()),
        });
        let mut labels: Vec<_> = own.collect();
        if self.family.via != Via::Collector {
            // Of attributes that are given twice, the last counts.
            let names: Vec<String> = labels.iter().map(|(name, _)| name.clone()).collect();
            let mut place = 0;
            labels.retain(|(name, _)| {
                place += 1;
                !names[place..].contains(name)
            });
        }
        let common = self.family.common.iter().map(stored);
        joined(common.chain(labels), self.case.escaping)
    }

    /// What a registry makes of names that Prometheus, a histogram or a scope has for itself.
    fn fitting(&self, name: &str) -> String {
        if name.starts_with("__") {
            return format!("_{}", name.trim_start_matches('_'));
        }
        match name {
            "le" if self.kind == Kind::Histogram => "exported_le".to_owned(),
            _ if name.starts_with("otel_scope_") => name.replacen("otel_", "", 1),
            _ => name.to_owned(),
        }
    }

    fn buckets(
        &self,
        of: &Sample,
        bounds: &[f64],
        counts: impl Iterator<Item = (u64, Option<Exemplar>)>,
        sum: f64,
        to: &mut Expected,
    ) {
        let mut total = 0u64;
        let finite = bounds.iter().take_while(|bound| bound.is_finite()).count();
        let mut at_bounds: Vec<(f64, u64, Option<Exemplar>)> = Vec::new();
        for (place, (count, exemplar)) in counts.enumerate() {
            total += count;
            let bound = if place < finite { bounds[place] } else { f64::INFINITY };
            match at_bounds.last_mut().filter(|last| last.0 == bound) {
                Some(last) => (last.1, last.2) = (total, exemplar.or(last.2.take())),
                None => at_bounds.push((bound, total, exemplar)),
            }
        }
        for (bound, total, exemplar) in at_bounds {
            let mut bucket = Sample { value: (total as f64).to_bits(), ..of.clone() };
            bucket.name = format!("{}_bucket", self.name);
            bucket.labels.push(("le".to_owned(), number(bound)));
            let exemplar = exemplar.filter(|_| self.case.format != Format::Text);
            bucket.exemplars.extend(exemplar);
            to.exposition.samples.push(bucket);
        }
        self.parts(of, sum, total, to);
    }

    /// Sum and count of a histogram or a summary.
    fn parts(&self, of: &Sample, sum: f64, count: u64, to: &mut Expected) {
        let is_gauge = self.kind == Kind::GaugeHistogram && self.case.format == Format::OpenMetrics;
        let g = if is_gauge { "g" } else { "" };
        let part = |suffix: &str, value: f64| Sample {
            name: format!("{}_{g}{suffix}", self.name),
            value: value.to_bits(),
            ..of.clone()
        };
        to.exposition.samples.extend([part("sum", sum), part("count", count as f64)]);
    }

    fn native(&self, of: &Sample, native: &Native, beside: Option<&[f64]>, to: &mut Expected) {
        // A message has no bucket for `+Inf` alone, so that it says nothing of explicit ones.
        let has_buckets = |bounds: &&[f64]| {
            self.case.format != Format::Protobuf || bounds.iter().any(|bound| bound.is_finite())
        };
        if let Some(bounds) = beside.filter(has_buckets) {
            let counts = beside_counts(native, bounds).into_iter().map(|count| (count, None));
            self.buckets(of, bounds, counts, native.sum, to);
        }
        if self.case.format == Format::Protobuf {
            let exemplars = native.exemplars.iter().map(|of| self.exemplar(of)).collect();
            to.exposition.histograms.push(Histogram {
                schema: native.schema.into(),
                zero_threshold: native.zero_threshold.to_bits(),
                zero_count: native.zero_count,
                count: native.count(),
                sum: native.sum.to_bits(),
                positive: side(&native.positive),
                negative: side(&native.negative),
                exemplars,
                ..self.histogram(of)
            });
        } else if beside.is_none() {
            self.parts(of, native.sum, native.count(), to);
            let bucket = Sample { name: format!("{}_bucket", self.name), ..of.clone() };
            let count = native.count();
            to.in_lines.push(InLines { bucket, native: Some(native.clone()), count });
        }
    }

    fn histogram(&self, of: &Sample) -> Histogram {
        Histogram {
            name: self.name.clone(),
            labels: of.labels.clone(),
            timestamp_ms: of.timestamp_ms,
            created_ms: of.created_ms,
            is_gauge: self.kind == Kind::GaugeHistogram,
            ..Histogram::default()
        }
    }

    fn observed(
        &self,
        of: &Sample,
        bounds: Option<&[f64]>,
        values: &[(f64, Option<u8>)],
        to: &mut Expected,
    ) {
        let sum = values.iter().fold(0.0, |sum, (value, _)| sum + value);
        let sum = if f64::is_nan(sum) { f64::NAN } else { sum };
        let count = values.len() as u64;
        let Some(bounds) = bounds else {
            if self.case.format == Format::Protobuf {
                to.observed.push((self.name.clone(), of.labels.clone(), count));
                let mut places: BTreeMap<u64, Exemplar> = BTreeMap::new();
                for (value, trace) in values {
                    let place = (value.abs().to_bits() >> 52) % 8;
                    trace.map(|trace| places.insert(place, traced(*value, trace)));
                }
                let exemplars = places.into_values().collect();
                let sum = sum.to_bits();
                to.exposition.histograms.push(Histogram {
                    count,
                    sum,
                    exemplars,
                    ..self.histogram(of)
                });
            } else {
                self.parts(of, sum, count, to);
                let bucket = Sample { name: format!("{}_bucket", self.name), ..of.clone() };
                to.in_lines.push(InLines { bucket, native: None, count });
            }
            return;
        };
        let finite: Vec<f64> = bounds.iter().copied().filter(|bound| bound.is_finite()).collect();
        let mut counts = vec![(0, None); finite.len() + 1];
        for (value, trace) in values {
            let place = finite.iter().position(|bound| value <= bound).unwrap_or(finite.len());
            counts[place].0 += 1;
            if let Some(trace) = trace {
                counts[place].1 = Some(traced(*value, *trace));
            }
        }
        self.buckets(of, &finite, counts.into_iter(), sum, to);
    }
}

/// Its time is the clock's.
fn traced(value: f64, trace: u8) -> Exemplar {
    let labels = vec![
        ("span_id".to_owned(), format!("{trace:02x}").repeat(8)),
        ("trace_id".to_owned(), format!("{trace:02x}").repeat(16)),
    ];
    Exemplar { labels, value: value.to_bits(), timestamp_ms: None }
}

fn side((first, counts): &(i32, Vec<u64>)) -> Vec<(i64, u64)> {
    let buckets = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    buckets.map(|(place, count)| (i64::from(*first) + place as i64, *count)).collect()
}

/// A bound or a quantile as a label's value: as OpenMetrics spells it, whatever the format. Go's readers
/// spell it themselves, so that the digits are compared with theirs.
pub fn number(value: f64) -> String {
    wire::number::Buffer::new().openmetrics(value).to_owned()
}

/// A name as the scheme spells it.
fn spell(name: &str, escaping: Escaping, has_colon: bool) -> String {
    let is_legal = |place: usize, c: char| {
        c.is_ascii_alphabetic()
            || c == '_'
            || (c == ':' && has_colon)
            || (place > 0 && c.is_ascii_digit())
    };
    let is_legacy = name.chars().enumerate().all(|(place, c)| is_legal(place, c));
    if is_legacy || escaping == Escaping::AllowUtf8 {
        return name.to_owned();
    }
    let spelt = name.chars().enumerate().map(|(place, c)| match (escaping, c) {
        (Escaping::Dots | Escaping::Values, '_') => "__".to_owned(),
        _ if is_legal(place, c) => c.to_string(),
        (Escaping::Dots, '.') => "_dot_".to_owned(),
        (Escaping::Dots, _) => "__".to_owned(),
        (Escaping::Values, c) => format!("_{:x}_", u32::from(c)),
        _ => "_".to_owned(),
    });
    let spelt: String = spelt.collect();
    if escaping == Escaping::Values { format!("U__{spelt}") } else { spelt }
}

/// Labels as the scheme spells them: those that come out the same are one, with all values in the order of
/// their names.
fn joined(labels: impl Iterator<Item = (String, String)>, escaping: Escaping) -> Pairs {
    let mut labels: Vec<_> = labels.collect();
    labels.sort();
    let mut joined: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in labels {
        let mut spelt = spell(&name, escaping, false);
        if spelt == "__name__" {
            spelt.insert(0, '_');
        }
        let known = joined.entry(spelt);
        known
            .and_modify(|known| *known = format!("{known};{value}"))
            .or_insert_with(|| value.clone());
    }
    joined.into_iter().collect()
}

impl Expected {
    /// Takes from our own reading what can't be known beforehand, and tells what is wrong with it.
    pub fn complete(&mut self, ours: &Exposition) -> Vec<String> {
        let mut wrong = Vec::new();
        for of in &self.in_lines {
            let is_it = |sample: &&Sample| {
                let own = sample.labels.iter().filter(|(name, _)| name != "le");
                is_same_name(&sample.name, &of.bucket.name) && is_same(own, &of.bucket.labels)
            };
            let read: Vec<&Sample> = ours.samples.iter().filter(is_it).collect();
            if let Err(reason) = of.check(&read) {
                wrong.push(format!("{} of native buckets: {reason}", of.bucket.name));
            }
            self.exposition.samples.extend(read.into_iter().map(|read| Sample {
                timestamp_ms: of.bucket.timestamp_ms,
                created_ms: of.bucket.created_ms,
                exemplars: Vec::new(),
                ..read.clone()
            }));
        }
        self.adopt_native(ours, &mut wrong);
        self.adopt_times(ours, &mut wrong);
        self.exposition = std::mem::take(&mut self.exposition).sort();
        wrong
    }

    fn adopt_native(&mut self, ours: &Exposition, wrong: &mut Vec<String>) {
        for (name, labels, count) in &self.observed {
            let is_it =
                |of: &&Histogram| is_same_name(&of.name, name) && is_same(&of.labels, labels);
            let Some(read) = ours.histograms.iter().find(is_it) else { continue };
            let held =
                read.positive.iter().chain(&read.negative).map(|(_, count)| count).sum::<u64>();
            if read.count != *count || held + read.zero_count > *count {
                wrong
                    .push(format!("{name} counts {}, its buckets {held}, not {count}", read.count));
            }
            let histograms = &mut self.exposition.histograms;
            let Some(known) = histograms.iter_mut().find(|known| is_it(&&**known)) else {
                continue;
            };
            known.schema = read.schema;
            known.zero_threshold = read.zero_threshold;
            known.zero_count = read.zero_count;
            known.positive.clone_from(&read.positive);
            known.negative.clone_from(&read.negative);
        }
    }

    fn adopt_times(&mut self, ours: &Exposition, wrong: &mut Vec<String>) {
        for sample in &mut self.exposition.samples {
            let read = ours.samples.iter().find(|read| {
                is_same_name(&read.name, &sample.name) && is_same(&read.labels, &sample.labels)
            });
            let Some(read) = read else { continue };
            for (known, read) in sample.exemplars.iter_mut().zip(&read.exemplars) {
                adopt_exemplar(known, read);
            }
            if is_clocked(&self.clocked, &sample.name, &sample.labels) {
                sample.created_ms = read.created_ms;
                check_clock(read.created_ms, &sample.name, wrong);
            }
            adopt_nan(&mut sample.value, read.value);
        }
        for histogram in &mut self.exposition.histograms {
            let is_it = |read: &&Histogram| {
                is_same_name(&read.name, &histogram.name)
                    && is_same(&read.labels, &histogram.labels)
            };
            let Some(read) = ours.histograms.iter().find(is_it) else { continue };
            for (known, read) in histogram.exemplars.iter_mut().zip(&read.exemplars) {
                adopt_exemplar(known, read);
            }
            if is_clocked(&self.clocked, &histogram.name, &histogram.labels) {
                histogram.created_ms = read.created_ms;
                check_clock(read.created_ms, &histogram.name, wrong);
            }
            adopt_nan(&mut histogram.sum, read.sum);
        }
    }
}

/// Whether the beginning of a sample was the clock's.
fn is_clocked(clocked: &[(String, Pairs)], name: &str, labels: &Pairs) -> bool {
    let suffixes = ["_bucket", "_sum", "_count"];
    let base = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
    clocked.iter().any(|(known, of)| {
        let own = labels.iter().filter(|(name, _)| name != "le");
        (known == name || known == base) && (is_same(labels, of) || is_same(own, of))
    })
}

/// Whether two names are the same but for NULs, which lines have no place for.
fn is_same_name(a: &str, b: &str) -> bool {
    without_nul(a) == without_nul(b)
}

fn without_nul(name: &str) -> String {
    name.replace('\0', "\u{fffd}")
}

/// The same of labels' names.
fn is_same<'p>(a: impl IntoIterator<Item = &'p (String, String)>, b: &'p Pairs) -> bool {
    let all = |labels: &mut dyn Iterator<Item = &'p (String, String)>| {
        let mut all: Vec<_> = labels.map(|(name, value)| (without_nul(name), value)).collect();
        all.sort();
        all
    };
    all(&mut a.into_iter()) == all(&mut b.iter())
}

/// A trace's time is the clock's.
fn adopt_exemplar(known: &mut Exemplar, read: &Exemplar) {
    if known.labels.iter().any(|(name, _)| name == "trace_id") {
        known.timestamp_ms = known.timestamp_ms.or(read.timestamp_ms);
    }
}

/// What is no number and was computed has the bits that the processor gives it.
fn adopt_nan(known: &mut u64, read: u64) {
    if f64::from_bits(*known).is_nan()
        && f64::from_bits(read).is_nan()
        && *known == f64::NAN.to_bits()
    {
        *known = read;
    }
}

fn check_clock(created_ms: Option<i64>, name: &str, wrong: &mut Vec<String>) {
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let age = created_ms.map(|created_ms| now.as_millis() as i64 - created_ms);
    if !age.is_some_and(|age| (-1_000..3_600_000).contains(&age)) {
        wrong.push(format!("{name} began at {created_ms:?}, not lately"));
    }
}

impl InLines {
    /// Whether buckets that were read hold what the native ones do.
    fn check(&self, read: &[&Sample]) -> Result<(), String> {
        let mut before = (f64::NEG_INFINITY, 0.0);
        let mut buckets = Vec::new();
        for sample in read {
            let le = sample.labels.iter().find(|(name, _)| name == "le");
            let bound =
                le.and_then(|(_, le)| le.parse::<f64>().ok()).ok_or("a bucket without a bound")?;
            buckets.push((bound, f64::from_bits(sample.value)));
        }
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (bound, count) in buckets {
            if bound <= before.0 || count < before.1 {
                return Err(format!(
                    "{count} up to {bound} follows {} up to {}",
                    before.1, before.0
                ));
            }
            if let Some(expected) = self.native.as_ref().map(|native| up_to(native, bound))
                && bound.is_finite()
                && expected as f64 != count
            {
                return Err(format!("{count} up to {bound}, not {expected}"));
            }
            before = (bound, count);
        }
        if before != (f64::INFINITY, self.count as f64) {
            return Err(format!("ends with {} up to {}, not {}", before.1, before.0, self.count));
        }
        Ok(())
    }
}

/// How many observations of `native` are at most `bound`, which is the end of one of its buckets.
fn up_to(native: &Native, bound: f64) -> u64 {
    let base = (-f64::from(native.schema)).exp2();
    let ends = |index: i64| (index as f64 * base).exp2();
    // Bounds may differ in their last digits.
    let slack = bound.abs() * 1e-9;
    let above =
        side(&native.positive).into_iter().filter(|(index, _)| ends(*index) <= bound + slack);
    let below =
        side(&native.negative).into_iter().filter(|(index, _)| -ends(index - 1) <= bound + slack);
    let zero = if native.zero_threshold <= bound { native.zero_count } else { 0 };
    zero + above.chain(below).map(|(_, count)| count).sum::<u64>()
}
