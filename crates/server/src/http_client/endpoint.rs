//! Where a request goes: scheme, host, port and what follows them, taken apart once per target.

use url::Url;

use super::Error;
use crate::secret::Secret;

/// A URL in the pieces that a request needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Whether to speak TLS.
    pub tls: bool,
    /// The name or address to connect to, without the brackets of IPv6.
    pub host: String,
    /// The port to connect to.
    pub port: u16,
    /// The header `Host`.
    pub authority: String,
    /// Path and query, as they stand in the request line.
    pub path_and_query: String,
    /// The header line `Authorization` that follows from the URL's user and password.
    pub(super) credentials: Option<Secret>,
}

impl Endpoint {
    /// Takes `url` apart. Setup: allocates.
    ///
    /// # Errors
    /// A scheme other than `http` and `https`, or no host.
    pub fn from_url(url: &Url) -> Result<Self, Error> {
        let tls = match url.scheme() {
            "http" => false,
            "https" => true,
            other => {
                return Err(Error::options(format!(
                    "unsupported protocol scheme {other:?}: only http and https are spoken"
                )));
            }
        };
        let Some(host) = url.host_str().filter(|host| !host.is_empty()) else {
            return Err(Error::options(format!("no host in {:?}", url.as_str())));
        };
        let default_port = if tls { 443 } else { 80 };
        let port = url.port().unwrap_or(default_port);
        let authority = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        let path_and_query = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let credentials = (!url.username().is_empty() || url.password().is_some()).then(|| {
            let decode = |text| percent_encoding::percent_decode_str(text).decode_utf8_lossy();
            let (user, password) = (decode(url.username()), decode(url.password().unwrap_or("")));
            Secret::new(super::basic_line(&user, &password))
        });
        Ok(Endpoint { tls, host, port, authority, path_and_query, credentials })
    }

    /// Whether a connection to `self` also reaches `other`.
    pub(super) fn same_server(&self, other: &Endpoint) -> bool {
        self.tls == other.tls && self.port == other.port && self.host == other.host
    }

    /// `host:port`, with IPv6 in brackets.
    pub(super) fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The URL again, for the request line of a proxy.
    pub(super) fn absolute(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority, self.path_and_query)
    }
}

/// Whether credentials for `original` may be sent to `host`: the same host or one below it, as Go's
/// client decides on redirects.
pub(super) fn may_share_credentials(host: &str, original: &str) -> bool {
    if original.is_empty() {
        return false;
    }
    if host.eq_ignore_ascii_case(original) {
        return true;
    }
    // An IPv6 address is no subdomain of anything, whatever its zone ends with.
    if host.contains([':', '%']) {
        return false;
    }
    let (host, original) = (host.to_ascii_lowercase(), original.to_ascii_lowercase());
    host.strip_suffix(&original).is_some_and(|rest| rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_urls_apart() {
        let cases = [
            ("http://a/metrics", (false, "a", 80, "a", "/metrics")),
            ("https://a/m?x=1&y=%20", (true, "a", 443, "a", "/m?x=1&y=%20")),
            ("http://[::1]:9100", (false, "::1", 9100, "[::1]:9100", "/")),
            ("https://10.0.0.1:8443/a/b", (true, "10.0.0.1", 8443, "10.0.0.1:8443", "/a/b")),
        ];
        for (url, (tls, host, port, authority, path)) in cases {
            let endpoint = Endpoint::from_url(&Url::parse(url).unwrap()).unwrap();
            assert_eq!(endpoint.tls, tls, "{url}");
            assert_eq!(endpoint.host, host, "{url}");
            assert_eq!(endpoint.port, port, "{url}");
            assert_eq!(endpoint.authority, authority, "{url}");
            assert_eq!(endpoint.path_and_query, path, "{url}");
        }
        assert!(Endpoint::from_url(&Url::parse("ftp://a/").unwrap()).is_err());
        let with_user = Endpoint::from_url(&Url::parse("http://u:p%40@a/").unwrap()).unwrap();
        let line = with_user.credentials.as_ref().map(Secret::reveal);
        assert_eq!(line, Some("Authorization: Basic dTpwQA==\r\n"));
        assert_eq!(with_user.authority, "a");
        assert!(!format!("{with_user:?}").contains("dTpwQA"), "shown: {with_user:?}");
    }

    #[test]
    fn credentials_stay_below_the_original_host() {
        let cases = [
            ("a.example", "a.example", true),
            ("A.example", "a.EXAMPLE", true),
            ("b.a.example", "a.example", true),
            ("ba.example", "a.example", false),
            ("example", "a.example", false),
            ("::1%.a.example", "a.example", false),
        ];
        for (host, original, allowed) in cases {
            assert_eq!(may_share_credentials(host, original), allowed, "{host} {original}");
        }
    }
}
