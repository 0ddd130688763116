//! Reads everything back through both APIs and lists what differs.

use std::collections::BTreeMap;
use std::error::Error;

use serde_json::Value;

use crate::servers::Server;

/// Differences shown of each kind; the counts are of all.
const SHOWN: usize = 20;

/// What differs on purpose: where, and why. These differences are counted and shown apart.
const DELIBERATE: &[(&str, &str)] = &[
    (".lastError", "errors name line and byte, and by how much a limit was exceeded"),
    (".lastScrapeBodyBytes", "the sizes of the last scrape stand beside its duration"),
    (".lastScrapeTransferredBytes", "the sizes of the last scrape stand beside its duration"),
    (".lastScrapeSamples", "the sizes of the last scrape stand beside its duration"),
    (
        "\"scrape_series_added\"",
        "only series that are new to the store count, and none of a failed scrape",
    ),
];

/// What differs between Prometheus (expected) and unladen (found).
#[derive(Default)]
pub struct Difference {
    same: usize,
    missing: Vec<String>,
    extra: Vec<String>,
    values: Vec<String>,
    answers: Vec<String>,
    deliberate: BTreeMap<&'static str, usize>,
}

impl Difference {
    pub fn is_empty(&self) -> bool {
        [&self.missing, &self.extra, &self.values, &self.answers].iter().all(|list| list.is_empty())
    }

    pub fn print(&self) {
        for (kind, list) in [
            ("missing", &self.missing),
            ("extra", &self.extra),
            ("values", &self.values),
            ("answers", &self.answers),
        ] {
            for line in list.iter().take(SHOWN) {
                println!("{kind}: {line}");
            }
            if list.len() > SHOWN {
                println!("{kind}: … and {} more", list.len() - SHOWN);
            }
        }
        for (reason, count) in &self.deliberate {
            println!("deliberate: {count} times: {reason}");
        }
        println!(
            "RESULT compare series_same={} series_missing={} series_extra={} values_differing={} answers_differing={}",
            self.same,
            self.missing.len(),
            self.extra.len(),
            self.values.len(),
            self.answers.len()
        );
    }
}

/// All samples of a server by series, in the order of time.
type Series = BTreeMap<String, Vec<String>>;

pub fn compare(prometheus: &Server, unladen: &Server) -> Result<Difference, Box<dyn Error>> {
    let mut difference = Difference::default();
    let (expected, found) = (samples(prometheus)?, samples(unladen)?);
    let more = scrapes_more(&expected, &found);
    let most = more.values().copied().max().unwrap_or(0);
    for (series, values) in &expected {
        match found.get(series) {
            None => difference.missing.push(series.clone()),
            Some(others) => {
                difference.same += 1;
                // How long a scrape took is the server's own affair.
                let own = series.contains("\"scrape_duration_seconds\"");
                if let Some(line) = first_difference(
                    values,
                    others,
                    more.get(&job(series)).copied().unwrap_or(most),
                )
                .filter(|_| !own)
                {
                    difference.values.push(format!("{series}: {line}"));
                }
            }
        }
    }
    difference.extra =
        found.keys().filter(|series| !expected.contains_key(*series)).cloned().collect();
    for (path, parameters) in ANSWERS {
        let ordered = parameters.iter().any(|(_, value)| value.starts_with("sort"));
        let expected = comparable(path, ordered, prometheus.api(path, parameters)?);
        let found = comparable(path, ordered, unladen.api(path, parameters)?);
        differences(&format!("{path} {parameters:?}"), &expected, &found, &mut difference.answers);
    }
    for list in [&mut difference.values, &mut difference.answers] {
        set_apart(list, &mut difference.deliberate);
    }
    Ok(difference)
}

/// Moves deliberate differences out of a list, and counts them by their reason.
fn set_apart(list: &mut Vec<String>, deliberate: &mut BTreeMap<&'static str, usize>) {
    list.retain(|line| {
        let known = DELIBERATE.iter().find(|(place, _)| line.contains(place));
        if let Some((_, reason)) = known {
            *deliberate.entry(reason).or_default() += 1;
        }
        known.is_none()
    });
}

fn samples(server: &Server) -> Result<Series, Box<dyn Error>> {
    let answer = server.api("query", &[("query", "{job=~\".+\"}[10m]")])?;
    let mut all = Series::new();
    for series in answer["result"].as_array().ok_or("no result")? {
        let values = series["values"].as_array().into_iter().flatten();
        let values = values.map(|pair| pair[1].as_str().unwrap_or("?").to_owned()).collect();
        all.insert(series["metric"].to_string(), values);
    }
    Ok(all)
}

/// One server may have scraped a target a few times more: it was up earlier, or asked later. By how many
/// times shows in the target's `up`; at the end all bodies are the same.
fn first_difference(expected: &[String], found: &[String], scrapes_more: usize) -> Option<String> {
    if expected.len().abs_diff(found.len()) > scrapes_more + 1 {
        return Some(format!("{} samples, found {}", expected.len(), found.len()));
    }
    expected
        .iter()
        .zip(found)
        .enumerate()
        .find(|(_, (expected, found))| expected != found)
        .map(|(at, (expected, found))| format!("sample {at}: {expected}, found {found}"))
}

/// The job of a series, as it stands in its labels.
fn job(series: &str) -> String {
    let labels: Value = serde_json::from_str(series).unwrap_or_default();
    labels["job"].as_str().unwrap_or("").to_owned()
}

/// By how many scrapes of each job the two differ.
fn scrapes_more(expected: &Series, found: &Series) -> BTreeMap<String, usize> {
    let ups = |all: &Series| -> BTreeMap<String, usize> {
        let up = all.iter().filter(|(series, _)| series.contains("\"__name__\":\"up\""));
        up.map(|(series, values)| (job(series), values.len())).collect()
    };
    let found = ups(found);
    let pairs = ups(expected).into_iter().map(|(job, count)| {
        let other = found.get(&job).copied().unwrap_or(0);
        (job, count.abs_diff(other))
    });
    pairs.collect()
}

/// Further requests whose answers have to be the same.
const ANSWERS: &[(&str, &[(&str, &str)])] = &[
    ("labels", &[]),
    ("label/__name__/values", &[]),
    ("label/job/values", &[("match[]", "{zone=\"a\",__name__=~\"up|temperature\"}")]),
    ("label/code/values", &[("match[]", "{job=\"plain\"}")]),
    ("series", &[("match[]", "{job=\"relabelled\"}"), ("match[]", "up")]),
    ("query", &[("query", "count by (job) ({job!=\"\"})")]),
    ("query", &[("query", "sort_by_label(up, \"job\")")]),
    ("targets", &[("state", "active")]),
    ("metadata", &[]),
    ("scrape_pools", &[]),
    (
        "query_exemplars",
        &[("query", "orders_total"), ("start", "1690000000"), ("end", "1999999999")],
    ),
];

/// Takes out what cannot be equal: times, durations, the servers' own addresses.
fn comparable(path: &str, ordered: bool, mut answer: Value) -> Value {
    if path == "query" {
        if let Some(series) = answer["result"].as_array_mut().filter(|_| !ordered) {
            series.sort_by_key(|series| series["metric"].to_string());
        }
        for series in answer["result"].as_array_mut().into_iter().flatten() {
            series["value"][0] = Value::Null;
        }
    }
    // Where targets disagree about a metric, Prometheus lists what they say in no order.
    if path == "metadata" {
        for said in answer.as_object_mut().into_iter().flat_map(|object| object.values_mut()) {
            if let Some(said) = said.as_array_mut() {
                said.sort_by_key(Value::to_string);
            }
        }
    }
    if path == "targets" {
        let targets = answer["activeTargets"].as_array_mut();
        for target in targets.into_iter().flatten() {
            for field in ["lastScrape", "lastScrapeDuration"] {
                target[field] = Value::Null;
            }
        }
        if let Some(targets) = answer["activeTargets"].as_array_mut() {
            targets.sort_by_key(|target| target["scrapePool"].to_string());
        }
    }
    answer
}

/// Walks both answers side by side and notes the places at which they part.
fn differences(place: &str, expected: &Value, found: &Value, out: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(left), Value::Object(right)) => {
            for (key, value) in left {
                differences(
                    &format!("{place}.{key}"),
                    value,
                    right.get(key).unwrap_or(&Value::Null),
                    out,
                );
            }
            for key in right.keys().filter(|key| !left.contains_key(*key)) {
                out.push(format!("{place}.{key}: not there in Prometheus"));
            }
        }
        (Value::Array(left), Value::Array(right)) if left.iter().all(Value::is_string) => {
            for name in left.iter().filter(|name| !right.contains(name)) {
                out.push(format!("{place}: {name} is missing"));
            }
            for name in right.iter().filter(|name| !left.contains(name)) {
                out.push(format!("{place}: {name} is not there in Prometheus"));
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (at, (left, right)) in left.iter().zip(right).enumerate() {
                differences(&format!("{place}[{at}]"), left, right, out);
            }
        }
        _ if expected != found => out.push(format!("{place}: {expected}, found {found}")),
        _ => {}
    }
}
