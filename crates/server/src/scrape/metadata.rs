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
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    by_name: BTreeMap<Arc<str>, Family>,
    /// Bytes of all texts: asked for by each look at the server's metrics.
    bytes: usize,
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
        let mut held = self.held.lock();
        let held = &mut *held;
        if !held.by_name.contains_key(family) {
            let unsaid = Family::default();
            held.bytes += unsaid.bytes();
            held.by_name.insert(shared(family), unsaid);
        }
        let entry = held.by_name.get_mut(family).expect("it has just been inserted");
        held.bytes -= entry.bytes();
        match said {
            Said::Kind(kind) => entry.kind = *kind,
            Said::Help(text) if &*entry.help != *text => entry.help = shared(text),
            Said::Unit(text) if &*entry.unit != *text => entry.unit = shared(text),
            Said::Help(_) | Said::Unit(_) => {}
        }
        held.bytes += entry.bytes();
    }

    /// Forgets the families for which `keep` says no.
    pub(super) fn retain(&self, mut keep: impl FnMut(&str) -> bool) {
        let mut held = self.held.lock();
        let held = &mut *held;
        held.by_name.retain(|name, family| {
            let keeps = keep(name);
            if !keeps {
                held.bytes -= family.bytes();
            }
            keeps
        });
    }

    pub(super) fn list(&self) -> Vec<Metadata> {
        self.held.lock().by_name.iter().map(|(name, family)| family.describe(name)).collect()
    }

    pub(super) fn get(&self, name: &str) -> Option<Metadata> {
        let held = self.held.lock();
        held.by_name.get_key_value(name).map(|(name, family)| family.describe(name))
    }

    /// Families, and bytes of their texts (each as if it were not shared). Steady.
    pub(super) fn size(&self) -> (usize, usize) {
        let held = self.held.lock();
        (held.by_name.len(), held.bytes)
    }
}

impl Family {
    fn bytes(&self) -> usize {
        self.help.len() + self.unit.len() + self.kind.name().len()
    }

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
