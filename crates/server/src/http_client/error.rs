//! What can go wrong between us and an HTTP server.

use std::fmt;
use std::time::Duration;

/// Why a request has no usable answer. Says what was attempted and what happened instead.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Options(String),
    Secret(String),
    Resolve(String, std::io::Error),
    Connect(String, std::io::Error),
    Tls(String, String),
    Proxy(String),
    Protocol(String),
    Closed(String),
    TooLarge(u64),
    Budget(usize),
    Inflate(String),
    Redirects(usize, String),
    BadRedirect(String),
    Timeout(Duration, String),
}

impl Error {
    /// The options contradict each other or ask for what there is not.
    #[cold]
    pub(super) fn options(reason: impl Into<String>) -> Self {
        Error { kind: Kind::Options(reason.into()) }
    }

    #[cold]
    pub(super) fn secret(reason: impl Into<String>) -> Self {
        Error { kind: Kind::Secret(reason.into()) }
    }

    #[cold]
    pub(super) fn resolve(host: &str, error: std::io::Error) -> Self {
        Error { kind: Kind::Resolve(host.to_owned(), error) }
    }

    #[cold]
    pub(super) fn connect(address: impl Into<String>, error: std::io::Error) -> Self {
        Error { kind: Kind::Connect(address.into(), error) }
    }

    #[cold]
    pub(super) fn tls(host: &str, reason: impl fmt::Display) -> Self {
        Error { kind: Kind::Tls(host.to_owned(), reason.to_string()) }
    }

    #[cold]
    pub(super) fn proxy(reason: impl Into<String>) -> Self {
        Error { kind: Kind::Proxy(reason.into()) }
    }

    #[cold]
    pub(super) fn protocol(reason: impl Into<String>) -> Self {
        Error { kind: Kind::Protocol(reason.into()) }
    }

    #[cold]
    pub(super) fn closed(reason: impl Into<String>) -> Self {
        Error { kind: Kind::Closed(reason.into()) }
    }

    #[cold]
    pub(super) fn too_large(limit: u64) -> Self {
        Error { kind: Kind::TooLarge(limit) }
    }

    #[cold]
    pub(super) fn budget(bytes: usize) -> Self {
        Error { kind: Kind::Budget(bytes) }
    }

    #[cold]
    pub(super) fn inflate(reason: impl Into<String>) -> Self {
        Error { kind: Kind::Inflate(reason.into()) }
    }

    #[cold]
    pub(super) fn redirects(count: usize, last: &str) -> Self {
        Error { kind: Kind::Redirects(count, last.to_owned()) }
    }

    #[cold]
    pub(super) fn bad_redirect(reason: impl Into<String>) -> Self {
        Error { kind: Kind::BadRedirect(reason.into()) }
    }

    #[cold]
    pub(super) fn timeout(after: Duration, doing: impl Into<String>) -> Self {
        Error { kind: Kind::Timeout(after, doing.into()) }
    }

    /// Whether the answer was larger than the caller allows.
    pub fn is_too_large(&self) -> bool {
        matches!(self.kind, Kind::TooLarge(_))
    }

    /// Whether the time was up before the answer was complete.
    pub fn is_timeout(&self) -> bool {
        matches!(self.kind, Kind::Timeout(..))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Options(reason) => write!(f, "HTTP client options: {reason}"),
            Kind::Secret(reason) => write!(f, "{reason}"),
            Kind::Resolve(host, error) => write!(f, "cannot resolve {host:?}: {error}"),
            Kind::Connect(address, error) => write!(f, "cannot connect to {address}: {error}"),
            Kind::Tls(host, reason) => write!(f, "TLS with {host}: {reason}"),
            Kind::Proxy(reason) => write!(f, "proxy: {reason}"),
            Kind::Protocol(reason) => write!(f, "not an HTTP/1.1 answer: {reason}"),
            Kind::Closed(reason) => write!(f, "{reason}"),
            Kind::TooLarge(limit) => {
                write!(f, "body size limit exceeded (uncompressed body reaches {limit} bytes)")
            }
            Kind::Budget(bytes) => write!(
                f,
                "no room for the body: all bodies being read together would exceed {bytes} bytes; \
                 set body_size_limit to bound each of them"
            ),
            Kind::Inflate(reason) => write!(f, "compressed body: {reason}"),
            Kind::Redirects(count, last) => {
                write!(f, "stopped after {count} redirects, the last one to {last:?}")
            }
            Kind::BadRedirect(reason) => write!(f, "redirect: {reason}"),
            Kind::Timeout(after, doing) => {
                write!(f, "timeout: no complete answer within {after:?} ({doing})")
            }
        }
    }
}

impl std::error::Error for Error {}
