//! Debian's node exporter, scraped through a written `prometheus.yml`: every sample that it served is
//! found with the same value through the HTTP API.

#![expect(clippy::print_stdout, reason = "a test that is skipped says so")]

mod running;

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use running::{Running, free_address, wait_for};

struct Exporter(Child);

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Passes scrapes on to the exporter and keeps every body in the order in which it was served.
fn recorder(exporter: std::net::SocketAddr) -> (std::net::SocketAddr, Arc<Mutex<Vec<String>>>) {
    let server = tiny_http::Server::http("127.0.0.1:0").expect("a free port");
    let address = server.server_addr().to_ip().expect("an address");
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let kept = bodies.clone();
    std::thread::spawn(move || {
        for request in server.incoming_requests() {
            let mut answer = ureq::get(format!("http://{exporter}/metrics"))
                .call()
                .expect("the exporter answers");
            let body = answer.body_mut().read_to_string().expect("a text");
            kept.lock().expect("no thread panics with it").push(body.clone());
            let header = tiny_http::Header::from_bytes("Content-Type", "text/plain; version=0.0.4")
                .expect("a valid header");
            let _ = request.respond(tiny_http::Response::from_string(body).with_header(header));
        }
    });
    (address, bodies)
}

/// The samples of a body, read in the plainest way: labels as sorted pairs, the value as a number.
fn naive(body: &str) -> BTreeMap<BTreeMap<String, String>, f64> {
    let mut samples = BTreeMap::new();
    for line in body.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').expect("a value behind a space");
        let mut labels = BTreeMap::new();
        let (name, inner) = series.split_once('{').unwrap_or((series, "}"));
        labels.insert("__name__".to_owned(), name.to_owned());
        let mut rest = inner.strip_suffix('}').expect("a closing brace");
        while let Some((label, after)) = rest.split_once("=\"") {
            let mut text = String::new();
            let mut characters = after.char_indices();
            let end = loop {
                match characters.next().expect("a closing quote") {
                    (at, '"') => break at,
                    (_, '\\') => match characters.next().expect("an escaped character").1 {
                        'n' => text.push('\n'),
                        other => text.push(other),
                    },
                    (_, other) => text.push(other),
                }
            };
            let label = label.trim_start_matches(',');
            // Bounds and quantiles are stored in OpenMetrics' spelling, as in Prometheus 3.
            if matches!(label, "le" | "quantile") && text.bytes().all(|byte| byte.is_ascii_digit())
            {
                text.push_str(".0");
            }
            labels.insert(label.to_owned(), text);
            rest = &after[end + 1..];
        }
        labels.retain(|_, value| !value.is_empty());
        samples.insert(labels, value.parse().expect("a number"));
    }
    samples
}

#[test]
fn every_sample_of_the_node_exporter_is_found() {
    let exporter_address = free_address();
    let exporter = Command::new("prometheus-node-exporter")
        .arg(format!("--web.listen-address={exporter_address}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(exporter) = exporter else {
        println!("skipped: prometheus-node-exporter is not installed");
        return;
    };
    let _exporter = Exporter(exporter);
    wait_for("the exporter", 10, || {
        ureq::get(format!("http://{exporter_address}/metrics")).call().ok()
    });
    let (address, bodies) = recorder(exporter_address);
    let directory = tempfile::tempdir().expect("a directory");
    let config = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: node\n  \
         static_configs: [{{targets: ['{address}']}}]\n"
    );
    let server = Running::start(directory.path(), &config, &[]);
    let scrapes = wait_for("three scrapes", 30, || {
        let up = server.samples("up{job=\"node\"}[5m]")?;
        up.into_values().next().filter(|samples| samples.len() >= 3)
    });
    let found = server.samples("{job=\"node\"}[5m]").expect("an answer");
    let bodies = bodies.lock().expect("no thread panics with it");
    for ((time, up), body) in scrapes.iter().zip(bodies.iter()) {
        assert_eq!(up, "1", "scrape at {time}:\n{}", server.log());
        compare(*time, body, &found, address);
    }
}

/// What the API shows of the scrape at `time` is what the body said.
fn compare(time: i64, body: &str, found: &running::Samples, address: std::net::SocketAddr) {
    let mut shown = BTreeMap::new();
    for (series, samples) in found {
        let mut labels: BTreeMap<String, String> = serde_json::from_str(series).expect("labels");
        assert_eq!(labels.remove("job").as_deref(), Some("node"), "{series}");
        assert_eq!(labels.remove("instance"), Some(address.to_string()), "{series}");
        let value = samples.iter().find(|sample| sample.0 == time);
        if let Some((_, value)) = value {
            shown.insert(labels, value.parse::<f64>().expect("a number"));
        }
    }
    let served = naive(body);
    assert!(served.len() > 300, "a node exporter serves hundreds of series: {}", served.len());
    for (labels, value) in &served {
        let shown = shown.get(labels).unwrap_or_else(|| panic!("{labels:?} at {time} is missing"));
        assert!(
            shown == value || (shown.is_nan() && value.is_nan()),
            "{labels:?}: {value} became {shown}"
        );
    }
    // What the server adds itself: up and the four scrape_* series.
    assert_eq!(shown.len(), served.len() + 5);
}
