//! Reads everything back through both APIs and lists what differs.

use std::collections::BTreeMap;
use std::error::Error;

use serde_json::Value;

use crate::servers::Server;

/// Differences shown of each kind; the counts are of all.
const SHOWN: usize = 20;

/// What differs between Prometheus (expected) and unladen (found).
#[derive(Default)]
pub struct Difference {
    same: usize,
    missing: Vec<String>,
    extra: Vec<String>,
    values: Vec<String>,
    answers: Vec<String>,
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
    for (series, values) in &expected {
        match found.get(series) {
            None => difference.missing.push(series.clone()),
            Some(others) => {
                difference.same += 1;
                // How long a scrape took is the server's own affair.
                let own = series.contains("\"scrape_duration_seconds\"");
                if let Some(line) = first_difference(values, others).filter(|_| !own) {
                    difference.values.push(format!("{series}: {line}"));
                }
            }
        }
    }
    difference.extra =
        found.keys().filter(|series| !expected.contains_key(*series)).cloned().collect();
    for (path, parameters) in ANSWERS {
        let expected = comparable(path, prometheus.api(path, parameters)?);
        let found = comparable(path, unladen.api(path, parameters)?);
        differences(&format!("{path} {parameters:?}"), &expected, &found, &mut difference.answers);
    }
    Ok(difference)
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

/// The servers stop at different moments, so that one may have a few more of the same.
fn first_difference(expected: &[String], found: &[String]) -> Option<String> {
    if expected.len().abs_diff(found.len()) > 4 {
        return Some(format!("{} samples, found {}", expected.len(), found.len()));
    }
    expected
        .iter()
        .zip(found)
        .enumerate()
        .find(|(_, (expected, found))| expected != found)
        .map(|(at, (expected, found))| format!("sample {at}: {expected}, found {found}"))
}

/// Further requests whose answers have to be the same.
const ANSWERS: &[(&str, &[(&str, &str)])] = &[
    ("labels", &[]),
    ("label/__name__/values", &[]),
    ("label/job/values", &[("match[]", "up == 1")]),
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
fn comparable(path: &str, mut answer: Value) -> Value {
    if path == "query" {
        for series in answer["result"].as_array_mut().into_iter().flatten() {
            series["value"][0] = Value::Null;
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
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (at, (left, right)) in left.iter().zip(right).enumerate() {
                differences(&format!("{place}[{at}]"), left, right, out);
            }
        }
        _ if expected != found => out.push(format!("{place}: {expected}, found {found}")),
        _ => {}
    }
}
