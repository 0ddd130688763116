//! The page, which is built into the binary.
//!
//! Its files are embedded compressed; a client that doesn't take gzip gets them inflated. Names of
//! files below `assets/` hold a hash of what is in them, so clients may keep those for ever.

use std::io::{Read, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use http::{HeaderValue, Response, header};

use super::Body;

/// A file of the page.
struct Embedded {
    name: &'static str,
    content_type: &'static str,
    gzip: &'static [u8],
    /// Bytes when inflated.
    length: usize,
}

include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// The pages: each is `index.html`, which looks at the address by itself.
const PAGES: [&str; 8] =
    ["query", "targets", "service-discovery", "cost", "status", "tsdb-status", "config", "flags"];

/// What the page may load: nothing from elsewhere. Its graphs and editor set styles by script.
const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'";

/// The page with the server's title.
pub(super) struct Page {
    /// `index.html`, plain and compressed; `None` where the page was not built.
    index: Option<(Bytes, Bytes)>,
}

impl Page {
    /// Puts the title in. Setup.
    pub(super) fn new(title: &str) -> Self {
        let Some(index) = FILES.iter().find(|file| file.name == "index.html") else {
            return Page { index: None };
        };
        let plain = String::from_utf8_lossy(&inflate(index)).into_owned();
        let plain = match (plain.find("<title>"), plain.find("</title>")) {
            (Some(from), Some(to)) if from < to => {
                format!("{}<title>{}{}", &plain[..from], escape(title), &plain[to..])
            }
            _ => plain,
        };
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        // Memory takes everything.
        let _ = encoder.write_all(plain.as_bytes());
        let gzip = encoder.finish().unwrap_or_default();
        Page { index: Some((Bytes::from(plain), Bytes::from(gzip))) }
    }

    /// The answer for a path without its leading slash, if it belongs to the page.
    pub(super) fn get(&self, path: &str, accepts_gzip: bool) -> Option<Response<Body>> {
        if PAGES.contains(&path) {
            return Some(self.index(accepts_gzip));
        }
        let file = FILES.iter().find(|file| file.name == path && path != "index.html")?;
        let body = if accepts_gzip {
            Body::from(Bytes::from_static(file.gzip))
        } else {
            Body::from(inflate(file))
        };
        let mut response = answer(body, file.content_type, accepts_gzip);
        let keep = if path.starts_with("assets/") {
            "public, max-age=31536000, immutable"
        } else {
            "public, max-age=3600"
        };
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(keep));
        Some(response)
    }

    fn index(&self, accepts_gzip: bool) -> Response<Body> {
        const TYPE: &str = "text/html; charset=utf-8";
        let Some((plain, gzip)) = &self.index else {
            let text = "<!doctype html><title>unladen</title><p>This binary was built without its \
                        page. In the source: <code>make page</code>, then build again. The API \
                        works.\n";
            return answer(Body::from(text), TYPE, false);
        };
        let body = if accepts_gzip { gzip } else { plain };
        let mut response = answer(Body::from(body.clone()), TYPE, accepts_gzip);
        let fresh = HeaderValue::from_static("no-cache");
        response.headers_mut().insert(header::CACHE_CONTROL, fresh);
        response
    }
}

fn answer(body: Body, content_type: &'static str, gzip: bool) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    if gzip {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

fn inflate(file: &Embedded) -> Vec<u8> {
    let mut plain = Vec::with_capacity(file.length);
    // We compressed it ourselves.
    let _ = GzDecoder::new(file.gzip).read_to_end(&mut plain);
    plain
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            other => out.push(other),
        }
    }
    out
}
