//! What a family is called and what it measures, checked once.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use wire::exposition::Kind;
use wire::exposition::writer;

use crate::attributes::fitting;
use crate::error::{Error, ErrorKind};
use crate::resource::Scope;
use crate::translate::Translation;
use crate::view::View;

/// How many series a family has at most unless its [`Spec`] says otherwise.
const DEFAULT_LIMIT: usize = 10_000;

/// Families that every registry writes by itself once there is something to tell.
pub(crate) const OWN: [&str; 4] = [
    "unladen_families_refused_total",
    "unladen_collectors_panicked_total",
    "unladen_callbacks_panicked_total",
    "unladen_callbacks_overdue_total",
];

/// What an instrument does with what it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Adds up what is not negative.
    Counter,
    /// Adds up what came and went.
    UpDownCounter,
    /// Keeps the last value.
    Gauge,
    /// Counts by buckets.
    Histogram,
}

impl Role {
    pub(crate) fn of(kind: Kind) -> Self {
        match kind {
            Kind::Counter => Role::Counter,
            Kind::Histogram | Kind::GaugeHistogram => Role::Histogram,
            _ => Role::Gauge,
        }
    }
}

/// A family's name, text, unit and bounds.
#[derive(Clone, Copy, Debug)]
pub struct Spec<'a> {
    pub(crate) name: &'a str,
    pub(crate) help: &'a str,
    pub(crate) unit: &'a str,
    pub(crate) limit: usize,
    pub(crate) idle: Option<Duration>,
}

impl<'a> Spec<'a> {
    /// A family of this name, with what HELP says about it.
    pub const fn new(name: &'a str, help: &'a str) -> Self {
        Spec { name, help, unit: "", limit: DEFAULT_LIMIT, idle: None }
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

    /// Series that were not used for `idle` (and up to a quarter more) go. A handle that is used again
    /// brings its series back, where it stood.
    #[must_use]
    pub const fn expire_after(self, idle: Duration) -> Self {
        Spec { idle: Some(idle), ..self }
    }
}

impl<'a> From<(&'a str, &'a str)> for Spec<'a> {
    /// Name and help.
    fn from((name, help): (&'a str, &'a str)) -> Self {
        Spec::new(name, help)
    }
}

/// What OTLP calls a family where an exposition can't.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Original {
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) translation: Translation,
    /// What keeps the exposition's name from being another family's; empty where nothing has to.
    pub(crate) apart: String,
}

impl Original {
    /// The name and unit in an exposition.
    pub(crate) fn translated(&self, role: Role) -> (String, String) {
        if self.apart.is_empty() {
            return self.translation.apply(&self.name, &self.unit, role);
        }
        self.translation.apply(&format!("{}_{}", self.name, self.apart), &self.unit, role)
    }
}

/// What is said about a family after it was registered.
#[derive(Clone, Debug)]
pub(crate) struct Later {
    pub(crate) help: String,
    /// As OTLP has it.
    pub(crate) unit: String,
}

/// A [`Spec`] that was found good, and what it is of.
#[derive(Clone, Debug)]
pub(crate) struct Described {
    pub(crate) name: String,
    pub(crate) help: String,
    pub(crate) unit: String,
    pub(crate) kind: Kind,
    pub(crate) role: Role,
    pub(crate) labels: Vec<String>,
    pub(crate) limit: usize,
    pub(crate) idle: Option<Duration>,
    pub(crate) scope: Arc<Scope>,
    pub(crate) original: Option<Original>,
    pub(crate) later: OnceLock<Later>,
    /// Whether names of labels are respelt even for who could read them.
    pub(crate) is_spelt_legacy: bool,
    /// The attributes that stay, where a view says so.
    pub(crate) keep: Option<Box<[String]>>,
    pub(crate) is_dropped: bool,
    /// Whether its histograms are native.
    pub(crate) is_native: bool,
}

impl Described {
    /// Checks names, labels and unit.
    pub(crate) fn new(
        spec: &Spec<'_>,
        kind: Kind,
        role: Role,
        labels: &[&str],
        scope: &Arc<Scope>,
    ) -> Result<Self, Error> {
        let described = Described {
            name: spec.name.to_owned(),
            help: spec.help.to_owned(),
            unit: spec.unit.to_owned(),
            kind,
            role,
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            limit: spec.limit,
            idle: spec.idle,
            scope: scope.clone(),
            original: None,
            later: OnceLock::new(),
            is_spelt_legacy: false,
            keep: None,
            is_dropped: false,
            is_native: false,
        };
        described.check()?;
        Ok(described)
    }

    /// As `view` wants it.
    pub(crate) fn seen_through(mut self, view: &View) -> Result<Self, Error> {
        match (&view.name, &mut self.original) {
            (Some(name), Some(original)) => {
                original.name.clone_from(name);
                (self.name, self.unit) = original.translated(self.role);
            }
            (Some(name), None) => {
                self.name.clone_from(name);
                // The view's name is the user's choice, whatever its end.
                self.unit.clear();
            }
            (None, _) => {}
        }
        if let Some(help) = &view.help {
            self.help.clone_from(help);
        }
        if let Some(limit) = view.limit {
            self.limit = limit;
        }
        self.keep.clone_from(&view.keep);
        self.is_dropped = view.is_dropped;
        self.check()?;
        Ok(self)
    }

    fn check(&self) -> Result<(), Error> {
        let wrong = |kind| Err(Error::new(&self.name, kind));
        if self.name.is_empty() {
            return wrong(ErrorKind::Name("is empty"));
        }
        if self.name == "target_info" || OWN.contains(&self.name.as_str()) {
            return wrong(ErrorKind::Name("is the registry's own"));
        }
        if self.name.contains(char::is_control) {
            return wrong(ErrorKind::Name("has a control character in it"));
        }
        // The label that tells states apart is named as their family, or nobody knows it for that.
        if self.kind == Kind::StateSet && fitting(&self.name, false) != Some(&self.name) {
            return wrong(ErrorKind::Name("is that of a state set and can't be that of a label"));
        }
        for (index, label) in self.labels.iter().enumerate() {
            let reason = match label.as_str() {
                "" => "is empty",
                _ if label.starts_with("__") => "begins with __, which Prometheus keeps for itself",
                "le" if self.kind == Kind::Histogram => "is a histogram's own",
                "quantile" if self.kind == Kind::Summary => "is a summary's own",
                _ if label.contains(char::is_control) => "has a control character in it",
                _ if self.labels[..index].contains(label) => "stands twice",
                _ if self.kind == Kind::StateSet && *label == self.name => "is the state's own",
                _ => continue,
            };
            return wrong(ErrorKind::Label(label.clone(), reason));
        }
        let ends_in_unit = self
            .base()
            .strip_suffix(self.unit.as_str())
            .is_some_and(|rest| rest.ends_with('_') && rest.len() > 1);
        if !self.unit.is_empty() && !ends_in_unit {
            return wrong(ErrorKind::Unit(self.unit.clone()));
        }
        Ok(())
    }

    /// What HELP says.
    pub(crate) fn help(&self) -> &str {
        match self.later.get() {
            Some(later) if self.help.is_empty() => &later.help,
            _ => &self.help,
        }
    }

    /// The name in OTLP.
    pub(crate) fn otlp_name(&self) -> &str {
        self.original.as_ref().map_or(&self.name, |original| &original.name)
    }

    /// The unit in OTLP.
    pub(crate) fn otlp_unit(&self) -> &str {
        match (&self.original, self.later.get()) {
            (Some(original), Some(later)) if original.unit.is_empty() => &later.unit,
            (Some(original), _) => &original.unit,
            (None, Some(later)) if self.unit.is_empty() => &later.unit,
            (None, _) => &self.unit,
        }
    }

    pub(crate) fn family(&self) -> writer::Family<'_> {
        writer::Family {
            name: &self.name,
            help: self.help(),
            kind: self.kind,
            unit: &self.unit,
            common: self.scope.labels().borrow(),
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

    /// What keeps both from being in one body, if anything: the same family in one of the formats, or
    /// one that has a series of the other's name. Families of one name from different scopes are one
    /// family of the body if they agree in everything else.
    pub(crate) fn clash(&self, other: &Described) -> Option<ErrorKind> {
        if self.name == other.name && self.scope != other.scope {
            let differs = |what| Some(ErrorKind::Differs(what, other.to_string()));
            return match () {
                () if self.kind != other.kind => differs("kind"),
                () if self.help() != other.help() => differs("help"),
                () if self.unit != other.unit => differs("unit"),
                // Prometheus misreads a family of both.
                () if self.is_native != other.is_native => differs("kind of buckets"),
                () => None,
            };
        }
        let has_series = |of: &Described, name: &str| {
            let suffixes: &[&str] = match of.kind {
                Kind::Histogram => &["_bucket", "_sum", "_count", "_created"],
                Kind::GaugeHistogram => &["_bucket", "_gsum", "_gcount"],
                Kind::Summary => &["_sum", "_count", "_created"],
                Kind::Counter => &["_created"],
                _ => &[],
            };
            let name = name.strip_prefix(of.base());
            name.is_some_and(|rest| suffixes.contains(&rest))
        };
        let is_taken = self.name == other.name
            || self.base() == other.base()
            || has_series(self, &other.name)
            || has_series(other, &self.name);
        is_taken.then(|| ErrorKind::Taken(other.to_string()))
    }

    /// Whether an attribute of this name stays.
    pub(crate) fn keeps(&self, name: &str) -> bool {
        self.keep.as_ref().is_none_or(|keep| keep.iter().any(|kept| kept == name))
    }

    /// Whether both describe the same instrument.
    pub(crate) fn is_same(&self, other: &Described) -> bool {
        self.name == other.name
            && self.scope == other.scope
            && self.kind == other.kind
            && self.role == other.role
            && self.help == other.help
            && self.unit == other.unit
            && self.labels == other.labels
            && self.original == other.original
    }
}

impl fmt::Display for Described {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels = self.labels.join(", ");
        write!(f, "the {} {}{{{labels}}} ({:?})", self.kind.name(), self.name, self.help)?;
        match self.scope.name() {
            "" => Ok(()),
            scope => write!(f, " of the scope {scope:?}"),
        }
    }
}
