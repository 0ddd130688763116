//! A file or a URL → the bytes of a profile, decompressed.
//!
//! A profile is compressed with gzip, with zstd, not at all, or twice, when it is served compressed. What
//! comes out of a compressed one is bounded.

use std::io::Read;
use std::time::Duration;

use url::Url;

use super::text;
use crate::config::http_client::{HttpClient, Proxy};
use crate::http_client::{Buffers, Client, Endpoint, Get, Session};

/// What a profile may have: as Go's and libdatadog's have at most in practice, some hundred times over.
const LONGEST: u64 = 1 << 30;

/// What a compressed one may have besides [`MOST_FOR_ONE`] for each of its bytes.
const SMALL: u64 = 64 << 20;

/// What comes out for a byte that goes in: some thirty times what it is for profiles, and a quarter of what
/// gzip does to a file of zeros.
const MOST_FOR_ONE: u64 = 256;

/// How long an answer may take beyond the seconds that the URL asks for: symbols are looked up then.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often what is inside a compressed file may be compressed again.
const LAYERS: usize = 2;

/// What is said of a source: for a URL, everything but user and password. Taken from its text, for what does
/// not parse is shown as well.
pub(super) fn shown(source: &str) -> String {
    let Some((scheme, rest)) = source.split_once("://") else { return text::plain(source) };
    let end = match Url::parse(source) {
        Ok(_) => rest.find(['/', '?', '#']).unwrap_or(rest.len()),
        // A password with a slash in it: nobody knows where the host would have begun.
        Err(_) => rest.len(),
    };
    let begin = rest[..end].rfind('@').map_or(0, |at| at + 1);
    text::plain(&format!("{scheme}://{}", &rest[begin..]))
}

/// The profile at `source`: a URL, `-` for what is piped in, else a file.
pub(super) fn load(source: &str) -> Result<Vec<u8>, String> {
    let shown = shown(source);
    let mut body = if source.starts_with("http://") || source.starts_with("https://") {
        fetch(source)?
    } else if source == "-" {
        read(std::io::stdin().lock(), LONGEST)
            .map_err(|error| format!("standard input: {error}"))?
    } else {
        std::fs::File::open(source).and_then(|file| read(file, LONGEST)).map_err(|error| {
            let hint = match error.kind() {
                std::io::ErrorKind::NotFound if source.contains(':') => {
                    format!(" (for a URL write http://{shown})")
                }
                _ => String::new(),
            };
            format!("{shown}: {error}{hint}")
        })?
    };
    for _ in 0..LAYERS {
        body = match &body[..] {
            [0x1f, 0x8b, ..] => gunzip(&body),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => unzstd(&body),
            _ => break,
        }
        .map_err(|reason| format!("{shown}: {reason}"))?;
    }
    if body.is_empty() {
        return Err(format!("{shown}: empty, which no profile is"));
    }
    Ok(body)
}

/// Everything, up to the bound.
fn read(from: impl Read, longest: u64) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    let length = from.take(longest + 1).read_to_end(&mut body)?;
    if length as u64 > longest {
        return Err(std::io::Error::other(format!("longer than {longest} bytes")));
    }
    Ok(body)
}

/// What may come out of a compressed profile: in proportion to what it is, so that it takes a large file to
/// fill the memory.
fn longest(compressed: &[u8]) -> u64 {
    (SMALL + MOST_FOR_ONE * compressed.len() as u64).min(LONGEST)
}

fn gunzip(body: &[u8]) -> Result<Vec<u8>, String> {
    let unpacked = read(flate2::bufread::MultiGzDecoder::new(body), longest(body));
    unpacked.map_err(|error| format!("gzip: {error}"))
}

fn unzstd(body: &[u8]) -> Result<Vec<u8>, String> {
    let mut context = zstd_safe::DCtx::create();
    // The window that the program `zstd` allows; refused only for values outside zstd's own bounds.
    let _ = context.set_parameter(zstd_safe::DParameter::WindowLogMax(27));
    let mut input = zstd_safe::InBuffer::around(body);
    let longest = longest(body);
    let mut out = Vec::new();
    let mut room = vec![0; zstd_safe::DCtx::out_size()];
    loop {
        let mut output = zstd_safe::OutBuffer::around(&mut room[..]);
        let hint = context
            .decompress_stream(&mut output, &mut input)
            .map_err(|code| format!("zstd: {}", zstd_safe::get_error_name(code)))?;
        let written = output.pos();
        out.extend_from_slice(&room[..written]);
        if out.len() as u64 > longest {
            return Err(format!("zstd: longer than {longest} bytes"));
        }
        let at_end = input.pos() == body.len();
        if at_end && hint == 0 {
            return Ok(out);
        }
        if at_end && written == 0 {
            return Err("zstd: it ends in the middle".to_owned());
        }
    }
}

/// How long to wait for the answer: `?seconds=30` takes 30 s before anything comes.
fn patience(url: &Url) -> Duration {
    let seconds = url.query_pairs().find(|(key, _)| key == "seconds");
    let seconds = seconds.and_then(|(_, value)| value.parse::<f64>().ok()).unwrap_or(0.0);
    let asked = Duration::try_from_secs_f64(seconds.clamp(0.0, 1e6)).unwrap_or_default();
    asked + PATIENCE
}

fn fetch(source: &str) -> Result<Vec<u8>, String> {
    let failed = |reason: &dyn std::fmt::Display| format!("{}: {reason}", shown(source));
    let mut url = Url::parse(source).map_err(|error| failed(&error))?;
    // User and password go along with the endpoint and are shown nowhere.
    let endpoint = Endpoint::from_url(&url).map_err(|error| failed(&error))?;
    // Both can only be refused by URLs without a host.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    let proxy = Proxy::FromEnvironment { connect_headers: Default::default() };
    let options = HttpClient { proxy, ..HttpClient::default() };
    let client = Client::new(&options).map_err(|error| failed(&error))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| failed(&error))?;
    let get = Get {
        url: &url,
        endpoint: &endpoint,
        headers: "Accept: */*\r\nAccept-Encoding: gzip, zstd\r\n",
        body_limit: Some(LONGEST),
        timeout: patience(&url),
    };
    runtime.block_on(async {
        let mut session = Session::default();
        let buffers = Buffers::new(4 * LONGEST as usize);
        let answer = session.get(&client, &buffers, get).await.map_err(|error| failed(&error))?;
        if answer.status != 200 {
            let status = match session.status_line() {
                "" => answer.status.to_string(),
                status => status.to_owned(),
            };
            let said = String::from_utf8_lossy(answer.body());
            let said = text::cut(&text::plain(said.lines().next().unwrap_or_default()), 200);
            return Err(failed(&format!("the server answered {status}: {said}")));
        }
        Ok(answer.body().to_vec())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown() {
        for (source, expected) in [
            ("heap.pb.gz", "heap.pb.gz"),
            ("http://host:9090/p?a=b@c#d@e", "http://host:9090/p?a=b@c#d@e"),
            ("http://u:secret@host/p", "http://host/p"),
            ("https://u:sec@ret@host", "https://host"),
            ("HTTP://u:secret@host/a@b", "HTTP://host/a@b"),
            ("http://secret@host?x=@", "http://host?x=@"),
            ("http://u:secret@host:99999/", "http://host:99999/"),
            ("http://u:sec/ret@host/", "http://host/"),
            ("http://u:secret@/x", "http:///x"),
            ("http://u:secret@h\u{1b}/", "http://h\\u{1b}/"),
        ] {
            assert_eq!(shown(source), expected);
        }
    }

    #[test]
    fn little_does_not_become_much() {
        for (compressed, expected) in
            [(0, 64 << 20), (1 << 20, 320 << 20), (3_932_160, 1 << 30), (1 << 23, LONGEST)]
        {
            assert_eq!(longest(&vec![0; compressed]), expected);
        }
    }

    #[test]
    fn one_waits_as_long_as_the_url_asks_for() {
        for (url, seconds) in [
            ("http://x/debug/pprof/heap", 60.0),
            ("http://x/debug/pprof/profile?seconds=30", 90.0),
            ("http://x/p?a=b&seconds=1.5", 61.5),
            ("http://x/p?seconds=-3", 60.0),
            ("http://x/p?seconds=NaN", 60.0),
            ("http://x/p?seconds=soon", 60.0),
        ] {
            let url = Url::parse(url).unwrap();
            assert_eq!(patience(&url).as_secs_f64(), seconds, "{url}");
        }
    }
}
