//! A case, through a registry: families with handles, callbacks and collectors, in scopes.

use unladen::{
    Buckets, Collector, Counter, Error, Family, FamilyWriter, Gauge, Histogram, Info, Instrument,
    Kind, Negotiated, Number, OpenFamily, Registry, Resource, Role, Scope, Scoped, Spec, Trace,
    UpDownCounter,
};
use wire::exposition::writer::Value;

use crate::draw::Pairs;
use crate::model::{self, Case, Series, SeriesValue, Via};
use crate::write::{self, borrowed};

/// The case as a registry writes it, twice: a second scrape uses the memory of the first.
///
/// # Errors
/// What the registry refuses.
pub fn body(case: &Case) -> Result<Vec<u8>, Error> {
    let registry = registry(case)?;
    let negotiated = Negotiated { format: case.format, escaping: case.escaping };
    let scrape = || {
        registry.write(negotiated, Vec::new(), |mut body, chunk: &[u8]| {
            body.extend_from_slice(chunk);
            body
        })
    };
    scrape();
    Ok(scrape())
}

/// A registry that has the case's families.
///
/// # Errors
/// What it refuses.
pub fn registry(case: &Case) -> Result<Registry, Error> {
    let attributes = case.resource.iter().flatten();
    let resource = attributes.fold(Resource::new(), |all, (name, value)| all.with(name, value));
    let registry = Registry::builder().resource(resource).created_lines(case.created_lines).build();
    for family in &case.families {
        register(&registry, family)?;
    }
    Ok(registry)
}

struct Collected(model::Family);

impl Collector for Collected {
    fn collect(&self, out: &mut FamilyWriter<'_, '_>) {
        let mut samples = out.family(&write::head(&self.0));
        self.0.series.iter().for_each(|series| write::write(series, &mut samples));
    }
}

fn register(registry: &Registry, family: &model::Family) -> Result<(), Error> {
    let spec = Spec::new(&family.name, &family.help).unit(&family.unit);
    let scoped = registry.scope(scope(&family.common));
    match family.via {
        Via::Collector => registry.collect(Collected(family.clone())),
        Via::Callback { is_open: true } => {
            let role = if family.kind == Kind::Counter { Role::Counter } else { Role::Gauge };
            let all = family.series.clone();
            scoped.observe_open(spec, role, move |out| {
                for series in &all {
                    out.observe(observed(series), &borrowed(&series.labels));
                }
            })?;
        }
        Via::Callback { is_open: false } => {
            let count = family.series.first().map_or(0, |series| series.labels.len());
            match count {
                0 => observe::<0>(&scoped, spec, family)?,
                1 => observe::<1>(&scoped, spec, family)?,
                2 => observe::<2>(&scoped, spec, family)?,
                _ => observe::<3>(&scoped, spec, family)?,
            }
        }
        Via::Handles { is_open } => handles(&scoped, spec, family, is_open)?,
    }
    Ok(())
}

/// The scope that has these labels.
fn scope(common: &Pairs) -> Scope {
    common.iter().fold(Scope::default(), |scope, (name, value)| {
        match name.strip_prefix("otel_scope_").unwrap_or(name) {
            "name" => Scope::new(value),
            "version" => scope.with_version(value),
            name => scope.with(name, value),
        }
    })
}

fn observed(series: &Series) -> Number {
    match series.value {
        SeriesValue::Number(Value::Count(count), _) => count.into(),
        SeriesValue::Number(Value::Integer(integer), _) => integer.into(),
        SeriesValue::Number(Value::Float(value), _) => value.into(),
        _ => 0u64.into(),
    }
}

fn names<const N: usize>(family: &model::Family) -> [&str; N] {
    let labels = family.series.first().map(|series| borrowed(&series.labels)).unwrap_or_default();
    std::array::from_fn(|at| labels.get(at).map_or("", |(name, _)| name))
}

fn values<const N: usize>(series: &Series) -> [&str; N] {
    std::array::from_fn(|at| series.labels.get(at).map_or("", |(_, value)| value.as_str()))
}

fn observe<const N: usize>(
    scoped: &Scoped,
    spec: Spec<'_>,
    family: &model::Family,
) -> Result<(), Error> {
    let all = family.series.clone();
    scoped.observe(spec, family.kind, names::<N>(family), move |out| {
        for series in &all {
            out.record(values::<N>(series), observed(series));
        }
    })
}

/// Tells each series of a family its value.
macro_rules! each {
    ($scoped:expr, $spec:expr, $family:expr, $is_open:expr, $typed:ident, $open:ident $(, $more:expr)?; $tell:expr) => {{
        if $is_open {
            let family = $scoped.$open($spec $(, $more)?)?;
            for series in &$family.series {
                $tell(with_open(&family, series), series);
            }
        } else {
            match $family.series.first().map_or(0, |series| series.labels.len()) {
                0 => each!(typed $scoped, $spec, $family, $typed, 0 $(, $more)?; $tell),
                1 => each!(typed $scoped, $spec, $family, $typed, 1 $(, $more)?; $tell),
                2 => each!(typed $scoped, $spec, $family, $typed, 2 $(, $more)?; $tell),
                _ => each!(typed $scoped, $spec, $family, $typed, 3 $(, $more)?; $tell),
            }
        }
    }};
    (typed $scoped:expr, $spec:expr, $family:expr, $typed:ident, $n:literal $(, $more:expr)?; $tell:expr) => {{
        let family = $scoped.$typed($spec, names::<$n>($family) $(, $more)?)?;
        for series in &$family.series {
            $tell(with_typed(&family, series), series);
        }
    }};
}

fn with_open<I: Instrument>(family: &OpenFamily<I>, series: &Series) -> I {
    family.with(&borrowed(&series.labels))
}

fn with_typed<I: Instrument, const N: usize>(family: &Family<I, N>, series: &Series) -> I {
    family.with(values::<N>(series))
}

fn handles(
    scoped: &Scoped,
    spec: Spec<'_>,
    family: &model::Family,
    is_open: bool,
) -> Result<(), Error> {
    let is_whole = family
        .series
        .iter()
        .all(|series| !matches!(series.value, SeriesValue::Number(Value::Float(_), _)));
    match family.kind {
        Kind::Counter if is_whole => {
            let tell = |handle: Counter<u64>, series: &Series| match observed(series) {
                Number::Unsigned(count) => handle.add(count),
                _ => unreachable!("whole counters are drawn as counts"),
            };
            each!(scoped, spec, family, is_open, counter, open_counter; tell);
        }
        Kind::Counter => {
            let tell =
                |handle: Counter<f64>, series: &Series| handle.add(observed(series).as_f64());
            each!(scoped, spec, family, is_open, float_counter, open_float_counter; tell);
        }
        Kind::Gauge if is_whole && !family.help.is_empty() => {
            let tell = |handle: Gauge<i64>, series: &Series| handle.set(integer(series));
            each!(scoped, spec, family, is_open, integer_gauge, open_integer_gauge; tell);
        }
        Kind::Gauge if is_whole => {
            let tell = |handle: UpDownCounter<i64>, series: &Series| handle.add(integer(series));
            each!(scoped, spec, family, is_open, up_down_counter, open_up_down_counter; tell);
        }
        Kind::Gauge => {
            let tell = |handle: Gauge<f64>, series: &Series| handle.set(observed(series).as_f64());
            each!(scoped, spec, family, is_open, gauge, open_gauge; tell);
        }
        Kind::Info => {
            let tell = |_: Info, _: &Series| {};
            each!(scoped, spec, family, is_open, info, open_info; tell);
        }
        Kind::Histogram => {
            let bounds = family.series.iter().find_map(|series| match &series.value {
                SeriesValue::Observed(bounds, _) => Some(bounds.clone()),
                _ => None,
            });
            let buckets = bounds.flatten().map_or_else(Buckets::native, Buckets::explicit);
            each!(scoped, spec, family, is_open, histogram, open_histogram, buckets.clone(); record);
        }
        Kind::StateSet => return state_set(scoped, spec, family),
        Kind::GaugeHistogram | Kind::Summary | Kind::Unknown => {
            unreachable!("no handles are drawn for these")
        }
    }
    Ok(())
}

fn integer(series: &Series) -> i64 {
    match observed(series) {
        Number::Signed(value) => value,
        other => other.as_f64() as i64,
    }
}

fn record(handle: Histogram, series: &Series) {
    let SeriesValue::Observed(_, values) = &series.value else { return };
    for (value, trace) in values {
        match trace {
            Some(byte) => {
                let trace = Trace { trace_id: [*byte; 16], span_id: [*byte; 8] };
                handle.record_traced(*value, &trace);
            }
            None => handle.record(*value),
        }
    }
}

fn state_set(scoped: &Scoped, spec: Spec<'_>, family: &model::Family) -> Result<(), Error> {
    match family.series.first().map_or(0, |series| series.labels.len()) {
        0 | 1 => states::<0>(scoped, spec, family),
        2 => states::<1>(scoped, spec, family),
        3 => states::<2>(scoped, spec, family),
        _ => states::<3>(scoped, spec, family),
    }
}

/// The label behind `N` others is the state.
fn states<const N: usize>(
    scoped: &Scoped,
    spec: Spec<'_>,
    family: &model::Family,
) -> Result<(), Error> {
    let Some(first) = family.series.first() else { return Ok(()) };
    let states: Vec<&str> = family
        .series
        .iter()
        .filter_map(|series| series.labels.last().map(|(_, state)| state.as_str()))
        .collect();
    let sets = scoped.state_set(spec, names::<N>(family), &states)?;
    let set = sets.with(values::<N>(first));
    for (state, series) in family.series.iter().enumerate() {
        set.set(state, observed(series).as_f64() > 0.0);
    }
    Ok(())
}
