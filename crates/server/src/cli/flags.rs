//! The flags of `unladen serve`: those of Prometheus, with their defaults.
//!
//! All of them are known. [`Effect`] says which work, and what happens to those that don't: nothing
//! is ignored in silence.

/// A flag.
#[derive(Debug)]
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    /// What it takes.
    pub(crate) takes: Takes,
    /// The value without it.
    pub(crate) default: &'static str,
    pub(crate) effect: Effect,
    /// One or two sentences. Hidden flags have none.
    pub(crate) help: &'static str,
}

/// What a flag takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Nothing: `--flag` or `--no-flag`.
    Switch,
    /// A value, once.
    Value,
    /// A value, any number of times.
    Values,
}

/// What a flag does here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// What it does in Prometheus.
    Works,
    /// Nothing, and nothing is lost by it: the reason.
    Nothing(&'static str),
    /// It cannot be honoured yet: whoever sets it is refused.
    NotYet(&'static str),
    /// It is for the agent mode of Prometheus.
    Agent,
}

use Effect::{Agent, NotYet, Nothing, Works};
use Takes::{Switch, Value, Values};

const fn flag(
    name: &'static str,
    takes: Takes,
    default: &'static str,
    effect: Effect,
    help: &'static str,
) -> Flag {
    Flag { name, takes, default, effect, help }
}

const NO_GO: Effect = Nothing("there is no Go runtime to be tuned");
const NO_RULES: Effect = Nothing("rules and alerts are not evaluated yet");
const NO_REMOTE: Effect = Nothing("there is no remote storage yet");
const ONE_FORMAT: Effect = Nothing("the journal has its own format and sizes");

/// All flags.
pub(crate) static FLAGS: &[Flag] = &[
    flag(
        "config.file",
        Value,
        "",
        Works,
        "The configuration. Without one, the server watches itself and this machine.",
    ),
    flag("config.auto-reload", Switch, "false", Works, "Reload the configuration when it changes."),
    flag(
        "config.auto-reload-interval",
        Value,
        "30s",
        Works,
        "How often to look whether it changed.",
    ),
    flag(
        "web.listen-address",
        Values,
        "0.0.0.0:9090",
        Works,
        "Where the page and the API listen. Can be repeated.",
    ),
    flag("auto-gomaxprocs", Switch, "true", NO_GO, ""),
    flag("auto-gomemlimit", Switch, "true", NO_GO, ""),
    flag("auto-gomemlimit.ratio", Value, "0.9", NO_GO, ""),
    flag("web.config.file", Value, "", NotYet("TLS and authentication of the server"), ""),
    flag(
        "web.read-timeout",
        Value,
        "5m",
        Works,
        "How long the head or the body of a request may take, and how long an idle connection is kept; \
         0s for ever.",
    ),
    flag("web.max-connections", Value, "512", Works, "Connections at once, over all addresses."),
    flag(
        "web.max-notifications-subscribers",
        Value,
        "16",
        Nothing("there are no live notifications"),
        "",
    ),
    flag(
        "web.external-url",
        Value,
        "",
        Works,
        "The address under which others reach the server. Its path prefixes all routes.",
    ),
    flag(
        "web.route-prefix",
        Value,
        "",
        Works,
        "Prefix of all routes; the path of --web.external-url unless given.",
    ),
    flag("web.user-assets", Value, "", NotYet("serving files of one's own"), ""),
    flag("web.enable-lifecycle", Switch, "false", Works, "Allow reload and shutdown over HTTP."),
    flag(
        "web.enable-admin-api",
        Switch,
        "false",
        NotYet("deleting series and snapshots over HTTP"),
        "",
    ),
    flag("web.enable-remote-write-receiver", Switch, "false", NotYet("receiving remote write"), ""),
    flag(
        "web.remote-write-receiver.accepted-protobuf-messages",
        Values,
        "",
        Nothing("remote write is not received yet"),
        "",
    ),
    flag("web.enable-otlp-receiver", Switch, "false", NotYet("receiving OTLP"), ""),
    flag("web.console.templates", Value, "consoles", Nothing("there are no console templates"), ""),
    flag(
        "web.console.libraries",
        Value,
        "console_libraries",
        Nothing("there are no console templates"),
        "",
    ),
    flag("web.page-title", Value, "unladen", Works, "The title of the page."),
    flag(
        "web.cors.origin",
        Value,
        ".*",
        Works,
        "Pattern of the origins that may ask from other pages; matches as a whole.",
    ),
    flag("storage.tsdb.path", Value, "data/", Works, "The directory of the data."),
    flag("storage.tsdb.retention", Value, "", Works, ""),
    flag(
        "storage.tsdb.retention.time",
        Value,
        "",
        Works,
        "How long samples are kept; 15d unless given. The configuration can say so, too.",
    ),
    flag("storage.tsdb.retention.size", Value, "", NotYet("retention by size"), ""),
    flag(
        "storage.tsdb.no-lockfile",
        Switch,
        "false",
        NotYet("running without the lock of the data directory"),
        "",
    ),
    flag("storage.tsdb.head-chunks-write-queue-size", Value, "0", ONE_FORMAT, ""),
    flag(
        "storage.tsdb.delay-compact-file.path",
        Value,
        "",
        Nothing("blocks are never compacted into larger ones yet"),
        "",
    ),
    flag("storage.tsdb.min-block-duration", Value, "2h", Works, ""),
    flag(
        "storage.tsdb.max-block-duration",
        Value,
        "",
        Nothing("blocks are never compacted into larger ones yet"),
        "",
    ),
    flag("storage.tsdb.max-block-chunk-segment-size", Value, "", ONE_FORMAT, ""),
    flag("storage.tsdb.wal-segment-size", Value, "", ONE_FORMAT, ""),
    flag("storage.tsdb.wal-compression", Switch, "true", ONE_FORMAT, ""),
    flag("storage.tsdb.wal-compression-type", Value, "snappy", ONE_FORMAT, ""),
    flag(
        "storage.tsdb.allow-overlapping-compaction",
        Switch,
        "true",
        Nothing("blocks are never compacted into larger ones yet"),
        "",
    ),
    flag("storage.tsdb.samples-per-chunk", Value, "120", ONE_FORMAT, ""),
    flag(
        "storage.tsdb.delayed-compaction.max-percent",
        Value,
        "10",
        Nothing("compaction is never delayed"),
        "",
    ),
    flag(
        "storage.tsdb.block-reload-interval",
        Value,
        "1m",
        Nothing("blocks are not reloaded while the server runs"),
        "",
    ),
    flag("storage.agent.path", Value, "data-agent/", Agent, ""),
    flag("storage.agent.wal-segment-size", Value, "", Agent, ""),
    flag("storage.agent.wal-compression", Switch, "true", Agent, ""),
    flag("storage.agent.wal-compression-type", Value, "snappy", Agent, ""),
    flag("storage.agent.wal-truncate-frequency", Value, "", Agent, ""),
    flag("storage.agent.retention.min-time", Value, "5m", Agent, ""),
    flag("storage.agent.retention.max-time", Value, "4h", Agent, ""),
    flag("storage.agent.checkpoint-from-in-memory-series", Switch, "false", Agent, ""),
    flag("storage.agent.checkpoint-batch-size", Value, "1000", Agent, ""),
    flag("storage.agent.no-lockfile", Switch, "false", Agent, ""),
    flag("storage.remote.flush-deadline", Value, "1m", NO_REMOTE, ""),
    flag("storage.remote.read-sample-limit", Value, "5e7", NO_REMOTE, ""),
    flag("storage.remote.read-concurrent-limit", Value, "10", NO_REMOTE, ""),
    flag("storage.remote.read-max-bytes-in-frame", Value, "1048576", NO_REMOTE, ""),
    flag("web.search.max-limit", Value, "10000", Nothing("there is no search API"), ""),
    flag("rules.alert.for-outage-tolerance", Value, "1h", NO_RULES, ""),
    flag("rules.alert.for-grace-period", Value, "10m", NO_RULES, ""),
    flag("rules.alert.resend-delay", Value, "1m", NO_RULES, ""),
    flag("rules.max-concurrent-evals", Value, "4", NO_RULES, ""),
    flag("alertmanager.notification-queue-capacity", Value, "10000", NO_RULES, ""),
    flag("alertmanager.notification-batch-size", Value, "256", NO_RULES, ""),
    flag("alertmanager.drain-notification-queue-on-shutdown", Switch, "true", NO_RULES, ""),
    flag(
        "scrape.adjust-timestamps",
        Switch,
        "true",
        Nothing("timestamps are always aligned to the schedule"),
        "",
    ),
    flag(
        "scrape.timestamp-tolerance",
        Value,
        "2ms",
        Nothing("timestamps are always aligned to the schedule, with the default's tolerance"),
        "",
    ),
    flag("scrape.discovery-reload-interval", Value, "5s", Works, ""),
    flag(
        "query.lookback-delta",
        Value,
        "5m",
        Works,
        "How long a sample stands for its series when no newer one comes.",
    ),
    flag("query.timeout", Value, "2m", Works, "How long a query may take."),
    flag("query.max-concurrency", Value, "20", Works, "How many queries run at once; others wait."),
    flag("query.max-samples", Value, "50000000", Works, "How many samples a query may hold."),
    flag(
        "profile.budget",
        Value,
        "0.02",
        Works,
        "The share of one processor that the server's own profiler may take, see /debug/pprof/; 0 turns it \
         off.",
    ),
    flag(
        "profile.heap-sample-bytes",
        Value,
        "524288",
        Works,
        "Allocated bytes from one sample of the server's own heap to the next, on average; 0 turns it off.",
    ),
    flag(
        "enable-feature",
        Values,
        "",
        Works,
        "Features to switch on, separated by commas; see --help-features.",
    ),
    flag("agent", Switch, "false", NotYet("the agent mode"), ""),
    flag(
        "log.level",
        Value,
        "info",
        Works,
        "What is logged: debug, info, warn or error, and above.",
    ),
    flag("log.format", Value, "logfmt", Works, "How it is logged: logfmt or json."),
];

/// The features of `--enable-feature`.
pub(crate) static FEATURES: &[(&str, Effect)] = &[
    ("auto-reload-config", Works),
    ("concurrent-rule-eval", NO_RULES),
    ("created-timestamp-zero-ingestion", NotYet("zero samples at the start of a series")),
    ("delayed-compaction", Nothing("compaction is never delayed")),
    ("exemplar-storage", Works),
    ("extra-scrape-metrics", NotYet("set extra_scrape_metrics in the configuration instead")),
    ("fast-startup", Nothing("the start is always fast")),
    ("histograms-st-encoding", NotYet("native histograms on disk")),
    ("memory-snapshot-on-shutdown", Nothing("the journal is short enough without a snapshot")),
    ("metadata-wal-records", NotYet("metadata in the journal")),
    ("native-histograms", Nothing("as in Prometheus, the configuration says so")),
    ("old-ui", Nothing("there is one page only")),
    ("ooo-native-histograms", Nothing("as in Prometheus, it has no effect any more")),
    ("otlp-deltatocumulative", NotYet("receiving OTLP")),
    ("otlp-native-delta-ingestion", NotYet("receiving OTLP")),
    ("promql-binop-fill-modifiers", Works),
    ("promql-delayed-name-removal", Works),
    ("promql-duration-expr", Nothing("as in Prometheus, it is always on")),
    ("promql-experimental-functions", Works),
    ("promql-extended-range-selectors", Works),
    ("promql-per-step-stats", NotYet("statistics of each step")),
    ("search-api", NotYet("the search API")),
    ("st-storage", NotYet("start timestamps in the store")),
    ("st-synthesis", NotYet("start timestamps in the store")),
    ("type-and-unit-labels", NotYet("labels of type and unit")),
    ("use-start-timestamps", NotYet("start timestamps in the store")),
    ("use-uncached-io", Nothing("the page cache is left alone anyway")),
    ("xor2-encoding", NotYet("the second encoding of chunks")),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_works_and_can_be_seen_has_help() {
        for flag in FLAGS {
            assert!(flag.help.is_empty() || flag.effect == Works, "{}", flag.name);
        }
        let mut names: Vec<_> = FLAGS.iter().map(|flag| flag.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FLAGS.len(), "a flag stands twice");
    }
}
