//! A target that can do everything, good and bad: what it does is in the path.

use std::collections::HashMap;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Method, path and query, without the version.
    pub(crate) line: String,
    /// By name in lower case; repeated ones joined with a comma.
    pub(crate) headers: HashMap<String, String>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    fn path(&self) -> &str {
        let target = self.line.split(' ').nth(1).unwrap_or("");
        target.split('?').next().unwrap_or("")
    }
}

#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    requests: Mutex<Vec<Request>>,
    /// What to answer at `/set/…`, whole.
    answers: Mutex<HashMap<String, Vec<u8>>>,
}

/// A running server; stops when dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Seen>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::start_with(None).await
    }

    /// With a certificate it speaks TLS.
    pub(crate) async fn start_with(tls: Option<rustls::ServerConfig>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Seen>::default();
        let acceptor = tls.map(|config| tokio_rustls::TlsAcceptor::from(Arc::new(config)));
        let shared = seen.clone();
        let task = tokio::spawn(async move {
            loop {
                let Ok((socket, _)) = listener.accept().await else { continue };
                shared.connections.fetch_add(1, Ordering::Relaxed);
                let (seen, acceptor) = (shared.clone(), acceptor.clone());
                tokio::spawn(async move {
                    match acceptor {
                        Some(acceptor) => {
                            if let Ok(stream) = acceptor.accept(socket).await {
                                serve(stream, None, &seen).await;
                            }
                        }
                        None => {
                            let raw = socket.into_std().unwrap();
                            let twin = raw.try_clone().unwrap();
                            serve(TcpStream::from_std(raw).unwrap(), Some(twin), &seen).await;
                        }
                    }
                });
            }
        });
        Server { address, seen, task }
    }

    pub(crate) fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::Relaxed)
    }

    /// The requests for this path so far.
    pub(crate) fn requests(&self, path: &str) -> Vec<Request> {
        let requests = self.seen.requests.lock();
        requests.iter().filter(|request| request.path() == path).cloned().collect()
    }

    /// Answers requests for `path` with these bytes from now on.
    pub(crate) fn answer(&self, path: &str, answer: impl Into<Vec<u8>>) {
        self.seen.answers.lock().insert(path.to_owned(), answer.into());
    }
}

/// A complete answer with status 200.
pub(crate) fn ok(headers: &str, body: &[u8]) -> Vec<u8> {
    let mut answer =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{headers}\r\n", body.len()).into_bytes();
    answer.extend_from_slice(body);
    answer
}

/// A complete answer in the text format.
pub(crate) fn text(body: &str) -> Vec<u8> {
    ok("Content-Type: text/plain\r\n", body.as_bytes())
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

async fn serve<S>(mut stream: S, raw: Option<std::net::TcpStream>, seen: &Seen)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut bytes = Vec::new();
    loop {
        while !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
            match stream.read_buf(&mut bytes).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            if bytes.first() == Some(&0x16) {
                // TLS, and we do not speak it.
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
                return;
            }
        }
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
        let request = parse(&bytes[..end]);
        bytes.drain(..end);
        seen.requests.lock().push(request.clone());
        if !answer(&mut stream, raw.as_ref(), &request, seen).await {
            return;
        }
    }
}

fn parse(head: &[u8]) -> Request {
    let head = String::from_utf8(head.to_vec()).unwrap();
    let mut lines = head.lines();
    let line = lines.next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
    let mut headers = HashMap::<String, String>::new();
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        let entry = headers.entry(name.to_lowercase()).or_default();
        if !entry.is_empty() {
            entry.push(',');
        }
        entry.push_str(value);
    }
    Request { line, headers }
}

/// Writes `bytes` again and again, slowly, until nobody reads them any more.
async fn drip<S: AsyncWrite + Unpin>(stream: &mut S, bytes: &[u8]) {
    while stream.write_all(bytes).await.is_ok() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// Does what the path says; whether the connection goes on.
async fn answer<S>(
    stream: &mut S,
    raw: Option<&std::net::TcpStream>,
    request: &Request,
    seen: &Seen,
) -> bool
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let path = request.path().to_owned();
    let prepared = seen.answers.lock().get(&path).cloned();
    if let Some(prepared) = prepared {
        return stream.write_all(&prepared).await.is_ok();
    }
    let plain = "Content-Type: text/plain\r\n";
    let bytes = match path.as_str() {
        "/silent" => {
            std::future::pending::<()>().await;
            return false;
        }
        "/trickle" => {
            let head = format!("HTTP/1.1 200 OK\r\n{plain}Content-Length: 100000\r\n\r\n");
            let _ = stream.write_all(head.as_bytes()).await;
            let _ = stream.write_all(b"a 1\n").await;
            std::future::pending::<()>().await;
            return false;
        }
        "/slow-head" => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nX-Slow: ").await;
            drip(stream, b"s").await;
            return false;
        }
        "/slow-body" => {
            let head = format!("HTTP/1.1 200 OK\r\n{plain}Content-Length: 100000\r\n\r\n");
            let _ = stream.write_all(head.as_bytes()).await;
            drip(stream, b"a 1\n").await;
            return false;
        }
        "/slow-chunks" => {
            let head = format!("HTTP/1.1 200 OK\r\n{plain}Transfer-Encoding: chunked\r\n\r\n");
            let _ = stream.write_all(head.as_bytes()).await;
            drip(stream, b"4\r\na 1\n\r\n").await;
            return false;
        }
        "/reset-body" => {
            let head = format!("HTTP/1.1 200 OK\r\n{plain}Content-Length: 1000\r\n\r\na 1\n");
            let _ = stream.write_all(head.as_bytes()).await;
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            if let Some(raw) = raw {
                let _ =
                    rustix::net::sockopt::set_socket_linger(raw, Some(std::time::Duration::ZERO));
            }
            return false;
        }
        "/endless" => {
            let head = format!("HTTP/1.1 200 OK\r\n{plain}Transfer-Encoding: chunked\r\n\r\n");
            let _ = stream.write_all(head.as_bytes()).await;
            let chunk = format!("{:x}\r\n{}\r\n", 64_000, "a 1\n".repeat(16_000));
            while stream.write_all(chunk.as_bytes()).await.is_ok() {}
            return false;
        }
        "/endless-head" => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n").await;
            while stream.write_all(b"X-Thing: and another thing\r\n").await.is_ok() {}
            return false;
        }
        "/cut" => {
            let head = format!("HTTP/1.1 200 OK\r\n{plain}Content-Length: 1000\r\n\r\na 1\nb 2\n");
            let _ = stream.write_all(head.as_bytes()).await;
            return false;
        }
        "/until-close" => {
            let _ =
                stream.write_all(format!("HTTP/1.1 200 OK\r\n{plain}\r\na 1\n").as_bytes()).await;
            let _ = stream.flush().await;
            return false;
        }
        "/cut-chunk" => {
            let head = format!(
                "HTTP/1.1 200 OK\r\n{plain}Transfer-Encoding: chunked\r\n\r\n4\r\na 1\n\r\n"
            );
            let _ = stream.write_all(head.as_bytes()).await;
            return false;
        }
        "/reset" => {
            if let Some(raw) = raw {
                // With a linger of zero, closing sends a reset.
                let _ =
                    rustix::net::sockopt::set_socket_linger(raw, Some(std::time::Duration::ZERO));
            }
            return false;
        }
        "/close" => return false,
        "/noise" => b"\x00\x01\x02 what is this\r\n\r\n".to_vec(),
        "/html" => ok("Content-Type: text/html; charset=utf-8\r\n", b"<html>"),
        "/untyped" => ok("", b"a 1\n"),
        "/404" => b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nno\n".to_vec(),
        "/500" => b"HTTP/1.1 500 Oh No\r\nContent-Length: 3\r\n\r\nno\n".to_vec(),
        "/circle" => {
            b"HTTP/1.1 302 Found\r\nLocation: /circle?again\r\nContent-Length: 0\r\n\r\n".to_vec()
        }
        "/bomb" => {
            static MEMBER: LazyLock<Vec<u8>> = LazyLock::new(|| gzip(&vec![b'#'; 1 << 20]));
            let bomb = MEMBER.repeat(64);
            ok(&format!("{plain}Content-Encoding: gzip\r\n"), &bomb)
        }
        "/cut-gzip" => {
            let whole = gzip("a 1\n".repeat(1000).as_bytes());
            ok(&format!("{plain}Content-Encoding: gzip\r\n"), &whole[..whole.len() / 2])
        }
        "/wrong-sum" => {
            let mut whole = gzip("a 1\n".repeat(1000).as_bytes());
            let at = whole.len() - 8;
            whole[at] ^= 1;
            ok(&format!("{plain}Content-Encoding: gzip\r\n"), &whole)
        }
        "/not-gzip" => ok(&format!("{plain}Content-Encoding: gzip\r\n"), b"a 1\n"),
        "/not-zstd" => ok(&format!("{plain}Content-Encoding: zstd\r\n"), b"a 1\n"),
        "/too-short" => {
            format!("HTTP/1.1 200 OK\r\n{plain}Content-Length: 4\r\n\r\na 1\nb 2\n").into_bytes()
        }
        "/two-lengths" => {
            format!("HTTP/1.1 200 OK\r\n{plain}Content-Length: 4\r\nContent-Length: 8\r\n\r\na 1\n")
                .into_bytes()
        }
        "/minus" => {
            format!("HTTP/1.1 200 OK\r\n{plain}Content-Length: -4\r\n\r\na 1\n").into_bytes()
        }
        "/huge" => format!("HTTP/1.1 200 OK\r\n{plain}Content-Length: 99999999999999\r\n\r\na 1\n")
            .into_bytes(),
        "/chunk-size" => {
            format!("HTTP/1.1 200 OK\r\n{plain}Transfer-Encoding: chunked\r\n\r\nfour\r\na 1\n\r\n")
                .into_bytes()
        }
        "/interim" => {
            let interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n";
            [&interim[..], &text("a 1\n")].concat()
        }
        "/switch" => b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n".to_vec(),
        "/to-file" => {
            b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n"
                .to_vec()
        }
        "/to-nowhere" => {
            b"HTTP/1.1 302 Found\r\nLocation: http://[::bad/\r\nContent-Length: 0\r\n\r\n".to_vec()
        }
        "/503" => b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 3\r\n\r\nno\n".to_vec(),
        "/past" => ok(plain, b"good 1\npast 1 1000\n"),
        "/future" => ok(plain, b"good 1\nfuture 1 99999999999999\n"),
        "/brotli" => ok(&format!("{plain}Content-Encoding: br\r\n"), b"xxxx"),
        "/latin1" => ok(plain, b"a{b=\"\xe4\"} 1\n"),
        "/broken" => ok(plain, b"a 1\nb{c=\"d} 2\n"),
        "/no-eof" => ok("Content-Type: application/openmetrics-text\r\n", b"a 1\n"),
        "/twice" => ok(plain, b"a 1\na 2\n"),
        "/long" => ok(plain, format!("a{{b=\"{}\"}} 1\n", "x".repeat(3 << 20)).as_bytes()),
        "/empty" => ok(plain, b""),
        "/many" => {
            let body: String = (0..100).map(|n| format!("a{{n=\"{n}\"}} 1\n")).collect();
            ok(plain, body.as_bytes())
        }
        _ => text("good 1\nalso_good{a=\"b\"} 2\n"),
    };
    stream.write_all(&bytes).await.is_ok()
}
