//! The readers of others: one child process that is asked a body at a time.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use bench::Failure;
use serde_json::Value;

use crate::canonical::{Exemplar, Exposition, Family, Histogram, Sample};
use crate::draw::Pairs;
use crate::expect::number;

/// The child.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// What one reader answered to one body.
#[derive(Clone, Debug)]
pub struct Answer {
    /// `expfmt`, `textparse` or `otlp`.
    pub reader: String,
    /// Its lines, without the last.
    pub lines: Vec<Value>,
    /// Why it refuses the body, or what a scrape would hold against it.
    pub error: Option<String>,
}

impl Peer {
    /// Starts the program; none where it was not built.
    pub fn start(program: &Path) -> Result<Option<Peer>, Failure> {
        if !program.exists() {
            return Ok(None);
        }
        let mut child =
            Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().ok_or("the readers have no input")?;
        let output = BufReader::new(child.stdout.take().ok_or("the readers have no output")?);
        Ok(Some(Peer { child, input, output }))
    }

    /// What each reader of the format makes of `body`.
    pub fn ask(&mut self, format: &str, body: &[u8]) -> Result<Vec<Answer>, Failure> {
        writeln!(self.input, "{format} {}", body.len())?;
        self.input.write_all(body)?;
        self.input.flush()?;
        let mut answers = Vec::new();
        let mut lines = Vec::new();
        let mut text = String::new();
        loop {
            text.clear();
            if self.output.read_line(&mut text)? == 0 {
                return Err("the readers ended before they answered".into());
            }
            let line: Value = serde_json::from_str(&text)?;
            let reader = line["reader"].as_str().unwrap_or_default().to_owned();
            match line["event"].as_str() {
                Some("done") => return Ok(answers),
                Some("end") => {
                    let count = |key: &str| line[key].as_u64().unwrap_or_default();
                    let (twice, split) = (count("duplicate_series"), count("split_families"));
                    // Where textparse leaves a family's name escaped, no sample is of its family.
                    let is_escaped = |line: &Value| {
                        line["event"] == "family" && text_of(&line["name"]).contains('\\')
                    };
                    let is_split = split > 0 && !lines.iter().any(is_escaped);
                    let error = (twice > 0 || is_split)
                        .then(|| format!("{twice} series come twice, {split} families come again"));
                    answers.push(Answer { reader, lines: std::mem::take(&mut lines), error });
                }
                Some("error") => {
                    let error = Some(text_of(&line["error"]));
                    answers.push(Answer { reader, lines: std::mem::take(&mut lines), error });
                }
                _ => lines.push(line),
            }
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It ends with its input, but a driver that failed may not wait for an answer.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A text, or the bytes of one that is not UTF-8.
fn text_of(value: &Value) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None => format!("bytes {}", value["hex"]),
    }
}

fn bits(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap_or_default(), 16).unwrap_or_default()
}

fn pairs(value: &Value) -> Pairs {
    let pairs = value.as_array().into_iter().flatten();
    pairs.map(|pair| (text_of(&pair[0]), text_of(&pair[1]))).collect()
}

fn exemplars(value: &Value) -> Vec<Exemplar> {
    let read = |exemplar: &Value| Exemplar {
        labels: pairs(&exemplar["labels"]),
        value: bits(&exemplar["value"]),
        timestamp_ms: exemplar["timestamp_ms"].as_i64(),
    };
    value.as_array().into_iter().flatten().map(read).collect()
}

fn buckets(value: &Value) -> Vec<(i64, u64)> {
    let buckets = value["buckets"].as_array().into_iter().flatten();
    let integer = |value: &Value| value.as_i64().unwrap_or_default();
    buckets.map(|pair| (integer(&pair[0]), pair[1].as_u64().unwrap_or_default())).collect()
}

impl Answer {
    /// The lines as an exposition.
    ///
    /// # Errors
    /// Why the reader refused the body.
    pub fn exposition(&self) -> Result<Exposition, String> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let mut read = Exposition::default();
        for line in &self.lines {
            let name = text_of(&line["name"]);
            let (timestamp_ms, created_ms) =
                (line["timestamp_ms"].as_i64(), line["created_ms"].as_i64());
            match line["event"].as_str() {
                Some("family") => {
                    let told = |key: &str| match &line[key] {
                        Value::Null => String::new(),
                        value => text_of(value),
                    };
                    let family =
                        Family { kind: told("type"), help: told("help"), unit: told("unit") };
                    if let Some(known) = read.families.insert(name.clone(), family.clone())
                        && known != family
                    {
                        return Err(format!("the family {name:?} is {known:?} and {family:?}"));
                    }
                }
                Some("sample") => read.samples.push(Sample {
                    name,
                    labels: pairs(&line["labels"]),
                    value: bits(&line["value"]),
                    timestamp_ms,
                    created_ms,
                    exemplars: exemplars(&line["exemplars"]),
                }),
                _ => read.histograms.push(Histogram {
                    name,
                    labels: pairs(&line["labels"]),
                    timestamp_ms,
                    created_ms,
                    is_gauge: line["gauge"].as_bool().unwrap_or_default(),
                    schema: line["schema"].as_i64().unwrap_or_default(),
                    zero_threshold: bits(&line["zero_threshold"]),
                    zero_count: line["zero_count"].as_u64().unwrap_or_default(),
                    count: line["count"].as_u64().unwrap_or_default(),
                    sum: bits(&line["sum"]),
                    positive: buckets(&line["positive"]),
                    negative: buckets(&line["negative"]),
                    exemplars: exemplars(&line["exemplars"]),
                }),
            }
        }
        if self.reader == "expfmt" {
            add_infinite_buckets(&mut read);
        }
        Ok(read.sort())
    }
}

/// A protobuf histogram need not have a bucket for `+Inf`, and `expfmt` tells what is there.
fn add_infinite_buckets(read: &mut Exposition) {
    let mut added = Vec::new();
    for (name, family) in &read.families {
        if !family.kind.ends_with("histogram") {
            continue;
        }
        let (bucket, count) = (format!("{name}_bucket"), format!("{name}_count"));
        for total in read.samples.iter().filter(|sample| sample.name == count) {
            let mut labels = total.labels.clone();
            labels.push(("le".to_owned(), number(f64::INFINITY)));
            labels.sort();
            if !read.samples.iter().any(|known| known.name == bucket && known.labels == labels) {
                added.push(Sample { name: bucket.clone(), labels, ..total.clone() });
            }
        }
    }
    read.samples.extend(added);
}
