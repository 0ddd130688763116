//! Asks servers over HTTP, and takes what vmagent sends.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use url::Url;

use crate::config::http_client::HttpClient;
use crate::http_client::{Buffers, Client, Endpoint, Get, Session};

/// The longest answer that is read.
const LONGEST: u64 = 256 << 20;

/// How long an answer may take; counting all samples of a large store takes a while.
const PATIENCE: Duration = Duration::from_secs(300);

/// How long a server may take to say whether it is there.
const BRIEF: Duration = Duration::from_secs(5);

/// The body of an answer of 200.
///
/// # Errors
/// No answer, or another status, with the begin of what was said.
pub(super) async fn text(address: &str, path: &str) -> Result<String, String> {
    fetch(address, path, PATIENCE).await
}

/// Whether `path` answers 200.
pub(super) async fn answers(address: &str, path: &str) -> bool {
    fetch(address, path, BRIEF).await.is_ok()
}

async fn fetch(address: &str, path: &str, timeout: Duration) -> Result<String, String> {
    let url = format!("http://{address}{path}");
    let failed = |reason: &dyn std::fmt::Display| format!("{url}: {reason}");
    let parsed = Url::parse(&url).map_err(|error| failed(&error))?;
    let endpoint = Endpoint::from_url(&parsed).map_err(|error| failed(&error))?;
    let client = Client::new(&HttpClient::default()).map_err(|error| failed(&error))?;
    let get = Get {
        url: &parsed,
        endpoint: &endpoint,
        headers: "Accept: */*\r\n",
        body_limit: Some(LONGEST),
        timeout,
    };
    let buffers = Buffers::new(LONGEST as usize);
    let mut session = Session::default();
    let answer = session.get(&client, &buffers, get).await.map_err(|error| failed(&error))?;
    let said = String::from_utf8_lossy(answer.body());
    if answer.status != 200 {
        let line: String = said.lines().next().unwrap_or_default().chars().take(300).collect();
        return Err(failed(&format!("answered {}: {line}", answer.status)));
    }
    Ok(said.into_owned())
}

/// What an instant query at `seconds` since the epoch gives, when that is one number; none of nothing.
///
/// # Errors
/// No answer, or none of this form.
pub(super) async fn number(
    address: &str,
    query: &str,
    seconds: f64,
) -> Result<Option<f64>, String> {
    let encoded: String = url::form_urlencoded::byte_serialize(query.as_bytes()).collect();
    let path = format!("/api/v1/query?query={encoded}&time={seconds:.3}");
    let body = text(address, &path).await?;
    let odd = || format!("http://{address}/api/v1/query answers {query:?} with what is no vector");
    let answer: Value = serde_json::from_str(&body).map_err(|_| odd())?;
    let results = answer["data"]["result"].as_array().ok_or_else(odd)?;
    match results.first() {
        None => Ok(None),
        Some(one) => {
            let number = one["value"][1].as_str().and_then(|text| text.parse().ok());
            number.map(Some).ok_or_else(odd)
        }
    }
}

/// The names of all metrics that a server has.
///
/// # Errors
/// No answer, or none of this form.
pub(super) async fn names(address: &str) -> Result<Vec<String>, String> {
    let path = "/api/v1/label/__name__/values";
    let body = text(address, path).await?;
    let answer: Value = serde_json::from_str(&body).unwrap_or_default();
    let names = answer["data"].as_array();
    let names =
        names.ok_or_else(|| format!("http://{address}{path} answers with what is no list"))?;
    Ok(names.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

/// Takes whatever is posted and says 204. Runs until its task is dropped.
///
/// # Errors
/// No free port.
pub(super) async fn sink() -> Result<(String, tokio::task::JoinHandle<()>), String> {
    let failed = |error: std::io::Error| format!("cannot listen for what vmagent sends: {error}");
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A connection that breaks is opened again by who needs it.
            tokio::spawn(async move {
                let _ = swallow(stream).await;
            });
        }
    });
    Ok((format!("http://{address}/api/v1/write"), task))
}

/// Reads requests with a `Content-Length` and answers each.
async fn swallow(mut stream: tokio::net::TcpStream) -> std::io::Result<()> {
    let mut buffer = vec![0; 1 << 18];
    let mut filled = 0;
    loop {
        let end = loop {
            if let Some(at) = memchr::memmem::find(&buffer[..filled], b"\r\n\r\n") {
                break at + 4;
            }
            let room = &mut buffer[filled..];
            match if room.is_empty() { 0 } else { stream.read(room).await? } {
                0 => return Ok(()),
                read => filled += read,
            }
        };
        let head = String::from_utf8_lossy(&buffer[..end]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        let mut missing = (end + length).saturating_sub(filled);
        let next = end + length.min(filled - end);
        buffer.copy_within(next..filled, 0);
        filled -= next;
        while missing > 0 {
            let most = missing.min(buffer.len());
            match stream.read(&mut buffer[..most]).await? {
                0 => return Ok(()),
                read => missing -= read,
            }
        }
        stream.write_all(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n").await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_posted_is_taken() {
        let (url, task) = sink().await.unwrap();
        let address = url.trim_start_matches("http://").split('/').next().unwrap().to_owned();
        let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
        let body = vec![b'x'; 1 << 20];
        for _ in 0..3 {
            let head = format!("POST /w HTTP/1.1\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(&body).await.unwrap();
            let mut answer = [0; 46];
            stream.read_exact(&mut answer).await.unwrap();
            assert!(answer.starts_with(b"HTTP/1.1 204"), "{answer:?}");
        }
        task.abort();
    }
}
