//! Groups of targets, as files and servers write them.

use std::collections::BTreeMap;

use serde::Deserialize;
use store::Labels;

use crate::config::StaticGroup;

/// Targets that share labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The labels of each target, at least `__address__`.
    pub targets: Vec<Labels>,
    /// The labels of all of them; a target's own win.
    pub labels: Labels,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    targets: Option<Vec<String>>,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

impl Group {
    pub(super) fn of_static(group: &StaticGroup) -> Self {
        Group { targets: addresses(&group.targets), labels: group.labels.clone() }
    }

    /// Reads a JSON list of groups.
    ///
    /// # Errors
    /// Says what is wrong, with line and column.
    pub(super) fn read_json(text: &[u8]) -> Result<Vec<Group>, String> {
        let written: Option<Vec<Option<Written>>> =
            serde_json::from_slice(text).map_err(|error| error.to_string())?;
        build(written)
    }

    /// Reads a YAML list of groups.
    ///
    /// # Errors
    /// Says what is wrong, with line and column.
    pub(super) fn read_yaml(text: &str) -> Result<Vec<Group>, String> {
        if text.trim().is_empty() {
            return Ok(Vec::new());
        }
        let written: Option<Vec<Option<Written>>> =
            serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        build(written)
    }
}

fn build(written: Option<Vec<Option<Written>>>) -> Result<Vec<Group>, String> {
    let mut groups = Vec::new();
    for (index, group) in written.unwrap_or_default().into_iter().enumerate() {
        let group = group.ok_or_else(|| format!("group {index} is null"))?;
        let labels = group.labels.unwrap_or_default();
        if labels.contains_key("") {
            return Err(format!("group {index} has a label without a name"));
        }
        groups.push(Group {
            targets: addresses(&group.targets.unwrap_or_default()),
            labels: Labels::from_pairs(labels),
        });
    }
    Ok(groups)
}

fn addresses(targets: &[String]) -> Vec<Labels> {
    targets.iter().map(|target| Labels::from_pairs([("__address__", target)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_json_and_yaml_alike() {
        let json =
            r#"[{"targets": ["a:1", "b:2"], "labels": {"x": "y", "empty": ""}}, {"targets": []}]"#;
        let yaml = "- targets: ['a:1', b:2]\n  labels:\n    x: y\n    empty: ''\n- targets: []\n";
        let groups = Group::read_json(json.as_bytes()).unwrap();
        assert_eq!(groups, Group::read_yaml(yaml).unwrap());
        assert_eq!(groups.len(), 2);
        assert_eq!(groups[0].targets[1].get("__address__"), Some("b:2"));
        assert_eq!(groups[0].labels, Labels::from_pairs([("x", "y")]));
        for empty in ["", "[]", "null", "\n"] {
            assert_eq!(Group::read_yaml(empty), Ok(Vec::new()), "{empty:?}");
        }
        assert_eq!(Group::read_json(b"null"), Ok(Vec::new()));
    }

    #[test]
    fn numbers_in_yaml_are_label_values() {
        let groups = Group::read_yaml("- targets: [a]\n  labels: {port: 80, on: true}\n").unwrap();
        assert_eq!(groups[0].labels, Labels::from_pairs([("port", "80"), ("on", "true")]));
    }

    #[test]
    fn refuses_what_is_no_list_of_groups() {
        for bad in ["{}", "[null]", r#"[{"target": ["a"]}]"#, r#"[{"targets": "a"}]"#, "[1]", "["] {
            assert!(Group::read_json(bad.as_bytes()).is_err(), "{bad}");
            assert!(Group::read_yaml(bad).is_err(), "{bad}");
        }
        assert!(Group::read_json(br#"[{"targets":["a"],"labels":{"":"x"}}]"#).is_err());
    }
}
