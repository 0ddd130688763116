//! `kill -9` during ingestion, a hundred times at random moments: the server starts again each time, and
//! every sample that a query had shown before is still there.

mod running;

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use running::{Running, Samples};
use testkit::random::Random;

const KILLS: u32 = 100;
const SERIES: u64 = 40;

/// A target of counters that move with every scrape; some series come and go.
fn target() -> std::net::SocketAddr {
    let server = tiny_http::Server::http("127.0.0.1:0").expect("a free port");
    let address = server.server_addr().to_ip().expect("an address");
    let scrapes = Arc::new(AtomicU64::new(0));
    std::thread::spawn(move || {
        for request in server.incoming_requests() {
            let round = scrapes.fetch_add(1, Ordering::Relaxed);
            let mut body = String::new();
            for at in 0..SERIES {
                let generation = if at % 10 == 0 { round / 50 } else { 0 };
                let value = round * (at + 1);
                let _ = writeln!(
                    body,
                    "ticks_total{{at=\"{at}\",generation=\"{generation}\"}} {value}"
                );
            }
            let header = tiny_http::Header::from_bytes("Content-Type", "text/plain; version=0.0.4")
                .expect("a valid header");
            let _ = request.respond(tiny_http::Response::from_string(body).with_header(header));
        }
    });
    address
}

/// Everything in `before` is in `now`.
fn assert_kept(before: &Samples, now: &Samples, round: u32) {
    for (series, samples) in before {
        let found = now.get(series).unwrap_or_else(|| panic!("kill {round}: {series} is gone"));
        for sample in samples {
            assert!(
                found.binary_search(sample).is_ok(),
                "kill {round}: {series} lost {sample:?}, it has {found:?}"
            );
        }
    }
}

#[test]
fn survives_a_hundred_kills() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = format!(
        "global: {{scrape_interval: 10ms, scrape_timeout: 10ms}}\nscrape_configs:\n\
         - job_name: ticks\n  static_configs: [{{targets: ['{}']}}]\n",
        target()
    );
    let mut random = Random::new(20_261_121);
    let mut seen = Samples::new();
    let mut samples = 0;
    for round in 0..KILLS {
        let server = Running::start(directory.path(), &config, &[]);
        let shown = server.samples("ticks_total[1h]").expect("an answer once it is ready");
        assert_kept(&seen, &shown, round);
        seen = shown;
        let moment = Instant::now() + Duration::from_micros(random.below(120_000));
        while Instant::now() < moment {
            if let Some(shown) = server.samples("ticks_total[1h]") {
                seen = shown;
            }
        }
        server.kill();
        samples = seen.values().map(Vec::len).sum();
    }
    assert!(samples > 1_000, "the server took samples in between: {samples}");
}
