//! Targets that misbehave: each gives its reason, none disturbs the others.

use std::sync::Arc;

use server::scrape::{Health, Options};
use testkit::disk::SimulatedDisk;

use crate::server::{Server, text};
use crate::stage::{Stage, until};

/// Path, further options of the job, and what the error says; an empty text is a scrape that works.
const CASES: &[(&str, &str, &str)] = &[
    ("/silent", "", "timeout: no complete answer within 4s (no complete head"),
    ("/trickle", "", "timeout: no complete answer within 4s (4 bytes of the body had come)"),
    ("/slow-head", "", "timeout: no complete answer within 4s (no complete head"),
    ("/slow-body", "", "timeout: no complete answer within 4s ("),
    ("/slow-chunks", "", "timeout: no complete answer within 4s ("),
    ("/endless", "body_size_limit: 1MB", "body size limit exceeded"),
    ("/endless-head", "", "not an HTTP/1.1 answer: too many headers"),
    ("/cut", "", "connection closed in the middle of the body (8 of 1000 bytes)"),
    ("/cut-chunk", "", "connection closed in the middle of the body (4 bytes, the last chunk"),
    ("/reset", "", "onnection"),
    ("/reset-body", "", "reading the body: "),
    ("/too-short", "", ""),
    ("/two-lengths", "", "not an HTTP/1.1 answer: Content-Length"),
    ("/minus", "", "not an HTTP/1.1 answer: Content-Length \"-4\""),
    ("/huge", "", "body size limit exceeded"),
    ("/chunk-size", "", "a chunk's size is no number"),
    ("/interim", "", ""),
    ("/switch", "", "server returned HTTP status 101 Switching Protocols"),
    ("/close", "", "connection closed before any answer"),
    ("/noise", "", "not an HTTP/1.1 answer"),
    ("/html", "", "received unsupported Content-Type \"text/html; charset=utf-8\" and no fallback"),
    ("/html", "fallback_scrape_protocol: PrometheusText0.0.4", "cannot read the body: line 1"),
    ("/untyped", "", "blank Content-Type and no fallback_scrape_protocol"),
    ("/untyped", "fallback_scrape_protocol: PrometheusText0.0.4", ""),
    ("/404", "", "server returned HTTP status 404 Not Found"),
    ("/500", "", "server returned HTTP status 500 Oh No"),
    ("/503", "", "server returned HTTP status 503 Service Unavailable"),
    ("/to-file", "", "file"),
    ("/to-nowhere", "", "Location \"http://[::bad/\""),
    ("/circle", "", "stopped after 10 redirects"),
    ("/circle", "follow_redirects: false", "server returned HTTP status 302 Found"),
    ("/bomb", "body_size_limit: 2MB", "body size limit exceeded"),
    ("/cut-gzip", "", "compressed body: gzip"),
    ("/wrong-sum", "", "compressed body: gzip"),
    ("/not-gzip", "", "compressed body: gzip"),
    ("/not-zstd", "", "compressed body: zstd"),
    ("/brotli", "", "Content-Encoding \"br\" is not understood"),
    ("/latin1", "", "line 1, byte 5: invalid UTF-8"),
    ("/broken", "", "cannot read the body: line 2"),
    ("/no-eof", "", "does not end with '# EOF'"),
    ("/twice", "", ""),
    ("/past", "", ""),
    ("/future", "", ""),
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
        String::from("global: {scrape_interval: 5s, scrape_timeout: 4s}\nscrape_configs:\n");
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
    // Connections that nobody takes: TLS never begins.
    let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let deaf_address = deaf.local_addr().unwrap();
    yaml.push_str(&format!(
        "- job_name: deaf\n  scheme: https\n  static_configs: [{{targets: ['{deaf_address}']}}]\n"
    ));
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

    let hanging = stage.scraped("deaf").await.last_error.unwrap();
    assert!(
        hanging.contains("timeout: no complete answer within 4s (still connecting"),
        "{hanging}"
    );

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
        "scrapes_sample_out_of_bounds",
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

/// A disk that takes nothing more is told like a target that is down, scrapes go on, and what comes after
/// the disk is well again is stored.
#[tokio::test]
async fn a_disk_that_fails_is_told_and_gets_well() {
    let server = Server::start().await;
    let disk = SimulatedDisk::new(1);
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::on(Arc::new(disk.clone()), folder, Options::default());
    stage.apply(&format!(
        "scrape_configs:\n- job_name: good\n  scrape_interval: 50ms\n  scrape_timeout: 50ms\n  \
         static_configs: [{{targets: ['{}']}}]\n",
        server.address
    ));
    let up = || {
        let target = stage.pool("good").active.pop()?;
        (target.health == Health::Up && target.samples_scraped == 2).then_some(())
    };
    until("a scrape that is stored", up).await;
    disk.fail_one_in(1);
    let told = || {
        let target = stage.pool("good").active.pop()?;
        target.last_error.filter(|error| error.contains("cannot store the scrape"))
    };
    let error = until("the error of the store", told).await;
    assert!(error.contains("injected failure"), "{error}");
    let failed = stage.manager.counters().scrapes_failed.get();
    assert!(failed > 0);
    let before = stage.series("good")["good"].len();
    disk.fail_one_in(0);
    until("a scrape that is stored again", up).await;
    let after = until("samples after the failure", || {
        let points = stage.series("good").remove("good")?;
        (points.len() > before).then_some(points)
    })
    .await;
    assert!(after.is_sorted(), "{after:?}");
    stage.manager.shutdown().await;
}

/// A target whose series are all new in each scrape holds no more than those of the last ones.
#[tokio::test]
async fn series_that_are_always_new_do_not_pile_up() {
    let server = Server::start().await;
    let stage = Stage::new(Options::default());
    let body = |round: usize| {
        let lines = (0..200).map(|n| format!("churn{{id=\"{round}-{n}\"}} {n}\n"));
        text(&lines.collect::<String>())
    };
    server.answer("/metrics", body(0));
    stage.apply(&format!(
        "scrape_configs:\n- job_name: churn\n  scrape_interval: 50ms\n  scrape_timeout: 50ms\n  \
         static_configs: [{{targets: ['{}']}}]\n",
        server.address
    ));
    let target = || stage.pool("churn").active.pop().filter(|t| t.samples_scraped == 200);
    let mut held = Vec::new();
    for round in 1..=20 {
        let seen = server.requests("/metrics").len();
        server.answer("/metrics", body(round));
        // The second request from now was answered with the new body.
        until("scrapes", || (server.requests("/metrics").len() >= seen + 3).then_some(())).await;
        held.push(until("the target", target).await.memory_bytes);
    }
    let (early, late) = (held[4], held[19]);
    assert!(late <= early * 3 / 2, "{held:?}");
    stage.manager.shutdown().await;
}

/// A body of a hundred megabytes is read, and what it needed is given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_huge_body_is_read_and_its_memory_given_back() {
    let server = Server::start().await;
    let stage = Stage::new(Options::default());
    let mut body =
        format!("# {}\n", "somebody forgot to leave this out ".repeat(30_000)).repeat(100);
    assert!(body.len() > 100_000_000);
    body.push_str("huge 1\n");
    server.answer("/huge", text(&body));
    drop(body);
    stage.apply(&format!(
        "global: {{scrape_interval: 20s, scrape_timeout: 20s}}\nscrape_configs:\n- job_name: huge\n  \
         metrics_path: /huge\n  static_configs: [{{targets: ['{0}']}}]\n\
         - job_name: good\n  scrape_interval: 400ms\n  scrape_timeout: 400ms\n  \
         static_configs: [{{targets: ['{0}']}}]\n",
        server.address
    ));
    let target = stage.scraped("huge").await;
    assert_eq!(target.last_error, None);
    assert!(target.body_bytes > 100_000_000, "{}", target.body_bytes);
    assert_eq!(target.samples_scraped, 1);
    // The target is shown as up a moment before its body is let go.
    let held = || stage.own("unladen_scrape_buffer_bytes").filter(|held| *held < 32e6);
    until("the memory of the body", held).await;
    let ups = stage.series("good").remove("up").unwrap_or_default();
    assert!(ups.iter().all(|(_, up)| *up == 1.0), "{ups:?}");
    stage.manager.shutdown().await;
}
