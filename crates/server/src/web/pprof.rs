//! `/debug/pprof/`: the server's own profiles.
//!
//! 1. Collecting begins on a thread that may be blocked: the sampler's lock may be held by whoever waits for a
//!    thread that can't answer. An answer that nobody wants any more is dropped on one as well, for it may be
//!    the last of those that a profiler runs for.
//! 2. The head of an answer goes out then, for tools wait less patiently for it than for a body.
//! 3. Until a profile is collected, a task waits. A client that goes away ends its collection; so does the end
//!    of the server, which sends what was collected until then.
//! 4. The profile is made on a thread of answers, and streamed.

use http::header::HeaderName;
use http::{HeaderValue, Method, Response, StatusCode};
use profiler::serve::{Answer, Request};
use tokio::sync::mpsc;

use super::{Body, Chunk, Web, plain};
use crate::api::{CHUNKS_AHEAD, Call, Out, in_stage};

impl Web {
    /// A page of profiles.
    pub(super) async fn profile(&self, call: &Call<'_>, is_head: bool) -> Response<Body> {
        let app = self.app.clone();
        let method = if is_head { Method::HEAD } else { call.method.clone() };
        let (path, query) = (call.path.to_owned(), call.query.map(str::to_owned));
        let body = call.body.clone();
        let answer = off_executor(move || {
            app.pprof.answer(&Request {
                method: method.as_str(),
                path: &path,
                query: query.as_deref(),
                body: &body,
            })
        });
        let Some(answer) = answer.await else {
            // It panicked, and that was said.
            return plain(StatusCode::INTERNAL_SERVER_ERROR, "the profile can't be had\n");
        };
        let mut response = Response::new(Body::empty());
        let it = answer.get();
        *response.status_mut() = StatusCode::from_u16(it.status()).unwrap_or(StatusCode::OK);
        let headers = it.headers().filter_map(|(name, value)| {
            // Ours are all valid.
            Some((HeaderName::try_from(name).ok()?, HeaderValue::from_str(value).ok()?))
        });
        response.headers_mut().extend(headers);
        *response.body_mut() = match it.content_length() {
            Some(_) => Body::from(answer.take().fold(Vec::new(), |mut whole, chunk| {
                whole.extend_from_slice(chunk);
                whole
            })),
            None => self.collect(answer),
        };
        response
    }

    /// The body of a profile that is yet to be collected.
    fn collect(&self, answer: Held<Answer>) -> Body {
        let (sender, chunks) = mpsc::channel(CHUNKS_AHEAD);
        let app = self.app.clone();
        tokio::spawn(async move {
            if let Some(time) = answer.get().ready_at() {
                tokio::select! {
                    () = tokio::time::sleep_until(time.into()) => {}
                    () = app.stopping() => {}
                    () = sender.closed() => return,
                }
            }
            tokio::task::spawn_blocking(move || {
                in_stage("answer", || write(answer.take(), sender));
            });
        });
        Body::chunks(chunks)
    }
}

/// Does what may block on a thread that may be blocked; none when it panicked.
async fn off_executor<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<Held<T>> {
    tokio::task::spawn_blocking(move || Held(Some(work()))).await.ok()
}

/// Something whose end may block: wherever it is dropped, that happens on a thread that may be blocked.
struct Held<T: Send + 'static>(Option<T>);

impl<T: Send + 'static> Held<T> {
    fn get(&self) -> &T {
        self.0.as_ref().expect("only `take` and `drop` empty it, and both end it")
    }

    fn take(mut self) -> T {
        self.0.take().expect("only `take` and `drop` empty it, and both end it")
    }
}

impl<T: Send + 'static> Drop for Held<T> {
    fn drop(&mut self) {
        let Some(held) = self.0.take() else { return };
        // Without an executor there is none to keep waiting.
        if let Ok(executor) = tokio::runtime::Handle::try_current() {
            executor.spawn_blocking(move || drop(held));
        }
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread::{ThreadId, current};

    use super::*;

    struct Sends(mpsc::Sender<ThreadId>);

    impl Drop for Sends {
        fn drop(&mut self) {
            self.0.send(current().id()).unwrap();
        }
    }

    #[test]
    fn what_may_block_does_not_run_on_the_executor() {
        let executor = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (sender, dropped_on) = mpsc::channel();
        executor.block_on(async {
            let here = current().id();
            let its_own = sender.clone();
            let held = off_executor(move || (current().id(), Sends(its_own))).await.unwrap();
            assert_ne!(held.get().0, here);
            drop(held);
            assert_ne!(dropped_on.recv().unwrap(), here);
            let taken = off_executor(move || Sends(sender)).await.unwrap().take();
            drop(taken);
            assert_eq!(dropped_on.recv().unwrap(), here, "what was taken is the taker's");
            assert!(off_executor(|| -> u8 { panic!("as it should") }).await.is_none());
        });
    }
}
