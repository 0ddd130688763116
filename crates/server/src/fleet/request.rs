//! What a client asks for.
//!
//! Known are GET without a body, kept connections and requests in a row; anything else is answered with
//! an error and the end of the connection. A request of more than 16 KiB is refused.

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use wire::exposition::Format;
use wire::exposition::negotiate::{Encoding, negotiate, negotiate_encoding};

const MOST_FIELDS: usize = 64;
const MOST_BYTES: usize = 16 << 10;

/// A request, as far as it matters.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) route: Route,
    pub(super) keep_alive: bool,
    pub(super) openmetrics: bool,
    pub(super) gzip: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// The metrics of a target.
    Target(usize),
    /// Something of the fleet itself.
    Page { path: String, query: String, host: String },
    /// Another method than GET.
    Method,
}

/// What of a connection decides what a path means.
#[derive(Clone, Copy, Debug)]
pub(super) struct Here {
    /// The target whose address was connected to.
    pub(super) target: Option<usize>,
    pub(super) targets: usize,
}

/// Reads the next request; `None` where the client is done. `scratch` lends the memory that is read
/// into, for as long as a look at the socket takes; what came too early or in parts stays in `kept`.
/// *Steady* for scrapes whose request comes in one piece.
///
/// # Errors
/// The connection's, or that this is no request.
pub(super) async fn next(
    stream: &mut TcpStream,
    scratch: &std::cell::RefCell<Vec<u8>>,
    kept: &mut Vec<u8>,
    here: Here,
) -> io::Result<Option<Asked>> {
    if !kept.is_empty()
        && let Some((asked, used)) = parse(kept, here)?
    {
        kept.drain(..used);
        return Ok(Some(asked));
    }
    poll_fn(|cx| {
        loop {
            let mut scratch = scratch.borrow_mut();
            let mut buffer = ReadBuf::new(&mut scratch);
            ready!(Pin::new(&mut *stream).poll_read(cx, &mut buffer))?;
            let got = buffer.filled();
            if got.is_empty() {
                return Poll::Ready(Ok(None));
            }
            if kept.is_empty()
                && let Some((asked, used)) = parse(got, here)?
            {
                kept.extend_from_slice(&got[used..]);
                return Poll::Ready(Ok(Some(asked)));
            }
            kept.extend_from_slice(got);
            if let Some((asked, used)) = parse(kept, here)? {
                kept.drain(..used);
                return Poll::Ready(Ok(Some(asked)));
            }
            if kept.len() > MOST_BYTES {
                return Poll::Ready(Err(ErrorKind::InvalidData.into()));
            }
        }
    })
    .await
}

/// The request at the beginning of `bytes` and its length; `None` where it isn't complete.
fn parse(bytes: &[u8], here: Here) -> io::Result<Option<(Asked, usize)>> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let used = match request.parse(bytes) {
        Ok(httparse::Status::Complete(used)) => used,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(ErrorKind::InvalidData.into()),
    };
    let mut keep_alive = request.version == Some(1);
    let (mut accept, mut encoding, mut host) = (None, None, "");
    for field in request.headers.iter() {
        let Ok(value) = std::str::from_utf8(field.value) else { continue };
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        if is("accept") {
            accept = Some(value);
        } else if is("accept-encoding") {
            encoding = Some(value);
        } else if is("host") {
            host = value;
        } else if is("connection") {
            keep_alive = value.eq_ignore_ascii_case("keep-alive")
                || (keep_alive && !value.eq_ignore_ascii_case("close"));
        }
    }
    let target = request.path.unwrap_or("/");
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let route =
        if request.method == Some("GET") { route(path, query, host, here) } else { Route::Method };
    // Who sends a body has read another manual; what follows can't be told from it.
    keep_alive &= route != Route::Method;
    let asked = Asked {
        route,
        keep_alive,
        openmetrics: negotiate(accept).format == Format::OpenMetrics,
        gzip: negotiate_encoding(encoding) == Encoding::Gzip,
    };
    Ok(Some((asked, used)))
}

fn route(path: &str, query: &str, host: &str, here: Here) -> Route {
    if let (Some(target), "/metrics") = (here.target, path) {
        return Route::Target(target);
    }
    let number = path.strip_prefix('/').and_then(|path| path.strip_suffix("/metrics"));
    match number.and_then(|number| number.parse().ok()).filter(|number| *number < here.targets) {
        Some(target) => Route::Target(target),
        None => {
            Route::Page { path: path.to_owned(), query: query.to_owned(), host: host.to_owned() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_understood() {
        let page = |path: &str, query: &str| Route::Page {
            path: path.to_owned(),
            query: query.to_owned(),
            host: "h:1".to_owned(),
        };
        for (target, line, expected) in [
            (Some(3), "GET /metrics HTTP/1.1", Route::Target(3)),
            (Some(3), "GET /7/metrics HTTP/1.1", Route::Target(7)),
            (None, "GET /metrics HTTP/1.1", page("/metrics", "")),
            (None, "GET /0/metrics?x=y HTTP/1.1", Route::Target(0)),
            (None, "GET /10/metrics HTTP/1.1", page("/10/metrics", "")),
            (None, "GET /status?last=5 HTTP/1.1", page("/status", "last=5")),
            (Some(3), "GET /sd HTTP/1.1", page("/sd", "")),
            (Some(3), "POST /metrics HTTP/1.1", Route::Method),
        ] {
            let bytes = format!("{line}\r\nHost: h:1\r\n\r\nGET");
            let here = Here { target, targets: 10 };
            let (asked, used) = parse(bytes.as_bytes(), here).unwrap().unwrap();
            assert_eq!((asked.route, used), (expected, bytes.len() - 3), "{line}");
            for cut in 0..bytes.len() - 3 {
                assert_eq!(parse(&bytes.as_bytes()[..cut], here).unwrap(), None, "{line} {cut}");
            }
        }
    }

    #[test]
    fn headers_are_understood() {
        const OPENMETRICS: &str = "Accept: application/openmetrics-text;version=1.0.0";
        for (version, fields, keep_alive, openmetrics, gzip) in [
            ("1.1", "", true, false, false),
            ("1.0", "", false, false, false),
            ("1.0", "Connection: Keep-Alive", true, false, false),
            ("1.1", "connection: close", false, false, false),
            ("1.1", OPENMETRICS, true, true, false),
            ("1.1", "Accept-Encoding: gzip, zstd", true, false, true),
            ("1.1", "Accept-Encoding: identity", true, false, false),
        ] {
            let end = if fields.is_empty() { "\r\n" } else { "\r\n\r\n" };
            let bytes = format!("GET /0/metrics HTTP/{version}\r\n{fields}{end}");
            let here = Here { target: None, targets: 1 };
            let (asked, _) = parse(bytes.as_bytes(), here).unwrap().unwrap();
            let route = Route::Target(0);
            assert_eq!(asked, Asked { route, keep_alive, openmetrics, gzip }, "{version} {fields}");
        }
        let here = Here { target: None, targets: 1 };
        assert!(parse(b"\x16\x03\x01 hello", here).is_err());
    }
}
