//! The Prometheus endpoint: from a request to an answer, for any HTTP server.
//!
//! ```text
//! query      the query string
//! selector   a selector in it
//! pattern    a pattern in a selector
//! filter     which families and series it asks for
//! gzip       packs a body on its way
//! body       the body as hyper and axum take it (feature `http-body`)
//! workers    threads that render such bodies
//! pipe       from such a thread to the task that sends
//! listener   a listener for programs that have no HTTP server (feature `listener`)
//! connection a connection of it
//! route      further paths on it
//! render     answers on those, whose bodies somebody else renders
//! ```
//! ```
//! use unladen::Registry;
//! use unladen::endpoint::{Endpoint, Request};
//!
//! let registry = Registry::new();
//! registry.gauge(("queues", "Queues there are."), [])?.with([]).set(17.0);
//!
//! let endpoint = Endpoint::new(registry);
//! let answer = endpoint.answer(&Request {
//!     query: Some("name[]=queues"),
//!     accept_encoding: Some("gzip"),
//!     ..Request::default()
//! });
//! assert_eq!(answer.status(), 200);
//! let headers: Vec<_> = answer.headers().collect();
//! assert!(headers.contains(&("Content-Encoding", "gzip")));
//! let mut body = Vec::new();
//! answer.write_to(&mut body)?;
//! # assert!(body.starts_with(&[0x1f, 0x8b]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//! # What a query string may ask for
//! - `name[]=…`, as often as wanted: the families of these names. The name is the family's, with or
//!   without `_total`, or that of one of its series, such as `latency_seconds_bucket`; the family comes
//!   whole.
//! - `match[]=…`, as often as wanted: the series that one of these selectors matches, for instance
//!   `{vhost="a",queue=~"orders-.*"}` or `up{job!="b"}`. The operators are `=`, `!=`, `=~` and `!~`; a
//!   pattern has to match the whole value, in the syntax of the crate `regex`. `le` and `quantile` belong
//!   to lines and not to series: no series has them here.
//!
//! With both, a series has to be wanted by both. A family without wanted series keeps its HELP and TYPE
//! unless its name or common labels rule it out. Names may be given as they are registered or as they
//! are spelt in the body. Other parameters are ignored; one of these that can't be read is answered
//! with 400 and a text that says where the fault is.
//!
//! # What happens when something fails
//! A collector or a callback that panics spoils its own families, and the body itself counts it in
//! `unladen_collectors_panicked_total` or `unladen_callbacks_panicked_total`. A sink that fails ends the
//! rendering with the chunk that it refused.
#[cfg(feature = "http-body")]
mod body;
#[cfg(feature = "listener")]
mod connection;
mod filter;
mod gzip;
#[cfg(feature = "listener")]
mod listener;
mod pattern;
#[cfg(feature = "http-body")]
mod pipe;
mod query;
mod render;
#[cfg(feature = "listener")]
mod route;
mod selector;
#[cfg(feature = "http-body")]
mod workers;

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt::{self, Write as _};
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use wire::exposition::negotiate::{Encoding, Negotiated, negotiate, negotiate_encoding};

use crate::collector::Everything;
use crate::registry::Registry;
#[cfg(feature = "http-body")]
pub use body::{Body, Unfinished};
use filter::Filter;
use gzip::Gzip;
#[cfg(feature = "listener")]
pub use listener::{Builder as ListenerBuilder, Listener};
use query::Query;
pub use render::Render;
#[cfg(feature = "listener")]
pub use route::RouteRequest;

/// States of packing, and filters, that are kept for the next scrapes.
const KEPT: usize = 4;

/// Answers scrapes of one registry. Cloning gives another reference to the same endpoint.
#[derive(Clone)]
pub struct Endpoint(Arc<Inner>);

struct Inner {
    registry: Registry,
    gzip_level: u32,
    gzips: Mutex<Vec<Gzip>>,
    #[expect(clippy::vec_box, reason = "they go to an answer and come back as they are")]
    filters: Mutex<Vec<Box<Filter>>>,
    #[cfg(feature = "http-body")]
    workers: workers::Workers,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("registry", &self.0.registry).finish_non_exhaustive()
    }
}

/// What an answer depends on.
#[derive(Clone, Copy, Debug)]
pub struct Request<'r> {
    /// The method; `GET` by default.
    pub method: &'r str,
    /// The header `Accept`.
    pub accept: Option<&'r str>,
    /// The header `Accept-Encoding`.
    pub accept_encoding: Option<&'r str>,
    /// What stands behind `?` in the address, as it came.
    pub query: Option<&'r str>,
}

impl Default for Request<'_> {
    fn default() -> Self {
        Request { method: "GET", accept: None, accept_encoding: None, query: None }
    }
}

impl Endpoint {
    /// Answers with what `registry` has, packed at gzip's level 1 for those who take it.
    pub fn new(registry: Registry) -> Self {
        Endpoint::with_gzip_level(registry, 1)
    }

    /// The same with a level of gzip from 1 to 9; 0 for never, which leaves the choice to a proxy.
    pub fn with_gzip_level(registry: Registry, level: u32) -> Self {
        Endpoint(Arc::new(Inner {
            registry,
            gzip_level: level.min(9),
            gzips: Mutex::default(),
            filters: Mutex::default(),
            #[cfg(feature = "http-body")]
            workers: workers::Workers::default(),
        }))
    }

    /// The registry that it answers for.
    pub fn registry(&self) -> &Registry {
        &self.0.registry
    }

    /// Answers a request: 200 with what it asks for, 400 for a query string that can't be read, 405 for
    /// another method than `GET` and `HEAD`. Renders nothing yet. *Steady*; a query string that was not
    /// asked lately is *growth*.
    pub fn answer(&self, request: &Request<'_>) -> Answer {
        if !matches!(request.method, "GET" | "HEAD") {
            return Answer::not_allowed();
        }
        let filter = match request.query.filter(|query| !query.is_empty()).map(|q| self.filter(q)) {
            None => None,
            Some(Ok(filter)) => filter,
            Some(Err(reason)) => {
                let refused = Answer::text(400, format!("{reason}\n"));
                return Answer { is_head: request.method == "HEAD", ..refused };
            }
        };
        let encoding = match self.0.gzip_level {
            0 => Encoding::Identity,
            _ => negotiate_encoding(request.accept_encoding),
        };
        let negotiated = negotiate(request.accept);
        Answer {
            status: 200,
            content_type: ContentType::of(negotiated),
            headers: Vec::new(),
            is_head: request.method == "HEAD",
            content: Content::Exposition(Exposition {
                endpoint: self.clone(),
                negotiated,
                encoding,
                filter,
            }),
        }
    }

    /// A filter for a query string; none for one that asks for everything.
    fn filter(&self, source: &str) -> Result<Option<Box<Filter>>, String> {
        let mut kept = self.0.filters.lock();
        if let Some(at) = kept.iter().position(|filter| filter.source == source) {
            return Ok(Some(kept.remove(at)));
        }
        drop(kept);
        let query = Query::parse(source)?;
        Ok((!query.is_empty()).then(|| Box::new(Filter::new(source, query))))
    }
}

/// What to answer: a status, headers, and a body that is rendered while it is written.
#[derive(Debug)]
pub struct Answer {
    status: u16,
    content_type: ContentType,
    /// Further ones, most of them of answers that are no exposition.
    headers: Vec<(&'static str, Cow<'static, str>)>,
    is_head: bool,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Text(Cow<'static, str>),
    Exposition(Exposition),
    Rendered(Box<dyn Render>),
}

/// A body that is not rendered yet.
#[derive(Debug)]
struct Exposition {
    endpoint: Endpoint,
    negotiated: Negotiated,
    encoding: Encoding,
    filter: Option<Box<Filter>>,
}

impl Answer {
    /// An answer of some words.
    fn text(status: u16, text: impl Into<Cow<'static, str>>) -> Self {
        Answer {
            status,
            content_type: ContentType::TEXT,
            headers: Vec::new(),
            is_head: false,
            content: Content::Text(text.into()),
        }
    }

    /// The answer to another method.
    fn not_allowed() -> Self {
        let text = "only GET and HEAD are answered here\n";
        let headers = vec![("Allow", Cow::Borrowed("GET, HEAD"))];
        Answer { headers, ..Answer::text(405, text) }
    }

    /// A page that leads to the metrics and to what else there is.
    #[cfg(feature = "listener")]
    fn page<'p>(path: &str, others: impl Iterator<Item = &'p str>) -> Self {
        let mut text = format!(
            "<!doctype html>\n<title>Metrics</title>\n<p><a href=\"{path}\">Metrics</a></p>\n"
        );
        for other in others {
            // Writing to a String never fails.
            let _ = writeln!(text, "<p><a href=\"{other}\">{other}</a></p>");
        }
        Answer { content_type: ContentType::HTML, ..Answer::text(200, text) }
    }

    /// The HTTP status: 200, 400 or 405, unless the answer is of one's own making.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Names and values of the headers: what the body is and how it is packed, and what that depended
    /// on. Framing is the server's: the length of a body is not known before it is rendered.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let (encoding, vary) = match &self.content {
            Content::Text(_) | Content::Rendered(_) => (None, None),
            Content::Exposition(exposition) => {
                let word =
                    (exposition.encoding != Encoding::Identity).then(|| exposition.encoding.word());
                (word, Some("Accept, Accept-Encoding"))
            }
        };
        [
            ("Content-Type", Some(self.content_type.as_str()).filter(|value| !value.is_empty())),
            ("Content-Encoding", encoding),
            ("Vary", vary),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .chain(self.headers.iter().map(|(name, value)| (*name, &**value)))
    }

    /// The length of the body, where it is known.
    pub fn content_length(&self) -> Option<usize> {
        match &self.content {
            Content::Text(text) => Some(text.len()),
            Content::Exposition(_) | Content::Rendered(_) => None,
        }
    }

    /// Whether the answer has no body, being one to `HEAD`.
    pub fn is_head(&self) -> bool {
        self.is_head
    }

    /// Renders the body into `out` as it goes, in writes of at most 64 KiB. For `HEAD`, nothing. *Steady*
    /// once as many bodies have been written at the same time before.
    ///
    /// # Errors
    /// The first error of `out`, upon which rendering ends.
    pub fn write_to(self, out: &mut impl io::Write) -> io::Result<()> {
        self.try_fold((), |(), chunk| out.write_all(chunk))
    }

    /// Renders the body: `fold` takes each chunk of at most 64 KiB with the state so far and gives the
    /// next. *Steady* as [`write_to`](Answer::write_to).
    pub fn fold<S>(self, state: S, mut fold: impl FnMut(S, &[u8]) -> S) -> S {
        let fold = |state, chunk: &[u8]| Ok::<S, Infallible>(fold(state, chunk));
        let Ok(state) = self.try_fold(state, fold);
        state
    }

    /// As [`fold`](Answer::fold); ends rendering when `fold` fails.
    ///
    /// # Errors
    /// That of `fold`.
    pub fn try_fold<S, E>(
        self,
        state: S,
        mut fold: impl FnMut(S, &[u8]) -> Result<S, E>,
    ) -> Result<S, E> {
        match self.content {
            _ if self.is_head => Ok(state),
            Content::Text(text) => fold(state, text.as_bytes()),
            Content::Exposition(exposition) => exposition.render(state, fold),
            Content::Rendered(body) => render::try_fold(body, state, fold),
        }
    }
}

impl Exposition {
    fn render<S, E>(
        mut self,
        state: S,
        mut fold: impl FnMut(S, &[u8]) -> Result<S, E>,
    ) -> Result<S, E> {
        match self.encoding {
            Encoding::Identity => self.write(state, fold),
            Encoding::Gzip => {
                let kept = self.endpoint.0.gzips.lock().pop();
                let mut gzip = kept.unwrap_or_else(|| Gzip::new(self.endpoint.0.gzip_level));
                gzip.begin();
                let written = self.write(state, |state, chunk| gzip.push(chunk, state, &mut fold));
                let written = written.and_then(|state| gzip.finish(state, &mut fold));
                // zlib-rs 0.6 keeps the block of a body that was given up open across a reset, and the
                // next body would begin in it.
                if written.is_ok() {
                    keep(&self.endpoint.0.gzips, gzip);
                }
                written
            }
        }
    }

    fn write<S, E>(
        &mut self,
        state: S,
        fold: impl FnMut(S, &[u8]) -> Result<S, E>,
    ) -> Result<S, E> {
        let registry = &self.endpoint.0.registry;
        let Some(filter) = &mut self.filter else {
            return registry.write_wanted(self.negotiated, &Everything, state, fold);
        };
        filter.begin(self.negotiated.escaping);
        registry.write_wanted(self.negotiated, &**filter, state, fold)
    }
}

impl Drop for Exposition {
    fn drop(&mut self) {
        if let Some(filter) = self.filter.take() {
            let mut kept = self.endpoint.0.filters.lock();
            if kept.len() == KEPT {
                // Whoever asks again and again comes from behind.
                kept.remove(0);
            }
            kept.push(filter);
        }
    }
}

fn keep<T>(kept: &Mutex<Vec<T>>, one: T) {
    let mut kept = kept.lock();
    if kept.len() < KEPT {
        kept.push(one);
    }
}

/// A `Content-Type`, without the heap.
#[derive(Clone, Copy)]
struct ContentType {
    text: [u8; ContentType::LONGEST],
    length: usize,
}

impl ContentType {
    const LONGEST: usize = 160;
    const NONE: ContentType = ContentType::new(b"");
    const TEXT: ContentType = ContentType::new(b"text/plain; charset=utf-8");
    #[cfg(feature = "listener")]
    const HTML: ContentType = ContentType::new(b"text/html; charset=utf-8");

    const fn new(known: &[u8]) -> Self {
        let mut text = [0; ContentType::LONGEST];
        text.split_at_mut(known.len()).0.copy_from_slice(known);
        ContentType { text, length: known.len() }
    }

    fn of(negotiated: Negotiated) -> Self {
        let mut content_type = ContentType { text: [0; ContentType::LONGEST], length: 0 };
        write!(content_type, "{negotiated}").expect("it is long enough for every format");
        content_type
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.text[..self.length]).unwrap_or_default()
    }
}

impl fmt::Write for ContentType {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        let room = self.text.get_mut(self.length..end).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

impl fmt::Debug for ContentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
