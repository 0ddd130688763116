//! Labels whose names have to be respelt for who can't read them.
//!
//! Two names may come out the same (`a.b` and `a_b` as `a_b`), and a line that has a label twice makes a
//! scraper refuse the whole body. As OpenTelemetry's compatibility specification says, the values are
//! then joined by `;` in the order of the names as they were.
//!
//! 1. Note each label's name, its new spelling and its value, escaped.
//! 2. Sort by the new spelling, then by the name.
//! 3. Write them; a label that has the spelling of the one before only adds its value.

use std::ops::Range;

use crate::exposition::name::Escaping;
use crate::exposition::stored::{LabelSet, LabelsRef, escape_into, push_escaped, push_name};

/// The name that belongs to the metric's own.
const METRIC_NAME: &str = "__name__";

/// `labels` as lines hold them, and whether `common` is among them: it is where any name has to be
/// respelt, because only all of them together show which come out the same. *Steady* once `block` has
/// seen the longest.
pub(super) fn render<'t>(
    escaping: Escaping,
    common: LabelsRef<'_>,
    labels: LabelSet<'t>,
    speller: &mut Speller,
    block: &'t mut String,
) -> (&'t str, bool) {
    block.clear();
    if common.is_direct(escaping) {
        match labels {
            LabelSet::Stored(stored) if stored.is_direct(escaping) => {
                return (stored.as_str(), false);
            }
            LabelSet::Pairs(pairs) => {
                let legacy = escape_into(pairs.iter().copied(), block);
                if legacy || escaping == Escaping::AllowUtf8 {
                    return (block, false);
                }
                block.clear();
            }
            LabelSet::Stored(_) => {}
        }
    }
    speller.spell(escaping, common, labels, block);
    (block, true)
}

/// Memory for the labels of one metric; kept for the next.
#[derive(Default)]
pub(super) struct Speller {
    /// Names as they were, and values, escaped.
    text: String,
    /// Names as they are written.
    spelt: String,
    entries: Vec<Entry>,
}

/// Where in the two texts they stand.
struct Entry {
    name: Range<usize>,
    value: Range<usize>,
    spelt: Range<usize>,
}

impl Speller {
    /// Appends `common` and `labels` to `out` in the form in which lines hold them. *Growth* of the
    /// memory.
    pub(super) fn spell(
        &mut self,
        escaping: Escaping,
        common: LabelsRef<'_>,
        labels: LabelSet<'_>,
        out: &mut String,
    ) {
        self.text.clear();
        self.spelt.clear();
        self.entries.clear();
        self.stored(escaping, common);
        match labels {
            LabelSet::Stored(stored) => self.stored(escaping, stored),
            LabelSet::Pairs(pairs) => {
                for (name, value) in pairs {
                    let name = self.note(|text| text.push_str(name));
                    let value = self.note(|text| push_escaped(value, text));
                    self.enter(escaping, name, value);
                }
            }
        }
        self.write(out);
    }

    fn stored(&mut self, escaping: Escaping, labels: LabelsRef<'_>) {
        for label in labels.iter() {
            let name = self.note(|text| label.name.unescape_into(text));
            let value = self.note(|text| text.push_str(label.value.raw()));
            self.enter(escaping, name, value);
        }
    }

    fn note(&mut self, write: impl FnOnce(&mut String)) -> Range<usize> {
        let begin = self.text.len();
        write(&mut self.text);
        begin..self.text.len()
    }

    fn enter(&mut self, escaping: Escaping, name: Range<usize>, value: Range<usize>) {
        let Speller { text, spelt, entries } = self;
        let begin = spelt.len();
        let original = &text[name.clone()];
        escaping.label_into(original, spelt);
        if spelt[begin..] == *METRIC_NAME && original != METRIC_NAME {
            spelt.insert(begin, '_');
        }
        entries.push(Entry { name, value, spelt: begin..spelt.len() });
    }

    fn write(&mut self, out: &mut String) {
        let Speller { text, spelt, entries } = self;
        let key = |entry: &Entry| (&spelt[entry.spelt.clone()], &text[entry.name.clone()]);
        entries.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
        let mut last = None;
        for entry in &*entries {
            let name = &spelt[entry.spelt.clone()];
            if last == Some(name) {
                out.push(';');
            } else {
                out.push_str(if last.is_some() { "\"," } else { "" });
                push_name(name, out);
                out.push_str("=\"");
                last = Some(name);
            }
            out.push_str(&text[entry.value.clone()]);
        }
        out.push_str(if last.is_some() { "\"" } else { "" });
    }
}
