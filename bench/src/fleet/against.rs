//! The same fleet for unladen and for Prometheus, one after the other and side by side.

use bench::Failure;
use bench::report::{Bar, Bars, ResultLine};
use bench::statistics::ratio;
use serde_json::Value;

use super::run::{Options, figure, loadtest, prometheus, servers};

/// What the last line says, of one run.
struct Summary {
    cpu: Option<f64>,
    cpu_ratio: Option<f64>,
    allocated: Option<f64>,
    rss: Option<f64>,
    rss_ratio: Option<f64>,
    cv: Option<f64>,
    written: Option<f64>,
    written_ratio: Option<f64>,
    missed: Option<f64>,
    fleet: Option<f64>,
}

impl Summary {
    fn new(report: &Value) -> Self {
        let find = |name: &str| servers(report).iter().find(|one| one["server"] == name);
        let ours = |path: &str| figure(find("unladen")?, path);
        let theirs = |path: &str| figure(find("prometheus")?, path);
        let times = |path: &str| ratio(theirs(path), ours(path));
        Summary {
            cpu: ours("cpu/seconds_per_million_samples"),
            cpu_ratio: times("cpu/seconds_per_million_samples"),
            allocated: ours("allocated/bytes_per_sample"),
            rss: ours("memory/rss_bytes_per_series"),
            rss_ratio: times("memory/rss_bytes_per_series"),
            cv: ours("cv"),
            written: ours("disk/written_bytes_per_sample"),
            written_ratio: times("disk/written_bytes_per_sample"),
            missed: ours("scrapes_missed"),
            fleet: ours("fleet/share_of_server"),
        }
    }

    fn line(&self, name: &str) -> ResultLine {
        ResultLine::new(name)
            .number("cpu_s_per_m", self.cpu, 3)
            .number("vs_prometheus", self.cpu_ratio, 2)
            .number("alloc_bytes_per_sample", self.allocated, 3)
            .number("rss_bytes_per_series", self.rss, 0)
            .number("rss_vs_prometheus", self.rss_ratio, 2)
            .number("cv", self.cv, 3)
            .number("write_bytes_per_sample", self.written, 2)
    }
}

/// Holds the loads; the last line is of the first interval, one after the other.
pub fn run(options: &Options) -> Result<(), Failure> {
    let smoke = options.smoke;
    let default = |full: &[&str], small: &[&str]| -> Vec<String> {
        (if smoke { small } else { full }).iter().map(|&text| text.to_owned()).collect()
    };
    let intervals = options.intervals.clone().unwrap_or_else(|| default(&["10s", "2s"], &["1s"]));
    let duration = options.duration.clone().unwrap_or(if smoke { "3s" } else { "5m" }.to_owned());
    let targets = options.targets.unwrap_or(if smoke { 5 } else { 500 });
    let series = options.series.unwrap_or(if smoke { 20 } else { 1000 });
    let mut peers = options.peers.clone();
    if peers.is_empty() && !options.no_peers && !smoke {
        match prometheus() {
            path if path.is_file() => peers.push(path),
            path => println!("{} could not be built and is left out", path.display()),
        }
    }
    let mut base = vec![
        format!("--targets={targets}"),
        format!("--series={series}"),
        format!("--duration={duration}"),
        "--server=unladen".to_owned(),
    ];
    base.extend(peers.iter().map(|peer| format!("--server={}", peer.display())));
    if let Some(warmup) = options.warmup.clone().or(smoke.then(|| "2s".to_owned())) {
        base.push(format!("--warmup={warmup}"));
    }
    let mut bars = Bars::default();
    let mut last = None;
    for interval in &intervals {
        let run = |kind: &str, more: &[&str]| -> Result<Summary, Failure> {
            let mut arguments = base.clone();
            arguments.push(format!("--interval={interval}"));
            arguments.extend(more.iter().map(|&flag| flag.to_owned()));
            let name = format!("fleet-{interval}-{kind}");
            let summary = Summary::new(&loadtest(&name, &arguments)?);
            summary
                .line(&format!("fleet-{kind} interval={interval}"))
                .number("missed", summary.missed, 0)
                .number("write_vs_prometheus", summary.written_ratio, 2)
                .number("fleet_cpu", summary.fleet, 3)
                .print();
            println!();
            Ok(summary)
        };
        let in_turn = run("in-turn", &["--one-after-another"])?;
        bars.add(&format!("{interval}: scrapes missed"), in_turn.missed, Bar::AtMost(0.0));
        last.get_or_insert(in_turn);
        if !peers.is_empty() && !options.no_side_by_side {
            // Where both want the same processors, ratios are what can be asked for.
            let beside = run("side-by-side", &[])?;
            let name = |figure: &str| format!("{interval}, side by side: {figure}");
            bars.add(&name("scrapes missed"), beside.missed, Bar::AtMost(0.0));
            bars.add(&name("Prometheus' CPU, times ours"), beside.cpu_ratio, Bar::AtLeast(10.0));
            bars.add(
                &name("Prometheus' bytes written, times ours"),
                beside.written_ratio,
                Bar::AtLeast(2.0),
            );
        }
    }
    let summary = last.ok_or("--intervals names none")?;
    bars.add("CPU-seconds per million samples", summary.cpu, Bar::AtMost(0.24));
    bars.add("Prometheus' CPU, times ours", summary.cpu_ratio, Bar::AtLeast(10.0));
    bars.add("bytes allocated per sample", summary.allocated, Bar::AtMost(0.5));
    bars.add("RSS per series", summary.rss, Bar::AtMost(500.0));
    bars.add("cv of samples per second", summary.cv, Bar::AtMost(0.03));
    bars.add("Prometheus' bytes written, times ours", summary.written_ratio, Bar::AtLeast(2.0));
    bars.add("the fleet's CPU, of ours", summary.fleet, Bar::AtMost(0.1));
    bars.print();
    summary.line("fleet").print();
    Ok(())
}
