//! Answers, made on the threads of queries and streamed to the client.
//!
//! A job runs on a blocking thread. It either fails, or gives an [`Answer`], which then writes its
//! body through [`Out`]: a page of 64 KiB (see `kept`). What fits into it is sent at once with its length; more
//! goes out chunk by chunk, and at most [`CHUNKS_AHEAD`] chunks wait for a slow client. A client that
//! takes nothing for [`STALL`] counts as gone. When the client has gone, whatever is written more is
//! dropped, and the body breaks off where it is: it never looks like a whole one.

use std::time::Duration;

use crate::web::{Body, Chunk};
use http::{HeaderValue, Response, StatusCode, header};
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use super::error::ApiError;
use super::kept::{Gzip, PAGE, Page};

/// Chunks that wait for a client that reads slowly; then the writer waits.
pub(crate) const CHUNKS_AHEAD: usize = 4;

/// How long a client may take nothing before the writer gives up and frees its thread.
const STALL: Duration = Duration::from_secs(30);

/// Smaller bodies are not worth compressing.
const COMPRESS_FROM: usize = 1024;

/// A successful answer: its content type, and how its body is written.
pub(crate) struct Answer {
    content_type: HeaderValue,
    write: Box<dyn FnOnce(&mut Out) + Send>,
}

impl Answer {
    /// A body of JSON, written by `write`.
    pub(crate) fn json(write: impl FnOnce(&mut Out) + Send + 'static) -> Self {
        Answer::of(HeaderValue::from_static("application/json"), write)
    }

    /// A body of another type.
    pub(crate) fn of(
        content_type: HeaderValue,
        write: impl FnOnce(&mut Out) + Send + 'static,
    ) -> Self {
        Answer { content_type, write: Box::new(write) }
    }
}

/// Where a body is written to. Pushing never fails: what a client that has gone would have got is
/// dropped, and [`Out::is_gone`] says so.
pub(crate) struct Out {
    page: Page,
    gzip: Option<Gzip>,
    accepts_gzip: bool,
    state: State,
    content_type: HeaderValue,
}

enum State {
    /// Nothing was sent: the head waits for whether the body is a short one.
    Waiting(oneshot::Sender<Response<Body>>),
    /// The head is out, chunks follow.
    Streaming(mpsc::Sender<Chunk>),
    /// Nobody listens.
    Gone,
}

impl Out {
    fn new(
        head: oneshot::Sender<Response<Body>>,
        content_type: HeaderValue,
        accepts_gzip: bool,
    ) -> Self {
        Out {
            page: Page::take(),
            gzip: None,
            accepts_gzip,
            state: State::Waiting(head),
            content_type,
        }
    }

    /// The rest of a body whose head is out already.
    pub(crate) fn of_body(chunks: mpsc::Sender<Chunk>) -> Self {
        Out {
            page: Page::take(),
            gzip: None,
            accepts_gzip: false,
            state: State::Streaming(chunks),
            content_type: HeaderValue::from_static(""),
        }
    }

    /// Appends bytes.
    #[inline]
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.page.bytes.extend_from_slice(bytes);
        if self.page.bytes.len() >= PAGE {
            self.flush();
        }
    }

    /// Appends text.
    #[inline]
    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Whether the client has gone, so that a long loop can end early.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.state, State::Gone)
    }

    /// Sends what is there; more follows.
    #[cold]
    fn flush(&mut self) {
        self.start();
        let mut next = Page::take();
        let page = match &mut self.gzip {
            Some(gzip) => {
                gzip.write(&self.page.bytes, false, &mut next.bytes);
                self.page.bytes.clear();
                next
            }
            None => std::mem::replace(&mut self.page, next),
        };
        self.send(page);
    }

    /// Sends the head, because the body is too long to wait for its end.
    fn start(&mut self) {
        if !matches!(self.state, State::Waiting(_)) {
            return;
        }
        let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
        if self.accepts_gzip {
            self.gzip = Some(Gzip::begin());
        }
        let response = self.head(Body::chunks(receiver), self.gzip.is_some());
        let before = std::mem::replace(&mut self.state, State::Streaming(sender));
        if let State::Waiting(head) = before
            && head.send(response).is_err()
        {
            self.state = State::Gone;
        }
    }

    fn send(&mut self, page: Page) {
        if !page.bytes.is_empty() {
            self.send_chunk(Chunk::Part(page.into_bytes()));
        }
    }

    /// Waits for room for at most [`STALL`]. Runs on a blocking thread of a runtime.
    fn send_chunk(&mut self, chunk: Chunk) {
        let State::Streaming(sender) = &self.state else { return };
        let sent = match sender.try_send(chunk) {
            Ok(()) => true,
            Err(TrySendError::Closed(_)) => false,
            Err(TrySendError::Full(chunk)) => {
                let patient = async { tokio::time::timeout(STALL, sender.send(chunk)).await };
                matches!(Handle::current().block_on(patient), Ok(Ok(())))
            }
        };
        if !sent {
            // Without its sender, the body breaks off.
            self.state = State::Gone;
        }
    }

    /// Sends the rest.
    pub(crate) fn finish(mut self) {
        let mut last = std::mem::replace(&mut self.page, Page { bytes: Vec::new() });
        if let State::Waiting(_) = self.state {
            let compress = self.accepts_gzip && last.bytes.len() >= COMPRESS_FROM;
            if compress {
                last = compressed(Gzip::begin(), &last);
            }
            let response = self.head(Body::from(last.into_bytes()), compress);
            if let State::Waiting(head) = self.state {
                // A client that has gone needs no answer.
                let _ = head.send(response);
            }
            return;
        }
        if let Some(gzip) = self.gzip.take() {
            last = compressed(gzip, &last);
        }
        self.send(last);
        self.send_chunk(Chunk::End);
    }

    fn head(&self, body: Body, compressed: bool) -> Response<Body> {
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, self.content_type.clone());
        let vary = HeaderValue::from_static("Accept-Encoding");
        headers.append(header::VARY, vary);
        if compressed {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }
}

/// The end of a compressed stream, whose last bytes are `last`.
fn compressed(mut gzip: Gzip, last: &Page) -> Page {
    let mut page = Page::take();
    gzip.write(&last.bytes, true, &mut page.bytes);
    page
}

/// Whether a request takes gzip.
pub(crate) fn accepts_gzip(headers: &http::HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|coding| {
            let mut parts = coding.split(';');
            parts.next().is_some_and(|name| name.trim().eq_ignore_ascii_case("gzip"))
                && !parts.any(|part| matches!(part.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
        })
}

/// Runs a job on a blocking thread and gives its answer as soon as its head is known. Whoever drops
/// the future is noticed by the writer at its next chunk.
pub(crate) async fn run(
    accepts_gzip: bool,
    job: impl FnOnce() -> Result<Answer, ApiError> + Send + 'static,
) -> Response<Body> {
    run_or(accepts_gzip, ApiError::response, job).await
}

/// Streams a body that cannot fail.
pub(crate) async fn stream(
    accepts_gzip: bool,
    content_type: HeaderValue,
    write: impl FnOnce(&mut Out) + Send + 'static,
) -> Response<Body> {
    run(accepts_gzip, move || Ok(Answer::of(content_type, write))).await
}

/// As [`run`], with another way to tell a failure.
pub(crate) async fn run_or(
    accepts_gzip: bool,
    failure: fn(&ApiError) -> Response<Body>,
    job: impl FnOnce() -> Result<Answer, ApiError> + Send + 'static,
) -> Response<Body> {
    let (sender, receiver) = oneshot::channel();
    tokio::task::spawn_blocking(move || match in_stage("query", job) {
        Ok(answer) => {
            in_stage("answer", || {
                let mut out = Out::new(sender, answer.content_type, accepts_gzip);
                (answer.write)(&mut out);
                out.finish();
            });
        }
        Err(error) => {
            let _ = sender.send(failure(&error));
        }
    });
    receiver.await.unwrap_or_else(|_| panicked())
}

/// Has what `job` allocates counted for a stage.
pub(crate) fn in_stage<T>(stage: &'static str, job: impl FnOnce() -> T) -> T {
    let _stage = profiler::stage(stage);
    job()
}

/// The answer when a job panicked; the panic itself is in the log.
#[cold]
pub(super) fn panicked() -> Response<Body> {
    let mut response = Response::new(Body::from("the server failed while it made the answer\n"));
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderMap;
    use http_body_util::BodyExt;
    use std::io::Read;

    fn answer(size: usize) -> Answer {
        Answer::json(move |out| {
            for _ in 0..size / 8 {
                out.text("01234567");
            }
        })
    }

    #[tokio::test]
    async fn long_bodies_stream_and_short_ones_have_a_length() {
        for (size, gzip, streams) in [
            (0, true, false),
            (800, true, false),
            (8000, false, false),
            (8000, true, false),
            (1_000_000, false, true),
            (1_000_000, true, true),
        ] {
            let response = run(gzip, move || Ok(answer(size))).await;
            let compressed = response.headers().contains_key(header::CONTENT_ENCODING);
            assert_eq!(compressed, gzip && size >= COMPRESS_FROM, "{size}");
            let body = response.into_body();
            let exact = hyper::body::Body::size_hint(&body).exact();
            assert_eq!(exact.is_none(), streams, "{size}");
            let bytes = body.collect().await.unwrap().to_bytes();
            let mut text = Vec::new();
            if compressed {
                flate2::read::GzDecoder::new(&*bytes).read_to_end(&mut text).unwrap();
            } else {
                text = bytes.to_vec();
            }
            assert_eq!(text, "01234567".repeat(size / 8).as_bytes());
        }
    }

    #[tokio::test]
    async fn a_writer_that_breaks_off_leaves_no_whole_body() {
        let response = run(false, || {
            Ok(Answer::json(|out| {
                out.bytes(&vec![b'x'; 2 * PAGE]);
                panic!("the writer fails midway, as this test wants it");
            }))
        })
        .await;
        assert_eq!(response.status(), StatusCode::OK);
        response.into_body().collect().await.expect_err("the body is not whole");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_given_up() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let response = run(false, move || {
            Ok(Answer::json(move |out| {
                let chunks = (0..100).take_while(|_| {
                    out.bytes(&vec![b'x'; PAGE]);
                    !out.is_gone()
                });
                let _ = sender.send(chunks.count());
            }))
        })
        .await;
        // The answer's body is held and not read.
        let given_up = loop {
            match receiver.try_recv() {
                Ok(chunks) => break chunks,
                Err(_) => tokio::time::advance(STALL).await,
            }
        };
        assert_eq!(given_up, CHUNKS_AHEAD);
        response.into_body().collect().await.expect_err("the body is not whole");
    }

    #[test]
    fn gzip_is_used_where_it_is_welcome() {
        for (value, expected) in [
            ("gzip", true),
            ("deflate, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("br", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            assert_eq!(accepts_gzip(&headers), expected, "{value}");
        }
    }
}
