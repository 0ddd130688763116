//! One connection of the listener: requests in, answers out, one after the other.
//!
//! What is refused: a head of more than 8 KiB or 64 fields (431), one that is no HTTP/1 (400), paths that
//! are not there (404), other methods than `GET` and `HEAD` (405). A request with a body is answered, and
//! the connection closed behind it, so that its body is never taken for another request. Further paths get
//! the body, of at most 1 MiB (413) and with its length in the head (411).
//!
//! An answer that has to be waited for is dropped when its client closes the connection meanwhile.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant, SystemTime};

use super::listener::{Shared, Slot};
use super::{Answer, Request, RouteRequest};

/// The longest head of a request, in bytes.
const HEAD: usize = 8 << 10;

/// The most fields in it.
const FIELDS: usize = 64;

/// The longest body of a request, in bytes.
const BODY: usize = 1 << 20;

/// How long to wait for the other side to close first, and how much to read until then: bytes that are
/// left would have the system take back what it has not delivered yet.
const LINGER: (Duration, usize) = (Duration::from_millis(500), 64 << 10);

/// A connection, with what has been read of it.
pub(super) struct Connection<'c> {
    stream: &'c TcpStream,
    slot: &'c Slot,
    shared: &'c Shared,
    buffer: Box<[u8]>,
    filled: usize,
}

/// What a request's head says.
struct Head {
    length: usize,
    is_kept: bool,
    /// HTTP/1.0 has no chunks: the end of the connection ends the body.
    is_old: bool,
}

/// Where a request leads.
enum Target {
    Answer(Answer),
    /// To a further path, with a body that is still to be read.
    Body(Posted),
}

/// A request whose body is still to be read.
struct Posted {
    /// Which route it is for.
    route: usize,
    method: String,
    path: String,
    query: Option<String>,
    /// Of the body, in bytes.
    length: usize,
}

/// The body that a request announces.
#[derive(Clone, Copy)]
enum Announced {
    Length(usize),
    Chunks,
    Nonsense,
}

impl<'c> Connection<'c> {
    pub(super) fn new(slot: &'c Slot, shared: &'c Shared) -> Self {
        let stream = &slot.stream;
        Connection { stream, slot, shared, buffer: vec![0; HEAD].into_boxed_slice(), filled: 0 }
    }

    /// Waits for the first byte of a request; says whether one came in time.
    pub(super) fn wait_for_request(&mut self) -> bool {
        self.filled > 0 || self.read(self.shared.settings.idle_patience)
    }

    /// Reads some; says whether there was something.
    fn read(&mut self, patience: Duration) -> bool {
        if patience.is_zero() || self.stream.set_read_timeout(Some(patience)).is_err() {
            return false;
        }
        loop {
            match self.stream.read(&mut self.buffer[self.filled..]) {
                Ok(0) => return false,
                Ok(count) => {
                    self.filled += count;
                    return true;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }

    /// Reads the rest of the head and answers it; says whether the connection goes on. *Steady*.
    pub(super) fn answer(&mut self) -> bool {
        let deadline = Instant::now() + self.shared.settings.request_patience;
        loop {
            match self.parse() {
                Ok(Some((head, target))) => {
                    let answer = match target {
                        Target::Answer(answer) => answer,
                        Target::Body(posted) => match self.body(&head, posted.length, deadline) {
                            Some(body) => self.posted(&posted, &body),
                            None => return false,
                        },
                    };
                    // Clients wait for a head less patiently than for a body.
                    let has_head = answer.is_rendered();
                    if has_head && self.send_head(&head, &answer).is_err() {
                        return false;
                    }
                    if answer.ready_at().is_some_and(|time| !self.wait_until(time)) {
                        return false;
                    }
                    let is_done = self.respond(&head, answer, has_head).is_ok();
                    self.buffer.copy_within(head.length..self.filled, 0);
                    self.filled -= head.length;
                    if is_done && !head.is_kept {
                        self.linger();
                    }
                    return is_done && head.is_kept;
                }
                Ok(None) if self.filled < HEAD => {
                    let patience = deadline.saturating_duration_since(Instant::now());
                    if !self.read(patience) {
                        return false;
                    }
                }
                Ok(None) => return self.refuse(431, "the head of the request is too long\n"),
                Err(httparse::Error::TooManyHeaders) => {
                    return self.refuse(431, "the request has too many header fields\n");
                }
                Err(_) => return self.refuse(400, "this is no HTTP/1 request\n"),
            }
        }
    }

    fn refuse(&mut self, status: u16, text: &'static str) -> bool {
        let head = Head { length: self.filled, is_kept: false, is_old: false };
        if self.respond(&head, Answer::text(status, text), false).is_ok() {
            self.linger();
        }
        false
    }

    /// The body of a request, taken out of the buffer and read to its end; none where it does not come in
    /// time.
    fn body(&mut self, head: &Head, length: usize, deadline: Instant) -> Option<Vec<u8>> {
        let there = (self.filled - head.length).min(length);
        let mut body = vec![0; length];
        body[..there].copy_from_slice(&self.buffer[head.length..head.length + there]);
        self.buffer.copy_within(head.length + there..self.filled, head.length);
        self.filled -= there;
        let mut filled = there;
        while filled < length {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.stream.set_read_timeout(Some(left)).is_err() {
                return None;
            }
            match self.stream.read(&mut body[filled..]) {
                Ok(0) => return None,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
        Some(body)
    }

    fn posted(&self, posted: &Posted, body: &[u8]) -> Answer {
        let Posted { method, path, query, .. } = posted;
        let request = Request { method, query: query.as_deref(), ..Request::default() };
        self.shared.settings.routes[posted.route].answer(&RouteRequest { request, path, body })
    }

    /// Waits for a time; says whether the client did so too. What it sends meanwhile is kept.
    fn wait_until(&mut self, time: Instant) -> bool {
        if !self.shared.begins_to_wait(self.slot) {
            return false;
        }
        let is_still_there = loop {
            let left = time.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break true;
            }
            // A client that sends more than there is room for is not looked after any further.
            if self.filled == self.buffer.len() {
                break self.shared.wait(time);
            }
            if self.stream.set_read_timeout(Some(left)).is_err() {
                break false;
            }
            match self.stream.read(&mut self.buffer[self.filled..]) {
                Ok(0) => break false,
                Ok(count) => self.filled += count,
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted
                    | io::ErrorKind::WouldBlock
                    | io::ErrorKind::TimedOut => {}
                    _ => break false,
                },
            }
        };
        is_still_there && self.shared.has_waited(self.slot)
    }

    /// The request that the buffer begins with, if its head is there.
    fn parse(&self) -> Result<Option<(Head, Target)>, httparse::Error> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS];
        let mut request = httparse::Request::new(&mut fields);
        let httparse::Status::Complete(length) = request.parse(&self.buffer[..self.filled])? else {
            return Ok(None);
        };
        let is_old = request.version == Some(0);
        let mut head = Head { length, is_kept: !is_old, is_old };
        let (mut accept, mut accept_encoding) = (None, None);
        let mut announced = Announced::Length(0);
        for field in request.headers.iter() {
            let value = std::str::from_utf8(field.value).ok();
            let is = |name: &str| field.name.eq_ignore_ascii_case(name);
            if is("accept") {
                accept = accept.or(value);
            } else if is("accept-encoding") {
                accept_encoding = accept_encoding.or(value);
            } else if is("connection") {
                let mut words = value.unwrap_or_default().split(',').map(str::trim);
                head.is_kept &= !words.any(|word| word.eq_ignore_ascii_case("close"));
            } else if is("transfer-encoding") {
                announced = Announced::Chunks;
            } else if is("content-length") && field.value != b"0" {
                announced = match (announced, value.and_then(|value| value.parse().ok())) {
                    (Announced::Length(0), Some(length)) => Announced::Length(length),
                    _ => Announced::Nonsense,
                };
            }
        }
        head.is_kept &= matches!(announced, Announced::Length(0));
        let method = request.method.unwrap_or_default();
        let target = request.path.unwrap_or_default();
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let request = Request { method, accept, accept_encoding, query };
        Ok(Some((head, self.route(without_authority(path), &request, announced))))
    }

    fn route(&self, path: &str, request: &Request<'_>, announced: Announced) -> Target {
        let settings = &self.shared.settings;
        let is_get = matches!(request.method, "GET" | "HEAD");
        let answer = if path == settings.path {
            self.shared.endpoint.answer(request)
        } else if path == "/" && is_get {
            Answer::page(&settings.path, settings.routes.iter().map(|route| &*route.prefix))
        } else if path == "/" {
            Answer::not_allowed()
        } else if let Some(at) = settings.routes.iter().position(|route| route.leads_to(path)) {
            match announced {
                Announced::Length(0) => {
                    let request = RouteRequest { request: *request, path, body: &[] };
                    settings.routes[at].answer(&request)
                }
                Announced::Length(length) if length <= BODY => {
                    return Target::Body(Posted {
                        route: at,
                        method: request.method.to_owned(),
                        path: path.to_owned(),
                        query: request.query.map(str::to_owned),
                        length,
                    });
                }
                Announced::Length(_) => Answer::text(413, "the body of the request is too long\n"),
                Announced::Chunks => Answer::text(411, "the request does not say its length\n"),
                Announced::Nonsense => Answer::text(400, "the request's length is no number\n"),
            }
        } else {
            let text = format!("nothing is here; metrics are at {}\n", settings.path);
            let is_head = request.method == "HEAD";
            Answer { is_head, ..Answer::text(404, text) }
        };
        Target::Answer(answer)
    }

    /// Sends the head alone, of an answer whose body takes its time.
    fn send_head(&self, head: &Head, answer: &Answer) -> io::Result<()> {
        let deadline = Instant::now() + self.shared.settings.answer_patience;
        let mut room = [0; 1024];
        let length = write_head(&mut room[..], answer, head)?;
        let mut out = Timed { stream: self.stream, deadline };
        out.write_parts([&room[..length], b"", b"", b""])
    }

    fn respond(&self, head: &Head, answer: Answer, has_head: bool) -> io::Result<()> {
        let mut out = Timed {
            stream: self.stream,
            deadline: Instant::now() + self.shared.settings.answer_patience,
        };
        let mut room = [0; 1024];
        let mut length = if has_head { 0 } else { write_head(&mut room[..], &answer, head)? };
        if answer.content_length().is_some() || answer.is_head() {
            return answer
                .try_fold(true, |_, chunk| {
                    out.write_parts([&room[..length], chunk, b"", b""])?;
                    Ok::<bool, io::Error>(false)
                })
                .and_then(|is_first| match is_first {
                    true => out.write_parts([&room[..length], b"", b"", b""]),
                    false => Ok(()),
                });
        }
        // The head goes with the first chunk.
        let is_old = head.is_old;
        answer.try_fold((), |(), chunk| {
            let mut size = [0; 20];
            let mut rest = &mut size[..];
            if !is_old {
                write!(rest, "{:x}\r\n", chunk.len())?;
            }
            let unused = rest.len();
            let end: &[u8] = if is_old { b"" } else { b"\r\n" };
            out.write_parts([&room[..length], &size[..20 - unused], chunk, end])?;
            length = 0;
            Ok::<(), io::Error>(())
        })?;
        let end: &[u8] = if is_old { b"" } else { b"0\r\n\r\n" };
        out.write_parts([&room[..length], end, b"", b""])
    }

    /// Lets the other side read everything before the connection ends.
    fn linger(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
        let deadline = Instant::now() + LINGER.0;
        let mut left = LINGER.1;
        while left > 0 {
            self.filled = 0;
            if !self.read(deadline.saturating_duration_since(Instant::now())) {
                return;
            }
            left = left.saturating_sub(self.filled);
        }
    }
}

/// The path of a target that a proxy wrote with its host in front.
fn without_authority(target: &str) -> &str {
    let Some((_, rest)) = target.split_once("://") else { return target };
    rest.find('/').map_or("/", |at| &rest[at..])
}

/// Writes a response's head; gives its length.
fn write_head(room: &mut [u8], answer: &Answer, head: &Head) -> io::Result<usize> {
    let size = room.len();
    let mut rest = room;
    let reason = match answer.status() {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        301 => "Moved Permanently",
        405 => "Method Not Allowed",
        411 => "Length Required",
        413 => "Content Too Large",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        431 => "Request Header Fields Too Large",
        _ => "",
    };
    write!(rest, "HTTP/1.1 {} {reason}\r\n", answer.status())?;
    for (name, value) in answer.headers() {
        write!(rest, "{name}: {value}\r\n")?;
    }
    write!(rest, "Date: {}\r\n", httpdate::HttpDate::from(SystemTime::now()))?;
    match answer.content_length() {
        Some(length) => write!(rest, "Content-Length: {length}\r\n")?,
        None if head.is_old => {}
        None => write!(rest, "Transfer-Encoding: chunked\r\n")?,
    }
    if !head.is_kept {
        write!(rest, "Connection: close\r\n")?;
    }
    write!(rest, "\r\n")?;
    Ok(size - rest.len())
}

/// A socket that takes everything before its deadline, or fails.
struct Timed<'c> {
    stream: &'c TcpStream,
    deadline: Instant,
}

impl Timed<'_> {
    fn write_parts(&mut self, parts: [&[u8]; 4]) -> io::Result<()> {
        let mut slices = parts.map(IoSlice::new);
        let mut slices = &mut slices[..];
        IoSlice::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.stream.set_write_timeout(Some(left))?;
            match self.stream.write_vectored(slices) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => IoSlice::advance_slices(&mut slices, count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
