//! What targets say about their metrics: type, help and unit of each family.
//!
//! All targets of a job say the same, so the texts are shared between targets. A scrape that repeats
//! the comment lines of the last one touches nothing here.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use wire::exposition::Kind;

use super::status::Metadata;

/// The families of one target.
#[derive(Debug, Default)]
pub(super) struct Families {
    by_name: Mutex<BTreeMap<Arc<str>, Family>>,
}

#[derive(Clone, Debug, Default)]
struct Family {
    kind: Kind,
    help: Arc<str>,
    unit: Arc<str>,
}

/// One thing that a comment line says.
pub(super) enum Said<'a> {
    Kind(Kind),
    Help(&'a str),
    Unit(&'a str),
}

impl Families {
    /// Takes in a comment line that the last scrape did not have. Growth.
    pub(super) fn say(&self, family: &str, said: &Said<'_>) {
        let mut families = self.by_name.lock();
        if !families.contains_key(family) {
            families.insert(shared(family), Family::default());
        }
        let entry = families.get_mut(family).expect("it has just been inserted");
        match said {
            Said::Kind(kind) => entry.kind = *kind,
            Said::Help(text) if &*entry.help != *text => entry.help = shared(text),
            Said::Unit(text) if &*entry.unit != *text => entry.unit = shared(text),
            Said::Help(_) | Said::Unit(_) => {}
        }
    }

    /// Forgets the families for which `keep` says no.
    pub(super) fn retain(&self, mut keep: impl FnMut(&str) -> bool) {
        self.by_name.lock().retain(|name, _| keep(name));
    }

    pub(super) fn list(&self) -> Vec<Metadata> {
        self.by_name.lock().iter().map(|(name, family)| family.describe(name)).collect()
    }

    pub(super) fn get(&self, name: &str) -> Option<Metadata> {
        let families = self.by_name.lock();
        families.get_key_value(name).map(|(name, family)| family.describe(name))
    }

    /// Families, and bytes of their texts (each as if it were not shared).
    pub(super) fn size(&self) -> (usize, usize) {
        let families = self.by_name.lock();
        let bytes = families.values().map(|f| f.help.len() + f.unit.len() + f.kind.name().len());
        (families.len(), bytes.sum())
    }
}

impl Family {
    fn describe(&self, name: &Arc<str>) -> Metadata {
        Metadata {
            family: name.clone(),
            kind: self.kind,
            help: self.help.clone(),
            unit: self.unit.clone(),
        }
    }
}

/// The texts that targets share.
struct Texts {
    texts: HashSet<Arc<str>>,
    /// When so many are there, those that nobody uses any more are thrown out.
    sweep_at: usize,
}

static TEXTS: LazyLock<Mutex<Texts>> =
    LazyLock::new(|| Mutex::new(Texts { texts: HashSet::new(), sweep_at: 4096 }));

fn shared(text: &str) -> Arc<str> {
    let mut shared = TEXTS.lock();
    if let Some(known) = shared.texts.get(text) {
        return known.clone();
    }
    if shared.texts.len() >= shared.sweep_at {
        shared.texts.retain(|text| Arc::strong_count(text) > 1);
        shared.sweep_at = (shared.texts.len() * 2).max(4096);
    }
    let text: Arc<str> = Arc::from(text);
    shared.texts.insert(text.clone());
    text
}
