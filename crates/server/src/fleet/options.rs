//! The command line of `unladen fleet`, and what a fleet is made of.

use std::time::Duration;

use crate::cli::Mistake;
use crate::duration;

/// What a fleet is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// `host:port`, the host may be empty. Targets have addresses of their own only where it stands for
    /// all of the machine's.
    pub listen: String,
    /// From 1 to [`MOST_TARGETS`].
    pub targets: usize,
    /// Of each target, from 1 to [`MOST_SERIES`].
    pub series: usize,
    /// How often each target will be asked: what is late is measured against it, and values move twice
    /// in it.
    pub interval: Duration,
    /// What targets look like.
    pub shape: Shape,
    /// Series that are replaced by new ones.
    pub churn: Option<Churn>,
    /// How values move.
    pub values: Values,
    /// Answer in gzip who accepts it.
    pub gzip: bool,
    /// Answer in OpenMetrics who prefers it.
    pub openmetrics: bool,
    /// The share of targets that misbehave, from 0 to 1.
    pub misbehaving: f64,
    /// The same seed makes the same fleet.
    pub seed: u64,
    /// Whether targets differ by path (`/7/metrics`) and not by address.
    pub by_path: bool,
}

/// Beyond it the addresses of 127.0.0.0/8 end.
pub const MOST_TARGETS: usize = 1_000_000;

/// A body stays far below the 4 GiB in which places are counted.
pub const MOST_SERIES: usize = 1_000_000;

/// What a target looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// node_exporter.
    Node,
    /// cAdvisor and kube-state-metrics.
    Kubernetes,
    /// A service mesh's histograms.
    Histogram,
    /// RabbitMQ's queues.
    Broker,
    /// Each of the others in turn.
    Mixed,
}

/// The shapes that a mixed fleet takes in turn.
const IN_TURN: [Shape; 4] = [Shape::Node, Shape::Kubernetes, Shape::Histogram, Shape::Broker];

impl Shape {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Shape::Node => "node",
            Shape::Kubernetes => "kubernetes",
            Shape::Histogram => "histogram",
            Shape::Broker => "broker",
            Shape::Mixed => "mixed",
        }
    }

    /// The shape with this name.
    pub fn named(name: &str) -> Option<Self> {
        IN_TURN.into_iter().chain([Shape::Mixed]).find(|shape| shape.as_str() == name)
    }

    /// The shapes that a fleet of this one has: a target has the one at its number, round and round.
    pub(super) fn kinds(self) -> Vec<Shape> {
        match self {
            Shape::Mixed => IN_TURN.to_vec(),
            shape => vec![shape],
        }
    }
}

/// How values move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values {
    /// As those of the exporters that are imitated: about half don't.
    Natural,
    /// Not at all.
    Constant,
    /// All of them.
    Busy,
    /// All of them, and nothing can be foretold: sixteen random digits.
    Random,
    /// This share of them, from 0 to 1.
    Share(f64),
}

impl Values {
    fn parse(text: &str) -> Result<Self, Mistake> {
        Ok(match text {
            "natural" => Values::Natural,
            "constant" => Values::Constant,
            "busy" => Values::Busy,
            "random" => Values::Random,
            _ => match share(text) {
                Some(share) => Values::Share(share),
                None => {
                    return Err(Mistake::new(format!(
                        "--values is natural, constant, busy, random or the share of series that \
                         move, from 0 to 1, and not {text:?}"
                    )));
                }
            },
        })
    }
}

/// So large a share of the series is replaced in each period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Churn {
    /// From 0 to 1, more than nothing.
    pub share: f64,
    /// At least a second.
    pub period: Duration,
}

impl Churn {
    fn parse(text: &str) -> Result<Option<Self>, Mistake> {
        if text == "0" {
            return Ok(None);
        }
        let read = || {
            let (share_text, period) = text.split_once('/')?;
            let churn = Churn { share: share(share_text)?, period: duration::parse(period).ok()? };
            (churn.period >= Duration::from_secs(1)).then_some(churn)
        };
        match read() {
            Some(churn) => Ok((churn.share > 0.0).then_some(churn)),
            None => Err(Mistake::new(format!(
                "--churn is a share of the series and a period of a second or more, such as 0.1/10m, \
                 and not {text:?}"
            ))),
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            listen: "0.0.0.0:9200".to_owned(),
            targets: 10,
            series: 1000,
            interval: Duration::from_secs(10),
            shape: Shape::Node,
            churn: None,
            values: Values::Natural,
            gzip: false,
            openmetrics: false,
            misbehaving: 0.0,
            seed: 1,
            by_path: false,
        }
    }
}

/// What was asked for.
#[derive(Debug, PartialEq)]
pub enum Wanted {
    /// This fleet.
    Run(Box<Options>),
    /// A text that explains.
    Help(String),
}

const HELP: &str = "\
usage: unladen fleet [<flags>]

Pretends to be a fleet of targets, to see what scraping them costs: each answers on an address of its own
with as many series as you ask for, at a small part of what a server needs to read them.

  unladen fleet --targets=500 --series=1000 &
  curl -s http://127.0.0.1:9200/prometheus.yml > fleet.yml
  unladen serve --config.file=fleet.yml

Target 0 is http://127.1.0.1:9200/metrics, target 1 http://127.1.0.2:9200/metrics, and so on; each is
http://127.0.0.1:9200/<number>/metrics too. On 127.0.0.1 there are

  /sd                  All targets, for http_sd_configs; what misbehaves has the label behaviour
  /prometheus.yml      A configuration that scrapes them (?interval=5s, ?job=name)
  /status              What was served, second by second, and what came late, as JSON (?last=60)
  /metrics             The same as metrics

Flags:
  --listen=0.0.0.0:9200   Where to listen
  --targets=10            How many targets
  --series=1000           How many series each has
  --interval=10s          How often each is going to be scraped: a healthy target that is not asked for
                          one and a half of it has missed a scrape; values move twice in it
  --shape=node            node, kubernetes (cAdvisor and kube-state-metrics: long labels), histogram
                          (a service mesh), broker (RabbitMQ's queues), or mixed: each in turn
  --churn=0               Replace this share of the series in each period by new ones, such as 0.1/10m
  --values=natural        natural (about half of the values move), constant, busy (all move), random (and
                          have sixteen digits), or the share that moves, such as 0.3
  --gzip                  Answer in gzip who accepts it (compressing costs ten times as much as serving)
  --openmetrics           Answer in OpenMetrics who prefers it
  --misbehaving=0         The share of targets that misbehave, in every way in turn: slow, endless,
                          broken, bombs, redirects, ...
  --seed=1                The same seed makes the same fleet
  --by-path               Have /sd tell the targets apart by path: for systems without 127.0.0.0/8, and
                          for servers on other machines
";

/// Reads the command line behind `unladen fleet`.
///
/// # Errors
/// The first mistake.
pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Wanted, Mistake> {
    let mut arguments = arguments;
    let mut options = Options::default();
    while let Some(argument) = arguments.next() {
        let flag = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-'));
        let Some(flag) = flag.filter(|flag| !flag.is_empty()) else {
            if argument == "help" {
                return Ok(Wanted::Help(HELP.to_owned()));
            }
            return Err(Mistake::new(format!("unladen fleet takes flags only, not {argument:?}")));
        };
        if matches!(flag, "h" | "help") {
            return Ok(Wanted::Help(HELP.to_owned()));
        }
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (flag, None),
        };
        set(&mut options, name, value, &mut arguments)?;
    }
    Ok(Wanted::Run(Box::new(options)))
}

fn set(
    options: &mut Options,
    name: &str,
    value: Option<String>,
    rest: &mut impl Iterator<Item = String>,
) -> Result<(), Mistake> {
    let switch = match name {
        "gzip" => Some(&mut options.gzip),
        "openmetrics" => Some(&mut options.openmetrics),
        "by-path" => Some(&mut options.by_path),
        _ => None,
    };
    if let Some(switch) = switch {
        *switch = match value.as_deref() {
            None | Some("true") => true,
            Some("false") => false,
            Some(other) => {
                return Err(Mistake::new(format!(
                    "--{name} is a switch: true or false, not {other:?}"
                )));
            }
        };
        return Ok(());
    }
    if !matches!(
        name,
        "listen"
            | "targets"
            | "series"
            | "interval"
            | "shape"
            | "churn"
            | "values"
            | "misbehaving"
            | "seed"
    ) {
        return Err(Mistake::new(format!(
            "unladen fleet has no flag --{name}: see unladen fleet --help"
        )));
    }
    let value = value
        .or_else(|| rest.next())
        .ok_or_else(|| Mistake::new(format!("expected a value for flag '--{name}'")))?;
    match name {
        "listen" => options.listen = value,
        "targets" => options.targets = number(name, &value, MOST_TARGETS)?,
        "series" => options.series = number(name, &value, MOST_SERIES)?,
        "interval" => options.interval = interval(&value)?,
        "churn" => options.churn = Churn::parse(&value)?,
        "values" => options.values = Values::parse(&value)?,
        "shape" => {
            options.shape = Shape::named(&value).ok_or_else(|| {
                Mistake::new(format!(
                    "--shape is node, kubernetes, histogram, broker or mixed, and not {value:?}"
                ))
            })?;
        }
        "misbehaving" => {
            options.misbehaving = share(&value).ok_or_else(|| {
                Mistake::new(format!("--misbehaving is a share from 0 to 1, not {value:?}"))
            })?;
        }
        _ => {
            options.seed = value
                .parse()
                .map_err(|_| Mistake::new(format!("--seed is a whole number, not {value:?}")))?;
        }
    }
    Ok(())
}

fn number(name: &str, value: &str, most: usize) -> Result<usize, Mistake> {
    let number = value.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| {
        Mistake::new(format!("--{name} is a number from 1 to {most}, not {value:?}"))
    })
}

fn share(text: &str) -> Option<f64> {
    text.parse().ok().filter(|share| (0.0..=1.0).contains(share))
}

/// An interval between scrapes: from a tenth of a second to a day.
fn interval(text: &str) -> Result<Duration, Mistake> {
    let (least, most) = (Duration::from_millis(100), Duration::from_secs(86_400));
    let interval =
        duration::parse(text).map_err(|reason| Mistake::new(format!("--interval: {reason}")))?;
    if interval < least || interval > most {
        return Err(Mistake::new(format!("--interval is from 100ms to 1d, not {text}")));
    }
    Ok(interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Result<Wanted, Mistake> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn flags_are_read() {
        let minute = Duration::from_secs(60);
        let churn = Some(Churn { share: 0.1, period: minute * 10 });
        let base = Options::default();
        for (line, expected) in [
            ("", base.clone()),
            ("--targets=5 -series 20", Options { targets: 5, series: 20, ..base.clone() }),
            ("--churn=0.1/10m", Options { churn, ..base.clone() }),
            ("--churn=0/10m --churn 0", base.clone()),
            ("--shape=mixed", Options { shape: Shape::Mixed, ..base.clone() }),
            ("--values=0.25", Options { values: Values::Share(0.25), ..base.clone() }),
            ("--values=busy --gzip", Options { values: Values::Busy, gzip: true, ..base.clone() }),
            ("--by-path --gzip=false", Options { by_path: true, ..base.clone() }),
            ("--interval=1m --seed=9", Options { interval: minute, seed: 9, ..base.clone() }),
            ("--misbehaving=0.05", Options { misbehaving: 0.05, ..base.clone() }),
            ("--openmetrics", Options { openmetrics: true, ..base }),
        ] {
            assert_eq!(run(line), Ok(Wanted::Run(Box::new(expected))), "{line}");
        }
        assert!(matches!(run("--help"), Ok(Wanted::Help(_))));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, expected) in [
            ("5", "unladen fleet takes flags only, not \"5\""),
            ("--frobnicate=1", "unladen fleet has no flag --frobnicate"),
            ("--targets=0", "--targets is a number from 1 to 1000000, not \"0\""),
            ("--series=x", "--series is a number from 1 to 1000000, not \"x\""),
            ("--series", "expected a value for flag '--series'"),
            ("--interval=5", "--interval: \"5\" is not a duration"),
            ("--interval=1ms", "--interval is from 100ms to 1d"),
            ("--shape=cube", "--shape is node, kubernetes, histogram, broker or mixed"),
            ("--churn=0.1", "--churn is a share of the series and a period"),
            ("--churn=2/1m", "--churn is a share of the series and a period"),
            ("--churn=0.1/1ms", "--churn is a share of the series and a period"),
            ("--values=wild", "--values is natural, constant, busy, random or the share"),
            ("--misbehaving=5%", "--misbehaving is a share from 0 to 1"),
            ("--seed=-1", "--seed is a whole number"),
            ("--gzip=maybe", "--gzip is a switch"),
        ] {
            let mistake = run(line).expect_err(line);
            assert!(mistake.message.contains(expected), "{line}: {}", mistake.message);
        }
    }
}
