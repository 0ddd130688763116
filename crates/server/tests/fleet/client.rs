//! A client that shows bytes as they came.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use server::fleet::{Fleet, Options};

/// A fleet at a port of its own.
pub(crate) fn start(mut options: Options) -> Fleet {
    "0.0.0.0:0".clone_into(&mut options.listen);
    Fleet::start(options).expect("a fleet")
}

/// A connection to a target.
pub(crate) fn connect(fleet: &Fleet, address: Ipv4Addr) -> TcpStream {
    let at = SocketAddr::new(address.into(), fleet.address().port());
    let stream = TcpStream::connect(at).expect("somebody listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    stream
}

pub(crate) fn ask(stream: &mut TcpStream, path: &str, fields: &str) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: fleet.example:81\r\n{fields}\r\n");
    stream.write_all(request.as_bytes()).expect("the request goes out");
}

/// An answer with a length, and what stands in its head.
pub(crate) struct Answer {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }
}

pub(crate) fn read_answer(stream: &mut TcpStream) -> Answer {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("text");
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.expect("a length").parse().expect("a number")];
    stream.read_exact(&mut body).expect("a body");
    Answer { head, body }
}

pub(crate) fn get(fleet: &Fleet, path: &str, fields: &str) -> Answer {
    let mut stream = connect(fleet, Ipv4Addr::LOCALHOST);
    ask(&mut stream, path, fields);
    read_answer(&mut stream)
}

/// How reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Closed,
    Reset,
    /// Nobody closed in the time that was given, or more came than was wanted.
    Open,
}

/// What comes within `patience`, up to `most` bytes.
pub(crate) fn read_for(stream: &mut TcpStream, patience: Duration, most: usize) -> (Vec<u8>, End) {
    let deadline = Instant::now() + patience;
    let mut bytes = Vec::new();
    let mut room = vec![0; 64 << 10];
    while bytes.len() < most {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        stream.set_read_timeout(Some(left)).expect("a timeout");
        match stream.read(&mut room) {
            Ok(0) => return (bytes, End::Closed),
            Ok(read) => bytes.extend_from_slice(&room[..read]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                break;
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return (bytes, End::Reset),
            Err(error) => panic!("{error}"),
        }
    }
    (bytes, End::Open)
}
