//! Reading an HTTP/1.1 answer into a reused buffer.
//!
//! Head and body come into one buffer, in which the body stays where it was read: a body with a length
//! is not copied at all, a chunked one is moved together in place. `hyper` gives each part of a body
//! as an allocation of its own, about the body's size per scrape, and needs a task beside each
//! connection; measured here on a 100 kB body: 6 allocations and 32 µs against none and 26 µs. The
//! parsing of the head is httparse's, which is also hyper's.
//!
//! Refused: heads beyond 64 KiB or 128 fields, any transfer coding but `chunked`, contradictory
//! lengths, bodies beyond the caller's limit or the budget.

use std::io::ErrorKind;
use std::ops::Range;

use tokio::io::AsyncReadExt;

use super::Error;
use super::buffers::Lent;
use super::inflate::{Encoding, HARD_BOUND};
use super::stream::Stream;

const MOST_HEAD: usize = 64 << 10;
const MOST_FIELDS: usize = 128;
/// A chunk's size and extensions, and each trailer.
const MOST_LINE: usize = 8 << 10;
/// At least this much room is offered to each read.
const READ_STEP: usize = 16 << 10;

/// What the head says.
#[derive(Default)]
pub(super) struct Head {
    pub(super) status: u16,
    /// `404 Not Found`.
    pub(super) status_line: String,
    pub(super) content_type: String,
    pub(super) location: String,
    pub(super) encoding: Encoding,
    /// An encoding that we do not know.
    pub(super) unknown_encoding: Option<String>,
    framing: Framing,
    /// Whether the connection can take another request afterwards.
    pub(super) keep_alive: bool,
    /// Bytes of the body that have come.
    pub(super) received: usize,
    /// Where the body begins in the buffer.
    end: usize,
}

/// How the body ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Framing {
    #[default]
    Empty,
    Length(u64),
    Chunked,
    /// With the connection.
    Close,
}

/// Why there is no head, and whether a fresh connection would change that.
pub(super) struct NoHead {
    pub(super) error: Error,
    /// Nothing had come: a kept connection was closed under us.
    pub(super) before_any_byte: bool,
}

/// Reads up to the end of the final head. The buffer is empty before, and then holds the head and what
/// came with it.
pub(super) async fn read_head(
    stream: &mut Stream,
    lent: &mut Lent,
    head: &mut Head,
) -> Result<(), NoHead> {
    lent.buffer.raw.clear();
    loop {
        let had = lent.buffer.raw.len();
        let fatal = |error| NoHead { error, before_any_byte: false };
        match fill(stream, lent).await {
            Ok(0) => {
                let error = if had == 0 {
                    Error::closed("connection closed before any answer")
                } else {
                    Error::closed(format!(
                        "connection closed in the middle of the head ({had} bytes)"
                    ))
                };
                return Err(NoHead { error, before_any_byte: had == 0 });
            }
            Ok(_) => {}
            Err(Stopped::Io(error)) => {
                let error = Error::closed(format!("reading the answer: {error}"));
                return Err(NoHead { error, before_any_byte: had == 0 });
            }
            Err(Stopped::Error(error)) => return Err(fatal(error)),
        }
        while !lent.buffer.raw.is_empty() {
            match parse_head(&lent.buffer.raw, head).map_err(fatal)? {
                None => break,
                // An interim answer (100, 103): the real one follows.
                Some(end) if (100..200).contains(&head.status) && head.status != 101 => {
                    lent.buffer.raw.drain(..end);
                }
                Some(end) => {
                    head.end = end;
                    return Ok(());
                }
            }
        }
        if lent.buffer.raw.len() > MOST_HEAD {
            return Err(fatal(Error::protocol(format!(
                "its head is longer than {MOST_HEAD} bytes"
            ))));
        }
    }
}

fn parse_head(bytes: &[u8], head: &mut Head) -> Result<Option<usize>, Error> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut parsed = httparse::Response::new(&mut fields);
    let end = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(end)) => end,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => {
            let start = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned();
            return Err(Error::protocol(format!("{error} (it begins with {start:?})")));
        }
    };
    head.status = parsed.code.unwrap_or(0);
    if head.status != 200 {
        head.status_line = format!("{} {}", head.status, parsed.reason.unwrap_or(""));
    }
    head.content_type.clear();
    head.location.clear();
    head.encoding = Encoding::Identity;
    head.unknown_encoding = None;
    head.keep_alive = parsed.version == Some(1);
    let mut length = None;
    let mut chunked = false;
    for field in parsed.headers.iter() {
        let value = String::from_utf8_lossy(field.value);
        let name = field.name;
        if name.eq_ignore_ascii_case("content-type") {
            head.content_type.push_str(value.trim());
        } else if name.eq_ignore_ascii_case("content-length") {
            // Digits alone: a sign would be read as well.
            let digits = value.trim().bytes().all(|byte| byte.is_ascii_digit());
            let said = value.trim().parse::<u64>().ok().filter(|_| digits);
            if said.is_none() || length.is_some_and(|before| Some(before) != said) {
                return Err(Error::protocol(format!("Content-Length {value:?}")));
            }
            length = said;
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            if !value.trim().eq_ignore_ascii_case("chunked") || chunked {
                return Err(Error::protocol(format!("Transfer-Encoding {value:?}")));
            }
            chunked = true;
        } else if name.eq_ignore_ascii_case("content-encoding") {
            match Encoding::from_name(&value) {
                Some(encoding) => head.encoding = encoding,
                None => head.unknown_encoding = Some(value.trim().to_owned()),
            }
        } else if name.eq_ignore_ascii_case("location") {
            head.location.push_str(value.trim());
        } else if name.eq_ignore_ascii_case("connection") {
            for option in value.split(',') {
                if option.trim().eq_ignore_ascii_case("close") {
                    head.keep_alive = false;
                } else if option.trim().eq_ignore_ascii_case("keep-alive") {
                    head.keep_alive = true;
                }
            }
        }
    }
    head.framing = match (head.status, chunked, length) {
        (100..=199 | 204 | 304, _, _) => Framing::Empty,
        (_, true, _) => Framing::Chunked,
        (_, false, Some(length)) => Framing::Length(length),
        (_, false, None) => Framing::Close,
    };
    // With both a coding and a length, somebody on the way may count differently.
    if head.framing == Framing::Close || (chunked && length.is_some()) {
        head.keep_alive = false;
    }
    Ok(Some(end))
}

/// Reads the body that follows `head`; gives its place in the raw buffer. With a `limit`, a body that
/// reaches it is an error.
pub(super) async fn read_body(
    stream: &mut Stream,
    lent: &mut Lent,
    head: &mut Head,
    limit: Option<u64>,
) -> Result<Range<usize>, Error> {
    let start = head.end;
    head.received = lent.buffer.raw.len() - start;
    let most = limit.map_or(HARD_BOUND, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let most = most.min(HARD_BOUND);
    let limit_error = || Error::too_large(most as u64);
    match head.framing {
        Framing::Empty => {
            // After an upgrade, or with bytes that nobody asked for, the next answer is not ours.
            if head.status < 200 || lent.buffer.raw.len() > start {
                head.keep_alive = false;
            }
            Ok(start..start)
        }
        Framing::Length(length) if length >= most as u64 => Err(limit_error()),
        Framing::Length(length) => {
            let end = start + length as usize;
            read_length(stream, lent, head, end).await?;
            if lent.buffer.raw.len() > end {
                // Nobody asked for what follows; the next answer would start with it.
                head.keep_alive = false;
            }
            Ok(start..end)
        }
        Framing::Close => loop {
            if lent.buffer.raw.len() - start >= most {
                return Err(limit_error());
            }
            let read = match fill(stream, lent).await {
                Ok(read) => read,
                // TLS without its goodbye, as many servers end.
                Err(Stopped::Io(error)) if error.kind() == ErrorKind::UnexpectedEof => 0,
                Err(stopped) => return Err(stopped.in_body(lent, start)),
            };
            head.received = lent.buffer.raw.len() - start;
            if read == 0 {
                return Ok(start..lent.buffer.raw.len());
            }
        },
        Framing::Chunked => {
            let end = read_chunked(stream, lent, head, most).await?;
            Ok(start..end)
        }
    }
}

/// Reads until the buffer ends at `end` or after it.
async fn read_length(
    stream: &mut Stream,
    lent: &mut Lent,
    head: &mut Head,
    end: usize,
) -> Result<(), Error> {
    let start = head.end;
    while lent.buffer.raw.len() < end {
        // The promised length is taken in doubling steps: a liar must send what he promises.
        let missing = end - lent.buffer.raw.len();
        lent.reserve_raw(missing.min(lent.buffer.raw.len().max(READ_STEP)))?;
        let read = fill(stream, lent).await.map_err(|stopped| stopped.in_body(lent, start))?;
        head.received = lent.buffer.raw.len() - start;
        if read == 0 {
            let (had, length) = (head.received, end - start);
            return Err(Error::closed(format!(
                "connection closed in the middle of the body ({had} of {length} bytes)"
            )));
        }
    }
    Ok(())
}

/// Reads all chunks and moves them together; where the body ends.
async fn read_chunked(
    stream: &mut Stream,
    lent: &mut Lent,
    head: &mut Head,
    most: usize,
) -> Result<usize, Error> {
    let start = head.end;
    let mut chunks = Chunks { start, decoded: start, next: start, left: 0, state: State::Size };
    while !chunks.decode(&mut lent.buffer.raw)? {
        head.received = chunks.decoded - start;
        if head.received >= most {
            return Err(Error::too_large(most as u64));
        }
        let read = fill(stream, lent).await.map_err(|stopped| stopped.in_body(lent, start))?;
        if read == 0 {
            let had = head.received;
            return Err(Error::closed(format!(
                "connection closed in the middle of the body ({had} bytes, the last chunk is missing)"
            )));
        }
    }
    if chunks.next < lent.buffer.raw.len() {
        head.keep_alive = false;
    }
    if chunks.decoded - start >= most {
        return Err(Error::too_large(most as u64));
    }
    Ok(chunks.decoded)
}

/// Why a read brought nothing.
enum Stopped {
    Io(std::io::Error),
    Error(Error),
}

impl Stopped {
    #[cold]
    fn in_body(self, lent: &Lent, start: usize) -> Error {
        match self {
            Stopped::Error(error) => error,
            Stopped::Io(error) => Error::closed(format!(
                "reading the body: {error} (after {} bytes)",
                lent.buffer.raw.len() - start
            )),
        }
    }
}

async fn fill(stream: &mut Stream, lent: &mut Lent) -> Result<usize, Stopped> {
    if lent.buffer.raw.capacity() - lent.buffer.raw.len() < READ_STEP {
        lent.reserve_raw(READ_STEP).map_err(Stopped::Error)?;
    }
    // The clones of `read_buf` on a `Vec` never grow it while there is room.
    stream.read_buf(&mut lent.buffer.raw).await.map_err(Stopped::Io)
}

/// A chunked body that is being moved together: `decoded` ends what is done, `next` begins what is not.
struct Chunks {
    start: usize,
    decoded: usize,
    next: usize,
    /// Bytes of the current chunk that are still to come.
    left: u64,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Size,
    Data,
    DataEnd,
    Trailers,
    Done,
}

impl Chunks {
    /// Takes what has come so far; whether the body is complete.
    fn decode(&mut self, raw: &mut Vec<u8>) -> Result<bool, Error> {
        loop {
            match self.state {
                State::Done => return Ok(true),
                State::Data => {
                    let here = (raw.len() - self.next) as u64;
                    let take = here.min(self.left) as usize;
                    raw.copy_within(self.next..self.next + take, self.decoded);
                    self.decoded += take;
                    self.next += take;
                    self.left -= take as u64;
                    if self.left > 0 {
                        break;
                    }
                    self.state = State::DataEnd;
                }
                State::Size | State::DataEnd | State::Trailers => {
                    let rest = &raw[self.next..];
                    let Some(length) = memchr::memchr(b'\n', rest) else {
                        if rest.len() > MOST_LINE {
                            return Err(self.broken("a line without end"));
                        }
                        break;
                    };
                    let line = rest[..length].strip_suffix(b"\r").unwrap_or(&rest[..length]);
                    match self.state {
                        State::Size => {
                            let Some(size) = chunk_size(line) else {
                                return Err(self.broken("a chunk's size is no number"));
                            };
                            self.left = size;
                            self.state = if size == 0 { State::Trailers } else { State::Data };
                        }
                        State::DataEnd if line.is_empty() => self.state = State::Size,
                        State::DataEnd => {
                            return Err(self.broken("a chunk is longer than its size"));
                        }
                        _ if line.is_empty() => self.state = State::Done,
                        _ => {}
                    }
                    self.next += length + 1;
                }
            }
        }
        // Close the gap, so that the buffer holds no more than the body and an unfinished line.
        let rest = raw.len() - self.next;
        raw.copy_within(self.next.., self.decoded);
        raw.truncate(self.decoded + rest);
        self.next = self.decoded;
        Ok(false)
    }

    #[cold]
    fn broken(&self, what: &str) -> Error {
        Error::protocol(format!("{what} (after {} bytes of body)", self.decoded - self.start))
    }
}

fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next()?.trim_ascii();
    if digits.is_empty() || digits.len() > 15 {
        return None;
    }
    let mut size = 0u64;
    for digit in digits {
        size = size * 16 + u64::from((*digit as char).to_digit(16)?);
    }
    Some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_come_together_however_they_are_cut() {
        let wire =
            b"HEAD5\r\nhello\r\n1;x=\"y\"\r\n \r\n00a\nworld 1234\r\n0\r\nTrailer: x\r\n\r\n";
        for cut in 1..wire.len() {
            let mut raw = wire[..4].to_vec();
            let mut chunks = Chunks { start: 4, decoded: 4, next: 4, left: 0, state: State::Size };
            let mut done = false;
            for piece in wire[4..].chunks(cut) {
                assert!(!done);
                raw.extend_from_slice(piece);
                done = chunks.decode(&mut raw).unwrap();
            }
            assert!(done, "cut {cut}");
            assert_eq!(&raw[..chunks.decoded], b"HEADhello world 1234", "cut {cut}");
        }
        for bad in [&b"g\r\n"[..], b"\r\n", b"2\r\nabc\r\n", b"fffffffffffffffff\r\n"] {
            let mut raw = bad.to_vec();
            let mut chunks = Chunks { start: 0, decoded: 0, next: 0, left: 0, state: State::Size };
            assert!(chunks.decode(&mut raw).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn heads() {
        let mut head = Head::default();
        let text = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\nconnection: Close\r\n\r\nabc";
        assert_eq!(parse_head(text, &mut head).unwrap(), Some(text.len() - 3));
        assert_eq!((head.status, head.framing, head.keep_alive), (200, Framing::Length(3), false));
        assert_eq!(head.content_type, "text/plain");
        assert_eq!(parse_head(&text[..30], &mut head).unwrap(), None);
        let text = b"HTTP/1.0 404 Not Found\r\n\r\n";
        assert!(parse_head(text, &mut head).unwrap().is_some());
        assert_eq!((head.framing, head.keep_alive), (Framing::Close, false));
        assert_eq!(head.status_line, "404 Not Found");
        for bad in [
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "SSH-2.0-OpenSSH_9.2\r\n",
        ] {
            assert!(parse_head(bad.as_bytes(), &mut head).is_err(), "{bad}");
        }
    }
}
