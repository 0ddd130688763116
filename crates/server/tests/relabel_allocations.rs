//! Relabelling on buffers that have seen the like allocates nothing and frees nothing.

use server::config::NameValidation;
use server::relabel::{Action, Rule, RuleText, Scratch};
use testkit::allocations::{Count, Counting, count};

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

fn rule(
    action: Action,
    source: &str,
    regex: &str,
    target: &str,
    replacement: Option<&str>,
) -> Rule {
    let text = RuleText {
        action,
        source_labels: source.split_whitespace().map(str::to_owned).collect(),
        regex: (!regex.is_empty()).then(|| regex.to_owned()),
        modulus: u64::from(action == Action::HashMod) * 8,
        target_label: target.to_owned(),
        replacement: replacement.map(str::to_owned),
        separator: None,
    };
    Rule::new(&text, NameValidation::Utf8).unwrap()
}

#[test]
fn rules_work_in_the_memory_of_the_set_before() {
    let rules = [
        rule(Action::Replace, "host port", "([^;]+);(\\d+)", "instance", Some("$1:$2")),
        rule(Action::Replace, "path", "/(\\w+)/.*", "area_$1", Some("yes")),
        rule(Action::Keep, "job", "api|web-.*", "", None),
        rule(Action::HashMod, "instance", "", "shard", None),
        rule(Action::LabelMap, "", "meta_(.+)", "", None),
        rule(Action::LabelDrop, "", "meta_.*", "", None),
        rule(Action::Uppercase, "zone", "", "zone", None),
    ];
    let ports: Vec<String> = (1000..1100).map(|port| port.to_string()).collect();
    let mut scratch = Scratch::new();
    let mut run = |port: &str| {
        let mut set = scratch.start();
        for (name, value) in [
            ("host", "db-01.example.com"),
            ("job", "web-front"),
            ("meta_role", "primary"),
            ("path", "/users/7"),
            ("port", port),
            ("zone", "eu-west"),
        ] {
            set.lend(name, value);
        }
        assert!(set.apply(&rules));
        assert_eq!(set.get("role"), Some("primary"));
        assert_eq!(set.get("zone"), Some("EU-WEST"));
        assert_eq!(set.get("area_users"), Some("yes"));
        assert!(set.get("instance").is_some_and(|instance| instance.ends_with(port)));
        assert!(set.get("shard").is_some() && set.get("meta_role").is_none());
    };
    for port in &ports {
        run(port);
    }
    let during = count(|| ports.iter().for_each(|port| run(port)));
    assert_eq!(during, Count::ZERO);
}
