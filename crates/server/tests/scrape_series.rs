//! What a sequence of scrapes leaves in the store: staleness, limits, labels, timestamps; as a table.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use server::config::{self, ScrapeConfig};
use server::scrape::ingest::{Body, Counts, Ingester, Report, TargetSeries};
use store::db::{Db, Options};
use store::disk::Directory;
use store::{Labels, MatchOp, Matcher, Samples, Select};
use testkit::disk::SimulatedDisk;
use wire::exposition::Format;

const START: i64 = 1_700_000_000_000;
const STEP: i64 = 15_000;

/// One sequence: the job's options, what each scrape brings, and what is there afterwards.
struct Case {
    name: &'static str,
    options: &'static str,
    /// A body for each scrape; `!` is a scrape that fails before there is a body.
    scrapes: &'static [&'static str],
    /// `series => one word for each scrape`: a value, `S` for a staleness marker, `_` for nothing.
    /// Reports are left out.
    series: &'static [(&'static str, &'static str)],
    /// For each scrape: samples scraped, after relabelling, series added; or the error's beginning.
    counts: &'static [Result<(u64, u64, u64), &'static str>],
}

const CASES: &[Case] = &[
    Case {
        name: "a series that vanishes is marked once, and lives again",
        options: "",
        scrapes: &["a 1\nb 2\n", "a 1\n", "a 1\n", "a 1\nb 3\n", "b 4\n"],
        series: &[("a", "1 1 1 1 S"), ("b", "2 S _ 3 4")],
        counts: &[Ok((2, 2, 2)), Ok((1, 1, 0)), Ok((1, 1, 0)), Ok((2, 2, 0)), Ok((1, 1, 0))],
    },
    Case {
        name: "a failed scrape marks everything, once",
        options: "",
        scrapes: &["a 1\nb 2\n", "!", "!", "a 3\n", "a 4\n"],
        series: &[("a", "1 S _ 3 4"), ("b", "2 S _ _ _")],
        counts: &[Ok((2, 2, 2)), Err("down"), Err("down"), Ok((1, 1, 0)), Ok((1, 1, 0))],
    },
    Case {
        name: "of a body with a fault nothing is stored, and all that lived is marked",
        options: "",
        scrapes: &["a 1\nb 2\n", "a 5\nc 6\nb{ 7\n", "c 6\n"],
        series: &[("a", "1 S _"), ("b", "2 S _"), ("c", "_ _ 6")],
        counts: &[Ok((2, 2, 2)), Err("cannot read the body: line 3, byte"), Ok((1, 1, 1))],
    },
    Case {
        name: "an empty body is a scrape without series",
        options: "",
        scrapes: &["a 1\n", "", "a 2\n"],
        series: &[("a", "1 S 2")],
        counts: &[Ok((1, 1, 1)), Ok((0, 0, 0)), Ok((1, 1, 0))],
    },
    Case {
        name: "series with a time of their own are not marked",
        options: "",
        scrapes: &["a 1 1700000000000\nb 2\n", "b 3\n", "!"],
        series: &[("a", "1 _ _"), ("b", "2 3 S")],
        counts: &[Ok((2, 2, 2)), Ok((1, 1, 0)), Err("down")],
    },
    Case {
        name: "unless it is asked for",
        options: "track_timestamps_staleness: true",
        scrapes: &["a 1 1700000000000\nb 2\n", "b 3\n", "!"],
        series: &[("a", "1 S _"), ("b", "2 3 S")],
        counts: &[Ok((2, 2, 2)), Ok((1, 1, 0)), Err("down")],
    },
    Case {
        name: "a series that gets a time of its own ends as one without",
        options: "",
        scrapes: &["a 1\n", "a 2 1700000007000\n", "a 3\n"],
        series: &[("a", "1 2@7000+S 3")],
        counts: &[Ok((1, 1, 1)), Ok((1, 1, 0)), Ok((1, 1, 0))],
    },
    Case {
        name: "honor_timestamps false: the scrape's time counts",
        options: "honor_timestamps: false",
        scrapes: &["a 1 1600000000000\n", "b 1\n"],
        series: &[("a", "1 S"), ("b", "_ 1")],
        counts: &[Ok((1, 1, 1)), Ok((1, 1, 1))],
    },
    Case {
        name: "times far ahead are refused, and the series with them",
        options: "",
        scrapes: &["a 1 1700000601000\nb 2\n", "b 2\n"],
        series: &[("b", "2 2")],
        counts: &[Ok((2, 2, 1)), Ok((1, 1, 0))],
    },
    Case {
        name: "the order of the lines does not matter",
        options: "",
        scrapes: &["a 1\nb 2\nc 3\n", "c 4\na 5\nb 6\n", "# x\n\nb 7\n# HELP b x\nc 8\na 9\n"],
        series: &[("a", "1 5 9"), ("b", "2 6 7"), ("c", "3 4 8")],
        counts: &[Ok((3, 3, 3)), Ok((3, 3, 0)), Ok((3, 3, 0))],
    },
    Case {
        name: "a series twice: the first counts",
        options: "",
        scrapes: &["a 1\na 2\n", "a 3\na 3\nb 1\n", "b 1\n"],
        series: &[("a", "1 3 S"), ("b", "_ 1 1")],
        counts: &[Ok((2, 2, 1)), Ok((3, 3, 1)), Ok((1, 1, 0))],
    },
    Case {
        name: "one series under two spellings is one series",
        options: "",
        scrapes: &["a{x=\"1\"} 1\n", "a{x=\"1\",} 2\n", "a{ x=\"1\"} 3\n", "b 1\n"],
        series: &[("a{x=\"1\"}", "1 2 3 S"), ("b", "_ _ _ 1")],
        counts: &[Ok((1, 1, 1)), Ok((1, 1, 1)), Ok((1, 1, 1)), Ok((1, 1, 1))],
    },
    Case {
        name: "several samples of a new series, each with its time",
        options: "",
        scrapes: &["a 1 1699999998000\na 2 1699999999000\na 3 1700000000000\n"],
        series: &[("a", "1@-2000+2@-1000+3")],
        counts: &[Ok((3, 3, 1))],
    },
    Case {
        name: "names that begin alike are not confused",
        options: "",
        scrapes: &["foo 1\nfoobar 2\n", "foobar 3\nfoo{a=\"b\"} 4\n", "foo{a=\"b\"} 5\nfoo 6\n"],
        series: &[("foo", "1 S 6"), ("foo{a=\"b\"}", "_ 4 5"), ("foobar", "2 3 S")],
        counts: &[Ok((2, 2, 2)), Ok((2, 2, 1)), Ok((2, 2, 0))],
    },
    Case {
        name: "labels of the target displace",
        options: "",
        scrapes: &["a{job=\"x\",exported_job=\"y\",instance=\"\"} 1\n"],
        series: &[("a{exported_exported_job=\"x\",exported_job=\"y\"}", "1")],
        counts: &[Ok((1, 1, 1))],
    },
    Case {
        name: "honor_labels: labels of the target give way",
        options: "honor_labels: true",
        scrapes: &["a{job=\"x\",instance=\"\"} 1\n"],
        series: &[("!a{instance=\"i\",job=\"x\"}", "1")],
        counts: &[Ok((1, 1, 1))],
    },
    Case {
        name: "dropped series count and are never marked",
        options: "metric_relabel_configs: [{source_labels: [__name__], regex: b, action: drop}]",
        scrapes: &["a 1\nb 2\n", "b 3\n", "a 1\n"],
        series: &[("a", "1 S 1")],
        counts: &[Ok((2, 1, 1)), Ok((1, 0, 0)), Ok((1, 1, 0))],
    },
    Case {
        name: "sample_limit counts what is kept, and says how many there were",
        options: "sample_limit: 2\n    metric_relabel_configs: [{source_labels: [__name__], regex: z, \
                  action: drop}]",
        scrapes: &["a 1\nb 2\nz 3\n", "a 1\nb 2\nc 3\nd 4\nz 5\n", "a 1\nz 2\n"],
        series: &[("a", "1 S 1"), ("b", "2 S _")],
        counts: &[
            Ok((3, 2, 2)),
            Err("sample_limit exceeded (samples after metric relabelling: 4, limit: 2)"),
            Ok((2, 1, 0)),
        ],
    },
    Case {
        name: "label_limit",
        options: "label_limit: 4",
        scrapes: &["a{x=\"1\"} 1\n", "a{x=\"1\"} 1\nb{x=\"1\",y=\"2\"} 1\n"],
        series: &[("a{x=\"1\"}", "1 S")],
        counts: &[
            Ok((1, 1, 1)),
            Err("line 2: label_limit exceeded (metric: b, number of labels: 5, limit: 4)"),
        ],
    },
    Case {
        name: "label_name_length_limit and label_value_length_limit",
        options: "label_name_length_limit: 8\n    label_value_length_limit: 9",
        scrapes: &["a{xxxxxxxx=\"1\"} 1\n", "a{xxxxxxxxx=\"1\"} 1\n", "a{x=\"1234567890\"} 1\n"],
        series: &[("a{xxxxxxxx=\"1\"}", "1 S _")],
        counts: &[
            Ok((1, 1, 1)),
            Err(
                "line 1: label_name_length_limit exceeded (metric: a, label name: xxxxxxxxx, length: 9",
            ),
            Err(
                "line 1: label_value_length_limit exceeded (metric: a, label name: x, value: \"12345",
            ),
        ],
    },
    Case {
        name: "metric_name_validation_scheme legacy",
        options: "metric_name_validation_scheme: legacy\n    metric_name_escaping_scheme: underscores",
        scrapes: &["{\"a.b\"} 1\n", "a 1\n"],
        series: &[("a", "_ 1")],
        counts: &[
            Err("line 1: invalid metric name or label names: {__name__=\"a.b\""),
            Ok((1, 1, 1)),
        ],
    },
    Case {
        name: "UTF-8 names",
        options: "",
        scrapes: &["{\"a.b\",\"ü\"=\"ö\"} 1\n", "{\"a.b\",\"ü\"=\"ö\"} 2\n"],
        series: &[("a.b{ü=\"ö\"}", "1 2")],
        counts: &[Ok((1, 1, 1)), Ok((1, 1, 0))],
    },
    Case {
        name: "a name that relabelling takes away",
        options: "metric_relabel_configs: [{regex: __name__, action: labeldrop}]",
        scrapes: &["a 1\n"],
        series: &[],
        counts: &[Err("line 1: missing metric name (__name__ label) after relabelling")],
    },
];

#[test]
fn sequences_of_scrapes() {
    for case in CASES {
        run(case);
    }
}

fn job(options: &str) -> ScrapeConfig {
    let text = format!("scrape_configs:\n  - job_name: j\n    {options}\n");
    let loaded =
        config::load_text(&text, Path::new("t.yml"), Path::new(""), &config::Options::default());
    loaded.unwrap_or_else(|errors| panic!("{errors}")).config.scrape_configs.remove(0)
}

struct Stage {
    _folder: Option<tempfile::TempDir>,
    db: Db,
    ingester: Ingester,
    series: TargetSeries,
    labels: Labels,
    /// The counts of the last scrape, with what the store refused.
    rejected: Counts,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let disk = Arc::new(Directory::open(folder.path()).unwrap());
        Stage { _folder: Some(folder), ..Stage::on(disk) }
    }

    fn on(disk: Arc<dyn store::Disk>) -> Self {
        let (db, _) = Db::open(disk, Options::default(), START).unwrap();
        Stage {
            _folder: None,
            ingester: Ingester::new(&db),
            db,
            series: TargetSeries::default(),
            labels: Labels::from_pairs([("instance", "i"), ("job", "j")]),
            rejected: Counts::default(),
        }
    }

    fn scrape(
        &mut self,
        config: &ScrapeConfig,
        text: &str,
        index: usize,
    ) -> Result<Counts, String> {
        let now_ms = START + index as i64 * STEP;
        let result = if text == "!" {
            Err("down".to_owned())
        } else if text.is_empty() {
            self.ingester.mark_all_stale(&mut self.series, now_ms);
            Ok(Counts::default())
        } else {
            let bytes = text.as_bytes();
            let body = Body { bytes, format: Format::Text, now_ms, labels: &self.labels, config };
            self.ingester.read(&mut self.series, body).map_err(|(fault, _)| fault.to_string())
        };
        if result.is_err() {
            self.ingester.mark_all_stale(&mut self.series, now_ms);
        }
        let mut counts = result.clone().unwrap_or_default();
        let up = result.is_ok();
        let report = Report::Scraped { up, seconds: 0.5, counts, extra: None };
        self.ingester.report(&mut self.series, &self.labels, now_ms, &report).unwrap();
        assert!(!self.ingester.commit(&mut self.series, &mut counts).unwrap());
        self.rejected = counts;
        result
    }

    /// Everything in the store: one word for each step of each series.
    fn stored(&self, steps: usize) -> BTreeMap<String, String> {
        let querier = self.db.querier(0, i64::MAX);
        let any = Matcher::new(MatchOp::NotEqual, "__name__", "").unwrap();
        let mut stored = BTreeMap::new();
        for series in querier.select(&[any], 0, i64::MAX).unwrap() {
            let mut samples = Samples::default();
            let mut cursor = series.cursor();
            while cursor.next(&mut samples).unwrap() {}
            let mut words = vec![String::new(); steps];
            for (t, v) in samples.timestamps.iter().zip(&samples.values) {
                let index = (t - START + STEP - 1).div_euclid(STEP) as usize;
                let word = &mut words[index];
                if !word.is_empty() {
                    word.push('+');
                }
                match v.to_bits() {
                    0x7ff0_0000_0000_0002 => word.push('S'),
                    _ => word.push_str(&v.to_string()),
                }
                if (t - START) % STEP != 0 {
                    word.push_str(&format!("@{}", t - START));
                }
            }
            for word in words.iter_mut().filter(|word| word.is_empty()) {
                word.push('_');
            }
            stored.insert(self.shown(series.labels()), words.join(" "));
        }
        stored
    }

    /// `name{labels}` without the target's labels; with `!` in front if it does not have them.
    fn shown(&self, labels: &Labels) -> String {
        let own = self.labels.iter().all(|(name, value)| labels.get(name) == Some(value));
        let rest: Vec<_> = labels
            .iter()
            .filter(|(name, _)| *name != "__name__" && !(own && self.labels.get(name).is_some()))
            .map(|(name, value)| format!("{name}={value:?}"))
            .collect();
        let mark = if own { "" } else { "!" };
        let braces =
            if rest.is_empty() { String::new() } else { format!("{{{}}}", rest.join(",")) };
        format!("{mark}{}{braces}", labels.metric_name())
    }
}

fn run(case: &Case) {
    let config = job(case.options);
    let mut stage = Stage::new();
    assert_eq!(case.scrapes.len(), case.counts.len(), "{}", case.name);
    for (index, (text, expected)) in case.scrapes.iter().zip(case.counts).enumerate() {
        let result = stage.scrape(&config, text, index);
        match (result, expected) {
            (Ok(counts), Ok(expected)) => {
                let got = (counts.scraped, counts.post_relabel, counts.series_added);
                assert_eq!(got, *expected, "{}: scrape {index}", case.name);
            }
            (Err(error), Err(start)) => {
                assert!(error.starts_with(start), "{}: scrape {index}: {error}", case.name);
            }
            (got, expected) => panic!("{}: scrape {index}: {got:?}, not {expected:?}", case.name),
        }
    }
    let mut stored = stage.stored(case.scrapes.len());
    let ups: Vec<_> =
        case.counts.iter().map(|count| if count.is_ok() { "1" } else { "0" }).collect();
    assert_eq!(stored.remove("up"), Some(ups.join(" ")), "{}", case.name);
    stored.retain(|name, _| !name.starts_with("scrape_"));
    let expected: BTreeMap<_, _> =
        case.series.iter().map(|(name, words)| ((*name).to_owned(), (*words).to_owned())).collect();
    assert_eq!(stored, expected, "{}", case.name);
}

#[test]
fn memory_is_bounded_by_what_the_target_exposes() {
    let options = "metric_relabel_configs: [{source_labels: [__name__], regex: d.*, action: drop}]";
    let config = job(options);
    let mut stage = Stage::new();
    let body = |round: usize| -> String {
        (0..500).map(|n| format!("k{{round=\"{round}\",n=\"{n}\"}} 1\nd{round}_{n} 1\n")).collect()
    };
    let mut most = 0;
    for round in 0..60 {
        stage.scrape(&config, &body(round), round).unwrap();
        if round == 5 {
            most = stage.series.memory_usage() * 3 / 2;
        }
        assert!(round <= 5 || stage.series.memory_usage() <= most, "round {round}");
        // A body that fails leaves nothing behind, however often it comes.
        let broken = format!("{}broken{{\n", body(1_000 + round));
        assert!(stage.scrape(&config, &broken, round).is_err());
        assert!(round <= 5 || stage.series.memory_usage() <= most * 2, "round {round}");
    }
}

/// A target that is down while the disk refuses: what lived is marked as soon as the disk takes it.
#[test]
fn markers_that_cannot_be_stored_come_later() {
    let config = job("");
    let disk = SimulatedDisk::new(1);
    let mut stage = Stage::on(Arc::new(disk.clone()));
    stage.scrape(&config, "a 1\nb 2\n", 0).unwrap();
    disk.fail_one_in(1);
    for scrape in 1..3 {
        let now_ms = START + scrape * STEP;
        stage.ingester.mark_all_stale(&mut stage.series, now_ms);
        let mut counts = Counts::default();
        assert!(stage.ingester.commit(&mut stage.series, &mut counts).is_err());
    }
    disk.fail_one_in(0);
    stage.scrape(&config, "!", 3).unwrap_err();
    stage.scrape(&config, "!", 4).unwrap_err();
    let stored = stage.stored(5);
    assert_eq!((&*stored["a"], &*stored["b"]), ("1 _ _ S _", "2 _ _ S _"));
}

/// Samples that the store refuses and lines that are thrown out come together: the refusal must meet
/// the line that it is about.
#[test]
fn a_refused_sample_amid_many_new_lines() {
    let config = job("");
    let mut stage = Stage::new();
    let churn = |round: usize| -> String {
        (0..60).map(|n| format!("k{{n=\"{n}\",round=\"{round}\"}} 1\n")).collect()
    };
    // The last line is known already, and behind all those that go: its place changes.
    let at = START - 1000;
    let last = |value: usize| format!("{}z 1\nlate {value} {at}\n", churn(value));
    let mut duplicates = 0;
    for round in 0..5 {
        let counts = stage.scrape(&config, &last(round), round).unwrap();
        assert_eq!((counts.scraped, counts.post_relabel), (62, 62), "round {round}");
        duplicates += stage.rejected.duplicates;
    }
    assert_eq!(duplicates, 4, "each value after the first at the same time");
    let stored = stage.stored(5);
    assert_eq!(stored["z"], "1 1 1 1 1");
    assert_eq!(stored["late"], "0@-1000 _ _ _ _");
    for round in 0..5 {
        let mut words = ["_"; 5];
        words[round] = "1";
        if let Some(next) = words.get_mut(round + 1) {
            *next = "S";
        }
        let words = words.join(" ");
        assert_eq!(stored[&format!("k{{n=\"7\",round=\"{round}\"}}")], words, "round {round}");
    }
}
