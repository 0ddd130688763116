//! Relabelling from data: `tests/relabel/cases.txt` holds what goes in, the rules and what comes out.

use super::*;
use crate::config::NameValidation;

/// The cases. A case is a paragraph: `in`, then rules of `key=value` words separated by ` | `, then
/// `out`. `¬` stands for nothing, `␣` for a space.
const CASES: &str = include_str!("../../tests/relabel/cases.txt");
const REFUSED: &str = include_str!("../../tests/relabel/refused.txt");

fn unescape(text: &str) -> String {
    text.replace('¬', "").replace('␣', " ")
}

fn pairs(text: &str) -> Vec<(String, String)> {
    text.split_whitespace()
        .map(|pair| {
            let (name, value) = pair.split_once('=').expect("name=value");
            (unescape(name), unescape(value))
        })
        .collect()
}

fn rule_text(line: &str) -> (RuleText, NameValidation) {
    let mut text = RuleText::default();
    let mut validation = NameValidation::Utf8;
    for part in line.split(" | ") {
        let (field, value) = part.trim().split_once('=').expect("field=value");
        let value = unescape(value);
        match field {
            "action" => text.action = Action::from_name(&value).expect("a known action"),
            "source_labels" => text.source_labels = value.split(',').map(str::to_owned).collect(),
            "separator" => text.separator = Some(value),
            "regex" => text.regex = Some(value),
            "modulus" => text.modulus = value.parse().expect("a number"),
            "target_label" => text.target_label = value,
            "replacement" => text.replacement = Some(value),
            "names" => {
                validation = if value == "legacy" { NameValidation::Legacy } else { validation }
            }
            other => panic!("{line}: unknown field {other}"),
        }
    }
    (text, validation)
}

fn paragraphs(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.split("\n\n")
        .map(|paragraph| {
            paragraph.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect()
        })
        .filter(|lines: &Vec<&str>| !lines.is_empty())
}

#[test]
fn every_case_gives_what_it_says() {
    let mut scratch = Scratch::new();
    let mut run = 0;
    for case in paragraphs(CASES) {
        let title = case.join("\n");
        let input = pairs(case[0].strip_prefix("in").expect("a case begins with `in`"));
        let expected = case.last().and_then(|line| line.strip_prefix("out")).expect("an `out`");
        let rules: Vec<Rule> = case[1..case.len() - 1]
            .iter()
            .map(|line| {
                let (text, validation) = rule_text(line);
                Rule::new(&text, validation).unwrap_or_else(|error| panic!("{title}: {error:?}"))
            })
            .collect();
        let mut set = scratch.start();
        for (name, value) in &input {
            set.lend(name, value);
        }
        let before: Vec<_> = set.iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
        let kept = set.apply(&rules);
        let got: Vec<_> = set.iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
        if expected.trim() == "dropped" {
            assert!(!kept, "kept, and should not:\n{title}\n{got:?}");
        } else {
            assert!(kept, "dropped, and should not:\n{title}");
            let mut expected = pairs(expected);
            expected.sort();
            assert_eq!(got, expected, "\n{title}");
            assert_eq!(set.is_changed(), got != before, "whether it changed:\n{title}");
        }
        run += 1;
    }
    assert!(run > 40, "only {run} cases were found");
}

#[test]
fn what_does_not_fit_is_refused_with_its_field() {
    let mut run = 0;
    for case in paragraphs(REFUSED) {
        let (text, validation) = rule_text(case[0]);
        let (field, words) = case[1]
            .strip_prefix("refused ")
            .and_then(|rest| rest.split_once(": "))
            .expect("`refused field: words`");
        let error = Rule::new(&text, validation)
            .err()
            .unwrap_or_else(|| panic!("{} was accepted", case[0]));
        assert_eq!(error.field, field, "{}: {error:?}", case[0]);
        assert!(error.message.contains(words), "{}: {error:?}", case[0]);
        run += 1;
    }
    assert!(run > 20, "only {run} cases were found");
}

#[test]
fn a_label_set_is_a_sorted_map_without_empty_values() {
    let mut scratch = Scratch::new();
    let mut set = scratch.start();
    for (name, value) in [("b", "2"), ("a", "1"), ("c", ""), ("b", "3"), ("a", "")] {
        set.lend(name, value);
    }
    assert_eq!(set.iter().collect::<Vec<_>>(), [("b", "3")]);
    set.set("a", "x");
    set.set("b", "");
    assert_eq!(set.to_labels().to_string(), r#"{a="x"}"#);
    assert_eq!((set.len(), set.is_empty(), set.get("b")), (1, false, None));
    set.remove("a");
    assert!(set.is_empty());
}

#[test]
fn a_scratch_forgets_the_set_before() {
    let mut scratch = Scratch::new();
    let mut first = scratch.start();
    first.lend("a", "1");
    first.set("b", "2");
    drop(first);
    let usage = scratch.memory_usage();
    let mut second = scratch.start();
    assert!(second.is_empty() && !second.is_changed());
    second.lend("c", "3");
    second.set("d", "4");
    assert_eq!(second.to_labels().to_string(), r#"{c="3", d="4"}"#);
    drop(second);
    assert_eq!(scratch.memory_usage(), usage, "the buffers were not reused");
}
