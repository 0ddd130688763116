//! The whole of scraping, on all of its threads: several targets over loopback, timers, connections,
//! compression, journal and head. What it may allocate is written down here.
//!
//! The budget: a scrape of known series allocates, reallocates and frees nothing, on any thread, and so
//! does the time between scrapes. What is allowed besides is what growing data needs: a page of the head
//! when one is full, a segment of the journal.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use server::{config, scrape};
use store::db::{Db, Options};
use store::disk::Directory;
use testkit::allocations::{Count, Counting, of_all_threads, watch_all_threads};

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

/// Series of each target.
const SERIES: usize = 200;

/// Bytes that a sample may cost on average, growing data included. The head keeps a value that changes
/// arbitrarily in up to nine bytes; those of the counters here take about two.
const BYTES_PER_SAMPLE: f64 = 8.0;

type Encode = fn(&[u8]) -> Vec<u8>;

const ENCODINGS: [(&str, Encode); 3] =
    [("identity", <[u8]>::to_vec), ("gzip", gzip), ("zstd", zstd)];

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

/// A complete answer; `chunked` in three parts.
fn answer(encoding: &str, body: &[u8], chunked: bool) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Encoding: {encoding}\r\n"
    );
    let mut answer = head.into_bytes();
    if !chunked {
        answer.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
        answer.extend_from_slice(body);
        return answer;
    }
    answer.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
    for part in body.chunks(body.len().div_ceil(3)) {
        answer.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
        answer.extend_from_slice(part);
        answer.extend_from_slice(b"\r\n");
    }
    answer.extend_from_slice(b"0\r\n\r\n");
    answer
}

fn body(round: usize) -> String {
    let mut body = String::from("# HELP things_total Things that are counted.\n");
    body.push_str("# TYPE things_total counter\n");
    for series in 0..SERIES {
        let value = series * 1000 + round * (series % 7);
        writeln!(body, "things_total{{device=\"eth{series}\",kind=\"x\"}} {value}").unwrap();
    }
    body
}

/// A target that serves `answers` in turn, on a thread that allocates nothing once it runs.
fn serve(answers: Vec<Vec<u8>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut answers = answers.iter().cycle();
        while let Ok((mut stream, _)) = listener.accept() {
            let mut request = [0; 4096];
            let mut length = 0;
            while let Ok(read @ 1..) = stream.read(&mut request[length..]) {
                length += read;
                if request[..length].ends_with(b"\r\n\r\n") {
                    length = 0;
                    if stream.write_all(answers.next().unwrap()).is_err() {
                        break;
                    }
                }
            }
        }
    });
    address
}

/// Waits for so many further scrapes; how many of them failed.
#[expect(clippy::disallowed_methods, reason = "a condition to wait on would be counted")]
fn scrapes(manager: &scrape::Manager, count: u64) -> u64 {
    let counters = manager.counters();
    let (until, failed) = (counters.scrapes.get() + count, counters.scrapes_failed.get());
    let begun = Instant::now();
    while counters.scrapes.get() < until {
        assert!(begun.elapsed() < Duration::from_secs(60), "no scrapes");
        std::thread::sleep(Duration::from_millis(1));
    }
    counters.scrapes_failed.get() - failed
}

#[test]
fn scraping_allocates_nothing_on_any_thread() {
    let mut jobs = String::from("scrape_configs:\n");
    for (encoding, encode) in ENCODINGS {
        for chunked in [false, true] {
            let text = |round| answer(encoding, &encode(body(round).as_bytes()), chunked);
            let targets: Vec<_> =
                (0..2).map(|_| serve((0..7).map(text).collect()).to_string()).collect();
            let job = format!("{encoding}-{chunked}");
            writeln!(
                jobs,
                "- {{job_name: {job}, scrape_interval: 250ms, scrape_timeout: 250ms, \
                 static_configs: [{{targets: {targets:?}}}]}}"
            )
            .unwrap();
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let manager = {
        let _entered = runtime.enter();
        let options = scrape::Options::default();
        let disk = Arc::new(Directory::open(folder.path()).unwrap());
        let (db, _) = Db::open(disk, Options::default(), options.clock.now_ms()).unwrap();
        let manager = scrape::Manager::new(Arc::new(db), &unladen::Registry::new(), options);
        let (path, options) = (Path::new("t.yml"), config::Options::default());
        let loaded = config::load_text(&jobs, path, Path::new(""), &options).unwrap();
        manager.apply(&loaded.config).unwrap();
        manager
    };
    // Connections, tables, buffers and inflaters grow to their sizes.
    scrapes(&manager, 12 * 50);

    // A busy machine makes scrapes fail, and a failure is a text; a head that fills its page of buffers
    // takes another. Between such events there is nothing.
    watch_all_threads(true);
    let samples = manager.counters().samples_scraped.get();
    let begin = of_all_threads().0;
    let mut windows = Vec::new();
    while windows.len() < 40 && windows.iter().filter(|w| **w == (Count::ZERO, 0)).count() < 3 {
        let before = of_all_threads().0;
        let failed = scrapes(&manager, 24);
        let after = of_all_threads().0;
        let during = Count {
            allocations: after.allocations - before.allocations,
            reallocations: after.reallocations - before.reallocations,
            frees: after.frees - before.frees,
            bytes: after.bytes - before.bytes,
        };
        windows.push((during, failed));
    }
    let bytes = of_all_threads().0.bytes - begin.bytes;
    let samples = manager.counters().samples_scraped.get() - samples;
    watch_all_threads(false);
    let still = windows.iter().filter(|window| **window == (Count::ZERO, 0)).count();
    assert!(still >= 3, "scrapes that allocate nothing: {windows:?}");
    let each = bytes as f64 / samples as f64;
    assert!(each <= BYTES_PER_SAMPLE, "{each} bytes for each of {samples} samples: {windows:?}");
    runtime.block_on(manager.shutdown());
}
