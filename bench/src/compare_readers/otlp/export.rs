//! A registry's metrics, through the exporter and over HTTP, as they reach a collector.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use bench::Failure;
use serde_json::Value;
use tiny_http::{Response, Server};
use unladen::Registry;
use unladen::export::otlp::Options;
use unladen::export::{Data, Exporter, OtlpExporter};
use unladen::reader::{Reader, Temporalities};
use wire::exposition::Kind;
use wire::exposition::writer;
use wire::otlp::Number;

use super::model::{number, sorted};
use crate::model::{Case, Family, Series, SeriesValue, Via};

/// Takes requests as a collector does, and an exporter that sends them there.
pub struct Sent {
    bodies: Receiver<Vec<u8>>,
    exporter: OtlpExporter,
}

/// A body takes no longer than this on the way to itself.
const PATIENCE: Duration = Duration::from_secs(10);

impl Sent {
    /// Listens on a free port of this machine, until the program ends.
    ///
    /// # Errors
    /// There is no port.
    pub fn listen() -> Result<Sent, Failure> {
        let server = Server::http("127.0.0.1:0").map_err(|error| error.to_string())?;
        let port = server.server_addr().to_ip().ok_or("the listener has no port")?.port();
        let (sender, bodies) = channel();
        std::thread::spawn(move || {
            for mut request in server.incoming_requests() {
                let mut body = Vec::new();
                let read = request.as_reader().read_to_end(&mut body);
                let answered = request.respond(Response::from_data(Vec::new()));
                if read.is_err() || answered.is_err() || sender.send(body).is_err() {
                    return;
                }
            }
        });
        let options = Options::to(&format!("http://127.0.0.1:{port}")).compressed(false);
        Ok(Sent { bodies, exporter: OtlpExporter::new(options) })
    }

    /// What reaches the collector of a registry; nothing where it has no points.
    ///
    /// # Errors
    /// It did not get there.
    pub fn body(&mut self, registry: &Registry) -> Result<Vec<u8>, Failure> {
        let mut reader = Reader::new(registry, Temporalities::CUMULATIVE);
        let exporter = &mut self.exporter;
        let sent = reader.collect(|batch| {
            let count = batch.point_count();
            exporter.export(Data::Leased(*batch)).map(|()| count)
        });
        match sent? {
            0 => Ok(Vec::new()),
            _ => Ok(self.bodies.recv_timeout(PATIENCE)?),
        }
    }
}

/// What lines that were read have otherwise than the numbers of a case's own families. Collectors' families
/// and histograms are compared between readers only.
pub fn wrong_numbers(case: &Case, lines: &[Value]) -> Vec<String> {
    let mut wrong = Vec::new();
    let numbers = |family: &&Family| {
        family.via != Via::Collector && family.kind != Kind::Histogram && !family.series.is_empty()
    };
    for family in case.families.iter().filter(numbers) {
        let scope = family.common.iter().find(|(name, _)| name == "otel_scope_name");
        let scope = scope.map_or("", |(_, value)| value);
        let mut expected: Vec<String> = family.series.iter().map(point).collect();
        let mut read = points_of(lines, scope, &family.name);
        expected.sort();
        read.sort();
        if expected != read {
            wrong.push(format!("{:?}: written {expected:?}\n  read {read:?}", family.name));
        }
    }
    wrong
}

fn point(series: &Series) -> String {
    let mut attributes = std::collections::BTreeMap::new();
    for (name, value) in &series.labels {
        let name = name.replace('\0', "\u{fffd}");
        let name = match name.strip_prefix("otel_scope_") {
            Some(rest) => format!("scope_{rest}"),
            None if name.starts_with("__") => format!("_{}", name.trim_start_matches('_')),
            None => name,
        };
        attributes.insert(name, serde_json::json!({ "string": value }));
    }
    let value = match series.value {
        SeriesValue::Number(value, _) => value,
        _ => writer::Value::Count(0),
    };
    let value = match value {
        writer::Value::Integer(value) => Number::Int(value),
        writer::Value::Count(value) => {
            i64::try_from(value).map_or(Number::Double(value as f64), Number::Int)
        }
        writer::Value::Float(value) => Number::Double(value),
    };
    format!("{} {}", sorted(attributes.into_iter()), number(Some(value)))
}

/// Attributes and value of a metric's points.
fn points_of(lines: &[Value], scope: &str, metric: &str) -> Vec<String> {
    let (mut current_scope, mut current_metric) = ("", "");
    let mut points = Vec::new();
    for line in lines {
        let name = line["name"].as_str().unwrap_or_default();
        match line["event"].as_str() {
            Some("scope") => current_scope = name,
            Some("metric") => current_metric = name,
            Some("point") if (current_scope, current_metric) == (scope, metric) => {
                points.push(format!("{} {}", line["attributes"], line["value"]));
            }
            _ => {}
        }
    }
    points
}
