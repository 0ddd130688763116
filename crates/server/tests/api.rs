//! The HTTP API of the running binary: answers from a table, streams, gzip, origins, reload, end.

mod running;

use std::io::Read;

use running::{Running, wait_for};
use serde_json::Value;

const NO_JOBS: &str = "global: {scrape_interval: 1m}\n";

struct Case<'a> {
    line: usize,
    request: &'a str,
    status: u16,
    content_type: &'a str,
    body: String,
}

fn cases(table: &str) -> Vec<Case<'_>> {
    let mut cases: Vec<Case<'_>> = Vec::new();
    for (index, line) in table.lines().enumerate() {
        if line.starts_with('#') {
            continue;
        }
        if let Some(request) = line.strip_prefix("> ") {
            let (line, body) = (index + 1, String::new());
            cases.push(Case { line, request, status: 0, content_type: "", body });
        } else if let Some(case) = cases.last_mut() {
            match line.strip_prefix("< ").and_then(|head| head.split_once(' ')) {
                Some((status, content_type)) => {
                    case.status = status.parse().expect("a status");
                    case.content_type = content_type;
                }
                None => case.body.push_str(line),
            }
        }
    }
    cases
}

/// Status, content type and body.
fn ask(server: &Running, request: &str) -> (u16, String, String) {
    let agent: ureq::Agent =
        ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0).build().into();
    let mut parts = request.split(' ');
    let (method, path) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    let response = match method {
        "POST" => agent
            .post(server.url(path))
            .content_type("application/x-www-form-urlencoded")
            .send(parts.next().unwrap_or("")),
        _ => agent.get(server.url(path)).call(),
    };
    let mut response = response.unwrap_or_else(|error| panic!("{request}: {error}"));
    let content_type = response.headers().get("content-type");
    let content_type = content_type.map_or("-", |v| v.to_str().unwrap_or("")).to_owned();
    let status = response.status().as_u16();
    let body = response.body_mut().with_config().limit(1 << 30).read_to_string();
    (status, content_type, body.expect("a body of text"))
}

#[test]
fn answers_are_those_of_the_table() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Running::start(directory.path(), NO_JOBS, &[]);
    let table = include_str!("api/cases.txt");
    let cases = cases(table);
    assert!(cases.len() > 100, "the table holds {} cases: is it still read?", cases.len());
    let mut failures = String::new();
    for case in &cases {
        let (status, content_type, body) = ask(&server, case.request);
        let same =
            match (serde_json::from_str::<Value>(&body), serde_json::from_str::<Value>(&case.body))
            {
                (Ok(found), Ok(expected)) => found == expected,
                _ => body.trim_end() == case.body,
            };
        if !same || status != case.status || content_type != case.content_type {
            failures.push_str(&format!(
                "line {}: {}\n  wanted {} {} {}\n  got    {status} {content_type} {body}\n",
                case.line, case.request, case.status, case.content_type, case.body
            ));
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn long_answers_stream_and_are_whole() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Running::start(directory.path(), NO_JOBS, &[]);
    // A point for each of 11,001 steps, of sixteen series.
    let series: Vec<String> =
        (0..16).map(|n| format!("label_replace(vector(time()),\"n\",\"{n}\",\"\",\"\")")).collect();
    let url = server.url("/api/v1/query_range");
    let query = series.join(" or ");
    let form = [("query", query.as_str()), ("start", "0"), ("end", "11000"), ("step", "1")];
    let agent = ureq::Agent::new_with_defaults();
    let mut response =
        agent.post(&url).header("accept-encoding", "gzip").send_form(form).expect("an answer");
    assert_eq!(response.headers()["content-encoding"], "gzip");
    let mut compressed = Vec::new();
    response.body_mut().as_reader().read_to_end(&mut compressed).expect("a body");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&*compressed).read_to_string(&mut text).expect("gzip");
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    let result = answer["data"]["result"].as_array().expect("a matrix");
    assert_eq!(result.len(), 16);
    for series in result {
        let values = series["values"].as_array().expect("points");
        assert_eq!(values.len(), 11_001);
        assert_eq!(values[11_000], serde_json::json!([11_000, "11000"]));
    }
}

#[test]
fn the_server_watches_itself_and_federates() {
    let directory = tempfile::tempdir().expect("a directory");
    let address = running::free_address();
    let config = format!(
        "global: {{scrape_interval: 100ms, external_labels: {{site: lab}}}}\nscrape_configs:\n\
         - job_name: self\n  static_configs: [{{targets: ['{address}']}}]\n"
    );
    let flag = format!("--web.listen-address={address}");
    let server = Running::start(directory.path(), &config, &[&flag]);
    wait_for("a sample of its own", 30, || {
        let (_, _, body) = ask(&server, "GET /api/v1/query?query=prometheus_ready");
        body.contains("\"1\"").then_some(())
    });
    let (status, content_type, body) =
        ask(&server, "GET /federate?match%5B%5D=prometheus_ready&match%5B%5D=up");
    assert_eq!(status, 200);
    assert!(content_type.starts_with("text/plain"), "{content_type}");
    let lines: Vec<&str> = body.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines.len(), 2, "{body}");
    assert!(lines[0].starts_with("prometheus_ready{") && lines[1].starts_with("up{"), "{body}");
    assert!(lines[0].contains("site=\"lab\""), "{body}");
    let (_, _, targets) = ask(&server, "GET /api/v1/targets?state=active");
    let targets: Value = serde_json::from_str(&targets).expect("JSON");
    assert_eq!(targets["data"]["activeTargets"][0]["health"], "up");
    let (_, _, metadata) = ask(&server, "GET /api/v1/metadata?metric=prometheus_ready");
    assert!(metadata.contains("\"type\":\"gauge\""), "{metadata}");
    let (_, _, names) = ask(&server, "GET /api/v1/label/__name__/values?match[]=up");
    assert_eq!(names, "{\"status\":\"success\",\"data\":[\"up\"]}");
}

#[test]
fn a_bad_file_changes_nothing_and_says_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Running::start(directory.path(), NO_JOBS, &["--web.enable-lifecycle"]);
    let shown = || ask(&server, "GET /api/v1/status/config").2;
    let before = shown();
    let file = directory.path().join("prometheus.yml");
    std::fs::write(&file, "global: {scrape_intervall: 1s}\n").expect("the file is written");
    let (status, _, body) = ask(&server, "POST /-/reload x=y");
    assert_eq!(status, 500);
    assert!(body.contains("scrape_intervall"), "{body}");
    assert_eq!(shown(), before);
    let (_, _, metrics) = ask(&server, "GET /metrics");
    assert!(metrics.contains("\nprometheus_config_last_reload_successful 0\n"), "{metrics}");
    std::fs::write(&file, "global: {scrape_interval: 7s}\n").expect("the file is written");
    assert_eq!(ask(&server, "POST /-/reload x=y").0, 200);
    assert!(shown().contains("scrape_interval: 7s"));
    let (status, _, body) = ask(&server, "POST /-/quit x=y");
    assert_eq!((status, body.as_str()), (200, "Requesting termination... Goodbye!"));
    wait_for("its end", 30, || server.log().contains("See you next time!").then_some(()));
}

#[test]
fn prefixes_are_respected() {
    let directory = tempfile::tempdir().expect("a directory");
    let flags = ["--web.external-url=http://example.org/a/b/", "--web.route-prefix=/"];
    let server = Running::start(directory.path(), NO_JOBS, &flags);
    let agent: ureq::Agent = ureq::Agent::config_builder().max_redirects(0).build().into();
    let response = agent.get(server.url("/")).call().expect("a redirect");
    assert_eq!(response.status().as_u16(), 302);
    assert_eq!(response.headers()["location"], "/a/b/query");
}
