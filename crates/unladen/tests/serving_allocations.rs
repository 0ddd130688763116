//! Serving the same again allocates nothing, on whatever thread it happens.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use http_body::Body as _;
use testkit::allocations::{Count, count_all_threads};
use unladen::Registry;
use unladen::endpoint::{Endpoint, Listener};

#[global_allocator]
static ALLOCATOR: testkit::allocations::Counting = testkit::allocations::Counting::new();

fn registry() -> Registry {
    let registry = Registry::new();
    let family = registry.counter(("requests_total", "Requests."), ["path"]).unwrap();
    for index in 0..20_000 {
        family.with([&format!("/a/longer/path/{index:06}")]).add(index);
    }
    registry
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Reads a body to its end; gives its length.
fn drain(body: unladen::endpoint::Body, waker: &Waker) -> usize {
    let mut body = pin!(body);
    let mut length = 0;
    loop {
        match body.as_mut().poll_frame(&mut Context::from_waker(waker)) {
            Poll::Pending => std::thread::park(),
            Poll::Ready(Some(frame)) => length += frame.unwrap().into_data().unwrap().len(),
            Poll::Ready(None) => return length,
        }
    }
}

/// One test: what other tests do at the same time would be counted.
#[test]
fn serving_is_steady() {
    let registry = registry();
    let listener = Listener::bind("127.0.0.1:0", &registry).unwrap();
    let mut stream = TcpStream::connect(listener.local_address()).unwrap();
    let mut room = vec![0; 1 << 20];
    for (fields, least) in [("", 400_000), ("Accept-Encoding: gzip\r\n", 20_000)] {
        for query in ["", "?match[]={path=~\"/.*\"}"] {
            let request = format!("GET /metrics{query} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
            let mut scrape = || {
                stream.write_all(request.as_bytes()).unwrap();
                let mut length = 0;
                while !room[..length].ends_with(b"0\r\n\r\n") {
                    length += stream.read(&mut room[length..]).unwrap();
                }
                assert!(length > least, "{length} bytes");
            };
            scrape();
            scrape();
            assert_eq!(count_all_threads(scrape), Count::ZERO, "{request}");
        }
    }
    drop(stream);
    drop(listener);

    // A body for an executor costs what passes it on, however long it is.
    let endpoint = Endpoint::new(registry);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let request = http::Request::get("/metrics").body(()).unwrap();
    let scrape = |endpoint: &Endpoint| drain(endpoint.respond(&request).into_body(), &waker);
    let mut allocated = Vec::new();
    // Now and then a scrape comes before the last one's thread is idle again, and starts another.
    for _ in 0..10 {
        for _ in 0..3 {
            assert!(scrape(&endpoint) > 400_000);
        }
        allocated.push(count_all_threads(|| {
            scrape(&endpoint);
        }));
    }
    let few = allocated.iter().min_by_key(|count| count.allocations).unwrap();
    assert!(few.allocations <= 8, "{allocated:?}");
    assert!(few.bytes < 4096, "{allocated:?}");
}
