//! A scrape of known series allocates nothing, reallocates nothing and frees nothing, from the body to
//! journal and head; nor does the scrape around it, from the timer to the connection and back.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use server::config::{self, ScrapeConfig};
use server::scrape;
use server::scrape::ingest::{Body, Counts, Extra, Ingester, Report, TargetSeries};
use store::Labels;
use store::db::{Db, Options};
use store::disk::Directory;
use testkit::allocations::{Count, Counting, count, total};
use wire::exposition::Format;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

/// How a scrape of known series may differ from the one before.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Shape {
    /// The same lines in the same order.
    Same,
    /// The families in another order each time.
    Shuffled,
    /// Every tenth series is there in every second scrape only, and is a known one then.
    Flapping,
}

/// A body like those of exporters: families of ten series, every value new with `round`.
fn body(format: Format, shape: Shape, families: u64, round: u64) -> String {
    let mut body = String::new();
    for place in 0..families {
        let family =
            if shape == Shape::Shuffled { (place * 37 + round * 13) % families } else { place };
        let name = format!("node_network_thing_{family}_bytes");
        let total = if format == Format::OpenMetrics { "_total" } else { "" };
        writeln!(body, "# HELP {name} Something that is counted, number {family}.").unwrap();
        writeln!(body, "# TYPE {name} counter").unwrap();
        for device in 0..10u64 {
            if shape == Shape::Flapping && device == 3 && round % 2 == 1 {
                continue;
            }
            let value = (family * 1000 + device) as f64 * 1.25 + (round * 17) as f64;
            // One series is dropped by relabelling, one has its label displaced.
            let label = if device == 9 { "drop_me" } else { "device" };
            writeln!(body, "{name}{total}{{{label}=\"eth{device}\",job=\"x\"}} {value}").unwrap();
        }
    }
    if format == Format::OpenMetrics {
        body.push_str("# EOF\n");
    }
    body
}

fn job() -> ScrapeConfig {
    let text = "scrape_configs: [{job_name: a, extra_scrape_metrics: true, sample_limit: 5000,
        metric_relabel_configs: [{source_labels: [drop_me], regex: .+, action: drop},
        {source_labels: [device], regex: eth(.), target_label: number}]}]";
    let loaded =
        config::load_text(text, Path::new("t.yml"), Path::new(""), &config::Options::default());
    loaded.expect("the configuration is valid").config.scrape_configs.remove(0)
}

fn ingest(
    ingester: &mut Ingester,
    series: &mut TargetSeries,
    body: Body<'_>,
) -> Result<Counts, String> {
    let mut counts = ingester.read(series, body).map_err(|(fault, _)| fault.to_string())?;
    let extra = Some(Extra { timeout_seconds: 10.0, sample_limit: 5000, body_bytes: 1 });
    let report = Report::Scraped { up: true, seconds: 0.01, counts, extra };
    ingester.report(series, body.labels, body.now_ms, &report).map_err(|e| e.to_string())?;
    let again = ingester.commit(series, &mut counts).map_err(|e| e.to_string())?;
    assert!(!again, "the store forgot a series");
    Ok(counts)
}

#[test]
fn a_scrape_of_known_series_allocates_nothing() {
    let config = job();
    let labels = Labels::from_pairs([("instance", "localhost:9100"), ("job", "a")]);
    for format in [Format::Text, Format::OpenMetrics] {
        for shape in [Shape::Same, Shape::Shuffled, Shape::Flapping] {
            let folder = tempfile::tempdir().unwrap();
            let disk = Arc::new(Directory::open(folder.path()).unwrap());
            let start = 1_700_000_000_000;
            let (db, _) = Db::open(disk, Options::default(), start).unwrap();
            let mut ingester = Ingester::new(&db);
            let mut series = TargetSeries::default();
            let mut during = Count::ZERO;
            for round in 0..400u64 {
                let text = body(format, shape, 100, round);
                let now_ms = start + round as i64 * 15_000;
                let bytes = text.as_bytes();
                let body = Body { bytes, format, now_ms, labels: &labels, config: &config };
                let mut result = None;
                let here =
                    count(|| result = Some(ingest(&mut ingester, &mut series, body).is_ok()));
                assert_eq!(result, Some(true), "{format:?} {shape:?} round {round}");
                // The first rounds make the series and grow every buffer to its size, also that of the chunks:
                // what follows holds the end of a chunk of every series.
                if round >= 260 {
                    during.allocations += here.allocations;
                    during.reallocations += here.reallocations;
                    during.frees += here.frees;
                    during.bytes += here.bytes;
                }
            }
            assert_eq!(during, Count::ZERO, "{format:?} {shape:?}");
        }
    }
}

/// A target on a thread of its own, where its allocations are not counted: it serves `bodies` in turn
/// on one connection.
fn serve(bodies: Vec<Vec<u8>>) -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bodies = bodies.iter().cycle();
        let mut request = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(read) => request.extend_from_slice(&buffer[..read]),
            }
            if request.ends_with(b"\r\n\r\n") {
                request.clear();
                if stream.write_all(bodies.next().unwrap()).is_err() {
                    return;
                }
            }
        }
    });
    address
}

fn answer(encoding: &str, body: &[u8]) -> Vec<u8> {
    let mut answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: {encoding}\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    answer.extend_from_slice(body);
    answer
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0; zstd_safe::compress_bound(bytes.len())];
    let size = zstd_safe::compress(&mut out[..], bytes, 1).unwrap();
    out.truncate(size);
    out
}

#[test]
fn a_whole_scrape_over_the_network_allocates_nothing() {
    type Encode = fn(&[u8]) -> Vec<u8>;
    let encodings: [(&str, Encode); 3] =
        [("identity", <[u8]>::to_vec), ("gzip", gzip), ("zstd", zstd)];
    for (encoding, encode) in encodings {
        let text = |round| encode(body(Format::Text, Shape::Same, 10, round).as_bytes());
        let address = serve((0..7).map(|round| answer(encoding, &text(round))).collect());
        let folder = tempfile::tempdir().unwrap();
        // One thread, so that everything is counted here.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let disk = Arc::new(Directory::open(folder.path()).unwrap());
            let options = scrape::Options::default();
            let (db, _) = Db::open(disk, Options::default(), options.clock.now_ms()).unwrap();
            let registry = unladen::Registry::new();
            let manager = scrape::Manager::new(Arc::new(db), &registry, options);
            let text = format!(
                "scrape_configs: [{{job_name: a, scrape_interval: 20ms, scrape_timeout: 20ms, \
                 static_configs: [{{targets: ['{address}']}}]}}]"
            );
            let options = config::Options::default();
            let loaded =
                config::load_text(&text, Path::new("t.yml"), Path::new(""), &options).unwrap();
            manager.apply(&loaded.config).unwrap();
            let scrapes = |count: u64| {
                let counters = manager.counters().clone();
                let until = counters.scrapes.get() + count;
                async move {
                    while counters.scrapes.get() < until {
                        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                    }
                }
            };
            scrapes(50).await;
            // A busy machine makes scrapes fail, and a failure is a text; a head that fills its page
            // of buffers takes another. Between such events there is nothing.
            let mut windows = Vec::new();
            while windows.len() < 20 && !windows.contains(&(Count::ZERO, 0)) {
                let failed = manager.counters().scrapes_failed.get();
                let before = total();
                scrapes(10).await;
                let after = total();
                let during = Count {
                    allocations: after.allocations - before.allocations,
                    reallocations: after.reallocations - before.reallocations,
                    frees: after.frees - before.frees,
                    bytes: after.bytes - before.bytes,
                };
                windows.push((during, manager.counters().scrapes_failed.get() - failed));
            }
            assert!(windows.contains(&(Count::ZERO, 0)), "{encoding}: {windows:?}");
            manager.shutdown().await;
        });
    }
}
