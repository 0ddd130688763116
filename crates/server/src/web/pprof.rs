//! `/debug/pprof/`: the server's own profiles.
//!
//! 1. The head of an answer goes out at once, for tools wait less patiently for it than for a body.
//! 2. Until a profile is collected, a task waits. A client that goes away ends its collection; so does the end
//!    of the server, which sends what was collected until then.
//! 3. The profile is made on a thread of answers, and streamed.

use http::header::HeaderName;
use http::{HeaderValue, Response, StatusCode};
use profiler::serve::{Answer, Request};
use tokio::sync::mpsc;

use super::{Body, Chunk, Web};
use crate::api::{CHUNKS_AHEAD, Call, Out, in_stage};

impl Web {
    /// A page of profiles.
    pub(super) fn profile(&self, call: &Call<'_>, is_head: bool) -> Response<Body> {
        let answer = self.app.pprof.answer(&Request {
            method: if is_head { "HEAD" } else { call.method.as_str() },
            path: call.path,
            query: call.query,
            body: &call.body,
        });
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::from_u16(answer.status()).unwrap_or(StatusCode::OK);
        let headers = answer.headers().filter_map(|(name, value)| {
            // Ours are all valid.
            Some((HeaderName::try_from(name).ok()?, HeaderValue::from_str(value).ok()?))
        });
        response.headers_mut().extend(headers);
        *response.body_mut() = match answer.content_length() {
            Some(_) => Body::from(answer.fold(Vec::new(), |mut whole, chunk| {
                whole.extend_from_slice(chunk);
                whole
            })),
            None => self.collect(answer),
        };
        response
    }

    /// The body of a profile that is yet to be collected.
    fn collect(&self, answer: Answer) -> Body {
        let (sender, chunks) = mpsc::channel(CHUNKS_AHEAD);
        let app = self.app.clone();
        tokio::spawn(async move {
            if let Some(time) = answer.ready_at() {
                tokio::select! {
                    () = tokio::time::sleep_until(time.into()) => {}
                    () = app.stopping() => {}
                    () = sender.closed() => return,
                }
            }
            tokio::task::spawn_blocking(move || in_stage("answer", || write(answer, sender)));
        });
        Body::chunks(chunks)
    }
}

fn write(answer: Answer, chunks: mpsc::Sender<Chunk>) {
    let mut out = Out::of_body(chunks);
    let written = answer.try_fold((), |(), chunk| {
        out.bytes(chunk);
        if out.is_gone() { Err(()) } else { Ok(()) }
    });
    if written.is_ok() {
        out.finish();
    }
}
