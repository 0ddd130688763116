//! `unladen plan`: what a load will need, from coefficients that were measured.
//!
//! ```text
//! options       the command line
//! coefficients  what was measured, and what was fitted to it; those that are built in
//! fit           least squares
//! estimate      a load and coefficients → what it needs
//! ```
//! No estimate without its error: what is printed says by how much the sums were wrong where they were measured,
//! and what they rest on.

mod coefficients;
mod estimate;
mod fit;
mod options;

pub(crate) use coefficients::{Coefficients, Measured};
pub use options::{Request, Wanted, parse};

use std::fmt::Write as _;
use std::io::Write;

use estimate::{Estimate, LINGERS, Load};
use serde::Serialize;

use crate::loadtest::{Form, aligned, written};

/// File descriptors that are advised at least, and the soft limit that most systems have.
const USUAL_LIMIT: f64 = 1024.0;

/// What `--json` answers.
#[derive(Serialize)]
struct Answer<'a> {
    estimate: Estimate,
    flags: Vec<String>,
    /// Relative, of the fitted sums where they were measured.
    errors: &'a coefficients::Errors,
    measured: Origin<'a>,
}

#[derive(Serialize)]
struct Origin<'a> {
    date: &'a str,
    machine: &'a str,
    load_average: f64,
    unladen: &'a str,
    loads: usize,
}

/// Writes the estimate to `out`.
///
/// # Errors
/// Coefficients that can't be read, or a shape that they don't have.
pub fn run(request: &Request, out: &mut dyn Write) -> Result<(), String> {
    let by = match &request.coefficients {
        Some(path) => Coefficients::load(path)?,
        None => Coefficients::built_in()?,
    };
    let estimate = Estimate::new(&request.load, &by)?;
    let text = match request.json {
        true => {
            let answer = Answer {
                estimate,
                flags: flags(&request.load),
                errors: &by.errors,
                measured: Origin {
                    date: &by.date,
                    machine: &by.machine,
                    load_average: by.load_average,
                    unladen: &by.unladen,
                    loads: by.loads.len(),
                },
            };
            serde_json::to_string_pretty(&answer).map_err(|error| error.to_string())? + "\n"
        }
        false => shown(&request.load, &estimate, &by),
    };
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| format!("writing the estimate: {error}"))
}

/// The flags of `unladen serve` that the load asks for.
fn flags(load: &Load) -> Vec<String> {
    let seconds =
        |seconds: f64| crate::duration::format(std::time::Duration::from_secs_f64(seconds));
    let mut flags = vec![format!("--storage.tsdb.retention.time={}", seconds(load.retention))];
    if load.block != 7200.0 {
        flags.push(format!("--storage.tsdb.min-block-duration={}", seconds(load.block)));
    }
    flags
}

/// The lines of the estimate: name, figure, what is to be said of it.
fn lines(estimate: &Estimate, errors: &coefficients::Errors) -> [Vec<String>; 9] {
    let line = |name: &str, value: f64, form: Form, rest: String| {
        vec![name.to_owned(), written(Some(value), form), rest]
    };
    let percent = |share: f64| format!("{:.0}%", (share * 100.0).ceil());
    let off = |error: &coefficients::Residual| {
        format!("± {}, at worst {} where it was measured", percent(error.rms), percent(error.worst))
    };
    [
        line("samples per second", estimate.samples_per_second, Form::Count, String::new()),
        line("memory", estimate.memory_bytes, Form::Bytes, off(&errors.memory)),
        line(
            "  to give it",
            estimate.memory_bytes_advised,
            Form::Bytes,
            "with room for queries and the page cache".to_owned(),
        ),
        line("processors", estimate.cores, Form::Digits(2), off(&errors.cpu)),
        line("disk per day", estimate.disk_bytes_per_day, Form::Bytes, off(&errors.disk)),
        line(
            "disk in all",
            estimate.disk_bytes,
            Form::Bytes,
            format!(
                "{} of it head and journal",
                written(Some(estimate.disk_head_bytes), Form::Bytes)
            ),
        ),
        line(
            "written per second",
            estimate.written_bytes_per_second,
            Form::Bytes,
            "blocks included".to_owned(),
        ),
        line(
            "network per second",
            estimate.network_bytes_per_second,
            Form::Bytes,
            "about a tenth where targets compress".to_owned(),
        ),
        line(
            "file descriptors",
            estimate.file_descriptors,
            Form::Count,
            match estimate.file_descriptors {
                count if count > USUAL_LIMIT => format!(
                    "allow {} (ulimit -n, LimitNOFILE=)",
                    (count * 2.0 / 1024.0).ceil() * 1024.0
                ),
                _ => String::new(),
            },
        ),
    ]
}

fn shown(load: &Load, estimate: &Estimate, by: &Coefficients) -> String {
    let mut text = String::new();
    aligned(&lines(estimate, &by.errors), &[true, false, true], &mut text);
    // Writing to a String never fails.
    let _ = write!(
        text,
        "\nFlags: {}\n\nMeasured on {} with unladen {}, {} loads, on {}, load average up to {:.1}.\n\
         It rests on shape {:?}: {:.0} bytes of body and {:.2} bytes of chunk for each sample, values that move\n\
         as those of the exporters that unladen fleet imitates; series that went away stay in memory for {:.0}\n\
         minutes. Another processor needs another part of its time: unladen loadtest --calibrate measures yours.\n",
        flags(load).join(" "),
        by.date,
        by.unladen,
        by.loads.len(),
        by.machine,
        by.load_average,
        load.shape,
        by.shape(&load.shape).map_or(0.0, |shape| shape.body_bytes_per_sample),
        by.shape(&load.shape).map_or(0.0, |shape| shape.chunk_bytes_per_sample),
        LINGERS / 60.0,
    );
    text
}
