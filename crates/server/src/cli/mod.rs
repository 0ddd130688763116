//! The command line: what was asked for, with every mistake named.
//!
//! Flags are written as Prometheus' are: `--flag=value`, `--flag value`, `--switch`, `--no-switch`,
//! also with one dash. Without a command, flags mean `serve`, so that a service file of Prometheus
//! works with the name of the binary changed.

mod flags;
mod options;
pub(crate) mod words;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use flags::{Effect, FEATURES, FLAGS, Flag, Takes};
pub use options::{LogFormat, ServeOptions};

use crate::fleet;
use crate::loadtest;
use crate::plan;
use crate::profiles::{self, Wanted};

/// What was asked for.
#[derive(Debug)]
pub enum Command {
    /// Run the server.
    Serve(Box<ServeOptions>),
    /// Check configuration files.
    CheckConfig(Vec<PathBuf>),
    /// Look at profiles.
    Profile(Box<profiles::Request>),
    /// Pretend to be a fleet of targets.
    Fleet(Box<fleet::Options>),
    /// Load servers, and report what that took.
    Loadtest(Box<loadtest::Request>),
    /// Say what a load will need.
    Plan(Box<plan::Request>),
    /// Print a text and end well.
    Print(String),
}

/// A mistake in the command line, and the code to exit with.
#[derive(Debug, PartialEq, Eq)]
pub struct Mistake {
    /// What is wrong and what to do.
    pub message: String,
    /// The exit code that Prometheus has for it.
    pub code: u8,
}

impl Mistake {
    #[cold]
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Mistake { message: message.into(), code: 2 }
    }
}

/// The values of flags that were given, by name.
pub(crate) type Given = BTreeMap<&'static str, Vec<String>>;

/// Reads the command line, without the name of the program.
///
/// # Errors
/// The first mistake.
pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Command, Mistake> {
    let mut arguments = arguments.into_iter().peekable();
    match arguments.peek().map(String::as_str) {
        Some("serve") => {
            arguments.next();
            serve(arguments)
        }
        Some("check") => {
            arguments.next();
            check(arguments)
        }
        Some("profile") => {
            arguments.next();
            Ok(match profiles::parse(arguments)? {
                Wanted::Run(request) => Command::Profile(request),
                Wanted::Help(text) => Command::Print(text),
            })
        }
        Some("fleet") => {
            arguments.next();
            Ok(match fleet::parse(arguments)? {
                fleet::Wanted::Run(options) => Command::Fleet(options),
                fleet::Wanted::Help(text) => Command::Print(text),
            })
        }
        Some("loadtest") => {
            arguments.next();
            Ok(match loadtest::parse(arguments)? {
                loadtest::Wanted::Run(request) => Command::Loadtest(request),
                loadtest::Wanted::Help(text) => Command::Print(text),
            })
        }
        Some("plan") => {
            arguments.next();
            Ok(match plan::parse(arguments)? {
                plan::Wanted::Run(request) => Command::Plan(request),
                plan::Wanted::Help(text) => Command::Print(text),
            })
        }
        Some("help") => Ok(Command::Print(help())),
        Some("version") => Ok(Command::Print(version())),
        Some(word) if !word.starts_with('-') => Err(Mistake::new(format!(
            "unknown command {word:?}: there are serve, check config, profile, fleet, loadtest, plan, help and version"
        ))),
        _ => serve(arguments),
    }
}

fn check(mut arguments: impl Iterator<Item = String>) -> Result<Command, Mistake> {
    match arguments.next().as_deref() {
        Some("config") => {}
        other => {
            let found = other.unwrap_or("nothing");
            return Err(Mistake::new(format!(
                "unladen check knows config and found {found:?}: unladen check config FILE..."
            )));
        }
    }
    let files: Vec<PathBuf> = arguments.map(PathBuf::from).collect();
    if files.is_empty() {
        return Err(Mistake::new("which file? unladen check config FILE..."));
    }
    if let Some(flag) = files.iter().find(|file| file.to_string_lossy().starts_with('-')) {
        return Err(Mistake::new(format!("check config has no flag {}", flag.display())));
    }
    Ok(Command::CheckConfig(files))
}

fn serve(mut arguments: impl Iterator<Item = String>) -> Result<Command, Mistake> {
    let mut given = Given::new();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "-h" | "-help" | "--help" | "--help-long" | "--help-man" => {
                return Ok(Command::Print(help()));
            }
            "--help-features" => return Ok(Command::Print(help_features())),
            "-version" | "--version" => return Ok(Command::Print(version())),
            "--no-help" | "--no-version" => continue,
            _ => {}
        }
        let Some(word) = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')) else {
            return Err(Mistake::new(format!("unexpected {argument:?}: serve takes flags only")));
        };
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word, None),
        };
        let (flag, negated) = find(name).ok_or_else(|| unknown(name))?;
        let value = match (flag.takes, value) {
            (Takes::Switch, None) => if negated { "false" } else { "true" }.to_owned(),
            (Takes::Switch, Some(value)) => switch(flag, negated, &value)?,
            (_, Some(value)) => value,
            (_, None) => arguments.next().ok_or_else(|| {
                Mistake::new(format!("expected a value for flag '--{}'", flag.name))
            })?,
        };
        let values = given.entry(flag.name).or_default();
        if flag.takes != Takes::Values && !values.is_empty() {
            return Err(Mistake::new(format!("flag '{}' cannot be repeated", flag.name)));
        }
        values.push(value);
    }
    options::build(&given).map(|options| Command::Serve(Box::new(options)))
}

fn switch(flag: &Flag, negated: bool, value: &str) -> Result<String, Mistake> {
    let on = match value {
        "true" | "1" | "t" | "T" | "TRUE" | "True" => true,
        "false" | "0" | "f" | "F" | "FALSE" | "False" => false,
        _ => {
            return Err(Mistake::new(format!(
                "--{} is a switch: true or false, not {value:?}",
                flag.name
            )));
        }
    };
    Ok((on != negated).to_string())
}

fn find(name: &str) -> Option<(&'static Flag, bool)> {
    if let Some(flag) = FLAGS.iter().find(|flag| flag.name == name) {
        return Some((flag, false));
    }
    let name = name.strip_prefix("no-")?;
    let switch = |flag: &&Flag| flag.name == name && flag.takes == Takes::Switch;
    FLAGS.iter().find(switch).map(|flag| (flag, true))
}

#[cold]
fn unknown(name: &str) -> Mistake {
    let near = FLAGS
        .iter()
        .filter(|flag| {
            !name.is_empty()
                && (flag.name.contains(name)
                    || flag.name.ends_with(name.rsplit('.').next().unwrap_or(name)))
        })
        .map(|flag| format!("--{}", flag.name))
        .take(3)
        .collect::<Vec<_>>()
        .join(", ");
    let hint = if near.is_empty() { "see --help".to_owned() } else { format!("is it {near}?") };
    Mistake::new(format!("unknown long flag '--{name}': {hint}"))
}

/// The values of all flags, as `/api/v1/status/flags` shows them.
pub(crate) fn all_values(given: &Given) -> BTreeMap<String, String> {
    FLAGS
        .iter()
        .filter(|flag| flag.name != "storage.tsdb.retention")
        .map(|flag| {
            let value = match given.get(flag.name) {
                Some(values) => values.join(","),
                None => flag.default.to_owned(),
            };
            (flag.name.to_owned(), value)
        })
        .collect()
}

/// Name, version and place of birth.
pub fn version() -> String {
    format!(
        "unladen, version {} ({} {})\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH
    )
}

fn help() -> String {
    let mut text = String::from(
        "usage: unladen [serve] [<flags>]\n       \
         unladen check config FILE...\n       \
         unladen profile top|flame|diff [<flags>] FILE|URL\n       \
         unladen fleet [<flags>]\n       \
         unladen loadtest [<flags>]\n       \
         unladen plan --series=COUNT [<flags>]\n\n\
         Metrics and profiles that add no load to what they observe: a server that takes the place\n\
         of Prometheus, with its flags, its configuration and its API.\n\n\
         Commands:\n  \
         serve              Scrape, keep, query (what happens without a command)\n  \
         check config FILE  Say what is wrong with a configuration, and where\n  \
         profile            Look at profiles: tables, flame graphs, differences (see profile --help)\n  \
         fleet              Pretend to be a fleet of targets, to load a server (see fleet --help)\n  \
         loadtest           Load a server with simulated targets and report what it takes (see loadtest --help)\n  \
         plan               Say what a load will need (see plan --help)\n  \
         version            Say which version this is\n\nFlags:\n",
    );
    for flag in FLAGS.iter().filter(|flag| !flag.help.is_empty()) {
        let left = match (flag.takes, flag.default) {
            (Takes::Switch, _) => format!("--[no-]{}", flag.name),
            (Takes::Values, default) => format!("--{}={default} ...", flag.name),
            (Takes::Value, default) => format!("--{}={default}", flag.name),
        };
        // Writing to a String never fails.
        let _ = writeln!(text, "  {left}\n      {}", flag.help);
    }
    text.push_str("\nKnown for the sake of existing service files, without effect:\n");
    list(&mut text, |effect| matches!(effect, Effect::Nothing(_)));
    text.push_str("\nKnown, and refused because they don't work yet:\n");
    list(&mut text, |effect| matches!(effect, Effect::NotYet(_) | Effect::Agent));
    text
}

fn list(text: &mut String, wanted: impl Fn(Effect) -> bool) {
    for flag in FLAGS.iter().filter(|flag| wanted(flag.effect)) {
        let _ = match flag.effect {
            Effect::Nothing(reason) | Effect::NotYet(reason) => {
                writeln!(text, "  --{}: {reason}", flag.name)
            }
            _ => writeln!(text, "  --{}: the agent mode", flag.name),
        };
    }
}

fn help_features() -> String {
    let mut text = String::from("Features of --enable-feature:\n");
    for (name, effect) in FEATURES {
        let _ = match effect {
            Effect::Works => writeln!(text, "  {name}"),
            Effect::Nothing(reason) => writeln!(text, "  {name} (no effect: {reason})"),
            Effect::NotYet(reason) => writeln!(text, "  {name} (not yet: {reason})"),
            Effect::Agent => Ok(()),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Result<Command, Mistake> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    fn options(line: &str) -> ServeOptions {
        match run(line) {
            Ok(Command::Serve(options)) => *options,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn flags_are_written_in_several_ways() {
        for line in [
            "--storage.tsdb.path=/x --web.enable-lifecycle",
            "serve --storage.tsdb.path /x --web.enable-lifecycle=true",
            "-storage.tsdb.path=/x --no-web.enable-lifecycle=false",
        ] {
            let options = options(line);
            assert_eq!(options.storage_path, PathBuf::from("/x"), "{line}");
            assert!(options.enable_lifecycle, "{line}");
        }
        let options = options("--web.listen-address=:1 --web.listen-address=:2");
        assert_eq!(options.listen_addresses, [":1", ":2"]);
    }

    #[test]
    fn nothing_means_the_default_or_no_bound() {
        let day = std::time::Duration::from_secs(86_400);
        for (line, retention) in [
            ("", 15),
            ("--storage.tsdb.retention.time=0s", 15),
            ("--storage.tsdb.retention.time=3d", 3),
            ("--storage.tsdb.retention=4d", 4),
        ] {
            assert_eq!(options(line).retention, day * retention, "{line}");
        }
        assert_eq!(options("--web.read-timeout=0s").read_timeout, None);
        assert_eq!(options("--web.read-timeout=1d").read_timeout, Some(day));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, expected) in [
            ("--storage.path=/x", "unknown long flag '--storage.path': is it"),
            ("--query.timeout=5x", "--query.timeout"),
            ("--query.timeout", "expected a value for flag '--query.timeout'"),
            ("--query.timeout=1s --query.timeout=2s", "flag 'query.timeout' cannot be repeated"),
            ("--web.enable-admin-api", "--web.enable-admin-api"),
            ("--storage.agent.path=x", "can only be used in agent mode"),
            ("--log.level=loud", "--log.level"),
            ("--web.cors.origin=(", "--web.cors.origin"),
            ("--enable-feature=st-storage", "st-storage"),
            ("frobnicate", "unknown command \"frobnicate\""),
            ("serve now", "serve takes flags only"),
            ("check", "unladen check config FILE..."),
            ("check config", "which file?"),
            ("fleet 5", "unladen fleet takes flags only, not \"5\""),
            ("--web.enable-lifecycle=maybe", "true or false"),
            ("--query.max-concurrency=9000000000", "--query.max-concurrency is from 1 to"),
            ("--web.max-connections=0", "--web.max-connections is from 1 to"),
            ("--storage.tsdb.min-block-duration=999ms", "from 1s to 31d"),
            ("--profile.budget=2%", "--profile.budget is a share of one processor"),
            ("--profile.budget=1.5", "from 0 to 1, not \"1.5\""),
            ("--profile.heap-sample-bytes=1k", "--profile.heap-sample-bytes wants a whole number"),
            ("--storage.tsdb.min-block-duration=32d", "from 1s to 31d"),
        ] {
            let mistake = run(line).expect_err(line);
            assert!(mistake.message.contains(expected), "{line}: {}", mistake.message);
        }
    }

    #[test]
    fn what_has_no_effect_is_said() {
        let options = options("--web.console.templates=/x --enable-feature=old-ui,unheard-of");
        let all = options.warnings.join("\n");
        for part in ["--web.console.templates", "old-ui", "unheard-of"] {
            assert!(all.contains(part), "{part}: {all}");
        }
        assert_eq!(options.warnings.len(), 3);
    }
}
