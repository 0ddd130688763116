//! What a program measures: every name once, and all of it on request.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::{Mutex, RwLock};
use wire::exposition::Kind;
use wire::exposition::negotiate::Negotiated;
use wire::exposition::writer::{self, Buffer, Value};

use crate::collector::{Collector, FamilyWriter, Names, Samples};
use crate::error::{Error, ErrorKind};
use crate::family::Family;
use crate::instrument::{Counter, Gauge, Histogram, Instrument};

/// How many series a family has at most unless its [`Spec`] says otherwise.
const DEFAULT_LIMIT: usize = 10_000;

/// Scratch memory kept for the next scrapes; more at once allocate theirs and give it back.
const KEPT_SCRATCH: usize = 4;

/// A family's name, text, unit and limit.
#[derive(Clone, Copy, Debug)]
pub struct Spec<'a> {
    name: &'a str,
    help: &'a str,
    unit: &'a str,
    limit: usize,
}

impl<'a> Spec<'a> {
    /// A family of this name, with what HELP says about it.
    pub const fn new(name: &'a str, help: &'a str) -> Self {
        Spec { name, help, unit: "", limit: DEFAULT_LIMIT }
    }

    /// Counted in `unit`, which is the end of the name (before `_total`).
    #[must_use]
    pub const fn unit(self, unit: &'a str) -> Self {
        Spec { unit, ..self }
    }

    /// At most `limit` series, 10,000 without this; what comes beyond goes into one.
    #[must_use]
    pub const fn limit(self, limit: usize) -> Self {
        Spec { limit, ..self }
    }
}

impl<'a> From<(&'a str, &'a str)> for Spec<'a> {
    /// Name and help.
    fn from((name, help): (&'a str, &'a str)) -> Self {
        Spec::new(name, help)
    }
}

/// A [`Spec`] that was found good, and its kind.
#[derive(Clone, Debug)]
pub(crate) struct Described {
    name: String,
    help: String,
    unit: String,
    kind: Kind,
    labels: Vec<String>,
    pub(crate) limit: usize,
}

impl Described {
    pub(crate) fn family(&self) -> writer::Family<'_> {
        writer::Family {
            unit: &self.unit,
            ..writer::Family::new(&self.name, &self.help, self.kind)
        }
    }

    /// Without what OpenMetrics takes for the samples' suffix.
    fn base(&self) -> &str {
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            _ => return &self.name,
        };
        match self.name.strip_suffix(suffix) {
            Some("") | None => &self.name,
            Some(base) => base,
        }
    }

    /// Whether a body could not hold both: the same family in one of the formats, or one that has a
    /// series of the other's name.
    fn clashes_with(&self, other: &Described) -> bool {
        let has_series = |of: &Described, name: &str| {
            let suffixes: &[&str] = match of.kind {
                Kind::Histogram => &["_bucket", "_sum", "_count"],
                Kind::Summary => &["_sum", "_count"],
                _ => &[],
            };
            name.strip_prefix(of.name.as_str()).is_some_and(|rest| suffixes.contains(&rest))
        };
        self.name == other.name
            || self.base() == other.base()
            || has_series(self, &other.name)
            || has_series(other, &self.name)
    }
}

impl fmt::Display for Described {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels = self.labels.join(", ");
        write!(f, "the {} {}{{{labels}}} ({:?})", self.kind.name(), self.name, self.help)
    }
}

/// Something that writes itself into a body. The registry holds these in the order of registration.
type Source = Arc<dyn Collector>;

#[derive(Default)]
struct Sources {
    described: Vec<Described>,
    all: Vec<Source>,
}

/// Holds what is registered. Cloning gives another reference to the same registry.
#[derive(Clone, Default)]
pub struct Registry(Arc<Inner>);

#[derive(Default)]
struct Inner {
    sources: RwLock<Sources>,
    scratch: Mutex<Vec<Scratch>>,
    refused: AtomicU64,
}

/// What one scrape needs while it runs.
#[derive(Default)]
struct Scratch {
    buffer: Buffer,
    names: Names,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sources = self.0.sources.read();
        f.debug_struct("Registry").field("described", &sources.described).finish_non_exhaustive()
    }
}

impl Registry {
    /// An empty registry.
    pub fn new() -> Self {
        Registry::default()
    }

    /// Registers a counter.
    ///
    /// # Errors
    /// A bad name or label, or a name that is taken.
    pub fn counter<'a, const N: usize>(
        &self,
        spec: impl Into<Spec<'a>>,
        labels: [&str; N],
    ) -> Result<Family<Counter, N>, Error> {
        self.register(spec.into(), labels, ())
    }

    /// Registers a gauge.
    ///
    /// # Errors
    /// A bad name or label, or a name that is taken.
    pub fn gauge<'a, const N: usize>(
        &self,
        spec: impl Into<Spec<'a>>,
        labels: [&str; N],
    ) -> Result<Family<Gauge, N>, Error> {
        self.register(spec.into(), labels, ())
    }

    /// Registers a histogram with these upper bounds; `+Inf` is added.
    ///
    /// # Errors
    /// A bad name or label, a name that is taken, bounds that don't rise.
    pub fn histogram<'a, const N: usize>(
        &self,
        spec: impl Into<Spec<'a>>,
        labels: [&str; N],
        bounds: &[f64],
    ) -> Result<Family<Histogram, N>, Error> {
        let spec = spec.into();
        let bounds = match bounds {
            [rest @ .., last] if *last == f64::INFINITY => rest,
            all => all,
        };
        if !bounds.iter().all(|bound| bound.is_finite()) {
            return Err(Error::new(spec.name, ErrorKind::Bounds("have to be finite")));
        }
        if !bounds.is_sorted_by(|a, b| a < b) {
            return Err(Error::new(spec.name, ErrorKind::Bounds("have to rise")));
        }
        self.register(spec, labels, Arc::from(bounds))
    }

    /// Registers a counter or gauge whose values are asked for when they are written: `observe` gives
    /// all of them, each set of label values once.
    ///
    /// # Errors
    /// A bad name or label, a name that is taken, a kind that has more than one value.
    pub fn observe<'a, const N: usize>(
        &self,
        spec: impl Into<Spec<'a>>,
        kind: Kind,
        labels: [&'static str; N],
        observe: impl Fn(&mut Observer<'_, '_, N>) + Send + Sync + 'static,
    ) -> Result<(), Error> {
        let spec = spec.into();
        if matches!(kind, Kind::Histogram | Kind::GaugeHistogram | Kind::Summary) {
            let reason = "belongs to a kind that has several series: write it from a collector";
            return Err(Error::new(spec.name, ErrorKind::Name(reason)));
        }
        let described = describe(&spec, kind, &labels)?;
        let observable = Observable { described: described.clone(), labels, observe };
        self.add(described, Arc::new(observable))
    }

    /// Has `collector` write its families after those registered so far.
    pub fn collect(&self, collector: impl Collector + 'static) {
        self.0.sources.write().all.push(Arc::new(collector));
    }

    fn register<I: Instrument, const N: usize>(
        &self,
        spec: Spec<'_>,
        labels: [&str; N],
        shape: I::Shape,
    ) -> Result<Family<I, N>, Error> {
        let described = describe(&spec, I::KIND, &labels)?;
        let family = Family::new(described.clone(), labels, shape);
        self.add(described, Arc::new(Registered(family.clone())))?;
        Ok(family)
    }

    fn add(&self, described: Described, source: Source) -> Result<(), Error> {
        let mut sources = self.0.sources.write();
        if let Some(other) = sources.described.iter().find(|other| other.clashes_with(&described)) {
            let taken = ErrorKind::Taken(other.to_string());
            return Err(Error::new(described.to_string(), taken));
        }
        sources.described.push(described);
        sources.all.push(source);
        Ok(())
    }

    /// Writes everything: `fold` takes each chunk of at most 64 KiB with the state so far and gives the
    /// next. *Steady* once as many have written at the same time before.
    pub fn write<S>(&self, negotiated: Negotiated, state: S, fold: impl FnMut(S, &[u8]) -> S) -> S {
        let mut scratch = self.0.scratch.lock().pop().unwrap_or_default();
        let Scratch { buffer, names } = &mut scratch;
        let state = writer::fold(buffer, negotiated, state, fold, |out| {
            self.write_sources(&mut FamilyWriter::new(out, names));
        });
        let mut kept = self.0.scratch.lock();
        if kept.len() < KEPT_SCRATCH {
            kept.push(scratch);
        }
        state
    }

    fn write_sources(&self, out: &mut FamilyWriter<'_, '_>) {
        for index in 0.. {
            // Registering waits for nobody's sink.
            let Some(source) = self.0.sources.read().all.get(index).cloned() else { break };
            source.collect(out);
        }
        let refused = out.refused();
        let ever = self.0.refused.fetch_add(refused, Relaxed) + refused;
        if ever > 0 {
            out.counter(
                "unladen_families_refused_total",
                "Families that a collector wrote without a name or under the name of another.",
            )
            .sample(&[], ever);
        }
    }

    /// For tests of a program: writes everything and reads it again, and tells each family that came
    /// twice or without a name, each series that came twice, and each line that can't be read.
    pub fn check(&self) -> Vec<String> {
        crate::check::check(|negotiated| {
            self.write(negotiated, Vec::new(), |mut body, chunk| {
                body.extend_from_slice(chunk);
                body
            })
        })
    }
}

/// Takes the values of an observable family.
pub struct Observer<'o, 's, const N: usize> {
    labels: &'o [&'static str; N],
    samples: Samples<'o, 's>,
}

impl<const N: usize> Observer<'_, '_, N> {
    /// The value of the series with these label values now.
    pub fn record(&mut self, values: [&str; N], value: impl Into<Value>) {
        let mut pairs = [("", ""); N];
        for (pair, (name, value)) in pairs.iter_mut().zip(self.labels.iter().zip(values)) {
            *pair = (name, value);
        }
        self.samples.sample(&pairs, value);
    }
}

struct Registered<I: Instrument, const N: usize>(Family<I, N>);

impl<I: Instrument, const N: usize> Collector for Registered<I, N> {
    fn collect(&self, out: &mut FamilyWriter<'_, '_>) {
        self.0.write(out);
    }
}

struct Observable<F, const N: usize> {
    described: Described,
    labels: [&'static str; N],
    observe: F,
}

impl<F, const N: usize> Collector for Observable<F, N>
where
    F: Fn(&mut Observer<'_, '_, N>) + Send + Sync,
{
    fn collect(&self, out: &mut FamilyWriter<'_, '_>) {
        let samples = out.family(&self.described.family());
        (self.observe)(&mut Observer { labels: &self.labels, samples });
    }
}

fn describe(spec: &Spec<'_>, kind: Kind, labels: &[&str]) -> Result<Described, Error> {
    let wrong = |kind| Err(Error::new(spec.name, kind));
    if spec.name.is_empty() {
        return wrong(ErrorKind::Name("is empty"));
    }
    if spec.name.contains(char::is_control) {
        return wrong(ErrorKind::Name("has a control character in it"));
    }
    for (index, label) in labels.iter().enumerate() {
        let reason = match *label {
            "" => "is empty",
            _ if label.starts_with("__") => "begins with __, which Prometheus keeps for itself",
            "le" if kind == Kind::Histogram => "is a histogram's own",
            "quantile" if kind == Kind::Summary => "is a summary's own",
            _ if label.contains(char::is_control) => "has a control character in it",
            _ if labels[..index].contains(label) => "stands twice",
            _ => continue,
        };
        return wrong(ErrorKind::Label((*label).to_owned(), reason));
    }
    let described = Described {
        name: spec.name.to_owned(),
        help: spec.help.to_owned(),
        unit: spec.unit.to_owned(),
        kind,
        labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        limit: spec.limit,
    };
    let ends_in_unit = described
        .base()
        .strip_suffix(spec.unit)
        .is_some_and(|rest| rest.ends_with('_') && rest.len() > 1);
    if !spec.unit.is_empty() && !ends_in_unit {
        return wrong(ErrorKind::Unit(spec.unit.to_owned()));
    }
    Ok(described)
}
