//! Line charts as SVG, drawn here so that a page needs nothing from elsewhere.

use std::fmt::Write as _;

use super::rows::{Form, written};
use crate::profiles::text::xml;

/// A line: its name, and its points from left to right.
pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    pub(super) points: Vec<(f64, f64)>,
}

/// Room for the figures of the vertical axis, and for those below.
const LEFT: f64 = 76.0;
const BELOW: f64 = 24.0;
const ABOVE: f64 = 8.0;
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 220.0;

/// The most points that are drawn of a line; more are merged to their mean.
const POINTS: usize = 400;

/// Draws lines over one horizontal axis, from zero upwards. Text is escaped.
pub(super) fn lines(title: &str, unit: &str, form: Form, lines: &[Line<'_>]) -> String {
    let points = || lines.iter().flat_map(|line| &line.points);
    let most = points().map(|point| point.1).fold(0.0, f64::max);
    let first = points().map(|point| point.0).fold(f64::INFINITY, f64::min);
    let last = points().map(|point| point.0).fold(f64::NEG_INFINITY, f64::max);
    let mut svg = format!("<figure><figcaption>{}</figcaption>", xml(title));
    if !first.is_finite() {
        svg.push_str("<p>not measured</p></figure>");
        return svg;
    }
    let (step, top) = scale(most, matches!(form, Form::Bytes));
    let span = (last - first).max(1e-9);
    let x = |value: f64| LEFT + (value - first) / span * (WIDTH - LEFT - 8.0);
    let y = |value: f64| HEIGHT - BELOW - value / top * (HEIGHT - BELOW - ABOVE);
    // Writing to a String never fails.
    let _ = write!(
        svg,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        xml(title)
    );
    let mut at = 0.0;
    while at <= top * 1.0001 {
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {0:.1}H{1}\"/><text class=\"y\" x=\"{2}\" y=\"{3:.1}\">{4}</text>",
            y(at),
            WIDTH - 8.0,
            LEFT - 6.0,
            y(at) + 4.0,
            xml(&axis(at, step, form))
        );
        at += step;
    }
    for part in 0..=4 {
        let value = first + span * f64::from(part) / 4.0;
        let _ = write!(
            svg,
            "<text class=\"x{}\" x=\"{:.1}\" y=\"{}\">{}</text>",
            // The last one would stand out of the picture.
            if part == 4 { " last" } else { "" },
            x(value),
            HEIGHT - 6.0,
            xml(&format!("{value:.0} {unit}"))
        );
    }
    for (number, line) in lines.iter().enumerate() {
        let mut path = String::new();
        for (at, point) in thinned(&line.points).iter().enumerate() {
            let letter = if at == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{letter}{:.1} {:.1}", x(point.0), y(point.1));
        }
        let _ = write!(
            svg,
            "<path class=\"line c{}\" d=\"{path}\"><title>{}</title></path>",
            number % 6,
            xml(line.name)
        );
        // A line of one point is no line.
        for point in line.points.iter().filter(|_| line.points.len() <= 20) {
            let said = format!("{}: {}", line.name, written(Some(point.1), form));
            let _ = write!(
                svg,
                "<circle class=\"dot c{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"><title>{}</title></circle>",
                number % 6,
                x(point.0),
                y(point.1),
                xml(&said)
            );
        }
    }
    svg.push_str("</svg></figure>");
    svg
}

/// The step of the vertical axis, 1, 2 or 5 times a power of ten (of 1024 for bytes), and where it ends.
fn scale(most: f64, binary: bool) -> (f64, f64) {
    if most <= 0.0 {
        return (1.0, 1.0);
    }
    let mut unit = 1.0;
    if binary {
        while most / unit >= 1024.0 {
            unit *= 1024.0;
        }
    }
    let rough = most / unit / 4.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|times| times * power);
    let step = step.into_iter().find(|step| *step >= rough * 0.999).unwrap_or(10.0 * power) * unit;
    (step, step * (most / step - 1e-9).ceil().max(1.0))
}

fn axis(value: f64, step: f64, form: Form) -> String {
    match form {
        Form::Digits(_) => {
            let digits = (-step.log10().floor()).clamp(0.0, 6.0) as usize;
            format!("{value:.digits$}")
        }
        _ => written(Some(value), form),
    }
}

/// At most [`POINTS`] points: neighbours merged.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let size = points.len().div_ceil(POINTS).max(1);
    let mean = |chunk: &[(f64, f64)]| {
        let count = chunk.len() as f64;
        (
            chunk.iter().map(|point| point.0).sum::<f64>() / count,
            chunk.iter().map(|point| point.1).sum::<f64>() / count,
        )
    };
    points.chunks(size).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_above_what_is_drawn() {
        for (most, binary, expected) in [
            (0.0, false, (1.0, 1.0)),
            (1.0, false, (0.5, 1.0)),
            (50_000.0, false, (20_000.0, 60_000.0)),
            (0.013, false, (0.005, 0.015)),
            (300.0 * 1048576.0, true, (100.0 * 1048576.0, 300.0 * 1048576.0)),
        ] {
            let (step, top) = scale(most, binary);
            let close = |a: f64, b: f64| (a - b).abs() <= b * 1e-9;
            assert!(close(step, expected.0) && close(top, expected.1), "{most}: {step} {top}");
        }
    }

    #[test]
    fn a_day_is_thinned() {
        let day: Vec<_> = (0..86_400).map(|at| (f64::from(at), 2.0)).collect();
        let some = thinned(&day);
        assert!(some.len() <= POINTS && some.iter().all(|point| point.1 == 2.0), "{}", some.len());
        assert_eq!(thinned(&day[..5]), &day[..5]);
    }
}
