//! Lists of relabelling rules as they stand in a file.

use super::error::Report;
use super::model::NameValidation;
use super::read::closest;
use super::schema::{Schema, count, flow_texts, text};
use super::section::{Data, Section};
use crate::relabel::{Action, Rule, RuleText};

/// One rule.
pub(super) static RULE: Schema = Schema {
    groups: &[&[
        flow_texts("source_labels"),
        text("separator").or(";").always(),
        text("regex").present(),
        count("modulus"),
        text("target_label"),
        text("replacement").or("$1").always(),
        text("action").or("replace"),
    ]],
    check,
};

fn check(section: &mut Section, report: &mut Report) {
    for (at, name) in section.texts("source_labels") {
        if name.is_empty() {
            let path = section.path_of("source_labels");
            report.error(*at, path, "a label's name must not be empty");
        }
    }
    let name = section.text("action");
    match Action::from_name(name) {
        Some(action) => section.set("action", Data::Text(action.as_str().to_owned())),
        None if name.is_empty() => {
            section.error(report, "action", "the action must not be empty");
        }
        None => {
            let hint = match closest(name, Action::ALL.iter().map(|action| action.as_str())) {
                Some(known) => format!(", did you mean {known:?}?"),
                None => String::new(),
            };
            section.error(report, "action", format!("unknown action {name:?}{hint}"));
        }
    }
}

/// The rules of a list. What is wrong with one goes to the report, and the rule is left out.
pub(super) fn build(
    sections: &[Section],
    validation: NameValidation,
    report: &mut Report,
) -> Vec<Rule> {
    let mut rules = Vec::with_capacity(sections.len());
    for section in sections.iter().filter(|section| !section.faulty) {
        match Rule::new(&text_of(section), validation) {
            Ok(rule) => rules.push(rule),
            Err(error) => section.error(report, error.field, error.message),
        }
    }
    rules
}

fn text_of(section: &Section) -> RuleText {
    let said = |name| section.get(name).map(|_| section.text(name).to_owned());
    RuleText {
        action: Action::from_name(section.text("action")).unwrap_or_default(),
        source_labels: section.text_list("source_labels"),
        separator: said("separator"),
        regex: said("regex"),
        modulus: section.int("modulus").unsigned_abs(),
        target_label: section.text("target_label").to_owned(),
        replacement: said("replacement"),
    }
}
