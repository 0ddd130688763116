//! Which series belong together: `by`, `without`, `on`, `ignoring`.

use hashbrown::HashMap;
use store::Labels;
use store::labels::METRIC_NAME;

/// How labels make a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'a> {
    /// The labels that count, or those that don't.
    pub(crate) labels: &'a [Box<str>],
    /// Whether `labels` are those that don't count; the metric's name doesn't count then either.
    pub(crate) without: bool,
}

impl Key<'_> {
    fn counts(&self, name: &str) -> bool {
        let named = self.labels.iter().any(|label| label.as_ref() == name);
        if self.without { !named && name != METRIC_NAME } else { named }
    }

    /// Writes the key of `labels`. Reuses the buffer.
    fn write(&self, labels: &Labels, key: &mut Vec<u8>) {
        key.clear();
        for (name, value) in labels.iter().filter(|(name, _)| self.counts(name)) {
            key.extend_from_slice(name.as_bytes());
            key.push(0xff);
            key.extend_from_slice(value.as_bytes());
            key.push(0xff);
        }
    }

    /// The labels that count.
    pub(crate) fn of(&self, labels: &Labels) -> Labels {
        let mut builder = labels.to_builder();
        builder.retain(|name, _| self.counts(name));
        builder.build()
    }
}

/// Keys in the order in which they were seen first.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    places: HashMap<Vec<u8>, usize, foldhash::fast::RandomState>,
    buffer: Vec<u8>,
}

impl Groups {
    /// The group of a series, and whether it is new.
    pub(crate) fn place(&mut self, key: Key<'_>, labels: &Labels) -> (usize, bool) {
        key.write(labels, &mut self.buffer);
        if let Some(place) = self.places.get(self.buffer.as_slice()) {
            return (*place, false);
        }
        let place = self.places.len();
        self.places.insert(self.buffer.clone(), place);
        (place, true)
    }

    /// The group of a series, if there is one.
    pub(crate) fn find(&mut self, key: Key<'_>, labels: &Labels) -> Option<usize> {
        key.write(labels, &mut self.buffer);
        self.places.get(self.buffer.as_slice()).copied()
    }
}
