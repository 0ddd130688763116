//! Routes outside of `/api/v1`, and what all answers share.
//!
//! ```text
//! listen   sockets, connections and their bounds
//! page     the page, which is built into the binary
//! pprof    the server's own profiles
//! body     bodies of answers
//! ```

mod body;
mod listen;
mod page;
mod pprof;

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use tokio::sync::oneshot;
use wire::exposition::negotiate::{Negotiated, negotiate};

pub(crate) use body::{Body, Chunk};
pub(crate) use listen::{bind, serve};

use crate::api::{Api, Call, Out, accepts_gzip};
use crate::app::{App, Command, Life};
use page::Page;

/// The largest body of a request, in bytes: a form with a query.
const MAX_FORM: usize = 10 << 20;

/// Answers all requests.
pub(crate) struct Web {
    app: Arc<App>,
    api: Api,
    page: Page,
}

impl Web {
    pub(crate) fn new(app: Arc<App>) -> Self {
        let page = Page::new(&app.options.page_title);
        Web { api: Api::new(app.clone()), app, page }
    }

    /// Answers a request, and counts it.
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let started = Instant::now();
        let is_head = request.method() == Method::HEAD;
        let (mut response, handler) = self.route(request).await;
        let headers = response.headers_mut();
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if is_head {
            *response.body_mut() = Body::empty();
        }
        self.app.metrics.request_finished(handler, response.status(), started.elapsed());
        response
    }

    async fn route(&self, request: Request<Incoming>) -> (Response<Body>, &'static str) {
        let (head, incoming) = request.into_parts();
        let full = head.uri.path();
        let prefix = self.app.options.route_prefix.as_str();
        let path = match full.strip_prefix(prefix) {
            Some("") if !prefix.is_empty() => "/",
            Some(rest) if rest.starts_with('/') => rest,
            _ if full == "/" => return (redirect(&format!("{prefix}/")), "/"),
            _ => return (not_found(), "/*path"),
        };
        let is_head = head.method == Method::HEAD;
        // A HEAD is a GET whose body stays here.
        let method = if head.method == Method::HEAD { Method::GET } else { head.method };
        let is_form = head.headers.get(header::CONTENT_TYPE).is_some_and(|value| {
            value.to_str().is_ok_and(|value| value.starts_with("application/x-www-form-urlencoded"))
        });
        let is_profile = path == "/debug/pprof" || path.starts_with("/debug/pprof/");
        let body = match (is_form || is_profile) && method != Method::GET {
            false => Bytes::new(),
            true => match self.form(incoming).await {
                Ok(body) => body,
                Err(refused) => return (refused, "/*path"),
            },
        };
        let query = head.uri.query();
        let mut call = Call { method: &method, path, query, headers: &head.headers, body };
        if let Some(rest) = path.strip_prefix("/api/v1").filter(|rest| rest.starts_with('/')) {
            call.path = rest;
            return self.api.answer(call).await;
        }
        if is_profile {
            return (self.profile(&call, is_head).await, "/debug/*subpath");
        }
        match (path, &method) {
            ("/federate", &Method::GET) => {
                let answer = if self.app.is_ready() {
                    self.api.federate(&call).await
                } else {
                    unavailable(&self.app)
                };
                (answer, "/federate")
            }
            ("/metrics", &Method::GET) => (self.metrics(&call, false).await, "/metrics"),
            ("/metrics/node", &Method::GET) => (self.metrics(&call, true).await, "/metrics/node"),
            ("/-/reload" | "/-/quit", _) => self.lifecycle(path, &method).await,
            ("/-/healthy", &Method::GET) => {
                (plain(StatusCode::OK, "unladen is Healthy.\n"), "/-/healthy")
            }
            ("/-/ready", &Method::GET) if self.app.is_ready() => {
                (plain(StatusCode::OK, "unladen is Ready.\n"), "/-/ready")
            }
            ("/-/ready", &Method::GET) => (unavailable(&self.app), "/-/ready"),
            (_, &Method::GET) => self.page(path, query, &call),
            _ => (not_found(), "/*path"),
        }
    }

    /// The body of a form, read in time.
    async fn form(&self, incoming: Incoming) -> Result<Bytes, Response<Body>> {
        let body = Limited::new(incoming, MAX_FORM).collect();
        let read = match self.app.options.read_timeout {
            None => body.await,
            Some(limit) => match tokio::time::timeout(limit, body).await {
                Ok(read) => read,
                Err(_) => {
                    let text = "the body of the request did not come in time\n";
                    return Err(closing(StatusCode::REQUEST_TIMEOUT, text));
                }
            },
        };
        match read {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => {
                let text = "http: request body too large\n";
                Err(closing(StatusCode::PAYLOAD_TOO_LARGE, text))
            }
            Err(_) => {
                let text = "the body of the request broke off\n";
                Err(closing(StatusCode::BAD_REQUEST, text))
            }
        }
    }

    fn page(
        &self,
        path: &str,
        query: Option<&str>,
        call: &Call<'_>,
    ) -> (Response<Body>, &'static str) {
        let base = self.app.options.external_url.path().trim_end_matches('/');
        match path {
            "/" => return (redirect(&format!("{base}/query")), "/"),
            "/graph" => {
                let query = query.unwrap_or_default();
                return (redirect(&format!("{base}/query?{query}")), "/graph");
            }
            "/version" => return (plain(StatusCode::OK, crate::cli::version()), "/version"),
            _ => {}
        }
        match self.page.get(&path[1..], accepts_gzip(call.headers)) {
            Some(answer) if path.starts_with("/assets/") => (answer, "/assets/*filepath"),
            Some(answer) => (answer, "/page"),
            None => (not_found(), "/*path"),
        }
    }

    /// The server's own metrics, or those of the machine.
    async fn metrics(&self, call: &Call<'_>, of_machine: bool) -> Response<Body> {
        let accept = call.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
        let negotiated = negotiate(accept);
        let app = self.app.clone();
        crate::api::stream(accepts_gzip(call.headers), content_type(negotiated), move |out| {
            app.metrics.write(of_machine, negotiated, out, |out: &mut Out, chunk| {
                out.bytes(chunk);
                out
            });
        })
        .await
    }

    async fn lifecycle(&self, path: &str, method: &Method) -> (Response<Body>, &'static str) {
        let handler = if path == "/-/reload" { "/-/reload" } else { "/-/quit" };
        if *method != Method::POST && *method != Method::PUT {
            let text = "Only POST or PUT requests allowed";
            return (plain(StatusCode::METHOD_NOT_ALLOWED, text), handler);
        }
        if !self.app.options.enable_lifecycle {
            return (plain(StatusCode::FORBIDDEN, "Lifecycle API is not enabled."), handler);
        }
        if path == "/-/quit" {
            // Whoever asks twice is answered twice.
            let _ = self.app.commands.send(Command::Quit).await;
            return (plain(StatusCode::OK, "Requesting termination... Goodbye!"), handler);
        }
        let (sender, receiver) = oneshot::channel();
        let sent = self.app.commands.send(Command::Reload(sender)).await;
        let answer = match (sent, receiver.await) {
            (Ok(()), Ok(Ok(()))) => plain(StatusCode::OK, ""),
            (Ok(()), Ok(Err(reason))) => plain(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("failed to reload config: {reason}\n"),
            ),
            _ => plain(StatusCode::SERVICE_UNAVAILABLE, "the server is going down\n"),
        };
        (answer, handler)
    }
}

/// `Content-Type` of an exposition.
pub(crate) fn content_type(negotiated: Negotiated) -> HeaderValue {
    HeaderValue::from_str(&negotiated.to_string())
        .unwrap_or_else(|_| HeaderValue::from_static("text/plain"))
}

/// An answer in plain text.
pub(crate) fn plain(status: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    response
}

/// A refusal after which the connection ends: the rest of the request is not read.
fn closing(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = plain(status, text);
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

pub(crate) fn not_found() -> Response<Body> {
    plain(StatusCode::NOT_FOUND, "404 page not found\n")
}

pub(crate) fn method_not_allowed() -> Response<Body> {
    plain(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed\n")
}

/// The store isn't open yet, or no longer.
pub(crate) fn unavailable(app: &App) -> Response<Body> {
    let mut response = plain(StatusCode::SERVICE_UNAVAILABLE, "Service Unavailable");
    let stopping = if app.life() == Life::Stopping { "true" } else { "false" };
    let headers = response.headers_mut();
    headers.insert("X-Prometheus-Stopping", HeaderValue::from_static(stopping));
    response
}

fn redirect(to: &str) -> Response<Body> {
    let mut response = plain(StatusCode::FOUND, "");
    // Paths of ours, and queries that were in an address already.
    if let Ok(to) = HeaderValue::from_str(to) {
        response.headers_mut().insert(header::LOCATION, to);
    }
    response
}
