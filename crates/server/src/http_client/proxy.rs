//! Through whom a request goes: a proxy, or nobody.

use std::collections::BTreeMap;
use std::net::IpAddr;

use base64::Engine;
use url::Url;

use super::{Endpoint, Error};
use crate::config::http_client::Proxy;
use crate::secret::Secret;

/// Decides for each request.
pub(super) struct Chooser {
    http: Option<Via>,
    https: Option<Via>,
    exceptions: Option<Exceptions>,
}

/// One proxy.
pub(super) struct Via {
    /// How to reach it. TLS means TLS to the proxy itself.
    pub(super) endpoint: Endpoint,
    /// Header lines for the proxy alone: its credentials.
    pub(super) credentials: String,
    /// Header lines for CONNECT.
    pub(super) connect_headers: String,
}

impl Chooser {
    /// # Errors
    /// A proxy that is not an HTTP or HTTPS proxy.
    pub(super) fn new(options: &Proxy) -> Result<Self, Error> {
        match options {
            Proxy::None => Ok(Chooser { http: None, https: None, exceptions: None }),
            Proxy::Url { url, no_proxy, connect_headers } => Ok(Chooser {
                http: Some(Via::new(url, connect_headers)?),
                https: Some(Via::new(url, connect_headers)?),
                // Without `no_proxy` everything goes through the proxy, this machine included.
                exceptions: (!no_proxy.is_empty()).then(|| Exceptions::parse(no_proxy)),
            }),
            Proxy::FromEnvironment { connect_headers } => {
                let read = |upper: &str| {
                    [upper.to_owned(), upper.to_lowercase()]
                        .iter()
                        .find_map(|name| std::env::var(name).ok().filter(|text| !text.is_empty()))
                };
                let via = |name: &str| -> Result<Option<Via>, Error> {
                    let Some(text) = read(name) else { return Ok(None) };
                    let url = Url::parse(&text)
                        .ok()
                        .filter(Url::has_host)
                        .or_else(|| Url::parse(&format!("http://{text}")).ok())
                        .ok_or_else(|| Error::proxy(format!("{name} holds no URL")))?;
                    Via::new(&url, connect_headers).map(Some)
                };
                Ok(Chooser {
                    http: via("HTTP_PROXY")?,
                    https: via("HTTPS_PROXY")?,
                    exceptions: Some(Exceptions::parse(&read("NO_PROXY").unwrap_or_default())),
                })
            }
        }
    }

    /// The proxy for `endpoint`, if it has one. Steady: does not allocate.
    pub(super) fn choose(&self, endpoint: &Endpoint) -> Option<&Via> {
        let via = if endpoint.tls { self.https.as_ref() } else { self.http.as_ref() }?;
        match &self.exceptions {
            Some(exceptions) if exceptions.cover(&endpoint.host, endpoint.port) => None,
            _ => Some(via),
        }
    }
}

impl Via {
    fn new(url: &Url, headers: &BTreeMap<String, Vec<Secret>>) -> Result<Self, Error> {
        let endpoint = Endpoint::from_url(url)
            .map_err(|_| Error::proxy(format!("scheme {:?}: only http and https", url.scheme())))?;
        let mut credentials = String::new();
        if !url.username().is_empty() || url.password().is_some() {
            let decode = |text| percent_encoding::percent_decode_str(text).decode_utf8_lossy();
            let pair =
                format!("{}:{}", decode(url.username()), decode(url.password().unwrap_or("")));
            let encoded = base64::engine::general_purpose::STANDARD.encode(pair);
            credentials = format!("Proxy-Authorization: Basic {encoded}\r\n");
        }
        let mut connect_headers = String::new();
        for (name, values) in headers {
            for value in values {
                super::push_header(&mut connect_headers, name, value.reveal())?;
            }
        }
        Ok(Via { endpoint, credentials, connect_headers })
    }
}

/// `NO_PROXY`: who is reached without a proxy.
struct Exceptions {
    all: bool,
    rules: Vec<(Whom, Option<u16>)>,
}

enum Whom {
    Address(IpAddr),
    Network(IpAddr, u32),
    /// The domain and what is below it; `false`: only what is below it.
    Domain(String, bool),
}

impl Exceptions {
    fn parse(text: &str) -> Self {
        let mut exceptions = Exceptions { all: false, rules: Vec::new() };
        for entry in text.split(',') {
            let entry = entry.trim().to_ascii_lowercase();
            if entry.is_empty() {
                continue;
            }
            if entry == "*" {
                exceptions.all = true;
                continue;
            }
            if let Some((address, bits)) = entry.split_once('/')
                && let (Ok(address), Ok(bits)) = (address.parse(), bits.parse())
            {
                exceptions.rules.push((Whom::Network(address, bits), None));
                continue;
            }
            let (host, port) = split_port(&entry);
            let host = host.trim_start_matches('[').trim_end_matches(']');
            let whom = if let Ok(address) = host.parse() {
                Whom::Address(address)
            } else if let Some(below) = host.strip_prefix("*.").or(host.strip_prefix('.')) {
                Whom::Domain(below.to_owned(), false)
            } else {
                Whom::Domain(host.to_owned(), true)
            };
            exceptions.rules.push((whom, port));
        }
        exceptions
    }

    fn cover(&self, host: &str, port: u16) -> bool {
        let address = host.parse::<IpAddr>().ok();
        if host.eq_ignore_ascii_case("localhost") || address.is_some_and(|ip| ip.is_loopback()) {
            return true;
        }
        self.all
            || self
                .rules
                .iter()
                .any(|(whom, only)| only.is_none_or(|only| only == port) && whom.is(host, address))
    }
}

impl Whom {
    fn is(&self, host: &str, address: Option<IpAddr>) -> bool {
        match (self, address) {
            (Whom::Address(wanted), Some(address)) => *wanted == address,
            (Whom::Network(network, bits), Some(address)) => in_network(address, *network, *bits),
            (Whom::Domain(domain, itself), None) => {
                let Some(at) = host.len().checked_sub(domain.len()) else { return false };
                let same_end = host.is_char_boundary(at) && host[at..].eq_ignore_ascii_case(domain);
                same_end && if at == 0 { *itself } else { host[..at].ends_with('.') }
            }
            _ => false,
        }
    }
}

fn in_network(address: IpAddr, network: IpAddr, bits: u32) -> bool {
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) if bits <= 32 => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            u32::from(address) & mask == u32::from(network) & mask
        }
        (IpAddr::V6(address), IpAddr::V6(network)) if bits <= 128 => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            u128::from(address) & mask == u128::from(network) & mask
        }
        _ => false,
    }
}

fn split_port(text: &str) -> (&str, Option<u16>) {
    if text.parse::<IpAddr>().is_ok() {
        return (text, None);
    }
    match text.rsplit_once(':') {
        Some((host, port)) => match port.parse() {
            Ok(port) => (host, Some(port)),
            Err(_) => (text, None),
        },
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_cover_what_go_covers() {
        let exceptions = Exceptions::parse(
            "a.example, .b.example,*.c.example,10.1.0.0/16,192.0.2.1,d.example:81,[2001:db8::1]:9",
        );
        let cases = [
            ("a.example", 80, true),
            ("x.a.example", 80, true),
            ("xa.example", 80, false),
            ("b.example", 80, false),
            ("x.b.example", 80, true),
            ("x.y.c.example", 80, true),
            ("c.example", 80, false),
            ("10.1.2.3", 80, true),
            ("10.2.2.3", 80, false),
            ("192.0.2.1", 1, true),
            ("d.example", 81, true),
            ("d.example", 80, false),
            ("2001:db8::1", 9, true),
            ("2001:db8::1", 8, false),
            ("localhost", 80, true),
            ("127.0.0.7", 80, true),
            ("::1", 80, true),
            ("e.example", 80, false),
        ];
        for (host, port, covered) in cases {
            assert_eq!(exceptions.cover(host, port), covered, "{host}:{port}");
        }
        assert!(Exceptions::parse("*").cover("e.example", 80));
    }
}
