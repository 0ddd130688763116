//! Targets whose n-th body is the same for every client that asks.

use std::collections::HashMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tiny_http::{Header, Response, Server};

use crate::CHANGING_SCRAPES;

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// One job: what its target answers, and the lines of its scrape configuration.
struct Job {
    name: String,
    content_type: &'static str,
    status: u16,
    body: Box<dyn Fn(usize) -> String + Send + Sync>,
    options: &'static str,
}

/// The running targets.
pub struct Fixtures {
    address: String,
    jobs: Arc<Vec<Job>>,
    /// How often each client (by its `User-Agent`) has scraped each job.
    scrapes: Arc<Mutex<HashMap<(String, String), usize>>>,
}

/// Serves all jobs on a free port until the process ends.
pub fn start(root: &Path) -> Result<Fixtures, Box<dyn Error>> {
    let server = Server::http("127.0.0.1:0").map_err(|error| error.to_string())?;
    let address = server.server_addr().to_ip().ok_or("no address")?.to_string();
    let mut jobs = generated();
    jobs.extend(recorded(root)?);
    let fixtures = Fixtures { address, jobs: Arc::new(jobs), scrapes: Arc::default() };
    let server = Arc::new(server);
    for _ in 0..16 {
        let (server, jobs) = (server.clone(), fixtures.jobs.clone());
        let scrapes = fixtures.scrapes.clone();
        std::thread::spawn(move || {
            for request in server.incoming_requests() {
                let _ = answer(request, &jobs, &scrapes);
            }
        });
    }
    Ok(fixtures)
}

fn answer(
    request: tiny_http::Request,
    jobs: &[Job],
    scrapes: &Mutex<HashMap<(String, String), usize>>,
) -> std::io::Result<()> {
    let path = request.url().split('?').next().unwrap_or("").trim_start_matches('/').to_owned();
    let client = request
        .headers()
        .iter()
        .find(|header| header.field.equiv("User-Agent"))
        .map_or(String::new(), |header| header.value.to_string());
    let Some(job) = jobs.iter().find(|job| job.name == path) else {
        return request.respond(Response::from_string("no such job").with_status_code(404));
    };
    let round = {
        let mut scrapes = scrapes.lock().expect("no thread panics with it");
        let count = scrapes.entry((client, path)).or_default();
        *count += 1;
        (*count - 1).min(CHANGING_SCRAPES)
    };
    let header = Header::from_bytes("Content-Type", job.content_type).expect("a valid header");
    let response =
        Response::from_string((job.body)(round)).with_status_code(job.status).with_header(header);
    request.respond(response)
}

impl Fixtures {
    /// The configuration that both servers get.
    pub fn config(&self) -> String {
        let mut yaml = String::from(
            "global:\n  scrape_interval: 2s\n  scrape_timeout: 2s\n  \
             external_labels: {site: here}\nscrape_configs:\n",
        );
        for job in self.jobs.iter() {
            let _ = write!(
                yaml,
                "- job_name: '{name}'\n  metrics_path: '/{name}'\n  static_configs:\n  \
                 - targets: ['{address}']\n    labels: {{zone: a}}\n{options}",
                name = job.name,
                address = self.address,
                options = job.options,
            );
        }
        yaml
    }

    /// Returns when two clients have scraped every job `least` times.
    pub fn wait_for_scrapes(&self, least: usize) -> Result<(), Box<dyn Error>> {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            let slow = {
                let scrapes = self.scrapes.lock().expect("no thread panics with it");
                let enough = |name: &str| {
                    let clients =
                        scrapes.iter().filter(|((_, job), count)| job == name && **count >= least);
                    clients.count() >= 2
                };
                self.jobs.iter().map(|job| job.name.clone()).find(|name| !enough(name))
            };
            let Some(slow) = slow else { return Ok(()) };
            if Instant::now() > deadline {
                return Err(format!("job {slow} was not scraped {least} times by both").into());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn job(
    name: &str,
    options: &'static str,
    body: impl Fn(usize) -> String + Send + Sync + 'static,
) -> Job {
    Job { name: name.to_owned(), content_type: TEXT, status: 200, body: Box::new(body), options }
}

/// What scraping has to get right, one job each.
fn generated() -> Vec<Job> {
    let start = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
    let mut jobs = vec![
        job("plain", "", plain),
        job("churn", "", churn),
        job("special", "", |_| special()),
        job("timestamps", "", move |round| stamped(start, round)),
        job("timestamps_ignored", "  honor_timestamps: false\n", move |round| {
            stamped(start, round)
        }),
        job("timestamps_stale", "  track_timestamps_staleness: true\n", move |round| {
            stamped(start, round)
        }),
        job("conflicts", "", |_| conflicting()),
        job("conflicts_honored", "  honor_labels: true\n", |_| conflicting()),
        job("relabelled", RELABELLING, plain),
        job("sample_limited", "  sample_limit: 10\n", plain),
        job("label_limited", "  label_limit: 2\n", plain),
        job("value_length_limited", "  label_value_length_limit: 3\n", plain),
        job("body_limited", "  body_size_limit: 100B\n", plain),
        job("extra", "  extra_scrape_metrics: true\n  sample_limit: 1000\n", plain),
        job("broken_later", "", |round| format!("{}\n}}garbage\n", plain(round))),
        job("broken_sometimes", "", |round| {
            if round % 3 == 1 { "half a line{".to_owned() } else { plain(round) }
        }),
        job("hexadecimal", "", |_| "hexadecimal 0x1p-2\n".to_owned()),
        job("duplicates", "", |round| format!("a 1\na 2\nb {round}\n")),
        job("empty", "", |_| String::new()),
        job(
            "legacy_names",
            "  metric_name_validation_scheme: legacy\n  metric_name_escaping_scheme: underscores\n",
            plain,
        ),
    ];
    jobs.push(Job { status: 500, ..job("failing", "", plain) });
    jobs.push(Job { content_type: "text/html", ..job("wrong_type", "", plain) });
    let fallback = "  fallback_scrape_protocol: PrometheusText0.0.4\n";
    jobs.push(Job { content_type: "", ..job("untyped", fallback, plain) });
    jobs.push(Job { content_type: OPEN_METRICS, ..job("openmetrics", "", open_metrics) });
    jobs.push(Job {
        content_type: OPEN_METRICS,
        ..job("openmetrics_without_end", "", |_| "# TYPE a gauge\na 1\n".to_owned())
    });
    jobs
}

const RELABELLING: &str = r#"  relabel_configs:
  - source_labels: [__address__]
    regex: '(.*):(\d+)'
    target_label: port
    replacement: '$2'
  - source_labels: [__address__, zone]
    separator: '/'
    target_label: both
  - source_labels: [__address__]
    target_label: shard
    modulus: 7
    action: hashmod
  - regex: 'zo(.*)'
    replacement: 'mapped_$1'
    action: labelmap
  metric_relabel_configs:
  - source_labels: [__name__]
    regex: 'dropped_.*'
    action: drop
  - source_labels: [method]
    target_label: method
    action: lowercase
  - source_labels: [code]
    regex: '(\d)\d\d'
    target_label: class
    replacement: '${1}xx'
  - regex: 'code'
    action: labeldrop
  - source_labels: [__name__]
    regex: '(.*)_total'
    target_label: __name__
    replacement: 'renamed_$1'
"#;

fn plain(round: usize) -> String {
    let mut body = String::from(
        "# HELP requests_total Requests \\\\ by \\n code.\n# TYPE requests_total counter\n",
    );
    for (at, method) in ["GET", "POST", "Delete"].iter().enumerate() {
        for code in [200, 404, 500] {
            let value = (round + 1) * (at + code);
            let _ = writeln!(body, "requests_total{{method=\"{method}\",code=\"{code}\"}} {value}");
        }
    }
    let _ = writeln!(body, "# TYPE temperature gauge\ntemperature {}", 20.25 + round as f64 / 3.0);
    let _ = writeln!(body, "dropped_series{{a=\"b\"}} {round}");
    body.push_str("# TYPE latency_seconds histogram\n");
    for (bound, count) in [("0.1", 3), ("1", 5), ("+Inf", 9)] {
        let _ = writeln!(body, "latency_seconds_bucket{{le=\"{bound}\"}} {}", count * (round + 1));
    }
    let _ = writeln!(
        body,
        "latency_seconds_sum {}\nlatency_seconds_count {}",
        0.1 * round as f64,
        9 * (round + 1)
    );
    let _ = writeln!(
        body,
        "# TYPE q summary\nq{{quantile=\"0.5\"}} 1e-7\nq{{quantile=\"0.99\"}} 1.5e+300\nq_sum 4\nq_count {round}"
    );
    body
}

/// Series that come, go, come back and change their place.
fn churn(round: usize) -> String {
    let mut lines: Vec<String> = (0..30)
        .filter(|at| !(at + round).is_multiple_of(3))
        .map(|at| format!("churning{{at=\"{at}\"}} {}", at * round))
        .collect();
    if round % 2 == 1 {
        lines.reverse();
    }
    lines.push(String::new());
    lines.join("\n")
}

fn special() -> String {
    [
        "not_a_number NaN",
        "infinite +Inf",
        "negative_infinite -Inf",
        "tiny 5e-324",
        "large 1.7976931348623157e308",
        "negative_zero -0",
        "escaped{quote=\"\\\"\",backslash=\"\\\\\",newline=\"\\n\",other=\"\\t\"} 1",
        "unicode{label=\"h\u{e9}llo \u{1f30d}\"} 1",
        "{\"quoted.name\",\"quoted label\"=\"x\"} 1",
        "spaces  {  a = \"b\" , }   1  ",
        "empty_label{a=\"\",b=\"x\"} 1",
        "no_labels{} 1",
        "unsorted{z=\"1\",a=\"2\"} 1",
        "# a comment",
        "#",
        "",
        "",
    ]
    .join("\n")
}

fn stamped(start: u128, round: usize) -> String {
    let at = start + round as u128 * 500;
    format!("stamped {round} {at}\nolder {round} {}\nplain {round}\nsame 1 {start}\n", at - 60_000)
}

fn conflicting() -> String {
    "mine{job=\"other\",instance=\"there\",zone=\"b\",exported_job=\"x\"} 1\n".to_owned()
}

fn open_metrics(round: usize) -> String {
    format!(
        "# TYPE orders counter\n# UNIT orders \n# HELP orders Orders \\\"quoted\\\".\n\
         orders_total{{kind=\"a\"}} {count} # {{trace_id=\"abc\"}} 0.5 1700000000.123\n\
         orders_created{{kind=\"a\"}} 1700000000.5\n\
         # TYPE size_bytes histogram\n# UNIT size_bytes bytes\n\
         size_bytes_bucket{{le=\"1.0\"}} {count}\nsize_bytes_bucket{{le=\"+Inf\"}} {count}\n\
         size_bytes_sum {count}.5\nsize_bytes_count {count}\n\
         # TYPE build info\nbuild_info{{version=\"1\"}} 1\n\
         # TYPE state stateset\nstate{{state=\"on\"}} 1\nstate{{state=\"off\"}} 0\n\
         # TYPE free unknown\nfree {count}e3\n# EOF\n",
        count = round + 1
    )
}

/// Bodies of real programs: the conformance data, where it is there, and this machine's node exporter.
fn recorded(root: &Path) -> Result<Vec<Job>, Box<dyn Error>> {
    let mut jobs = Vec::new();
    let folder = root.parent().map(|parent| parent.join("shared/conformance/exposition"));
    match folder.as_deref().map(std::fs::read_dir) {
        Some(Ok(entries)) => {
            for entry in entries {
                let path = entry?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy().replace('.', "_");
                let content_type = if name.ends_with("_om_txt") { OPEN_METRICS } else { TEXT };
                let body = std::fs::read_to_string(&path)?;
                jobs.push(Job { content_type, ..job(&name, "", move |_| body.clone()) });
            }
        }
        _ => eprintln!("skipped: conformance bodies, there is no shared/conformance/exposition"),
    }
    match node_exporter() {
        Ok(body) => jobs.push(job("node", "", move |_| body.clone())),
        Err(error) => eprintln!("skipped: prometheus-node-exporter: {error}"),
    }
    Ok(jobs)
}

fn node_exporter() -> Result<String, Box<dyn Error>> {
    let address = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let mut child = Command::new("prometheus-node-exporter")
        .arg(format!("--web.listen-address={address}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let deadline = Instant::now() + Duration::from_secs(10);
    let body = loop {
        match ureq::get(format!("http://{address}/metrics")).call() {
            Ok(mut response) => break response.body_mut().read_to_string().map_err(Into::into),
            Err(error) if Instant::now() > deadline => break Err(error.into()),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    child.kill()?;
    child.wait()?;
    body
}
