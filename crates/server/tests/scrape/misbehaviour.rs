//! Targets that misbehave: each gives its reason, none disturbs the others.

use server::scrape::{Health, Options};

use crate::server::Server;
use crate::stage::{Stage, until};

/// Path, further options of the job, and what the error says; an empty text is a scrape that works.
const CASES: &[(&str, &str, &str)] = &[
    ("/silent", "", "timeout: no complete answer within 2s (no complete head"),
    ("/trickle", "", "timeout: no complete answer within 2s (4 bytes of the body had come)"),
    ("/endless", "body_size_limit: 1MB", "body size limit exceeded"),
    ("/endless-head", "", "not an HTTP/1.1 answer: too many headers"),
    ("/cut", "", "connection closed in the middle of the body (8 of 1000 bytes)"),
    ("/cut-chunk", "", "connection closed in the middle of the body (4 bytes, the last chunk"),
    ("/reset", "", "onnection"),
    ("/close", "", "connection closed before any answer"),
    ("/noise", "", "not an HTTP/1.1 answer"),
    ("/html", "", "received unsupported Content-Type \"text/html; charset=utf-8\" and no fallback"),
    ("/html", "fallback_scrape_protocol: PrometheusText0.0.4", "cannot read the body: line 1"),
    ("/untyped", "", "blank Content-Type and no fallback_scrape_protocol"),
    ("/untyped", "fallback_scrape_protocol: PrometheusText0.0.4", ""),
    ("/404", "", "server returned HTTP status 404 Not Found"),
    ("/500", "", "server returned HTTP status 500 Oh No"),
    ("/circle", "", "stopped after 10 redirects"),
    ("/circle", "follow_redirects: false", "server returned HTTP status 302 Found"),
    ("/bomb", "body_size_limit: 2MB", "body size limit exceeded"),
    ("/cut-gzip", "", "compressed body: gzip"),
    ("/brotli", "", "Content-Encoding \"br\" is not understood"),
    ("/latin1", "", "line 1, byte 5: invalid UTF-8"),
    ("/broken", "", "cannot read the body: line 2"),
    ("/no-eof", "", "does not end with '# EOF'"),
    ("/twice", "", ""),
    ("/long", "", ""),
    ("/long", "label_value_length_limit: 1000", "label_value_length_limit exceeded"),
    ("/empty", "", ""),
    ("/many", "sample_limit: 50", "sample_limit exceeded (samples after metric relabelling: 100"),
    ("/many", "body_size_limit: 1KB", "body size limit exceeded"),
    ("/many", "target_limit: 1", "target_limit exceeded (number of targets: 2, limit: 1)"),
    ("/many", "scheme: https", "TLS with"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_gives_its_reason_and_the_others_go_on() {
    let server = Server::start().await;
    let stage = Stage::new(Options::default());
    let mut yaml =
        String::from("global: {scrape_interval: 3s, scrape_timeout: 2s}\nscrape_configs:\n");
    let address = server.address;
    yaml.push_str(&format!("- job_name: good\n  scrape_interval: 400ms\n  scrape_timeout: 400ms\n  static_configs: [{{targets: ['{address}']}}]\n"));
    for (index, (path, options, _)) in CASES.iter().enumerate() {
        let second = if options.contains("target_limit") { ", 'other:1'" } else { "" };
        yaml.push_str(&format!(
            "- job_name: case{index}\n  metrics_path: {path}\n  \
             static_configs: [{{targets: ['{address}'{second}]}}]\n"
        ));
        if !options.is_empty() {
            yaml.push_str(&format!("  {options}\n"));
        }
    }
    // Nobody listens where somebody has just stopped listening.
    let closed = Server::start().await.address;
    yaml.push_str(&format!("- job_name: refused\n  static_configs: [{{targets: ['{closed}']}}]\n"));
    stage.apply(&yaml);

    let mut wrong = Vec::new();
    for (index, (path, options, expected)) in CASES.iter().enumerate() {
        let target = stage.scraped(&format!("case{index}")).await;
        let error = target.last_error.as_deref().unwrap_or("");
        let health = if expected.is_empty() { Health::Up } else { Health::Down };
        let fits = if expected.is_empty() { error.is_empty() } else { error.contains(expected) };
        if !fits || target.health != health {
            wrong.push(format!("{path} {options}: {error:?}, not {expected:?}"));
        }
    }
    assert_eq!(wrong, [] as [String; 0]);
    let refused = stage.scraped("refused").await.last_error.unwrap();
    assert!(refused.starts_with(&format!("cannot connect to {closed}: ")), "{refused}");

    // The good one has been scraped all the while, and goes on.
    let enough = until("scrapes of the good target", || {
        let points = stage.series("good").remove("up")?;
        (points.len() >= 8).then_some(points)
    })
    .await;
    assert!(enough.iter().all(|(_, up)| *up == 1.0), "{enough:?}");
    for pair in enough.windows(2) {
        let apart = pair[1].0 - pair[0].0;
        // Generous, because machines that test are busy: a tick late, never a round of the others.
        assert!((100..=1500).contains(&apart), "{enough:?}");
    }

    for (index, (path, options, expected)) in CASES.iter().enumerate() {
        let series = stage.series(&format!("case{index}"));
        let up = f64::from(u8::from(expected.is_empty()));
        assert!(series["up"].iter().all(|(_, value)| *value == up), "{path} {options}");
        let own: Vec<_> =
            series.keys().filter(|name| *name != "up" && !name.starts_with("scrape_")).collect();
        assert!(expected.is_empty() || own.is_empty(), "{path} {options}: {own:?}");
    }
    for counter in [
        "scrapes_sample_duplicate_timestamp",
        "scrapes_exceeded_sample_limit",
        "scrapes_exceeded_body_size_limit",
        "scrape_pool_exceeded_label_limits",
        "scrape_pool_exceeded_target_limit",
    ] {
        let value = stage.own(&format!("prometheus_target_{counter}_total"));
        assert!(value.is_some_and(|value| value > 0.0), "{counter}: {value:?}");
    }
    let median = stage
        .own("prometheus_target_interval_length_seconds{interval=\"400ms\",quantile=\"0.5\"}")
        .expect("the good target has intervals");
    assert!((0.3..0.5).contains(&median), "{median}");
    assert_eq!(stage.registry.check(), [] as [String; 0]);
    assert_eq!(refused.matches("refused").count(), 1, "{refused}");
    stage.manager.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_bodies_share_a_budget() {
    let server = Server::start().await;
    let options = Options { body_budget: 8 << 20, ..Options::default() };
    let stage = Stage::new(options);
    stage.apply(&format!(
        "scrape_configs:\n- job_name: endless\n  scrape_interval: 1s\n  scrape_timeout: 1s\n  \
         metrics_path: /endless\n  static_configs: [{{targets: ['{0}', 'localhost:{1}']}}]\n\
         - job_name: good\n  scrape_interval: 400ms\n  scrape_timeout: 400ms\n  \
         static_configs: [{{targets: ['{0}']}}]\n",
        server.address,
        server.address.port()
    ));
    let error = stage.scraped("endless").await.last_error.unwrap();
    assert!(error.contains("no room for the body"), "{error}");
    // Several such bodies at once leave room for a small one: it never fails.
    let ups = until("scrapes of the good target", || {
        let points = stage.series("good").remove("up")?;
        (points.len() >= 10).then_some(points)
    })
    .await;
    assert!(ups.iter().all(|(_, up)| *up == 1.0), "{ups:?}");
    stage.manager.shutdown().await;
}
