//! The lines of a report: name, figure, how it is written. One table for the terminal and the page.

use super::outcome::Outcome;

/// How a figure is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A whole number.
    Count,
    /// So many digits behind the point.
    Digits(usize),
    /// Bytes, with the unit that fits.
    Bytes,
    /// A share, in percent.
    Share,
    /// Seconds.
    Seconds,
}

/// A line of the report.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) form: Form,
    /// Whether less is better, so that servers are compared by it.
    pub(super) compared: bool,
    pub(super) value: fn(&Outcome) -> Option<f64>,
}

const fn row(
    name: &'static str,
    form: Form,
    compared: bool,
    value: fn(&Outcome) -> Option<f64>,
) -> Row {
    Row { name, form, compared, value }
}

/// All lines, in their order.
pub(super) const ROWS: &[Row] = &[
    row("samples per second", Form::Count, false, |o| Some(o.samples_per_second)),
    row("evenness: cv of samples per second", Form::Digits(3), false, |o| o.cv),
    row("series", Form::Count, false, |o| o.series),
    row("scrapes missed", Form::Count, false, |o| Some(o.scrapes_missed as f64)),
    row("healthy targets down at the end", Form::Count, false, |o| {
        o.targets_down.map(|d| d as f64)
    }),
    row("CPU-seconds per million samples", Form::Digits(3), true, |o| {
        Some(o.cpu.seconds_per_million_samples)
    }),
    row("processors used", Form::Digits(3), true, |o| Some(o.cpu.cores)),
    row("of that in the kernel", Form::Share, false, |o| Some(o.cpu.system_share)),
    row("bytes allocated per sample", Form::Digits(2), true, |o| o.allocated.bytes_per_sample),
    row("memory (RSS)", Form::Bytes, true, |o| Some(o.memory.rss_mean_bytes)),
    row("memory per series", Form::Bytes, true, |o| Some(o.memory.rss_bytes_per_series)),
    row("most memory", Form::Bytes, true, |o| Some(o.memory.rss_peak_bytes as f64)),
    row("memory (PSS)", Form::Bytes, true, |o| o.memory.pss_bytes.map(|b| b as f64)),
    row("heap in use", Form::Bytes, true, |o| o.memory.heap_bytes),
    row("bytes written per sample", Form::Digits(2), true, |o| o.disk.written_bytes_per_sample),
    row("data directory", Form::Bytes, true, |o| Some(o.disk.bytes as f64)),
    row("its growth per sample, bytes", Form::Digits(2), false, |o| {
        Some(o.disk.grown_bytes_per_sample)
    }),
    row("waits per second", Form::Count, false, |o| Some(o.switches.voluntary_per_second)),
    row("interruptions per second", Form::Count, false, |o| {
        Some(o.switches.involuntary_per_second)
    }),
    row("threads", Form::Count, false, |o| Some(o.threads as f64)),
    row("open file descriptors", Form::Count, false, |o| Some(o.descriptors as f64)),
    row("samples ingested, by its own count", Form::Count, false, |o| o.samples_ingested),
    row("the fleet's CPU, of the server's", Form::Share, false, |o| Some(o.fleet.share_of_server)),
    row("restart: seconds until ready", Form::Seconds, true, |o| Some(o.restart.as_ref()?.seconds)),
    row("restart: samples lost", Form::Count, false, |o| o.restart.as_ref()?.samples_lost),
    row("restart: most memory, of that before", Form::Digits(2), false, |o| {
        Some(o.restart.as_ref()?.peak_ratio)
    }),
];

/// A figure as text; none is `–`.
pub(crate) fn written(value: Option<f64>, form: Form) -> String {
    let Some(value) = value.filter(|value| value.is_finite()) else { return "–".to_owned() };
    match form {
        Form::Count => grouped(value),
        Form::Digits(digits) => format!("{value:.digits$}"),
        Form::Share => format!("{:.1}%", value * 100.0),
        Form::Seconds => format!("{value:.3} s"),
        Form::Bytes => bytes(value),
    }
}

/// How many times the first figure the other one is; none where that says nothing.
pub(super) fn times(first: Option<f64>, other: Option<f64>) -> Option<String> {
    let ratio = other? / first.filter(|first| *first > 0.0)?;
    let digits = [9.95, 0.95].iter().filter(|bound| ratio < **bound).count();
    (ratio.is_finite() && ratio > 0.0).then(|| format!("{ratio:.digits$}×"))
}

fn bytes(value: f64) -> String {
    let mut scaled = value;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB", "PiB"] {
        if scaled.abs() < 1024.0 || unit == "PiB" {
            let digits = if unit == "B" { 0 } else { 1 };
            return format!("{scaled:.digits$} {unit}");
        }
        scaled /= 1024.0;
    }
    unreachable!("the last unit takes all")
}

/// A whole number with a comma for each three digits.
fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    if value <= -0.5 {
        text.push('-');
    }
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_readable() {
        for (value, form, expected) in [
            (None, Form::Count, "–"),
            (Some(f64::NAN), Form::Bytes, "–"),
            (Some(0.4), Form::Count, "0"),
            (Some(999.0), Form::Count, "999"),
            (Some(1000.0), Form::Count, "1,000"),
            (Some(-1_234_567.0), Form::Count, "-1,234,567"),
            (Some(0.23456), Form::Digits(3), "0.235"),
            (Some(0.0312), Form::Share, "3.1%"),
            (Some(500.0), Form::Bytes, "500 B"),
            (Some(1536.0), Form::Bytes, "1.5 KiB"),
            (Some(3.0 * 1024.0 * 1024.0 * 1024.0), Form::Bytes, "3.0 GiB"),
            (Some(1.5), Form::Seconds, "1.500 s"),
        ] {
            assert_eq!(written(value, form), expected, "{value:?}");
        }
        assert_eq!(times(Some(0.25), Some(2.5)).as_deref(), Some("10×"));
        assert_eq!(times(Some(2.0), Some(3.0)).as_deref(), Some("1.5×"));
        assert_eq!(times(Some(2.0), Some(0.1)).as_deref(), Some("0.05×"));
        assert_eq!(times(Some(0.0), Some(3.0)), None);
        assert_eq!(times(None, Some(3.0)), None);
    }
}
