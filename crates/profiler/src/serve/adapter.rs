//! Answers as `unladen` sends them: beside the metrics on its listener, and to hyper and axum.

use unladen::endpoint;

use super::answer::Content;
use super::collection::Collection;
use super::{Answer, Names, Pprof, Request};

impl endpoint::Render for Collection {
    fn ready_at(&self) -> Option<std::time::Instant> {
        self.ready_at
    }

    fn render(self: Box<Self>, give: &mut dyn FnMut(&[u8]) -> bool) {
        Collection::render(self, give);
    }
}

impl endpoint::Render for Names {
    fn render(self: Box<Self>, give: &mut dyn FnMut(&[u8]) -> bool) {
        self.write().as_bytes().chunks(64 << 10).all(give);
    }
}

impl From<Answer> for endpoint::Answer {
    fn from(answer: Answer) -> Self {
        let is_head = answer.is_head();
        let Answer { status, headers, content, .. } = answer;
        let answer = match content {
            Content::Text(text) => endpoint::Answer::whole(status, headers, text),
            Content::Collection(collection) => {
                endpoint::Answer::rendered(status, headers, collection)
            }
            Content::Names(names) => endpoint::Answer::rendered(status, headers, names),
        };
        if is_head { answer.without_body() } else { answer }
    }
}

impl Pprof {
    /// What answers below `/debug/pprof/` on `unladen`'s listener:
    ///
    /// ```no_run
    /// # use unladen::endpoint::{Endpoint, Listener};
    /// # let endpoint = Endpoint::new(unladen::Registry::new());
    /// # let pprof = profiler::serve::Pprof::without_sampling();
    /// let listener = Listener::builder(endpoint)
    ///     .route("/debug/pprof/", pprof.route())
    ///     .bind("127.0.0.1:9100")?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[cfg(feature = "listener")]
    pub fn route(
        &self,
    ) -> impl Fn(&endpoint::RouteRequest<'_>) -> endpoint::Answer + Send + Sync + use<> {
        let pprof = self.clone();
        move |asked| {
            let endpoint::RouteRequest { request, path, body } = *asked;
            let request = Request { method: request.method, path, query: request.query, body };
            pprof.answer(&request).into()
        }
    }

    /// Answers a request of hyper or axum. Collecting begins here, which [blocks](Pprof::answer): call it on
    /// a thread that may be blocked. Threads of `unladen`'s wait for what is asked for and render it. A client
    /// that goes away ends its collection.
    ///
    /// With axum, on the routes `/debug/pprof/` and `/debug/pprof/{page}`:
    /// ```text
    /// any(async move |head: Parts, body: Bytes| {
    ///     let answer = tokio::task::spawn_blocking(move || pprof.respond(&head, &body));
    ///     answer.await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
    /// })
    /// ```
    #[cfg(feature = "http-body")]
    pub fn respond(
        &self,
        head: &http::request::Parts,
        body: &[u8],
    ) -> http::Response<endpoint::Body> {
        let answer = self.answer(&Request {
            method: head.method.as_str(),
            path: head.uri.path(),
            query: head.uri.query(),
            body,
        });
        endpoint::Answer::from(answer).into_response()
    }
}
