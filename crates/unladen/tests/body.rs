//! The body for hyper and axum: who renders it, who waits, and how it ends.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{Thread, ThreadId};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::Body as _;
use http_body_util::BodyExt;
use unladen::endpoint::{Answer, Body, Endpoint, Render, Unfinished};
use unladen::{Collector, FamilyWriter, Registry, StoredLabels};

const MANY: usize = 200_000;

/// A table that tells how many rows were written, and by which thread.
struct Rows {
    labels: Vec<StoredLabels>,
    done: mpsc::Sender<(usize, ThreadId)>,
}

impl Collector for Rows {
    fn collect(&self, out: &mut FamilyWriter<'_, '_>) {
        let mut samples = out.gauge("rows", "Rows of a table.");
        let mut written = 0;
        for labels in &self.labels {
            if !samples.is_open() {
                break;
            }
            samples.stored(labels, 1u64);
            written += 1;
        }
        let _ = self.done.send((written, std::thread::current().id()));
    }
}

fn endpoint() -> (Endpoint, mpsc::Receiver<(usize, ThreadId)>) {
    let labels = |index: usize| StoredLabels::new([("row", format!("{index:08}").as_str())]);
    let (done, ended) = mpsc::channel();
    let registry = Registry::new();
    registry.collect(Rows { labels: (0..MANY).map(labels).collect(), done });
    (Endpoint::new(registry), ended)
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

fn get(endpoint: &Endpoint) -> http::Response<Body> {
    endpoint.respond(&http::Request::get("/metrics").body(()).unwrap())
}

fn next(body: &mut Body) -> Option<Result<Bytes, Unfinished>> {
    let frame = block_on(poll_fn(|context| Pin::new(&mut *body).poll_frame(context)));
    frame.map(|frame| frame.map(|frame| frame.into_data().unwrap()))
}

fn whole(body: Body) -> Bytes {
    block_on(body.collect()).unwrap().to_bytes()
}

#[test]
fn it_is_rendered_elsewhere_and_is_the_same() {
    let (endpoint, ended) = endpoint();
    let body = whole(get(&endpoint).into_body());
    let (written, thread) = ended.recv().unwrap();
    assert_eq!(written, MANY);
    assert_ne!(thread, std::thread::current().id(), "an executor's thread renders nothing");
    let mut expected = Vec::new();
    endpoint.answer(&unladen::endpoint::Request::default()).write_to(&mut expected).unwrap();
    assert!(body == expected);
}

#[test]
fn responses_have_what_answers_have() {
    let (endpoint, _ended) = endpoint();
    for (method, query, status, size) in [
        ("GET", "?name[]=none", 200, None),
        ("HEAD", "", 200, None),
        ("POST", "", 405, Some(36)),
        ("GET", "?match[]=", 400, Some(43)),
    ] {
        let request = http::Request::builder()
            .method(method)
            .uri(format!("/metrics{query}"))
            .header("accept-encoding", "gzip")
            .header("accept", "application/openmetrics-text")
            .body(())
            .unwrap();
        let response = endpoint.respond(&request);
        assert_eq!(response.status(), status);
        let header = |name: &str| response.headers().get(name).map(|v| v.to_str().unwrap());
        let is_exposition = status == 200;
        assert_eq!(header("content-encoding"), is_exposition.then_some("gzip"));
        let content_type = header("content-type").unwrap();
        assert_eq!(content_type.starts_with("application/openmetrics-text"), is_exposition);
        assert_eq!(header("allow").is_some(), status == 405);
        assert_eq!(response.body().is_end_stream(), method == "HEAD");
        assert_eq!(response.body().size_hint().exact(), size);
        assert_eq!(whole(response.into_body()).is_empty(), method == "HEAD");
    }
}

#[test]
fn a_stalled_body_holds_up_no_other() {
    let (endpoint, _ended) = endpoint();
    let mut stalled = get(&endpoint).into_body();
    let first = next(&mut stalled).unwrap().unwrap();
    let expected = whole(get(&endpoint).into_body());
    let mut all = first.to_vec();
    while let Some(chunk) = next(&mut stalled) {
        let chunk = chunk.unwrap();
        assert!(chunk.len() <= 65_536);
        all.extend_from_slice(&chunk);
    }
    assert!(all == expected);
}

#[test]
fn a_dropped_body_ends_its_rendering() {
    let (endpoint, ended) = endpoint();
    let mut body = get(&endpoint).into_body();
    next(&mut body).unwrap().unwrap();
    drop(body);
    let (written, _) = ended.recv().unwrap();
    assert!(written < MANY / 10, "{written} rows for nobody");
    // An endpoint that goes takes nothing away from a body.
    let body = get(&endpoint).into_body();
    drop(endpoint);
    assert!(whole(body).ends_with(b"rows{row=\"00199999\"} 1\n"));
}

#[test]
fn too_many_at_once_are_refused() {
    let (endpoint, _ended) = endpoint();
    let bodies: Vec<_> = (0..64).map(|_| get(&endpoint)).collect();
    assert!(bodies.iter().all(|response| response.status() == 200));
    let refused = get(&endpoint);
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.headers()["content-type"], "text/plain; charset=utf-8");
    assert_eq!(whole(refused.into_body()), "too many requests are being answered\n");
    drop(bodies);
    // Threads are free again once they have seen it.
    while get(&endpoint).status() != 200 {
        std::thread::yield_now();
    }
}

/// A body that can be had after a time.
#[derive(Debug)]
struct Later(Instant, mpsc::Sender<()>);

impl Render for Later {
    fn ready_at(&self) -> Option<Instant> {
        Some(self.0)
    }

    fn render(self: Box<Self>, give: &mut dyn FnMut(&[u8]) -> bool) {
        assert!(Instant::now() >= self.0);
        assert!(give(b"lat") && give(b"er"));
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        let _ = self.1.send(());
    }
}

#[test]
fn a_body_that_has_to_be_waited_for_is_waited_for_elsewhere() {
    let (sender, dropped) = mpsc::channel();
    let answer = |after: Duration| {
        let later = Later(Instant::now() + after, sender.clone());
        Answer::rendered(200, vec![("Content-Type", "x/y".into())], Box::new(later))
    };
    let response = answer(Duration::from_millis(30)).into_response();
    assert_eq!(response.headers()["content-type"], "x/y");
    assert_eq!(whole(response.into_body()), "later");
    dropped.recv().unwrap();
    // A client that goes away ends the wait.
    let never = Duration::from_secs(3600);
    let mut body = answer(never).into_response().into_body();
    let waker = Waker::noop();
    assert!(Pin::new(&mut body).poll_frame(&mut Context::from_waker(waker)).is_pending());
    drop(body);
    dropped.recv().unwrap();
    let response = answer(never).without_body().into_response();
    assert!(response.body().is_end_stream());
}
