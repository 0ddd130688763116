//! Compares answers with what is expected: floats within a relative 1e-6, histograms by value.

use promql::Value;
use promql::value::Sample;
use store::FloatHistogram;

use super::read::Evaluation;
use super::series::{Point, compact};

const TOLERANCE: f64 = 1e-6;

fn close(a: f64, b: f64) -> bool {
    if a.is_nan() || b.is_nan() {
        return a.is_nan() && b.is_nan();
    }
    if a == b {
        return true;
    }
    let (sum, difference) = (a.abs() + b.abs(), (a - b).abs());
    if a == 0.0 || b == 0.0 || sum < f64::MIN_POSITIVE {
        return difference < TOLERANCE * f64::MIN_POSITIVE;
    }
    difference / sum.min(f64::MAX) < TOLERANCE
}

fn same(expected: &FloatHistogram, found: &FloatHistogram, hint: bool) -> bool {
    let (a, b) = (compact(expected.clone()), compact(found.clone()));
    let all_close =
        |a: &[f64], b: &[f64]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| close(*a, *b));
    a.schema == b.schema
        && close(a.count, b.count)
        && close(a.sum, b.sum)
        && a.zero_threshold == b.zero_threshold
        && close(a.zero_count, b.zero_count)
        && a.custom_values == b.custom_values
        && a.positive_spans == b.positive_spans
        && a.negative_spans == b.negative_spans
        && all_close(&a.positive_buckets, &b.positive_buckets)
        && all_close(&a.negative_buckets, &b.negative_buckets)
        && (!hint || a.counter_reset_hint == b.counter_reset_hint)
}

/// Whether a value is what the evaluation expects.
pub(crate) fn value(evaluation: &Evaluation, value: &Value) -> Result<(), String> {
    let expected = &evaluation.expected;
    match value {
        Value::Scalar { value, .. } => match expected.scalar {
            Some(wanted) if close(wanted, *value) => Ok(()),
            wanted => Err(format!("scalar {value}, expected {wanted:?}")),
        },
        Value::String { value, .. } => match &expected.string {
            Some(wanted) if wanted.as_str() == value.as_ref() => Ok(()),
            wanted => Err(format!("string {value:?}, expected {wanted:?}")),
        },
        _ if expected.scalar.is_some() && !evaluation.expects_nothing(value) => {
            Err("no scalar".to_owned())
        }
        Value::Vector(samples) => {
            for (place, sample) in samples.iter().enumerate() {
                let found = expected.series.iter().position(|(l, _)| *l == sample.labels);
                let Some(at) = found else {
                    return Err(format!("unexpected {}: {:?}", sample.labels, sample.sample));
                };
                if evaluation.is_ordered() && at != place {
                    return Err(format!("{} at place {place}, not {at}", sample.labels));
                }
                let wanted = expected.series[at].1.first().unwrap_or(&Point::Nothing);
                point(wanted, &sample.sample)
                    .map_err(|reason| format!("{}: {reason}", sample.labels))?;
            }
            let missing =
                expected.series.iter().find(|(l, _)| !samples.iter().any(|s| s.labels == *l));
            missing.map_or(Ok(()), |(labels, _)| Err(format!("{labels} is missing")))
        }
        Value::Matrix(series) => {
            let sorted = series.windows(2).all(|pair| pair[0].labels <= pair[1].labels);
            if !sorted {
                return Err("the matrix is not sorted".to_owned());
            }
            let (start, _, step) = evaluation.matrix_range();
            for series in series {
                let found = expected.series.iter().find(|(l, _)| *l == series.labels);
                let Some((_, points)) = found else {
                    return Err(format!("unexpected {}: {:?}", series.labels, series.floats));
                };
                matrix_series(series, points, start, step)
                    .map_err(|reason| format!("{}: {reason}", series.labels))?;
            }
            let missing =
                expected.series.iter().find(|(l, _)| !series.iter().any(|s| s.labels == *l));
            missing.map_or(Ok(()), |(labels, _)| Err(format!("{labels} is missing")))
        }
    }
}

fn matrix_series(
    series: &promql::value::SeriesPoints,
    points: &[Point],
    start: i64,
    step: i64,
) -> Result<(), String> {
    let mut left = series.len();
    for (index, wanted) in points.iter().enumerate() {
        let time = start + index as i64 * step;
        let float = series.floats.iter().find(|(t, _)| *t == time);
        let histogram = series.histograms.iter().find(|(t, _)| *t == time);
        let found = match (float, histogram) {
            (Some(_), Some(_)) => return Err(format!("a float and a histogram at {time}")),
            (Some((_, value)), None) => Sample::Float(*value),
            (None, Some((_, value))) => Sample::Histogram(value.clone()),
            (None, None) if matches!(wanted, Point::Nothing) => continue,
            (None, None) => return Err(format!("nothing at {time}, expected {wanted:?}")),
        };
        left -= 1;
        point(wanted, &found).map_err(|reason| format!("at {time}: {reason}"))?;
    }
    if left > 0 {
        return Err(format!("{left} points too many: {:?}", series.floats));
    }
    Ok(())
}

fn point(wanted: &Point, found: &Sample) -> Result<(), String> {
    let fine = match (wanted, found) {
        (Point::Float(wanted), Sample::Float(found)) => close(*wanted, *found),
        (Point::Histogram { histogram, hint }, Sample::Histogram(found)) => {
            same(histogram, found, *hint)
        }
        _ => false,
    };
    if fine { Ok(()) } else { Err(format!("{found:?}, expected {wanted:?}")) }
}
