//! Targets that come and go.

use std::time::Duration;

use server::scrape::{Health, Options};

use crate::server::{Server, ok};
use crate::stage::{Stage, is_stale, until};

fn options() -> Options {
    Options { sync_interval: Duration::from_millis(10), ..Options::default() }
}

fn job(discovery: &str) -> String {
    format!(
        "scrape_configs:\n- job_name: a\n  scrape_interval: 50ms\n  scrape_timeout: 50ms\n  {discovery}\n"
    )
}

fn addresses(stage: &Stage) -> Vec<String> {
    let instance =
        |target: &server::scrape::TargetStatus| target.labels.get("instance").map(str::to_owned);
    stage.pool("a").active.iter().filter_map(instance).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_watched_and_broken_ones_change_nothing() {
    let server = Server::start().await;
    let stage = Stage::new(options());
    let folder = stage.folder.path().join("sd");
    std::fs::create_dir(&folder).unwrap();
    let write = |name: &str, text: String| {
        // As careful writers do: a new file in place of the old one.
        let (new, path) = (folder.join(format!("{name}.new")), folder.join(name));
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, path).unwrap();
    };
    let address = server.address;
    write("one.yml", format!("- targets: ['{address}']\n  labels: {{from: yml}}\n"));
    stage.apply(&job("file_sd_configs: [{files: ['sd/*.yml', 'sd/*.json']}]"));
    until("the first file", || (addresses(&stage).len() == 1).then_some(())).await;
    let target = stage.scraped("a").await;
    assert_eq!(target.labels.get("from"), Some("yml"));
    let path = folder.join("one.yml");
    assert_eq!(target.discovered_labels.get("__meta_filepath"), path.to_str());
    assert_eq!(target.labels.get("__meta_filepath"), None);

    write("two.json", r#"[{"targets": ["b:1", "c:1"]}, {"targets": ["b:1"]}]"#.to_owned());
    until("the second file", || {
        (addresses(&stage) == [address.to_string(), "b:1".into(), "c:1".into()]).then_some(())
    })
    .await;
    write("two.json", r#"[{"targets": ["#.to_owned());
    let error = until("the error", || stage.pool("a").discovery_errors.pop()).await;
    assert!(error.contains("two.json: "), "{error}");
    assert_eq!(addresses(&stage).len(), 3);
    assert!(
        stage
            .manager
            .discovery_counters()
            .file_read_errors
            .load(std::sync::atomic::Ordering::Relaxed)
            > 0
    );

    std::fs::remove_file(folder.join("two.json")).unwrap();
    until("the end of the second file", || (addresses(&stage).len() == 1).then_some(())).await;
    assert_eq!(stage.pool("a").discovery_errors, [] as [String; 0]);
    assert_eq!(server.connections(), 1);
    stage.manager.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_is_fetched_and_the_last_good_one_stays() {
    let server = Server::start().await;
    let json = "Content-Type: application/json; charset=utf-8\r\n";
    let list = format!(r#"[{{"targets": ["{}"], "labels": {{"__meta_x": "y"}}}}]"#, server.address);
    server.answer("/sd", ok(json, list.as_bytes()));
    let stage = Stage::new(options());
    let url = format!("http://{}/sd?a=b", server.address);
    stage.apply(&job(&format!(
        "http_sd_configs: [{{url: '{url}', refresh_interval: 100ms, basic_auth: {{username: u}}}}]\n  \
         relabel_configs: [{{source_labels: [__meta_x], target_label: x}}]"
    )));
    let target = stage.scraped("a").await;
    assert_eq!(target.labels.get("x"), Some("y"));
    assert_eq!(target.discovered_labels.get("__meta_url"), Some(url.as_str()));
    let request = server.requests("/sd").pop().unwrap();
    assert_eq!(request.header("x-prometheus-refresh-interval-seconds"), "0.1");
    assert_eq!(request.header("accept"), "application/json");
    assert_eq!(request.header("authorization"), "Basic dTo=");

    for (answer, expected) in [
        (ok("Content-Type: text/html\r\n", b"[]"), "unsupported content type \"text/html\""),
        (ok(json, b"[{]"), "line 1 column"),
        (b"HTTP/1.1 503 Not Now\r\nContent-Length: 0\r\n\r\n".to_vec(), "HTTP status 503 Not Now"),
    ] {
        server.answer("/sd", answer);
        until(expected, || {
            stage.pool("a").discovery_errors.pop().filter(|error| error.contains(expected))
        })
        .await;
        assert_eq!(addresses(&stage).len(), 1);
    }
    server.answer("/sd", ok(json, b"[]"));
    until("the end of the target", || addresses(&stage).is_empty().then_some(())).await;
    stage.manager.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_goes_is_marked_and_one_that_returns_is_not() {
    let server = Server::start().await;
    let stage = Stage::new(options());
    let with = job(&format!("static_configs: [{{targets: ['{}']}}]", server.address));
    let without = job("static_configs: []");
    stage.apply(&with);
    until("three scrapes", || (server.requests("/metrics").len() >= 3).then_some(())).await;
    // Away and back at once: somebody has edited twice.
    stage.apply(&without);
    until("the target to go", || addresses(&stage).is_empty().then_some(())).await;
    stage.apply(&with);
    let before = server.requests("/metrics").len();
    until("more scrapes", || (server.requests("/metrics").len() >= before + 6).then_some(())).await;
    let series = stage.series("a");
    assert!(series.values().flatten().all(|(_, value)| !is_stale(*value)), "{series:?}");

    stage.apply(&without);
    let series = until("the marks", || {
        let series = stage.series("a");
        is_stale(series["up"].last()?.1).then_some(series)
    })
    .await;
    for (name, points) in &series {
        assert!(is_stale(points.last().unwrap().1), "{name}: {points:?}");
        assert_eq!(points.iter().filter(|(_, value)| is_stale(*value)).count(), 1, "{name}");
    }
    stage.manager.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_interval_takes_over_from_the_old_one() {
    let server = Server::start().await;
    let stage = Stage::new(options());
    let yaml = job(&format!("static_configs: [{{targets: ['{}']}}]", server.address));
    stage.apply(&yaml);
    until("three scrapes", || (server.requests("/metrics").len() >= 3).then_some(())).await;
    stage.apply(&yaml.replace("scrape_interval: 50ms", "scrape_interval: 60ms"));
    until("the other interval", || {
        let target = stage.pool("a").active.pop()?;
        (&*target.scrape_interval == "60ms" && target.health == Health::Up).then_some(())
    })
    .await;
    let before = server.requests("/metrics").len();
    until("more scrapes", || (server.requests("/metrics").len() >= before + 6).then_some(())).await;
    assert_eq!(server.connections(), 1);
    stage.manager.shutdown().await;
    let series = stage.series("a");
    assert!(series.values().flatten().all(|(_, value)| !is_stale(*value)), "{series:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relabelling_drops_and_what_is_no_target_is_named() {
    let stage = Stage::new(options());
    stage.apply(&job(
        "keep_dropped_targets: 2\n  static_configs: [{targets: ['a:1', 'b:1', 'c:1', 'd:1', 'e/f', \
         'g:1', 'g:1'], labels: {team: x}}]\n  relabel_configs: [{source_labels: [__address__], regex: \
         '[a-c]:1', action: drop}, {source_labels: [__address__], regex: 'd:1', target_label: \
         __scrape_timeout__, replacement: 1m}]",
    ));
    let pool = until("the sync", || {
        let pool = stage.pool("a");
        (!pool.active.is_empty()).then_some(pool)
    })
    .await;
    assert_eq!(addresses(&stage), ["g:1"]);
    assert_eq!((pool.dropped.len(), pool.dropped_count), (2, 3));
    let dropped = &pool.dropped[0].discovered_labels;
    for (name, value) in [
        ("__address__", "a:1"),
        ("__metrics_path__", "/metrics"),
        ("__scheme__", "http"),
        ("__scrape_interval__", "50ms"),
        ("__scrape_timeout__", "50ms"),
        ("__scrape_native_histograms__", "false"),
        ("job", "a"),
        ("team", "x"),
    ] {
        assert_eq!(dropped.get(name), Some(value), "{name}");
    }
    assert_eq!(pool.invalid.len(), 2);
    assert!(pool.invalid.iter().any(|reason| reason.contains("\"e/f\" is not a valid hostname")));
    assert!(pool.invalid.iter().any(|reason| reason.contains("greater than scrape interval")));
    assert_eq!(stage.own("prometheus_target_sync_failed_total{scrape_job=\"a\"}"), Some(2.0));
    assert_eq!(stage.own("prometheus_target_scrape_pool_targets{scrape_job=\"a\"}"), Some(1.0));
    assert_eq!(
        stage.own("prometheus_sd_discovered_targets{name=\"scrape\",config=\"a\"}"),
        Some(7.0)
    );
    stage.manager.shutdown().await;
}
