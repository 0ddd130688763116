//! What a target holds while it waits for its next scrape: its task, its connection, its labels, and no
//! buffer. Thousands of them are to fit beside the data.
#![expect(clippy::print_stdout, reason = "a test that can't run says why")]

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use server::{config, scrape};
use store::db::{Db, Options};
use store::disk::Directory;
use testkit::allocations::{Counting, live};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

const TARGETS: usize = 1000;

/// Bytes for a target with a connection, without what the store holds for its series: labels before and
/// after relabelling, the URL in three forms, the task with its place in time, the socket's registration
/// with the runtime.
const BYTES_PER_TARGET: i64 = 8 * 1024;

/// How long it may take until all targets were scraped.
const DEADLINE: Duration = Duration::from_secs(120);

/// Both ends of each connection are in this process: more descriptors than many systems allow at first. Tells
/// whether as many are allowed as are needed.
fn allow_descriptors() -> bool {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // A limit that can't be raised is one that is too low, if it is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let needed = 2 * TARGETS as u64 + 100;
    getrlimit(Resource::Nofile).current.is_none_or(|limit| limit >= needed)
}

/// Answers all requests with a series, on a thread whose memory is not counted.
fn serve() -> SocketAddr {
    let (sender, address) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            sender.send(listener.local_addr().unwrap()).unwrap();
            loop {
                let Ok((mut stream, _)) = listener.accept().await else { continue };
                tokio::spawn(async move {
                    let mut request = Vec::new();
                    while let Ok(1..) = stream.read_buf(&mut request).await {
                        if request.ends_with(b"\r\n\r\n") {
                            request.clear();
                            let answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\
                                Content-Length: 4\r\n\r\na 1\n";
                            if stream.write_all(answer).await.is_err() {
                                return;
                            }
                        }
                    }
                });
            }
        });
    });
    address.recv().unwrap()
}

/// Bytes that are held when all of `targets` have been scraped and wait.
fn held(address: SocketAddr, targets: usize) -> i64 {
    let folder = tempfile::tempdir().unwrap();
    // One thread, so that everything is counted here.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let begin = live();
    runtime.block_on(async {
        let disk = Arc::new(Directory::open(folder.path()).unwrap());
        let options = scrape::Options::default();
        let (db, _) = Db::open(disk, Options::default(), options.clock.now_ms()).unwrap();
        let db = Arc::new(db);
        let manager = scrape::Manager::new(db.clone(), &unladen::Registry::new(), options);
        let mut yaml = String::from("scrape_configs:\n- job_name: idle\n  scrape_interval: 5s\n  \
             scrape_timeout: 5s\n  static_configs:\n");
        for target in 0..targets {
            writeln!(
                yaml,
                "  - {{targets: ['{address}'], labels: {{__metrics_path__: /{target}, n: '{target}'}}}}"
            )
            .unwrap();
        }
        let (path, options) = (Path::new("t.yml"), config::Options::default());
        let loaded = config::load_text(&yaml, path, Path::new(""), &options).unwrap();
        manager.apply(&loaded.config).unwrap();
        drop((loaded, yaml));
        let all_up = || {
            let pool = manager.status().pools.remove("idle").unwrap_or_default();
            pool.active.len() == targets
                && pool.active.iter().all(|target| target.health == scrape::Health::Up)
        };
        let begun = Instant::now();
        while !all_up() {
            assert!(begun.elapsed() < DEADLINE, "after {DEADLINE:?} not all targets are up");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let held = live() - begin - db.stats().memory_bytes.cast_signed();
        manager.shutdown().await;
        held
    })
}

#[test]
fn a_waiting_target_holds_little() {
    if !allow_descriptors() {
        println!("skipped: {TARGETS} connections need more file descriptors than are allowed");
        return;
    }
    let address = serve();
    // What is there once is there with few targets too.
    let (few, many) = (held(address, TARGETS / 10), held(address, TARGETS));
    let each = (many - few) / (TARGETS - TARGETS / 10) as i64;
    assert!(each <= BYTES_PER_TARGET, "{each} bytes for each target");
    assert!(each > 500, "{each} bytes for each target: they are not counted here");
}
