//! Relabelling: rules that keep, drop and rewrite label sets, of targets before they are scraped and of
//! series before they are stored.
//!
//! A [`Rule`] is checked when it is built; applying it cannot fail. Rules run once for each new target
//! or series, on borrowed text ([`LabelSet`]); what no rule touches is never copied.

mod labels;

pub use labels::{LabelSet, Scratch};

use store::Pattern;

use crate::config::NameValidation;

/// What a rule does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// Write a label from what the pattern matched.
    #[default]
    Replace,
    /// Drop the set unless the pattern matches.
    Keep,
    /// Drop the set if the pattern matches.
    Drop,
    /// Drop the set unless the joined sources equal the target label.
    KeepEqual,
    /// Drop the set if the joined sources equal the target label.
    DropEqual,
    /// Write the hash of the joined sources, modulo a number.
    HashMod,
    /// Copy every label whose name matches to the name that the replacement gives.
    LabelMap,
    /// Remove every label whose name matches.
    LabelDrop,
    /// Remove every label whose name doesn't match.
    LabelKeep,
    /// Write the joined sources in lower case.
    Lowercase,
    /// Write the joined sources in upper case.
    Uppercase,
}

impl Action {
    /// All of them.
    pub const ALL: [Action; 11] = [
        Action::Replace,
        Action::Keep,
        Action::Drop,
        Action::KeepEqual,
        Action::DropEqual,
        Action::HashMod,
        Action::LabelMap,
        Action::LabelDrop,
        Action::LabelKeep,
        Action::Lowercase,
        Action::Uppercase,
    ];

    /// As it is written in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Action::Replace => "replace",
            Action::Keep => "keep",
            Action::Drop => "drop",
            Action::KeepEqual => "keepequal",
            Action::DropEqual => "dropequal",
            Action::HashMod => "hashmod",
            Action::LabelMap => "labelmap",
            Action::LabelDrop => "labeldrop",
            Action::LabelKeep => "labelkeep",
            Action::Lowercase => "lowercase",
            Action::Uppercase => "uppercase",
        }
    }
}

/// One rule, as the configuration gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    action: Action,
    source_labels: Vec<String>,
    separator: String,
    pattern: Pattern,
    modulus: u64,
    target_label: String,
    replacement: String,
    validation: NameValidation,
}
