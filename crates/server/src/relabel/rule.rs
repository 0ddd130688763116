//! One rule, checked: what it may say for its action, and which names it may write.

use store::Pattern;
use store::pattern::Template;

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

    /// The action of this name, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str().eq_ignore_ascii_case(name))
    }
}

/// What a rule says, before it is checked; `None` is what was not said.
#[derive(Clone, Debug, Default)]
pub struct RuleText {
    /// What to do.
    pub action: Action,
    /// The labels whose values are joined.
    pub source_labels: Vec<String>,
    /// What stands between the joined values; `;` if not said.
    pub separator: Option<String>,
    /// What to match; everything, as group 1, if not said.
    pub regex: Option<String>,
    /// For `hashmod`.
    pub modulus: u64,
    /// The label to write, for `replace` with references to groups.
    pub target_label: String,
    /// The value to write, with references to groups; `$1` if not said.
    pub replacement: Option<String>,
}

/// One rule. Cloning is cheap enough for a reload, not for a scrape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub(super) action: Action,
    pub(super) source_labels: Vec<String>,
    pub(super) separator: String,
    pub(super) pattern: Pattern,
    pub(super) modulus: u64,
    pub(super) target_label: String,
    pub(super) target: Template,
    pub(super) replacement: Template,
    pub(super) validation: NameValidation,
    /// The value to write if the sources are empty and nothing depends on the match.
    pub(super) constant: Option<String>,
}

/// Why a rule is refused: the field, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// The field of the configuration.
    pub field: &'static str,
    /// What is wrong, and what to do.
    pub message: String,
}

const SEPARATOR: &str = ";";
const REGEX: &str = "(.*)";
const REPLACEMENT: &str = "$1";

#[cold]
fn refuse<T>(field: &'static str, message: impl Into<String>) -> Result<T, RuleError> {
    Err(RuleError { field, message: message.into() })
}

impl Rule {
    /// Checks a rule and compiles its pattern. Setup.
    ///
    /// # Errors
    /// The first field that does not fit the action, the names that `validation` allows, or RE2.
    pub fn new(text: &RuleText, validation: NameValidation) -> Result<Self, RuleError> {
        let regex = text.regex.as_deref().unwrap_or(REGEX);
        let pattern = match Pattern::new(regex) {
            Ok(pattern) => pattern,
            Err(error) => return refuse("regex", error.to_string()),
        };
        check_action(text)?;
        check_target(text, validation)?;
        let replacement = text.replacement.as_deref().unwrap_or(REPLACEMENT);
        let constant = (text.action == Action::Replace
            && text.regex.is_none()
            && !text.target_label.contains('$')
            && !replacement.contains('$'))
        .then(|| replacement.to_owned());
        Ok(Rule {
            action: text.action,
            source_labels: text.source_labels.clone(),
            separator: text.separator.clone().unwrap_or_else(|| SEPARATOR.to_owned()),
            pattern,
            modulus: text.modulus,
            target: Template::new(&text.target_label),
            target_label: text.target_label.clone(),
            replacement: Template::new(replacement),
            validation,
            constant,
        })
    }
}

/// What the action needs, and what it has no use for.
fn check_action(text: &RuleText) -> Result<(), RuleError> {
    let action = text.action.as_str();
    let separator = text.separator.as_deref().is_some_and(|separator| separator != SEPARATOR);
    let replacement =
        text.replacement.as_deref().is_some_and(|replacement| replacement != REPLACEMENT);
    let unused = |fields: &[(&'static str, bool)], allowed: &str| match fields
        .iter()
        .find(|(_, said)| *said)
    {
        Some((field, _)) => {
            refuse(field, format!("the action {action} takes {allowed} only: remove it"))
        }
        None => Ok(()),
    };
    match text.action {
        Action::HashMod if text.modulus == 0 => {
            refuse("modulus", "the action hashmod needs a modulus other than 0")
        }
        Action::LabelDrop | Action::LabelKeep => unused(
            &[
                ("source_labels", !text.source_labels.is_empty()),
                ("target_label", !text.target_label.is_empty()),
                ("modulus", text.modulus != 0),
                ("separator", separator),
                ("replacement", replacement),
            ],
            "regex",
        ),
        Action::KeepEqual | Action::DropEqual => unused(
            &[
                ("regex", text.regex.is_some()),
                ("modulus", text.modulus != 0),
                ("separator", separator),
                ("replacement", replacement),
            ],
            "source_labels and target_label",
        ),
        Action::Lowercase | Action::Uppercase if replacement => {
            refuse("replacement", format!("the action {action} takes no replacement: remove it"))
        }
        _ => Ok(()),
    }
}

/// Whether the label to write has a name that may be written.
fn check_target(text: &RuleText, validation: NameValidation) -> Result<(), RuleError> {
    let action = text.action.as_str();
    match text.action {
        Action::Replace
        | Action::HashMod
        | Action::Lowercase
        | Action::Uppercase
        | Action::KeepEqual
        | Action::DropEqual => {
            if text.target_label.is_empty() {
                return refuse("target_label", format!("the action {action} needs a target_label"));
            }
            let template = text.action == Action::Replace && text.target_label.contains('$');
            let valid = if template {
                is_name_template(&text.target_label, validation)
            } else {
                validation.is_label_name(&text.target_label)
            };
            if !valid {
                return refuse(
                    "target_label",
                    format!("{:?} is not a valid label name", text.target_label),
                );
            }
            Ok(())
        }
        Action::LabelMap => {
            let replacement = text.replacement.as_deref().unwrap_or(REPLACEMENT);
            if is_name_template(replacement, validation) {
                Ok(())
            } else {
                refuse("replacement", format!("{replacement:?} does not make a valid label name"))
            }
        }
        Action::Keep | Action::Drop | Action::LabelDrop | Action::LabelKeep => Ok(()),
    }
}

/// Whether a text with references to groups can become a label's name. Where any UTF-8 text is a
/// name, so is every such text; a legacy name begins with a letter, `_` or a reference.
fn is_name_template(text: &str, validation: NameValidation) -> bool {
    if validation == NameValidation::Utf8 {
        return !text.is_empty();
    }
    let is_word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    let mut rest = text.as_bytes();
    let mut first = true;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'$' => {
                let braced = rest.first() == Some(&b'{');
                let body = if braced { &rest[1..] } else { rest };
                let length = body.iter().take_while(|b| is_word(b)).count();
                let closed = !braced || body.get(length) == Some(&b'}');
                if length == 0 || !closed {
                    return false;
                }
                rest = &body[length + usize::from(braced)..];
            }
            b if is_word(b) && !(first && b.is_ascii_digit()) => {}
            _ => return false,
        }
        first = false;
    }
    !first
}
