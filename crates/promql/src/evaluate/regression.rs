//! Trends: `deriv`, `predict_linear`, `double_exponential_smoothing`.

use super::column::Output;
use super::range::Call;
use super::window::View;
use crate::annotations::Annotations;
use crate::error::QueryError;
use crate::kahan::Kahan;

/// Slope and intercept (at `origin`) of the line with the least squares.
fn line(view: &View<'_, f64>, origin: i64) -> (f64, f64) {
    let first = view.values[0];
    if view.values.iter().all(|value| *value == first) {
        return if first.is_infinite() { (f64::NAN, f64::NAN) } else { (0.0, first) };
    }
    let [mut x_sum, mut y_sum, mut xy_sum, mut xx_sum] = [Kahan::default(); 4];
    for (time, y) in view.times.iter().zip(view.values) {
        let x = (time - origin) as f64 / 1000.0;
        x_sum.add(x);
        y_sum.add(*y);
        xy_sum.add(x * y);
        xx_sum.add(x * x);
    }
    let n = view.len() as f64;
    let [x, y, xy, xx] = [x_sum, y_sum, xy_sum, xx_sum].map(|sum| sum.sum + sum.lost);
    let covariance = xy - x * y / n;
    let variance = xx - x * x / n;
    let slope = covariance / variance;
    (slope, y / n - slope * x / n)
}

/// Whether there are floats enough for a trend; histograms beside them are noted.
fn has_trend(call: &Call<'_>, annotations: &mut Annotations) -> bool {
    if !call.floats.is_empty() {
        call.note_ignored(annotations);
    }
    call.floats.len() >= 2
}

/// `deriv`
pub(crate) fn deriv(call: &Call<'_>, annotations: &mut Annotations) -> Output {
    if !has_trend(call, annotations) {
        return Output::Nothing;
    }
    // A time near the samples keeps the sums small.
    Output::Float(line(&call.floats, call.floats.times[0]).0)
}

/// `predict_linear`
pub(crate) fn predict(call: &Call<'_>, annotations: &mut Annotations) -> Output {
    if !has_trend(call, annotations) {
        return Output::Nothing;
    }
    let (slope, intercept) = line(&call.floats, call.time);
    Output::Float(slope * call.arguments[0] + intercept)
}

/// `double_exponential_smoothing`
///
/// # Errors
/// A factor that is not between 0 and 1.
pub(crate) fn smooth(call: &Call<'_>, annotations: &mut Annotations) -> Result<Output, QueryError> {
    let [smoothing, trend] = call.arguments;
    for (factor, name, short) in [(smoothing, "smoothing", "sf"), (trend, "trend", "tf")] {
        if factor <= 0.0 || factor >= 1.0 {
            return Err(QueryError::execution(format!(
                "invalid {name} factor. Expected: 0 < {short} < 1, got: {factor:.6}"
            )));
        }
    }
    if !has_trend(call, annotations) {
        return Ok(Output::Nothing);
    }
    let values = call.floats.values;
    let mut level = values[0];
    let mut slope = values[1] - values[0];
    let mut before = 0.0;
    for (index, value) in values.iter().enumerate().skip(1) {
        if index > 1 {
            slope = trend * (level - before) + (1.0 - trend) * slope;
        }
        before = level;
        level = smoothing * value + (1.0 - smoothing) * (level + slope);
    }
    Ok(Output::Float(level))
}
