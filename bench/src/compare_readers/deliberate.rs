//! Differences that are meant: what a format can't carry, and where an incumbent reader is narrower than
//! the format. Each is taken out of what was written, or read, and counted; what differs beyond them is a
//! fault.

use unladen::Format;

use crate::canonical::{Exposition, Family};

/// Who read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum By {
    /// Our reader.
    Ours,
    /// Go's expfmt.
    Expfmt,
    /// Prometheus' parser.
    Textparse,
    /// The generated types of OTLP.
    Otlp,
}

impl By {
    /// All of them, in the order of the result.
    pub const ALL: [By; 4] = [By::Ours, By::Expfmt, By::Textparse, By::Otlp];

    /// Its name in the result.
    pub const fn name(self) -> &'static str {
        match self {
            By::Ours => "ours",
            By::Expfmt => "expfmt",
            By::Textparse => "textparse",
            By::Otlp => "otlp",
        }
    }

    /// The reader that the other process calls so.
    pub fn from_name(name: &str) -> Option<By> {
        By::ALL.into_iter().find(|by| by.name() == name)
    }
}

/// One such difference.
pub struct Deliberate {
    /// What differs and why that is right.
    pub reason: &'static str,
    /// Where it is met.
    pub applies: fn(Format, By) -> bool,
    /// Changes what was written into what is read.
    pub written: fn(&mut Exposition),
    /// Changes what was read into the same.
    pub read: fn(&mut Exposition),
}

fn nothing(_: &mut Exposition) {}

/// All of them, in the order in which they are applied.
pub const ALL: &[Deliberate] = &[
    Deliberate {
        reason: "text has one NaN, and every reader gives it the same bits",
        applies: |format, _| format != Format::Protobuf,
        written: |written| {
            values(written, |bits| {
                if f64::from_bits(*bits).is_nan() {
                    *bits = 0x7ff8_0000_0000_0001;
                }
            })
        },
        read: nothing,
    },
    Deliberate {
        reason: "a NUL ends a name, and all of an exemplar, for every reader of lines: U+FFFD stands for it",
        applies: |_, _| true,
        written: without_nul,
        read: without_nul,
    },
    Deliberate {
        reason: "OpenMetrics tells times as seconds in floating point, which readers cut to milliseconds",
        applies: |format, _| format == Format::OpenMetrics,
        written: |written| {
            for time in written.times_mut() {
                *time = time.map(|ms| ((ms as f64 / 1_000.0) * 1_000.0) as i64);
            }
        },
        read: nothing,
    },
    Deliberate {
        reason: "a negative zero is written as Go's writers do, as 0",
        applies: |format, _| format != Format::Protobuf,
        written: |written| {
            values(written, |bits| {
                if f64::from_bits(*bits) == 0.0 {
                    *bits = 0;
                }
            })
        },
        read: nothing,
    },
    Deliberate {
        reason: "in text, a HELP of nothing but blanks and tabs is none",
        applies: |format, _| format == Format::Text,
        written: |written| {
            helps(written, |help| {
                if help.bytes().all(|byte| matches!(byte, b' ' | b'\t')) {
                    help.clear();
                }
            })
        },
        read: nothing,
    },
    Deliberate {
        reason: "textparse takes a HELP of nothing but NULs and blanks for none",
        applies: |format, by| format == Format::Text && by == By::Textparse,
        written: |written| {
            helps(written, |help| {
                if help.bytes().all(|byte| matches!(byte, 0 | b' ' | b'\t')) {
                    help.clear();
                }
            })
        },
        read: nothing,
    },
    Deliberate {
        reason: "expfmt skips blanks and tabs in front of a HELP",
        applies: |format, by| format == Format::Text && by == By::Expfmt,
        written: |written| {
            helps(written, |help| {
                *help = help.trim_start_matches([' ', '\t']).to_owned();
            })
        },
        read: nothing,
    },
    Deliberate {
        reason: "textparse leaves an exemplar's labels escaped",
        applies: |format, by| format == Format::OpenMetrics && by == By::Textparse,
        written: |written| {
            for exemplar in written.exemplars_mut() {
                for (name, value) in &mut exemplar.labels {
                    *name = escaped(name);
                    *value = escaped(value);
                }
            }
        },
        read: nothing,
    },
    Deliberate {
        reason: "textparse leaves a family's name and unit escaped in HELP, TYPE and UNIT",
        applies: |format, by| format != Format::Protobuf && by == By::Textparse,
        written: |written| {
            let families = std::mem::take(&mut written.families).into_iter();
            let escape = |(name, mut family): (String, Family)| {
                family.unit = escaped(&family.unit);
                (escaped(&name), family)
            };
            written.families = families.map(escape).collect();
        },
        read: nothing,
    },
    Deliberate {
        reason: "Prometheus takes a time of 0 in protobuf for none",
        applies: |format, by| format == Format::Protobuf && by == By::Textparse,
        written: |written| {
            let of_samples = written.samples.iter_mut();
            let samples = of_samples.flat_map(|of| [&mut of.timestamp_ms, &mut of.created_ms]);
            let of_histograms = written.histograms.iter_mut();
            let histograms =
                of_histograms.flat_map(|of| [&mut of.timestamp_ms, &mut of.created_ms]);
            samples.chain(histograms).for_each(|time| *time = time.filter(|ms| *ms != 0));
        },
        read: nothing,
    },
    Deliberate {
        reason: "Prometheus takes a beginning at 0 for none",
        applies: |format, by| format == Format::OpenMetrics && by == By::Textparse,
        written: |written| {
            for sample in &mut written.samples {
                sample.created_ms = sample.created_ms.filter(|ms| *ms != 0);
            }
        },
        read: nothing,
    },
    Deliberate {
        reason: "Prometheus drops a native histogram's exemplars that have no time",
        applies: |format, by| format == Format::Protobuf && by == By::Textparse,
        written: |written| {
            for histogram in &mut written.histograms {
                histogram.exemplars.retain(|exemplar| exemplar.timestamp_ms.is_some());
            }
        },
        read: nothing,
    },
    Deliberate {
        reason: "textparse goes on in a native histogram's exemplars where it was in those of the one before",
        applies: |format, by| format == Format::Protobuf && by == By::Textparse,
        written: without_later_exemplars,
        read: without_later_exemplars,
    },
    Deliberate {
        reason: "expfmt leaves out families without samples",
        applies: |format, by| format == Format::Text && by == By::Expfmt,
        written: |written| {
            let samples = &written.samples;
            let has_samples = |family: &str| {
                samples.iter().any(|sample| {
                    let suffix = sample.name.strip_prefix(family);
                    suffix.is_some_and(|suffix| ["", "_bucket", "_sum", "_count"].contains(&suffix))
                })
            };
            written.families.retain(|name, _| has_samples(name));
        },
        read: nothing,
    },
];

fn values(of: &mut Exposition, change: fn(&mut u64)) {
    of.samples.iter_mut().for_each(|sample| change(&mut sample.value));
    of.exemplars_mut().for_each(|exemplar| change(&mut exemplar.value));
}

fn without_nul(of: &mut Exposition) {
    let clean = |text: &mut String| {
        if text.contains('\0') {
            *text = text.replace('\0', "\u{fffd}");
        }
    };
    of.families = std::mem::take(&mut of.families)
        .into_iter()
        .map(|(mut name, family)| {
            clean(&mut name);
            (name, family)
        })
        .collect();
    for sample in &mut of.samples {
        clean(&mut sample.name);
        sample.labels.iter_mut().for_each(|(name, _)| clean(name));
    }
    for histogram in &mut of.histograms {
        clean(&mut histogram.name);
        histogram.labels.iter_mut().for_each(|(name, _)| clean(name));
    }
    for exemplar in of.exemplars_mut() {
        for (name, value) in &mut exemplar.labels {
            clean(name);
            clean(value);
        }
    }
}

fn helps(of: &mut Exposition, change: fn(&mut String)) {
    of.families.values_mut().for_each(|family| change(&mut family.help));
}

/// As a quoted text stands in a line.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Of families with several native histograms.
fn without_later_exemplars(of: &mut Exposition) {
    let names: Vec<String> = of.histograms.iter().map(|histogram| histogram.name.clone()).collect();
    for histogram in &mut of.histograms {
        if names.iter().filter(|name| **name == histogram.name).count() > 1 {
            histogram.exemplars.clear();
        }
    }
}
