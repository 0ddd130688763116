//! The words behind a command: `--flag=value`, `--flag value`, `--switch`, of a table of flags that also
//! writes the help.
//!
//! For the commands that are this program's own. `serve` has Prometheus' habits and reads its words itself.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use super::Mistake;
use crate::duration;

/// A flag of a command.
pub(crate) struct Known {
    pub(crate) name: &'static str,
    /// What it looks like with its value in the help, such as `--targets=500`; a switch has no `=`.
    pub(crate) shown: &'static str,
    /// The value where it isn't given; empty for none.
    pub(crate) default: &'static str,
    pub(crate) help: &'static str,
}

impl Known {
    /// Whether it takes nothing: it is on or off.
    fn is_switch(&self) -> bool {
        !self.shown.contains('=')
    }

    /// Whether a value may be left out: `--calibrate[=FILE]`.
    fn is_open(&self) -> bool {
        self.shown.contains("[=")
    }

    /// Whether it may be given several times.
    fn repeats(&self) -> bool {
        self.shown.ends_with("...")
    }
}

/// What was given to a command.
pub(crate) struct Words {
    command: &'static str,
    known: &'static [Known],
    given: BTreeMap<&'static str, Vec<String>>,
}

impl Words {
    /// Reads what follows `command`. `None`: help was asked for.
    ///
    /// # Errors
    /// The first flag that there isn't, or that is written as it can't be.
    pub(crate) fn read(
        command: &'static str,
        known: &'static [Known],
        mut arguments: impl Iterator<Item = String>,
    ) -> Result<Option<Self>, Mistake> {
        let mut given: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
        while let Some(argument) = arguments.next() {
            let Some(word) = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-'))
            else {
                return Err(Mistake::new(format!(
                    "unladen {command} takes flags only, and found {argument:?}"
                )));
            };
            if matches!(word, "h" | "help") {
                return Ok(None);
            }
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (word, None),
            };
            let Some(flag) = known.iter().find(|flag| flag.name == name) else {
                return Err(Mistake::new(format!(
                    "unladen {command} has no flag --{name}: see unladen {command} --help"
                )));
            };
            let value = match value {
                Some(value) if flag.is_switch() => match value.as_str() {
                    "true" | "false" => value,
                    _ => {
                        return Err(Mistake::new(format!(
                            "--{name} is a switch: true or false, not {value:?}"
                        )));
                    }
                },
                Some(value) => value,
                None if flag.is_switch() => "true".to_owned(),
                None if flag.is_open() => String::new(),
                None => arguments
                    .next()
                    .ok_or_else(|| Mistake::new(format!("expected a value for flag '--{name}'")))?,
            };
            let values = given.entry(flag.name).or_default();
            if !values.is_empty() && !flag.repeats() {
                return Err(Mistake::new(format!("flag '{name}' cannot be repeated")));
            }
            values.push(value);
        }
        Ok(Some(Words { command, known, given }))
    }

    /// The lines of the help, one for each flag.
    pub(crate) fn help(known: &[Known]) -> String {
        let width = known.iter().map(|flag| flag.shown.len()).max().unwrap_or(0) + 2;
        let mut text = String::new();
        for flag in known {
            let mut left = flag.shown;
            for line in flag.help.lines() {
                // Writing to a String never fails.
                let _ = writeln!(text, "  {left:<width$}{line}");
                left = "";
            }
        }
        text
    }

    /// Whether a flag was given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// The value given last, else the default.
    pub(crate) fn text(&self, name: &str) -> &str {
        if let Some(value) = self.given.get(name).and_then(|values| values.last()) {
            return value;
        }
        let flag = self.known.iter().find(|flag| flag.name == name);
        debug_assert!(flag.is_some(), "unladen {} knows no --{name}", self.command);
        flag.map_or("", |flag| flag.default)
    }

    /// All values given.
    pub(crate) fn all(&self, name: &str) -> &[String] {
        self.given.get(name).map_or(&[], Vec::as_slice)
    }

    /// Whether a switch is on.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.text(name) == "true"
    }

    /// A duration that isn't nothing.
    pub(crate) fn duration(&self, name: &str) -> Result<Duration, Mistake> {
        match duration::parse(self.text(name)) {
            Ok(Duration::ZERO) => Err(Mistake::new(format!("--{name} is longer than nothing"))),
            Ok(duration) => Ok(duration),
            Err(reason) => Err(Mistake::new(format!("--{name}: {reason}"))),
        }
    }

    /// A whole number from `from` to `to`; `k`, `M` and `G` behind it are thousands, millions and
    /// milliards.
    pub(crate) fn count(&self, name: &str, from: u64, to: u64) -> Result<u64, Mistake> {
        count(self.text(name)).filter(|count| (from..=to).contains(count)).ok_or_else(|| {
            Mistake::new(format!(
                "--{name} is a whole number from {from} to {to} such as 500 or 20k, not {:?}",
                self.text(name)
            ))
        })
    }
}

/// A whole number, with `k`, `M` or `G` behind it.
pub(crate) fn count(text: &str) -> Option<u64> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 1_000.0),
        b'M' => (&text[..text.len() - 1], 1e6),
        b'G' => (&text[..text.len() - 1], 1e9),
        _ => return text.parse().ok(),
    };
    let plain =
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let scaled = digits.parse::<f64>().ok().filter(|_| plain)? * unit;
    (scaled.fract() == 0.0 && scaled < 1e18).then_some(scaled as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_units() {
        for (text, expected) in [
            ("0", Some(0)),
            ("500", Some(500)),
            ("20k", Some(20_000)),
            ("1M", Some(1_000_000)),
            ("1.5M", Some(1_500_000)),
            ("2G", Some(2_000_000_000)),
            ("1.0001k", None),
            ("k", None),
            ("-1k", None),
            ("1e3k", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(count(text), expected, "{text}");
        }
    }
}
