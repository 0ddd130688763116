//! The client for everything that this server fetches: scrapes, discovery, tokens.
//!
//! A [`Client`] holds what a job's requests share (credentials, TLS, proxy, headers); a [`Session`]
//! belongs to one target and keeps its connection open; [`Buffers`] lend the room for an answer.
//! HTTP/1.1 only: scrapes are one request at a time per target, for which HTTP/2 has nothing to offer;
//! `enable_http2` is accepted and changes nothing.
//!
//! Steps of a request: 1. take the kept connection, or connect. 2. Write one prepared request.
//! 3. Wait until something comes, and only then take a buffer. 4. Read head and body. 5. Follow a
//! redirect, at most ten. 6. Inflate. A kept connection that turns out to be closed before anything
//! came is replaced once. Steady (same target, inline credentials, known sizes): does not allocate.

mod answer;
mod buffers;
mod endpoint;
mod error;
mod inflate;
mod proxy;
mod stream;
pub mod tls;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use tokio::io::AsyncWriteExt;
use url::Url;

pub use buffers::{Buffers, DEFAULT_BUDGET};
pub use endpoint::Endpoint;
pub use error::Error;

use crate::config::http_client::{Auth, HttpClient, Source};
use crate::cpu_span::CpuSpan;
use crate::secret::Secret;
use crate::worker::stand_aside;
use answer::Head;
use buffers::Lent;
use inflate::Encoding;
use stream::Stream;

/// How we introduce ourselves.
pub const USER_AGENT: &str = concat!("unladen/", env!("CARGO_PKG_VERSION"));

/// From here on, inflating or ingesting a body may take milliseconds: other tasks of the thread are
/// moved away.
pub(crate) const LARGE_BODY: usize = 4 << 20;

/// As many redirects as Go's client follows.
const MOST_REDIRECTS: usize = 10;

/// A body that nobody wants (of an error, of a redirect) is read up to here to keep the connection.
const MOST_UNWANTED: u64 = 64 << 10;

/// Headers that do not go to another host with a redirect, besides all that carry a secret.
const SENSITIVE: [&str; 6] = [
    "authorization",
    "www-authenticate",
    "cookie",
    "cookie2",
    "proxy-authorization",
    "proxy-authenticate",
];

/// What the requests of one job share.
pub struct Client {
    tls: tls::Connector,
    proxies: proxy::Chooser,
    follow_redirects: bool,
    credentials: Credentials,
    headers: Vec<Header>,
}

enum Credentials {
    None,
    /// The whole header line.
    Fixed(String),
    Basic(Source<String>, Option<Source<Secret>>),
    Header(String, Source<Secret>),
}

/// A configured header: whether it may go to another host, and its lines or where they come from.
struct Header {
    sensitive: bool,
    name: String,
    value: HeaderText,
}

enum HeaderText {
    Line(String),
    File(std::path::PathBuf),
}

impl Client {
    /// Prepares what requests need. Setup: allocates; reads no file.
    ///
    /// # Errors
    /// Options that cannot be honoured, such as a header that is none, or TLS versions that there are
    /// not.
    pub fn new(options: &HttpClient) -> Result<Self, Error> {
        let mut headers = Vec::new();
        for (name, values) in &options.headers {
            let listed = SENSITIVE.iter().any(|sensitive| name.eq_ignore_ascii_case(sensitive));
            let plain = values.values.iter().map(|value| (listed, value.as_str()));
            let secret = values.secrets.iter().map(|value| (true, value.reveal()));
            for (sensitive, value) in plain.chain(secret) {
                let mut line = String::new();
                push_header(&mut line, name, value)?;
                headers.push(Header {
                    sensitive,
                    name: name.clone(),
                    value: HeaderText::Line(line),
                });
            }
            for file in &values.files {
                let value = HeaderText::File(file.clone());
                headers.push(Header { sensitive: true, name: name.clone(), value });
            }
        }
        Ok(Client {
            tls: tls::Connector::new(&options.tls)?,
            proxies: proxy::Chooser::new(&options.proxy)?,
            follow_redirects: options.follow_redirects,
            credentials: Credentials::new(options.auth.as_ref())?,
            headers,
        })
    }
}

impl Credentials {
    fn new(auth: Option<&Auth>) -> Result<Self, Error> {
        Ok(match auth {
            None => Credentials::None,
            Some(Auth::Basic { username, password }) => match (username, password) {
                (Source::Inline(user), None) => Credentials::Fixed(basic_line(user, "")),
                (Source::Inline(user), Some(Source::Inline(password))) => {
                    Credentials::Fixed(basic_line(user, password.reveal()))
                }
                _ => Credentials::Basic(username.clone(), password.clone()),
            },
            Some(Auth::Header { scheme, credentials }) => match credentials {
                Some(Source::File(_)) => {
                    Credentials::Header(scheme.clone(), credentials.clone().expect("it is a file"))
                }
                inline => {
                    let text = match inline {
                        Some(Source::Inline(secret)) => secret.reveal(),
                        _ => "",
                    };
                    let mut line = String::new();
                    push_header(&mut line, "Authorization", &format!("{scheme} {text}"))?;
                    Credentials::Fixed(line)
                }
            },
        })
    }

    fn push(&self, request: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Credentials::None => {}
            Credentials::Fixed(line) => request.extend_from_slice(line.as_bytes()),
            Credentials::Basic(username, password) => {
                let user = match username {
                    Source::Inline(user) => user.clone(),
                    Source::File(path) => read_secret(path)?,
                };
                let password = match password {
                    None => String::new(),
                    Some(Source::Inline(password)) => password.reveal().to_owned(),
                    Some(Source::File(path)) => read_secret(path)?,
                };
                request.extend_from_slice(basic_line(&user, &password).as_bytes());
            }
            Credentials::Header(scheme, source) => {
                let text = match source {
                    Source::Inline(secret) => secret.reveal().to_owned(),
                    Source::File(path) => read_secret(path)?,
                };
                let mut line = String::new();
                push_header(&mut line, "Authorization", &format!("{scheme} {text}"))?;
                request.extend_from_slice(line.as_bytes());
            }
        }
        Ok(())
    }
}

fn basic_line(user: &str, password: &str) -> String {
    let pair = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    format!("Authorization: Basic {pair}\r\n")
}

fn read_secret(path: &Path) -> Result<String, Error> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(error) => Err(Error::secret(format!(
            "cannot read the credentials in {}: {error}",
            path.display()
        ))),
    }
}

/// Appends `name: value` if that is a header and nothing more.
fn push_header(lines: &mut String, name: &str, value: &str) -> Result<(), Error> {
    let valid_name = http::HeaderName::from_bytes(name.as_bytes()).is_ok();
    let valid_value = http::HeaderValue::from_str(value).is_ok()
        || http::HeaderValue::from_bytes(value.as_bytes()).is_ok();
    if !valid_name || !valid_value {
        // The value may be a secret: it is not shown.
        return Err(Error::options(format!("{name:?} and its value make no header line")));
    }
    lines.push_str(name);
    lines.push_str(": ");
    lines.push_str(value.trim());
    lines.push_str("\r\n");
    Ok(())
}

/// What one request asks for.
#[derive(Clone, Copy)]
pub struct Get<'a> {
    /// The URL, for the errors and for relative redirects.
    pub url: &'a Url,
    /// The same, taken apart.
    pub endpoint: &'a Endpoint,
    /// Header lines that end with `\r\n`, such as `Accept: …\r\n`.
    pub headers: &'a str,
    /// Bytes of the inflated body that already are too many.
    pub body_limit: Option<u64>,
    /// For everything, from connecting to the last byte.
    pub timeout: Duration,
}

/// The connections of one target, and room for its requests.
#[derive(Default)]
pub struct Session {
    /// Where requests start, and where redirects lead them.
    kept: [Option<Kept>; 2],
    request: Vec<u8>,
    head: Head,
    inflating_nanoseconds: u64,
}

struct Kept {
    endpoint: Endpoint,
    stream: Stream,
}

/// A complete answer, in a lent buffer.
pub struct Answer {
    /// The status code.
    pub status: u16,
    lent: Lent,
    body: Range<usize>,
    inflated: bool,
}

impl Answer {
    /// The inflated body.
    pub fn body(&self) -> &[u8] {
        if self.inflated {
            &self.lent.buffer.inflated
        } else {
            &self.lent.buffer.raw[self.body.clone()]
        }
    }

    /// Bytes of the body as it came.
    pub fn transferred(&self) -> usize {
        self.body.len()
    }
}

/// What is going on, for the error when the time is up.
#[derive(Clone, Copy)]
enum Stage {
    Connecting,
    Writing,
    Waiting,
    Body,
}

impl Session {
    /// The content type of the last answer; empty when there was none.
    pub fn content_type(&self) -> &str {
        &self.head.content_type
    }

    /// The status of the last answer, such as `404 Not Found`; not kept for 200.
    pub fn status_line(&self) -> &str {
        &self.head.status_line
    }

    /// Processor time of inflating since this was asked last, also of a body that then was refused.
    pub fn take_inflating_nanoseconds(&mut self) -> u64 {
        std::mem::take(&mut self.inflating_nanoseconds)
    }

    /// Closes the kept connections.
    pub fn close(&mut self) {
        self.kept = [None, None];
    }

    /// Fetches `get`. An answer of any status is an answer.
    ///
    /// # Errors
    /// Everything that keeps the answer from being complete, and bodies beyond the limit.
    pub async fn get(
        &mut self,
        client: &Client,
        buffers: &Arc<Buffers>,
        get: Get<'_>,
    ) -> Result<Answer, Error> {
        let mut stage = Stage::Connecting;
        let work = self.follow(client, buffers, get, &mut stage);
        match tokio::time::timeout(get.timeout, work).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::timeout(
                get.timeout,
                match stage {
                    Stage::Connecting => "still connecting".to_owned(),
                    Stage::Writing => "still sending the request".to_owned(),
                    Stage::Waiting => "no complete head of an answer yet".to_owned(),
                    Stage::Body => format!("{} bytes of the body had come", self.head.received),
                },
            )),
        }
    }

    async fn follow(
        &mut self,
        client: &Client,
        buffers: &Arc<Buffers>,
        get: Get<'_>,
        stage: &mut Stage,
    ) -> Result<Answer, Error> {
        let hop = Hop { endpoint: get.endpoint, trusted: true, slot: 0 };
        let mut open = self.exchange(client, buffers, get, hop, stage).await?;
        // Most answers are no redirect; only those that are pay for URLs.
        if client.follow_redirects && self.is_redirect() {
            let mut url = get.url.clone();
            let mut trusted = true;
            for hops in 1.. {
                if hops > MOST_REDIRECTS {
                    return Err(Error::redirects(MOST_REDIRECTS, url.as_str()));
                }
                url = url.join(&self.head.location).map_err(|error| {
                    Error::bad_redirect(format!("Location {:?}: {error}", self.head.location))
                })?;
                let endpoint = Endpoint::from_url(&url)?;
                // Once a request has left the host, its successors do not get the secrets back.
                trusted &= endpoint::may_share_credentials(&endpoint.host, &get.endpoint.host);
                // Nor do secrets that were meant for TLS go out in the open.
                trusted &= endpoint.tls || !get.endpoint.tls;
                self.discard(open, stage).await;
                let hop = Hop { endpoint: &endpoint, trusted, slot: 1 };
                open = self.exchange(client, buffers, get, hop, stage).await?;
                if !self.is_redirect() {
                    break;
                }
            }
        }
        self.complete(open, get, stage).await
    }

    fn is_redirect(&self) -> bool {
        matches!(self.head.status, 301 | 302 | 303 | 307 | 308) && !self.head.location.is_empty()
    }

    /// Sends the request and reads the head of its answer.
    async fn exchange(
        &mut self,
        client: &Client,
        buffers: &Arc<Buffers>,
        get: Get<'_>,
        hop: Hop<'_>,
        stage: &mut Stage,
    ) -> Result<Open, Error> {
        let via = client.proxies.choose(hop.endpoint);
        self.write_request(client, get, hop, via)?;
        let mut reused = self.kept[hop.slot]
            .take()
            .filter(|kept| kept.endpoint.same_server(hop.endpoint) && kept.stream.is_idle());
        loop {
            let fresh = reused.is_none();
            let mut kept = match reused.take() {
                Some(kept) => kept,
                None => {
                    *stage = Stage::Connecting;
                    // On the heap: connecting is rare, and every idle target would hold its room.
                    let connecting = stream::connect(hop.endpoint, via, &client.tls, get.timeout);
                    let stream = Box::pin(connecting).await?;
                    Kept { endpoint: hop.endpoint.clone(), stream }
                }
            };
            *stage = Stage::Writing;
            let failed = match send(&mut kept.stream, &self.request, stage).await {
                Ok(()) => {
                    let mut lent = buffers.take();
                    match answer::read_head(&mut kept.stream, &mut lent, &mut self.head).await {
                        Ok(()) => return Ok(Open { kept, lent, slot: hop.slot }),
                        Err(failed) => failed,
                    }
                }
                Err(error) => answer::NoHead {
                    error: Error::closed(format!("sending the request: {error}")),
                    before_any_byte: true,
                },
            };
            if fresh || !failed.before_any_byte {
                return Err(failed.error);
            }
        }
    }

    fn write_request(
        &mut self,
        client: &Client,
        get: Get<'_>,
        Hop { endpoint, trusted, .. }: Hop<'_>,
        via: Option<&proxy::Via>,
    ) -> Result<(), Error> {
        let request = &mut self.request;
        request.clear();
        request.extend_from_slice(b"GET ");
        let through = via.filter(|_| !endpoint.tls);
        match through {
            Some(_) => request.extend_from_slice(endpoint.absolute().as_bytes()),
            None => request.extend_from_slice(endpoint.path_and_query.as_bytes()),
        }
        request.extend_from_slice(b" HTTP/1.1\r\nHost: ");
        request.extend_from_slice(endpoint.authority.as_bytes());
        request.extend_from_slice(b"\r\nUser-Agent: ");
        request.extend_from_slice(USER_AGENT.as_bytes());
        request.extend_from_slice(b"\r\n");
        request.extend_from_slice(get.headers.as_bytes());
        if let Some(via) = through {
            request.extend_from_slice(via.credentials.as_bytes());
        }
        if trusted {
            client.credentials.push(request)?;
            if let (Credentials::None, Some(line)) = (&client.credentials, &endpoint.credentials)
                && !client.headers.iter().any(|h| h.name.eq_ignore_ascii_case("authorization"))
            {
                request.extend_from_slice(line.reveal().as_bytes());
            }
        }
        for header in client.headers.iter().filter(|header| trusted || !header.sensitive) {
            match &header.value {
                HeaderText::Line(line) => request.extend_from_slice(line.as_bytes()),
                HeaderText::File(path) => {
                    let mut line = String::new();
                    push_header(&mut line, &header.name, &read_secret(path)?)?;
                    request.extend_from_slice(line.as_bytes());
                }
            }
        }
        request.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// Reads an unwanted body, so that its connection can be used again, or closes it.
    async fn discard(&mut self, mut open: Open, stage: &mut Stage) {
        *stage = Stage::Body;
        let limit = Some(MOST_UNWANTED);
        let (stream, lent) = (&mut open.kept.stream, &mut open.lent);
        let done = answer::read_body(stream, lent, &mut self.head, limit).await;
        if done.is_ok() && self.head.keep_alive {
            self.kept[open.slot] = Some(open.kept);
        }
    }

    async fn complete(
        &mut self,
        open: Open,
        get: Get<'_>,
        stage: &mut Stage,
    ) -> Result<Answer, Error> {
        let Open { mut kept, mut lent, slot } = open;
        *stage = Stage::Body;
        let wanted = self.head.status == 200;
        let limit = match (wanted, self.head.encoding) {
            (true, Encoding::Identity) => get.body_limit,
            // Compressed, a body can be a little larger than inflated.
            (true, _) => get.body_limit.map(|limit| limit.saturating_add(1024)),
            (false, _) => Some(MOST_UNWANTED),
        };
        let body = match answer::read_body(&mut kept.stream, &mut lent, &mut self.head, limit).await
        {
            Ok(body) => {
                if self.head.keep_alive {
                    self.kept[slot] = Some(kept);
                }
                body
            }
            // The status says what is wrong; what else is wrong with the error's page does not matter.
            Err(_) if !wanted => 0..0,
            Err(error) => return Err(error),
        };
        let inflated = wanted && self.head.encoding != Encoding::Identity;
        if let Some(encoding) = self.head.unknown_encoding.as_ref().filter(|_| wanted) {
            return Err(Error::inflate(format!("Content-Encoding {encoding:?} is not understood")));
        }
        if inflated {
            let encoding = self.head.encoding;
            let long = inflate::takes_long(&lent.buffer.raw[body.clone()], encoding);
            let mut work = || {
                let span = CpuSpan::begin();
                let done = inflate::inflate(&mut lent, body.clone(), encoding, get.body_limit);
                (done, span.nanoseconds())
            };
            let (done, nanoseconds) = if long { stand_aside(work) } else { work() };
            self.inflating_nanoseconds += nanoseconds;
            done?;
        }
        Ok(Answer { status: self.head.status, lent, body, inflated })
    }
}

/// One request of a chain of redirects.
#[derive(Clone, Copy)]
struct Hop<'a> {
    endpoint: &'a Endpoint,
    /// Whether it may carry credentials.
    trusted: bool,
    /// Which of the kept connections is for it.
    slot: usize,
}

/// A connection whose answer's head has been read, and its body not yet. Nobody else may use it.
struct Open {
    kept: Kept,
    lent: Lent,
    slot: usize,
}

async fn send(stream: &mut Stream, request: &[u8], stage: &mut Stage) -> std::io::Result<()> {
    stream.write_all(request).await?;
    stream.flush().await?;
    *stage = Stage::Waiting;
    stream.readable().await
}
