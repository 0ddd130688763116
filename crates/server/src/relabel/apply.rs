//! Rules at work on a label set.

use std::fmt::Write as _;

use store::pattern::Captures;

use super::labels::LabelSet;
use super::rule::{Action, Rule};

impl LabelSet<'_, '_> {
    /// Applies the rules in order and says whether the set is kept. After a rule has dropped it, the
    /// set holds what the rules before made of it.
    ///
    /// Growth: allocates when its buffers are smaller than for any set before, and when a place in the
    /// list has another rule than with the set before; not otherwise.
    pub fn apply(&mut self, rules: &[Rule]) -> bool {
        let captures = &mut self.home.buffers.captures;
        if captures.len() < rules.len() {
            captures.resize_with(rules.len(), Captures::default);
        }
        rules.iter().enumerate().all(|(at, rule)| self.apply_one(rule, at))
    }

    fn apply_one(&mut self, rule: &Rule, at: usize) -> bool {
        match rule.action {
            Action::LabelMap => {
                self.map_names(rule, at);
                return true;
            }
            Action::LabelDrop => {
                self.retain(|name, _| !rule.pattern.is_match(name));
                return true;
            }
            Action::LabelKeep => {
                self.retain(|name, _| rule.pattern.is_match(name));
                return true;
            }
            _ => {}
        }
        // The buffer leaves its place while labels are read into it and written from it.
        let mut joined = std::mem::take(&mut self.home.buffers.joined);
        self.join(rule, &mut joined);
        let keep = self.apply_to_value(rule, at, &joined);
        self.home.buffers.joined = joined;
        keep
    }

    /// The values of the source labels with the separator between them; a missing label is empty.
    fn join(&self, rule: &Rule, joined: &mut String) {
        joined.clear();
        for (index, name) in rule.source_labels.iter().enumerate() {
            if index > 0 {
                joined.push_str(&rule.separator);
            }
            joined.push_str(self.get(name).unwrap_or(""));
        }
    }

    fn apply_to_value(&mut self, rule: &Rule, at: usize, joined: &str) -> bool {
        match rule.action {
            Action::Keep => return rule.pattern.is_match(joined),
            Action::Drop => return !rule.pattern.is_match(joined),
            Action::KeepEqual => return self.get(&rule.target_label).unwrap_or("") == joined,
            Action::DropEqual => return self.get(&rule.target_label).unwrap_or("") != joined,
            Action::Replace => self.replace(rule, at, joined),
            Action::HashMod => {
                let hash = md5::compute(joined.as_bytes());
                let low = u64::from_be_bytes(hash.0[8..].try_into().expect("eight of sixteen"));
                self.write_value(rule, |value| {
                    write!(value, "{}", low % rule.modulus).expect("a string takes everything");
                });
            }
            // Character by character, as Go does: ß stays ß.
            Action::Lowercase => {
                self.write_value(rule, |value| value.extend(joined.chars().map(lower)));
            }
            Action::Uppercase => {
                self.write_value(rule, |value| value.extend(joined.chars().map(upper)));
            }
            Action::LabelMap | Action::LabelDrop | Action::LabelKeep => {
                unreachable!("they look at names")
            }
        }
        true
    }

    fn replace(&mut self, rule: &Rule, at: usize, joined: &str) {
        if let Some(constant) = rule.constant.as_deref().filter(|_| joined.is_empty()) {
            self.set(&rule.target_label, constant);
            return;
        }
        let mut buffers = std::mem::take(&mut self.home.buffers);
        if rule.pattern.captures(joined, &mut buffers.captures[at]) {
            buffers.name.clear();
            rule.target.expand(joined, &buffers.captures[at], &mut buffers.name);
            if rule.validation.is_label_name(&buffers.name) {
                buffers.value.clear();
                rule.replacement.expand(joined, &buffers.captures[at], &mut buffers.value);
                self.set(&buffers.name, &buffers.value);
            }
        }
        self.home.buffers = buffers;
    }

    fn write_value(&mut self, rule: &Rule, write: impl FnOnce(&mut String)) {
        let mut value = std::mem::take(&mut self.home.buffers.value);
        value.clear();
        write(&mut value);
        self.set(&rule.target_label, &value);
        self.home.buffers.value = value;
    }

    /// Copies labels to the names that the replacement makes of theirs. Names and values are those of
    /// before the rule; of two labels that end up with one name the one that is visited later stands.
    fn map_names(&mut self, rule: &Rule, at: usize) {
        let mut buffers = std::mem::take(&mut self.home.buffers);
        buffers.name.clear();
        buffers.value.clear();
        buffers.copies.clear();
        self.visit(|name, value| {
            if rule.pattern.captures(name, &mut buffers.captures[at]) {
                rule.replacement.expand(name, &buffers.captures[at], &mut buffers.name);
                buffers.value.push_str(value);
                buffers.copies.push((buffers.name.len(), buffers.value.len()));
            }
        });
        let (mut name_start, mut value_start) = (0, 0);
        for (name_end, value_end) in &buffers.copies {
            self.set(&buffers.name[name_start..*name_end], &buffers.value[value_start..*value_end]);
            (name_start, value_start) = (*name_end, *value_end);
        }
        self.home.buffers = buffers;
    }
}

/// The lower case of one character as one character, as Unicode's simple mapping gives it.
fn lower(c: char) -> char {
    match c {
        'İ' => 'i',
        _ => only(c.to_lowercase()).unwrap_or(c),
    }
}

/// The upper case of one character as one character, as Unicode's simple mapping gives it.
fn upper(c: char) -> char {
    match c {
        // Greek with iota below: one character exists, though the full mapping takes two.
        '\u{1f80}'..='\u{1faf}' if u32::from(c) & 8 == 0 => {
            char::from_u32(u32::from(c) + 8).unwrap_or(c)
        }
        '\u{1fb3}' => '\u{1fbc}',
        '\u{1fc3}' => '\u{1fcc}',
        '\u{1ff3}' => '\u{1ffc}',
        _ => only(c.to_uppercase()).unwrap_or(c),
    }
}

fn only(mut changed: impl ExactSizeIterator<Item = char>) -> Option<char> {
    if changed.len() == 1 { changed.next() } else { None }
}
