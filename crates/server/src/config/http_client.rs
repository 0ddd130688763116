//! How to speak HTTP to somebody: who we are, whom we trust, through whom we go.
//!
//! Paths are absolute or relative to the working directory: the loader has already joined them with
//! the folder of the file that named them. Files are read at use, so that a rotated secret needs no
//! reload.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use url::Url;

use crate::secret::Secret;

/// The client options that a scrape, a discovery and every other outgoing request share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpClient {
    /// Who we are, if the other side wants to know.
    pub auth: Option<Auth>,
    /// Certificates and names.
    pub tls: Tls,
    /// Through whom the requests go.
    pub proxy: Proxy,
    /// Follow 3xx answers; on by default.
    pub follow_redirects: bool,
    /// Offer HTTP/2 over TLS; on by default.
    pub enable_http2: bool,
    /// Headers to add to every request, by name as written.
    pub headers: BTreeMap<String, HeaderValues>,
}

impl Default for HttpClient {
    fn default() -> Self {
        HttpClient {
            auth: None,
            tls: Tls::default(),
            proxy: Proxy::None,
            follow_redirects: true,
            enable_http2: true,
            headers: BTreeMap::new(),
        }
    }
}

/// The one way in which a client says who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// `Authorization: Basic …`.
    Basic {
        /// The user, possibly empty.
        username: Source<String>,
        /// The password; `None` sends an empty one.
        password: Option<Source<Secret>>,
    },
    /// `Authorization: <scheme> <credentials>`; bearer tokens are this with the scheme `Bearer`.
    Header {
        /// `Bearer` unless said otherwise.
        scheme: String,
        /// What follows the scheme; `None` sends the scheme alone.
        credentials: Option<Source<Secret>>,
    },
}

/// A value that stands in the configuration or in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source<T> {
    /// The value itself.
    Inline(T),
    /// The first use of a connection reads this file; white space around its text does not count.
    File(PathBuf),
}

/// A PEM text or the file that holds it.
pub type Pem = Source<Secret>;

/// TLS as a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Whom to trust; `None` trusts what the machine trusts.
    pub ca: Option<Pem>,
    /// Our certificate and its key.
    pub identity: Option<(Pem, Pem)>,
    /// The name to expect in the server's certificate, instead of the one in the URL.
    pub server_name: Option<String>,
    /// Accept any certificate.
    pub insecure_skip_verify: bool,
    /// The oldest version to speak; TLS 1.2 when `None`.
    pub min_version: Option<TlsVersion>,
    /// The newest version to speak.
    pub max_version: Option<TlsVersion>,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.0
    Tls10,
    /// TLS 1.1
    Tls11,
    /// TLS 1.2
    Tls12,
    /// TLS 1.3
    Tls13,
}

/// Through whom requests go.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Proxy {
    /// Straight to the server.
    #[default]
    None,
    /// Through `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` of the environment.
    FromEnvironment {
        /// Headers for the proxy's CONNECT.
        connect_headers: BTreeMap<String, Vec<Secret>>,
    },
    /// Through this one.
    Url {
        /// The proxy; may hold a user and a password: print it with [`redacted_url`].
        url: Url,
        /// Hosts, domains and networks that are reached without it, as written: separated by commas.
        no_proxy: String,
        /// Headers for the proxy's CONNECT.
        connect_headers: BTreeMap<String, Vec<Secret>>,
    },
}

impl fmt::Debug for Proxy {
    /// Hides the proxy's password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Proxy::None => f.write_str("None"),
            Proxy::FromEnvironment { connect_headers } => {
                f.debug_struct("FromEnvironment").field("connect_headers", connect_headers).finish()
            }
            Proxy::Url { url, no_proxy, connect_headers } => f
                .debug_struct("Url")
                .field("url", &redacted_url(url))
                .field("no_proxy", no_proxy)
                .field("connect_headers", connect_headers)
                .finish(),
        }
    }
}

/// The values of one added header, in the order in which they are sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderValues {
    /// Values that may be shown.
    pub values: Vec<String>,
    /// Values that may not.
    pub secrets: Vec<Secret>,
    /// Files whose trimmed text is a value.
    pub files: Vec<PathBuf>,
}

/// The URL as it may be shown: its password, if it has one, is `xxxxx`.
pub fn redacted_url(url: &Url) -> String {
    if url.password().is_none() {
        return url.to_string();
    }
    let mut shown = url.clone();
    // Only a URL without a host refuses a password, and this one has a password.
    let _ = shown.set_password(Some("xxxxx"));
    shown.to_string()
}
