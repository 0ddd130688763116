//! The answer as an HTTP body for hyper, axum and whatever else takes an [`http_body::Body`].
//!
//! 1. A thread of the endpoint's own renders; the task that sends the body never does.
//! 2. Chunks of at most 64 KiB pass through a pipe that holds two. A server that takes no more stops the
//!    rendering until it does; one that takes nothing for a minute has the body broken off.
//! 3. A body that is dropped ends its rendering, or the wait for its time, and its thread takes the next.
//! 4. A body whose rendering broke off is an error and not an end, upon which servers cut the connection:
//!    nobody takes a part for the whole.
//!
//! It works with every executor: it needs a waker and nothing else.

use std::fmt;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, HeaderName, HeaderValue};
use http_body::{Frame, SizeHint};

use super::pipe::{Receiver, pipe};
use super::workers::{Job, Workers};
use super::{Answer, Content, Endpoint, Request};

/// How long a chunk may wait for somebody who takes it before the body is given up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Those who wait for bodies that are not metrics, and render them: scrapes never wait for their threads.
static OTHERS: LazyLock<Workers> = LazyLock::new(Workers::default);

/// The body of an answer.
#[derive(Debug)]
pub struct Body(Kind);

#[derive(Debug)]
enum Kind {
    /// That of an answer to `HEAD`, whose length nobody knows.
    None,
    Text(Bytes),
    Chunks(Receiver),
}

/// The rendering of a body broke off before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished;

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the body was not rendered to its end")
    }
}

impl std::error::Error for Unfinished {}

impl Endpoint {
    /// Answers a request of hyper or axum. Returns at once; rendering goes on elsewhere, for up to 64
    /// requests at a time. One beyond is answered with 503.
    ///
    /// ```
    /// # use unladen::{Registry, endpoint::Endpoint};
    /// let endpoint = Endpoint::new(Registry::new());
    /// let request = http::Request::get("/metrics?name[]=up").body(()).unwrap();
    /// let response = endpoint.respond(&request);
    /// assert_eq!(response.status(), 200);
    /// ```
    /// With axum: `get(async move |request: axum::extract::Request| endpoint.respond(&request))`.
    pub fn respond<B>(&self, request: &http::Request<B>) -> http::Response<Body> {
        let header = |name: HeaderName| request.headers().get(name)?.to_str().ok();
        let answer = self.answer(&Request {
            method: request.method().as_str(),
            accept: header(ACCEPT),
            accept_encoding: header(ACCEPT_ENCODING),
            query: request.uri().query(),
        });
        answer.into_response()
    }
}

impl Answer {
    /// The answer as hyper and axum send it; see [`Endpoint::respond`]. Its head goes out at once, also where
    /// the body has to be waited for.
    pub fn into_response(self) -> http::Response<Body> {
        let mut response = http::Response::new(Body(Kind::None));
        self.put_head(&mut response);
        *response.body_mut() = match self.into_body() {
            Some(body) => body,
            None => {
                let refused = Answer::text(503, "too many requests are being answered\n");
                response.headers_mut().clear();
                refused.put_head(&mut response);
                refused.into_body().unwrap_or(Body(Kind::None))
            }
        };
        response
    }

    fn put_head(&self, response: &mut http::Response<Body>) {
        *response.status_mut() =
            http::StatusCode::from_u16(self.status()).unwrap_or(http::StatusCode::OK);
        for (name, value) in self.headers() {
            // Ours are all valid.
            if let (Ok(name), Ok(value)) =
                (name.parse::<HeaderName>(), HeaderValue::from_str(value))
            {
                response.headers_mut().insert(name, value);
            }
        }
    }

    /// Begins to render, unless there are too many that do.
    fn into_body(self) -> Option<Body> {
        if self.is_head {
            return Some(Body(Kind::None));
        }
        let endpoint = match self.content {
            Content::Text(text) => return Some(Body(Kind::Text(text.into_owned().into()))),
            Content::Exposition(ref exposition) => Some(exposition.endpoint.clone()),
            Content::Rendered(_) => None,
        };
        let (sender, receiver) = pipe(PATIENCE);
        let job = Job { answer: self, sender };
        let is_taken = match endpoint {
            Some(endpoint) => endpoint.0.workers.take(job),
            None => OTHERS.take(job),
        };
        is_taken.then_some(Body(Kind::Chunks(receiver)))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Unfinished;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Unfinished>>> {
        match &mut self.0 {
            Kind::None => Poll::Ready(None),
            Kind::Text(text) if text.is_empty() => Poll::Ready(None),
            Kind::Text(text) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(text))))),
            Kind::Chunks(receiver) => receiver
                .poll(context)
                .map(|chunk| chunk.map(|chunk| chunk.map(Frame::data).map_err(|_| Unfinished))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::None => true,
            Kind::Text(text) => text.is_empty(),
            Kind::Chunks(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Text(text) => SizeHint::with_exact(text.len() as u64),
            Kind::None | Kind::Chunks(_) => SizeHint::default(),
        }
    }
}
