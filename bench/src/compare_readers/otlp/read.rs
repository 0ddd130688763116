//! A request, read by our reader and told as the other process tells it.

use serde_json::{Map, Value, json};
use wire::otlp::attribute::{elements, entries};
use wire::otlp::reader::{Attributes, Data, Exemplars};
use wire::otlp::{AttributeValue, Request};
use wire::protobuf::Error;

use super::model::{all_bits, hexadecimal, metric_line, number, side, sorted};

/// All that `body` holds, in its order.
///
/// # Errors
/// What the reader refuses.
pub fn lines(body: &[u8]) -> Result<Vec<Value>, String> {
    let request = Request::new(body);
    let points = request.check().map_err(|error| error.to_string())?;
    let lines = read(&request).map_err(|error| error.to_string())?;
    let told = lines.iter().filter(|line| line["event"] == "point").count();
    if told != points {
        return Err(format!("{points} points were counted, {told} read"));
    }
    Ok(lines)
}

fn read(request: &Request<'_>) -> Result<Vec<Value>, Error> {
    let mut lines = Vec::new();
    for resource in request.resources() {
        let resource = resource?;
        lines.push(json!({
            "event": "resource",
            "attributes": attributes(resource.resource.attributes)?,
            "dropped_attributes": 0,
            "schema_url": resource.resource.schema_url,
        }));
        for scope in resource.scopes {
            let scope = scope?;
            lines.push(json!({
                "event": "scope",
                "name": scope.scope.name,
                "version": scope.scope.version,
                "attributes": attributes(scope.scope.attributes)?,
                "dropped_attributes": 0,
                "schema_url": scope.scope.schema_url,
            }));
            for metric in scope.metrics {
                let metric = metric?;
                read_metric(&metric.metric, metric.data, &mut lines)?;
            }
        }
    }
    Ok(lines)
}

fn attributes(given: Attributes<'_>) -> Result<Value, Error> {
    let pairs: Result<Vec<_>, Error> = given
        .map(|pair| {
            let (key, value) = pair?;
            Ok((key.to_owned(), any(value)?))
        })
        .collect();
    Ok(sorted(pairs?.into_iter()))
}

/// Recurses as deep as the request was drawn.
fn any(value: AttributeValue<'_>) -> Result<Value, Error> {
    Ok(match value {
        AttributeValue::Empty => Value::Null,
        AttributeValue::Str(text) => json!({ "string": text }),
        AttributeValue::Bool(value) => json!({ "bool": value }),
        AttributeValue::I64(value) => json!({ "int": value }),
        AttributeValue::F64(value) => json!({ "double": all_bits([value])[0] }),
        AttributeValue::Bytes(bytes) => json!({ "bytes": hexadecimal(bytes) }),
        AttributeValue::Array(bytes) => {
            let values: Result<Vec<_>, Error> = elements(bytes).map(|value| any(value?)).collect();
            json!({ "array": values? })
        }
        AttributeValue::Map(bytes) => json!({ "map": attributes(entries(bytes))? }),
    })
}

fn exemplars(given: Exemplars<'_>) -> Result<Value, Error> {
    given
        .map(|exemplar| {
            let exemplar = exemplar?;
            Ok(json!({
                "attributes": attributes(exemplar.filtered_attributes)?,
                "time_ns": exemplar.time_unix_nano,
                "value": number(exemplar.value),
                "trace_id": hexadecimal(&exemplar.trace_id.map_or(Vec::new(), Vec::from)),
                "span_id": hexadecimal(&exemplar.span_id.map_or(Vec::new(), Vec::from)),
            }))
        })
        .collect()
}

/// What every point has; what is empty is not told.
struct Line(Map<String, Value>);

impl Line {
    fn new(given: Attributes<'_>, times: (u64, u64), flags: u32) -> Result<Self, Error> {
        let mut line = Map::new();
        line.insert("event".into(), json!("point"));
        line.insert("attributes".into(), attributes(given)?);
        line.insert("start_ns".into(), json!(times.0));
        line.insert("time_ns".into(), json!(times.1));
        line.insert("flags".into(), json!(flags));
        line.insert("exemplars".into(), json!([]));
        Ok(Line(line))
    }

    fn set(&mut self, key: &str, value: Value) {
        if !value.is_null() && !value.as_array().is_some_and(Vec::is_empty) {
            self.0.insert(key.into(), value);
        }
    }

    fn totals(&mut self, count: u64, totals: [Option<f64>; 3]) {
        self.set("count", json!(count));
        for (name, value) in ["sum", "min", "max"].into_iter().zip(totals) {
            self.set(name, value.map_or(Value::Null, |value| all_bits([value])[0].clone()));
        }
    }
}

fn read_metric(
    head: &wire::otlp::Metric<'_>,
    data: Data<'_>,
    lines: &mut Vec<Value>,
) -> Result<(), Error> {
    match data {
        Data::Empty => lines.push(metric_line(head, "", None, None)),
        Data::Gauge { points } => {
            lines.push(metric_line(head, "gauge", None, None));
            return read_numbers(points, lines);
        }
        Data::Sum { temporality, monotonic, points } => {
            lines.push(metric_line(head, "sum", Some(temporality), Some(monotonic)));
            return read_numbers(points, lines);
        }
        Data::Histogram { temporality, points } => {
            lines.push(metric_line(head, "histogram", Some(temporality), None));
            for point in points {
                let point = point?;
                let times = (point.start_time_unix_nano, point.time_unix_nano);
                let mut line = Line::new(point.attributes, times, point.flags)?;
                line.totals(point.count, [point.sum, point.min, point.max]);
                let bounds = point.bounds.collect::<Result<Vec<_>, _>>()?;
                line.set("bounds", json!(all_bits(bounds)));
                line.set("bucket_counts", json!(point.counts.collect::<Result<Vec<_>, _>>()?));
                line.set("exemplars", exemplars(point.exemplars)?);
                lines.push(line.0.into());
            }
        }
        Data::ExponentialHistogram { temporality, points } => {
            lines.push(metric_line(head, "exponential_histogram", Some(temporality), None));
            for point in points {
                let point = point?;
                let times = (point.start_time_unix_nano, point.time_unix_nano);
                let mut line = Line::new(point.attributes, times, point.flags)?;
                line.totals(point.count, [point.sum, point.min, point.max]);
                line.set("scale", json!(point.scale));
                line.set("zero_count", json!(point.zero_count));
                line.set("zero_threshold", all_bits([point.zero_threshold])[0].clone());
                let positive = point.positive.counts.collect::<Result<Vec<_>, _>>()?;
                line.set("positive", side(point.positive.offset, &positive));
                let negative = point.negative.counts.collect::<Result<Vec<_>, _>>()?;
                line.set("negative", side(point.negative.offset, &negative));
                line.set("exemplars", exemplars(point.exemplars)?);
                lines.push(line.0.into());
            }
        }
        Data::Summary { points } => {
            lines.push(metric_line(head, "summary", None, None));
            for point in points {
                let point = point?;
                let times = (point.start_time_unix_nano, point.time_unix_nano);
                let mut line = Line::new(point.attributes, times, point.flags)?;
                line.totals(point.count, [Some(point.sum), None, None]);
                let pairs = point.quantiles.collect::<Result<Vec<_>, _>>()?;
                let pairs = pairs.into_iter().map(|(of, value)| json!(all_bits([of, value])));
                line.set("quantiles", pairs.collect());
                lines.push(line.0.into());
            }
        }
    }
    Ok(())
}

fn read_numbers<'a>(
    points: impl Iterator<Item = Result<wire::otlp::NumberPoint<Attributes<'a>, Exemplars<'a>>, Error>>,
    lines: &mut Vec<Value>,
) -> Result<(), Error> {
    for point in points {
        let point = point?;
        let times = (point.start_time_unix_nano, point.time_unix_nano);
        let mut line = Line::new(point.attributes, times, point.flags)?;
        line.set("value", number(point.value));
        line.set("exemplars", exemplars(point.exemplars)?);
        lines.push(line.0.into());
    }
    Ok(())
}
