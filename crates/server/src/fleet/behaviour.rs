//! The ways in which targets misbehave.
//!
//! Each is what a server on the way to production has met once: networks that drop, proxies that answer
//! for others, exporters that lie. What is slow sends its next piece after a twentieth of the interval,
//! so that no sane timeout sees the end of it.

use std::io::{self, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flate2::{Compress, Compression, Crc, FlushCompress};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::connection::Shared;

/// A way to misbehave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Its head comes byte by byte.
    SlowHead,
    /// Its body comes in small pieces.
    SlowBody,
    /// Its body goes on for as long as somebody reads.
    EndlessBody,
    /// Half of the body, then the end of the connection.
    ClosesEarly,
    /// Half of the body, then a reset.
    Resets,
    /// More body than its length says.
    LengthTooShort,
    /// Less body than its length says, and then nothing.
    LengthTooLong,
    /// Chunks whose sizes are none.
    BadChunks,
    /// Compressed, it says; half of it is noise.
    BrokenGzip,
    /// A gibibyte in a mebibyte.
    GzipBomb,
    /// A page for people.
    Html,
    /// Not HTTP.
    NoHttp,
    /// 200, and nothing.
    EmptyBody,
    /// The connection ends without an answer.
    EmptyAnswer,
    /// 500.
    Error500,
    /// Sends the client back to where it came from.
    RedirectLoop,
    /// Each series twice.
    DuplicateLines,
    /// Lines that are none.
    InvalidLines,
    /// A body beyond the limit that `/prometheus.yml` sets.
    TooLarge,
    /// Samples of two hours ago.
    Past,
    /// Samples of tomorrow.
    Future,
    /// Takes the request and says nothing.
    Hangs,
    /// Nobody listens.
    Refuses,
}

impl Behaviour {
    /// All of them, in the order in which a fleet has them.
    pub const ALL: [Behaviour; 23] = [
        Behaviour::SlowHead,
        Behaviour::SlowBody,
        Behaviour::EndlessBody,
        Behaviour::ClosesEarly,
        Behaviour::Resets,
        Behaviour::LengthTooShort,
        Behaviour::LengthTooLong,
        Behaviour::BadChunks,
        Behaviour::BrokenGzip,
        Behaviour::GzipBomb,
        Behaviour::Html,
        Behaviour::NoHttp,
        Behaviour::EmptyBody,
        Behaviour::EmptyAnswer,
        Behaviour::Error500,
        Behaviour::RedirectLoop,
        Behaviour::DuplicateLines,
        Behaviour::InvalidLines,
        Behaviour::TooLarge,
        Behaviour::Past,
        Behaviour::Future,
        Behaviour::Hangs,
        Behaviour::Refuses,
    ];

    /// The word for it, which `/sd` has as the label `behaviour`.
    pub fn as_str(self) -> &'static str {
        match self {
            Behaviour::SlowHead => "slow-head",
            Behaviour::SlowBody => "slow-body",
            Behaviour::EndlessBody => "endless-body",
            Behaviour::ClosesEarly => "closes-early",
            Behaviour::Resets => "resets",
            Behaviour::LengthTooShort => "length-too-short",
            Behaviour::LengthTooLong => "length-too-long",
            Behaviour::BadChunks => "bad-chunks",
            Behaviour::BrokenGzip => "broken-gzip",
            Behaviour::GzipBomb => "gzip-bomb",
            Behaviour::Html => "html",
            Behaviour::NoHttp => "no-http",
            Behaviour::EmptyBody => "empty-body",
            Behaviour::EmptyAnswer => "empty-answer",
            Behaviour::Error500 => "error-500",
            Behaviour::RedirectLoop => "redirect-loop",
            Behaviour::DuplicateLines => "duplicate-lines",
            Behaviour::InvalidLines => "invalid-lines",
            Behaviour::TooLarge => "too-large",
            Behaviour::Past => "past",
            Behaviour::Future => "future",
            Behaviour::Hangs => "hangs",
            Behaviour::Refuses => "refuses",
        }
    }
}

/// Bytes of a misbehaving target's metrics: enough to be believed, and few enough for thousands of slow
/// ones at once.
const MOST_LINES: usize = 64 << 10;

/// What a slow body sends at a time.
const SIP: usize = 64;

/// Between two pieces of an endless body: 0.8 MB a second is endless enough.
const BETWEEN_PIECES: Duration = Duration::from_millis(20);
const ENDLESS_PIECE: usize = 16 << 10;

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Answers a request in the target's own way. Gives whether the connection takes another one.
///
/// # Errors
/// The client had enough.
pub(super) async fn answer(
    stream: &mut TcpStream,
    shared: &Shared,
    number: usize,
    behaviour: Behaviour,
) -> io::Result<bool> {
    let world = &shared.world;
    let lines = || shared.stock.borrow_mut().lines(world, number, world.moment(), MOST_LINES);
    let mut out = Out { stream, shared };
    match behaviour {
        Behaviour::SlowHead => {
            let lines = lines();
            out.slowly(&answer_of(TEXT, lines.as_bytes()), 1).await?;
        }
        Behaviour::SlowBody => {
            let lines = lines();
            out.send(head(TEXT, lines.len(), "").as_bytes()).await?;
            out.slowly(lines.as_bytes(), SIP).await?;
        }
        Behaviour::EndlessBody => out.endlessly().await?,
        Behaviour::ClosesEarly | Behaviour::Resets => {
            let lines = lines();
            out.send(head(TEXT, lines.len(), "").as_bytes()).await?;
            out.send(&lines.as_bytes()[..lines.len() / 2]).await?;
            if behaviour == Behaviour::Resets {
                out.reset()?;
            }
            return Ok(false);
        }
        Behaviour::LengthTooShort => {
            let lines = lines();
            out.send(head(TEXT, lines.len() / 2, "").as_bytes()).await?;
            out.send(lines.as_bytes()).await?;
            return Ok(true);
        }
        Behaviour::LengthTooLong => {
            let lines = lines();
            out.send(head(TEXT, lines.len() + 1000, "").as_bytes()).await?;
            out.send(lines.as_bytes()).await?;
            out.wait_for_end().await?;
        }
        Behaviour::BadChunks => {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {TEXT}\r\n");
            let lines = lines();
            let body = format!(
                "Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{lines}\r\nzz top\r\n{lines}",
                lines.len()
            );
            out.send(format!("{head}{body}").as_bytes()).await?;
            return Ok(false);
        }
        Behaviour::BrokenGzip => {
            let mut packed = gzip(lines().as_bytes());
            let half = packed.len() / 2;
            for byte in &mut packed[half..] {
                *byte = !*byte;
            }
            let gzip = "Content-Encoding: gzip\r\n";
            out.send(head(TEXT, packed.len(), gzip).as_bytes()).await?;
            out.send(&packed).await?;
            return Ok(true);
        }
        Behaviour::GzipBomb => {
            let gzip = "Content-Encoding: gzip\r\n";
            let bomb = bomb();
            out.send(head(TEXT, bomb.len(), gzip).as_bytes()).await?;
            out.send(bomb).await?;
            return Ok(true);
        }
        Behaviour::Html => {
            let page = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>\n\
                        <form action=\"/login\"><input name=\"user\"></form></body></html>\n";
            out.send(&answer_of("text/html; charset=utf-8", page.as_bytes())).await?;
            return Ok(true);
        }
        Behaviour::NoHttp => {
            out.send(b"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u5\r\n").await?;
            return Ok(false);
        }
        Behaviour::EmptyBody => {
            out.send(&answer_of(TEXT, b"")).await?;
            return Ok(true);
        }
        Behaviour::EmptyAnswer => return Ok(false),
        Behaviour::Error500 => {
            let text = "collector \"diskstats\" panicked\n";
            let head = format!(
                "HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/plain\r\n\
                 Content-Length: {}\r\n\r\n{text}",
                text.len()
            );
            out.send(head.as_bytes()).await?;
            return Ok(true);
        }
        Behaviour::RedirectLoop => {
            // By its number, so that it finds back by whatever address it came.
            let head = format!(
                "HTTP/1.1 302 Found\r\nLocation: /{number}/metrics\r\nContent-Length: 0\r\n\r\n"
            );
            out.send(head.as_bytes()).await?;
            return Ok(true);
        }
        Behaviour::DuplicateLines
        | Behaviour::InvalidLines
        | Behaviour::Past
        | Behaviour::Future => {
            let body = spoil(&lines(), behaviour);
            out.send(&answer_of(TEXT, body.as_bytes())).await?;
            return Ok(true);
        }
        Behaviour::TooLarge => {
            out.padded(world.body_limit * 2).await?;
            return Ok(true);
        }
        Behaviour::Hangs => out.wait_for_end().await?,
        Behaviour::Refuses => out.reset()?,
    }
    Ok(false)
}

/// The lines of a healthy target, in a bad state.
fn spoil(lines: &str, behaviour: Behaviour) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64;
    let hour = 3_600_000;
    let mut out = String::with_capacity(lines.len() * 2);
    let nonsense = [
        "this line is no metric {{{",
        "node_load1{instance=unquoted} 1",
        "node_load5 a lot",
        "node_load15{device=\"never closed} 3",
        "{\"json\": true}",
    ];
    for (number, line) in lines.lines().enumerate() {
        out.push_str(line);
        let is_sample = !line.starts_with('#');
        match behaviour {
            Behaviour::Past if is_sample => out.push_str(&format!(" {}", now - 2 * hour)),
            Behaviour::Future if is_sample => out.push_str(&format!(" {}", now + 24 * hour)),
            Behaviour::DuplicateLines if is_sample => {
                out.push('\n');
                out.push_str(line);
            }
            Behaviour::InvalidLines if number % 10 == 9 => {
                out.push('\n');
                out.push_str(nonsense[number / 10 % nonsense.len()]);
            }
            _ => {}
        }
        out.push('\n');
    }
    out
}

struct Out<'a> {
    stream: &'a mut TcpStream,
    shared: &'a Shared,
}

impl Out<'_> {
    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await?;
        let world = &self.shared.world;
        world.served.lock().sent(bytes.len(), world.since_start());
        Ok(())
    }

    /// Piece by piece, for longer than anybody waits.
    async fn slowly(&mut self, bytes: &[u8], at_a_time: usize) -> io::Result<()> {
        let pause = self.shared.world.options.interval / 20;
        for piece in bytes.chunks(at_a_time) {
            self.send(piece).await?;
            tokio::time::sleep(pause).await;
        }
        Ok(())
    }

    async fn endlessly(&mut self) -> io::Result<()> {
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {TEXT}\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
        self.send(head.as_bytes()).await?;
        for number in 0u64.. {
            let mut piece = String::new();
            while piece.len() < ENDLESS_PIECE {
                let line = piece.len();
                piece.push_str(&format!("endless{{piece=\"{number}\",at=\"{line}\"}} 1\n"));
            }
            self.send(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes()).await?;
            tokio::time::sleep(BETWEEN_PIECES).await;
        }
        Ok(())
    }

    /// An honest body of comments.
    async fn padded(&mut self, length: usize) -> io::Result<()> {
        self.send(head(TEXT, length, "").as_bytes()).await?;
        let piece = "# nothing to see here, but a lot of it\n".repeat(1000);
        let mut left = length;
        while left > 0 {
            let now = left.min(piece.len());
            self.send(&piece.as_bytes()[piece.len() - now..]).await?;
            left -= now;
        }
        Ok(())
    }

    /// Until the client closes the connection.
    async fn wait_for_end(&mut self) -> io::Result<()> {
        let mut room = [0; 256];
        while self.stream.read(&mut room).await? > 0 {}
        Ok(())
    }

    /// What is closed next is reset and not ended.
    fn reset(&mut self) -> io::Result<()> {
        self.stream.set_zero_linger()
    }
}

fn head(content_type: &str, length: usize, more: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n{more}Content-Length: {length}\r\n\r\n"
    )
}

fn answer_of(content_type: &str, body: &[u8]) -> Vec<u8> {
    let mut answer = head(content_type, body.len(), "").into_bytes();
    answer.extend_from_slice(body);
    answer
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to a Vec never fails.
    let _ = out.write_all(bytes);
    out.finish().unwrap_or_default()
}

/// A gibibyte of comments.
fn bomb() -> &'static [u8] {
    static BOMB: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    BOMB.get_or_init(|| bomb_of(1024))
}

/// So many mebibytes of comments in one member of gzip: one is packed, and repeated.
fn bomb_of(times: usize) -> Vec<u8> {
    const LINE: &[u8; 16] = b"# boom boom boo\n";
    let block = LINE.repeat((1 << 20) / LINE.len());
    let mut packed = Vec::with_capacity(64 << 10);
    let mut compress = Compress::new(Compression::best(), false);
    // A full flush forgets what came before, so that the block can follow itself; room is ample.
    let _ = compress.compress_vec(&block, &mut packed, FlushCompress::Full);
    let mut crc_of_block = Crc::new();
    crc_of_block.update(&block);
    let mut crc = Crc::new();
    let mut bomb = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    for _ in 0..times {
        bomb.extend_from_slice(&packed);
        crc.combine(&crc_of_block);
    }
    // An empty last block.
    bomb.extend_from_slice(&[1, 0, 0, 255, 255]);
    bomb.extend_from_slice(&crc.sum().to_le_bytes());
    bomb.extend_from_slice(&((block.len() * times) as u32).to_le_bytes());
    bomb
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn the_bomb_is_sound() {
        assert!(bomb().len() < 4 << 20, "{} bytes", bomb().len());
        // Smaller, for the patience of whoever runs the tests.
        let bomb = bomb_of(8);
        let mut reader = flate2::read::GzDecoder::new(&bomb[..]);
        let mut room = vec![0; 1 << 20];
        let mut total = 0;
        loop {
            let read = reader.read(&mut room).expect("well-formed, checksum included");
            if read == 0 {
                break;
            }
            total += read;
        }
        assert_eq!(total, 8 << 20);
    }

    #[test]
    fn every_behaviour_has_its_word() {
        let words: std::collections::BTreeSet<_> =
            Behaviour::ALL.iter().map(|behaviour| behaviour.as_str()).collect();
        assert_eq!(words.len(), Behaviour::ALL.len());
    }
}
