//! What the running binary says of its own cost: sums that agree with one another and with its metrics,
//! trees of calls whose areas add up, and the queries of the manual.

mod running;

use std::collections::BTreeMap;

use running::{Running, wait_for};
use serde_json::Value;

/// A server that scrapes itself, under two names.
fn start(directory: &tempfile::TempDir, flags: &[&str]) -> Running {
    let address = running::free_address();
    let config = format!(
        "global: {{scrape_interval: 100ms}}\nscrape_configs:\n\
         - {{job_name: self, static_configs: [{{targets: ['{address}']}}]}}\n\
         - {{job_name: absent, static_configs: [{{targets: ['{}']}}]}}\n",
        running::free_address(),
    );
    let listen = format!("--web.listen-address={address}");
    let mut all = vec![listen.as_str()];
    all.extend(flags);
    Running::start(directory.path(), &config, &all)
}

fn cost(server: &Running) -> Value {
    server.api("status/cost", &[]).expect("an answer")
}

/// The element of a list whose field is this.
fn find<'a>(list: &'a Value, field: &str, value: &str) -> &'a Value {
    let mut elements = list.as_array().expect("a list").iter();
    elements.find(|one| one[field] == value).unwrap_or_else(|| panic!("{value}: {list}"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn sum(list: &Value, field: &str) -> f64 {
    list.as_array().expect("a list").iter().map(|one| number(&one[field])).sum()
}

/// The server's metrics by name and labels.
fn metrics(server: &Running) -> BTreeMap<String, f64> {
    let mut response = ureq::get(server.url("/metrics")).call().expect("an answer");
    let body = response.body_mut().read_to_string().expect("text");
    let lines = body.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.rsplit_once(' '));
    pairs.map(|(name, value)| (name.to_owned(), value.parse().expect("a value"))).collect()
}

#[test]
fn costs_are_told_and_agree() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = start(&directory, &[]);
    let cost = wait_for("scrapes of itself", 240, || {
        let cost = cost(&server);
        let of_self = find(&cost["pools"], "pool", "self");
        let is_enough = number(&of_self["samples"]) > 5000.0
            && number(&find(&cost["pools"], "pool", "absent")["scrapes"]) > 0.0;
        is_enough.then_some(cost)
    });
    let metrics = metrics(&server);

    assert!(cost["since"].as_str().is_some_and(|since| since.starts_with("20")), "{cost}");
    assert!(number(&cost["uptime_seconds"]) > 0.0);
    assert!(number(&cost["samples"]["ingested"]) > 5000.0, "{cost}");
    assert!(number(&cost["samples"]["per_second"]) > 1000.0, "{cost}");

    // Stages: what they used is what the process used, as far as one moment is another.
    let process = &cost["process"];
    let (cpu, of_stages) = (number(&process["cpu_seconds"]), sum(&cost["stages"], "cpu_seconds"));
    assert!((cpu - of_stages).abs() < 0.1 + cpu / 20.0, "{cpu} {of_stages}");
    for stage in ["fetch", "parse", "append", "journal", "query", "answer", "profiler", "none"] {
        let stage = find(&cost["stages"], "stage", stage);
        assert!(stage["cpu_seconds"].is_number() && stage["allocations"].is_number(), "{stage}");
    }
    assert!(number(&find(&cost["stages"], "stage", "append")["allocated_bytes"]) > 0.0, "{cost}");
    assert!(number(&process["rss_bytes"]) > 1e6 && number(&process["open_fds"]) > 5.0, "{process}");
    let in_use = number(&process["heap_in_use_bytes"]);
    assert!(in_use > 1e5 && in_use < number(&process["rss_bytes"]), "{process}");

    for part in ["known lines", "head rows", "head chunks", "head index", "head symbols"] {
        let part = find(&cost["parts"], "part", part);
        assert!(number(&part["bytes"]) > 0.0 && number(&part["items"]) > 0.0, "{part}");
    }
    let of_self = find(&cost["pools"], "pool", "self");
    for field in
        ["samples", "cpu_seconds", "fetch_seconds", "held_bytes", "body_bytes", "transferred_bytes"]
    {
        assert!(number(&of_self[field]) > 0.0, "{field}: {of_self}");
    }
    // Processor time is a part of the process'.
    assert!(sum(&cost["pools"], "cpu_seconds") < cpu, "{cpu}: {cost}");
    let first = &cost["targets"][0];
    assert_eq!((&first["pool"], &first["labels"]["job"]), (&"self".into(), &"self".into()));
    assert!(first["url"].as_str().is_some_and(|url| url.ends_with("/metrics")), "{first}");
    // Its only target; a scrape may have ended between the two looks.
    let (one, all) = (number(&first["samples"]), number(&of_self["samples"]));
    assert!((one - all).abs() <= all / 5.0, "{one} {all}");

    // The same as metrics, a little later.
    for (name, at_least) in [
        ("unladen_scrape_pool_samples_total{scrape_job=\"self\"}", &of_self["samples"]),
        ("unladen_scrape_pool_body_bytes_total{scrape_job=\"self\"}", &of_self["body_bytes"]),
        ("unladen_scrape_pool_cpu_seconds_total{scrape_job=\"self\"}", &of_self["cpu_seconds"]),
    ] {
        let found = metrics.get(name).copied().unwrap_or(0.0);
        assert!(found >= number(at_least), "{name}: {found} {at_least}");
    }
    let of_metric = |prefix: &str| -> f64 {
        let found = metrics.iter().filter(|(name, _)| name.starts_with(prefix));
        found.map(|(_, value)| value).sum()
    };
    let (stages, process) =
        (of_metric("profiler_stage_cpu_seconds_total{"), of_metric("process_cpu_seconds_total"));
    // The kernel tells a process' time in hundredths of a second.
    assert!((stages - process).abs() < 0.1 + process / 20.0, "{stages} {process}");
    let allocated = number(&cost["process"]["heap_allocated_bytes"]);
    let later = of_metric("heap_allocated_bytes_total{");
    assert!(later >= allocated && allocated >= later / 10.0, "{allocated} {later}");
    assert!(of_metric("unladen_memory_bytes{part=\"head rows\"}") > 0.0);
}

#[test]
fn trees_add_up_and_are_those_of_a_stage() {
    let directory = tempfile::tempdir().expect("a directory");
    // A server that does as little as this one is hardly looked at with the usual budget.
    let flags = ["--profile.budget=0.5", "--profile.heap-sample-bytes=65536"];
    let server = start(&directory, &flags);
    wait_for("work", 240, || {
        let cost = cost(&server);
        // A stage is there once something was in it.
        let stages = cost["stages"].as_array()?;
        let appended = stages.iter().find(|stage| stage["stage"] == "append")?;
        (number(&appended["cpu_seconds"]) > 0.05).then_some(())
    });
    for (kind, unit, stage, seconds) in [
        ("cpu", "nanoseconds", "append", ""),
        ("wall", "nanoseconds", "fetch", "1"),
        ("allocated", "bytes", "append", "0"),
        ("inuse", "bytes", "", "0"),
    ] {
        let form = [("type", kind), ("stage", stage), ("seconds", seconds)];
        let tree = server.api("status/profile", &form).expect("an answer");
        assert_eq!((&tree["type"], &tree["unit"]), (&kind.into(), &unit.into()), "{tree}");
        let names = tree["names"].as_array().expect("names");
        assert_eq!(names[0], if stage.is_empty() { "all" } else { stage });
        let nodes: Vec<Vec<i64>> = serde_json::from_value(tree["nodes"].clone()).expect("nodes");
        assert!(nodes.len() > 3 && nodes.len() <= 10_000, "{form:?}: {}", nodes.len());
        assert_eq!((nodes[0][2], nodes[0][3]), (tree["total"].as_i64().expect("a total"), -1));
        assert!(nodes[0][2] > 0, "{form:?}");
        let mut below = vec![0; nodes.len()];
        for (index, node) in nodes.iter().enumerate().skip(1) {
            let parent = usize::try_from(node[3]).expect("a parent");
            assert!(parent < index && (node[0] as usize) < names.len(), "{node:?}");
            below[parent] += node[2];
        }
        for (node, below) in nodes.iter().zip(below) {
            assert_eq!(node[2], node[1] + below, "{form:?}: {node:?}");
        }
        let has = |part: &str| {
            names.iter().any(|name| name.as_str().is_some_and(|name| name.contains(part)))
        };
        // Names are found, and a stage has what belongs to it.
        assert!(has("server::") || has("tokio::"), "{form:?}: {names:?}");
        if stage == "append" {
            assert!(has("store::") && !has("http_client"), "{names:?}");
        }
    }
}

#[test]
fn without_a_profiler_there_is_the_rest() {
    let directory = tempfile::tempdir().expect("a directory");
    let flags = ["--profile.budget=0", "--profile.heap-sample-bytes=0"];
    let server = start(&directory, &flags);
    let cost = wait_for("scrapes of itself", 240, || {
        let cost = cost(&server);
        (number(&cost["samples"]["ingested"]) > 1000.0).then_some(cost)
    });
    assert_eq!(sum(&cost["stages"], "cpu_seconds"), 0.0);
    assert!(sum(&cost["stages"], "allocated_bytes") > 0.0, "counted without samples: {cost}");
    for kind in ["cpu", "inuse"] {
        let url = server.url(&format!("/api/v1/status/profile?type={kind}"));
        match ureq::get(&url).call() {
            Err(ureq::Error::StatusCode(404)) => {}
            other => panic!("{kind}: {other:?}"),
        }
    }
}

/// The queries of `docs/cost.md`, over less time, of a server that scrapes itself.
#[test]
fn the_queries_of_the_manual_give_numbers() {
    let manual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cost.md");
    let manual = std::fs::read_to_string(manual).expect("the manual");
    let queries: Vec<_> = manual
        .split("```promql\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap_or_default().replace("[5m]", "[3s]"))
        .collect();
    assert!(queries.len() >= 7, "{queries:?}");
    let directory = tempfile::tempdir().expect("a directory");
    let server = start(&directory, &[]);
    for query in queries {
        wait_for(&query, 240, || {
            let answer = server.api("query", &[("query", query.as_str())])?;
            let series = answer["result"].as_array()?;
            let values = series.iter().map(|one| one["value"][1].as_str()?.parse::<f64>().ok());
            let values: Option<Vec<f64>> = values.collect();
            let values = values?;
            let are_numbers = values.iter().any(|value| value.is_finite() && *value != 0.0);
            are_numbers.then_some(())
        });
    }
}
