//! Families as data: made up at random, written by the writer, and compared with what readers read.

use proptest::prelude::*;
use wire::exposition::Kind;
use wire::exposition::name::Escaping;
use wire::exposition::negotiate::Negotiated;
use wire::exposition::writer::{
    Bucket, Buckets, Buffer, Exemplar, Extra, Family, LabelSet, Native, StoredLabels, Summary,
    Value, Writer, dense, to_io,
};

/// Names and values of labels.
pub(crate) type Pairs = Vec<(String, String)>;

/// A family and its metrics.
#[derive(Clone, Debug)]
pub(crate) struct FamilyModel {
    pub(crate) name: String,
    pub(crate) help: String,
    pub(crate) kind: Kind,
    pub(crate) common: Pairs,
    pub(crate) metrics: Vec<MetricModel>,
}

#[derive(Clone, Debug)]
pub(crate) struct MetricModel {
    pub(crate) labels: Pairs,
    pub(crate) stored: bool,
    pub(crate) timestamp_ms: Option<i64>,
    pub(crate) created_ms: Option<i64>,
    pub(crate) value: ValueModel,
}

#[derive(Clone, Debug)]
pub(crate) enum ValueModel {
    Number(f64, Option<ExemplarModel>),
    /// Bounds, one more count, and the sum.
    Buckets(Vec<f64>, Vec<(u64, Option<ExemplarModel>)>, f64),
    Native(NativeModel),
    /// Quantiles, the sum and the count.
    Summary(Vec<(f64, f64)>, f64, u64),
}

#[derive(Clone, Debug)]
pub(crate) struct NativeModel {
    pub(crate) schema: i8,
    pub(crate) zero_threshold: f64,
    pub(crate) zero_count: u64,
    pub(crate) positive: (i32, Vec<u64>),
    pub(crate) negative: (i32, Vec<u64>),
    pub(crate) sum: f64,
    pub(crate) exemplars: Vec<ExemplarModel>,
    /// Explicit bounds beside, each with a count.
    pub(crate) beside: Option<Vec<(f64, u64)>>,
}

impl NativeModel {
    /// How many observations the buckets hold.
    pub(crate) fn count(&self) -> u64 {
        let side = |side: &(i32, Vec<u64>)| side.1.iter().sum::<u64>();
        self.zero_count + side(&self.positive) + side(&self.negative)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExemplarModel {
    pub(crate) labels: Pairs,
    pub(crate) value: f64,
    pub(crate) timestamp_ms: Option<i64>,
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z \"\\\\\n\r{},=#]{0,8}",
        "\\PC{0,8}",
        "[\u{0}\u{2028}\u{feff}😀é\t]{0,4}",
        "[a-z]{100,200}",
    ]
}

fn pairs(prefix: &'static str) -> impl Strategy<Value = Pairs> {
    let name = prop_oneof!["[a-zA-Z_][a-zA-Z0-9_]{0,5}", "[a-z.\"\\\\ :é😀]{1,6}"];
    prop::collection::btree_map(name, text(), 0..6)
        .prop_map(move |map| map.into_iter().map(|(n, v)| (format!("{prefix}{n}"), v)).collect())
}

fn timestamp() -> impl Strategy<Value = Option<i64>> {
    proptest::option::of(0..4_000_000_000_000i64)
}

fn exemplar() -> impl Strategy<Value = ExemplarModel> {
    (pairs("x"), -1e9..1e9f64, timestamp())
        .prop_map(|(labels, value, timestamp_ms)| ExemplarModel { labels, value, timestamp_ms })
}

fn count() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0..3u64, 0..1u64 << 40]
}

fn bounds() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::btree_set(-1000..1000i32, 0..8)
        .prop_map(|set| set.into_iter().map(|bound| f64::from(bound) / 8.0).collect())
}

fn side() -> impl Strategy<Value = (i32, Vec<u64>)> {
    (-40..40i32, prop::collection::vec(count(), 0..12))
}

fn native() -> impl Strategy<Value = NativeModel> {
    let beside = proptest::option::of(bounds().prop_flat_map(|bounds| {
        let counts = prop::collection::vec(count(), bounds.len() + 1);
        counts.prop_map(move |counts| bounds.iter().copied().zip(counts).collect::<Vec<_>>())
    }));
    let zero = (prop_oneof![Just(0.0), Just(1e-9)], count());
    (-4..=8i8, zero, side(), side(), any::<f64>(), prop::collection::vec(exemplar(), 0..3), beside)
        .prop_map(|(schema, zero, positive, negative, sum, exemplars, beside)| NativeModel {
            schema,
            zero_threshold: zero.0,
            zero_count: zero.1,
            positive,
            negative,
            sum,
            exemplars,
            beside,
        })
}

fn value(kind: Kind) -> BoxedStrategy<ValueModel> {
    let option = proptest::option::of(exemplar());
    match kind {
        Kind::Histogram | Kind::GaugeHistogram => {
            let buckets = (bounds(), any::<f64>()).prop_flat_map(|(bounds, sum)| {
                let count = (count(), proptest::option::of(exemplar()));
                prop::collection::vec(count, bounds.len() + 1)
                    .prop_map(move |counts| ValueModel::Buckets(bounds.clone(), counts, sum))
            });
            prop_oneof![buckets, native().prop_map(ValueModel::Native)].boxed()
        }
        Kind::Summary => {
            let quantiles = prop::collection::vec((0.0..1.0f64, any::<f64>()), 0..4);
            (quantiles, any::<f64>(), count())
                .prop_map(|(quantiles, sum, count)| ValueModel::Summary(quantiles, sum, count))
                .boxed()
        }
        _ => {
            let whole = any::<i64>().prop_map(|integer| integer as f64);
            let small = (-2_000_000..2_000_000i32).prop_map(f64::from);
            (prop_oneof![any::<f64>(), whole, small], option)
                .prop_map(|(value, exemplar)| ValueModel::Number(value, exemplar))
                .boxed()
        }
    }
}

fn metric(kind: Kind) -> impl Strategy<Value = MetricModel> {
    (pairs("m"), any::<bool>(), timestamp(), timestamp(), value(kind)).prop_map(
        |(labels, stored, timestamp_ms, created_ms, value)| MetricModel {
            labels,
            stored,
            timestamp_ms,
            created_ms,
            value,
        },
    )
}

/// A family of any kind, with names and texts of all sorts.
pub(crate) fn family() -> impl Strategy<Value = FamilyModel> {
    let kind = prop_oneof![
        Just(Kind::Counter),
        Just(Kind::Gauge),
        Just(Kind::Unknown),
        Just(Kind::Summary),
        Just(Kind::Histogram),
        Just(Kind::GaugeHistogram),
    ];
    let name = prop_oneof!["[a-zA-Z_:][a-zA-Z0-9_:]{0,8}", "[a-z.\"\\\\ é😀\n]{1,8}"];
    (name, text(), kind, pairs("c")).prop_flat_map(|(name, help, kind, common)| {
        prop::collection::vec(metric(kind), 0..5).prop_map(move |metrics| FamilyModel {
            // Their endings tell the kinds of series apart, so that a name has none of them.
            name: if kind == Kind::Counter { format!("{name}_total") } else { format!("{name}x") },
            help: help.clone(),
            kind,
            common: common.clone(),
            metrics,
        })
    })
}

pub(crate) fn borrowed(pairs: &Pairs) -> Vec<(&str, &str)> {
    pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

/// `families` as a body, with `_created` lines.
pub(crate) fn body(families: &[FamilyModel], negotiated: Negotiated) -> Vec<u8> {
    let mut body = Vec::new();
    to_io(&mut Buffer::new(), negotiated, &mut body, |out| {
        out.set_created_lines(true);
        for family in families {
            write_family(family, out);
        }
    })
    .unwrap();
    body
}

/// The names as they are.
pub(crate) fn as_they_are(format: wire::exposition::Format) -> Negotiated {
    Negotiated { format, escaping: Escaping::AllowUtf8 }
}

fn write_family(family: &FamilyModel, out: &mut Writer<'_>) {
    let common = StoredLabels::new(borrowed(&family.common));
    out.family(&Family {
        common: common.borrow(),
        ..Family::new(&family.name, &family.help, family.kind)
    });
    for metric in &family.metrics {
        write_metric(metric, out);
    }
}

fn write_metric(metric: &MetricModel, out: &mut Writer<'_>) {
    let pairs = borrowed(&metric.labels);
    let stored = StoredLabels::new(pairs.iter().copied());
    let labels = if metric.stored { LabelSet::from(&stored) } else { LabelSet::Pairs(&pairs) };
    let (timestamp_ms, created_ms) = (metric.timestamp_ms, metric.created_ms);
    match &metric.value {
        ValueModel::Number(value, exemplar) => with_exemplars(exemplar.as_slice(), |exemplars| {
            let exemplar = exemplars.first().copied();
            out.number(labels, Value::Float(*value), &Extra { timestamp_ms, created_ms, exemplar });
        }),
        ValueModel::Buckets(bounds, counts, sum) => {
            let all: Vec<_> = counts.iter().filter_map(|(_, exemplar)| exemplar.clone()).collect();
            with_exemplars(&all, |exemplars| {
                let mut exemplars = exemplars.iter().copied();
                let counts = counts.iter().map(|(count, exemplar)| Bucket {
                    count: *count,
                    exemplar: exemplar.as_ref().and_then(|_| exemplars.next()),
                });
                out.histogram(
                    labels,
                    Buckets { bounds, counts, sum: *sum, created_ms, timestamp_ms },
                );
            });
        }
        ValueModel::Native(model) => with_exemplars(&model.exemplars, |exemplars| {
            let native = Native {
                schema: model.schema,
                zero_threshold: model.zero_threshold,
                zero_count: model.zero_count,
                positive: dense(model.positive.0, &model.positive.1),
                negative: dense(model.negative.0, &model.negative.1),
                sum: model.sum,
                // Off by some, as counts that go on meanwhile may be.
                count: if model.sum.is_nan() { model.count() } else { model.count() + 1 },
                exemplars,
                created_ms,
                timestamp_ms,
            };
            match &model.beside {
                None => out.native_histogram(labels, &native),
                Some(beside) => {
                    let bounds: Vec<f64> = beside.iter().map(|(bound, _)| *bound).collect();
                    let counts = beside.iter().map(|(_, count)| *count);
                    let sum = model.sum;
                    let buckets =
                        Buckets { bounds: &bounds, counts, sum, created_ms, timestamp_ms };
                    out.native_histogram_beside(labels, &native, buckets);
                }
            }
        }),
        ValueModel::Summary(quantiles, sum, count) => out.summary(
            labels,
            &Summary { quantiles, sum: *sum, count: *count, created_ms, timestamp_ms },
        ),
    }
}

fn with_exemplars(models: &[ExemplarModel], write: impl FnOnce(&[Exemplar<'_>])) {
    let pairs: Vec<_> = models.iter().map(|model| borrowed(&model.labels)).collect();
    let exemplars: Vec<_> = models
        .iter()
        .zip(&pairs)
        .map(|(model, pairs)| Exemplar {
            labels: LabelSet::Pairs(pairs),
            value: model.value,
            timestamp_ms: model.timestamp_ms,
        })
        .collect();
    write(&exemplars);
}
