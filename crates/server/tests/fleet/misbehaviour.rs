//! Each way to misbehave is what it says.

use std::io::Read;
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use serde_json::Value;
use server::fleet::{Behaviour, Fleet, Options};
use wire::exposition::{Event, Format, Reader};

use super::client::{End, ask, connect, get, read_for, start};

/// What came, as text as far as it goes.
struct Seen {
    head: String,
    body: Vec<u8>,
    end: End,
}

impl Seen {
    fn length(&self) -> Option<usize> {
        let line = self.head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        line.map(|length| length.parse().expect("a number"))
    }

    /// Samples, their timestamps, and lines that are none.
    fn read(&self) -> (Vec<String>, Vec<Option<i64>>, usize) {
        let (mut series, mut timestamps, mut bad) = (Vec::new(), Vec::new(), 0);
        for line in self.body.split_inclusive(|byte| *byte == b'\n') {
            match Reader::new(line, Format::Text).next() {
                Some(Ok(Event::Sample(sample))) => {
                    series.push(sample.series.to_owned());
                    timestamps.push(sample.reading.timestamp_ms);
                }
                Some(Ok(_)) | None => {}
                Some(Err(_)) => bad += 1,
            }
        }
        (series, timestamps, bad)
    }
}

fn look(fleet: &Fleet, number: usize, patience: Duration) -> Seen {
    let mut stream = connect(fleet, Ipv4Addr::new(127, 1, 0, number as u8 + 1));
    ask(&mut stream, "/metrics", "Connection: close\r\n");
    let (bytes, end) = read_for(&mut stream, patience, 16 << 20);
    let split = bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4);
    let (head, body) = bytes.split_at(split.unwrap_or(bytes.len()));
    Seen { head: String::from_utf8_lossy(head).into_owned(), body: body.to_vec(), end }
}

#[test]
fn every_way_is_what_it_says() {
    let count = Behaviour::ALL.len();
    let interval = Duration::from_secs(2);
    let fleet = start(Options {
        targets: count,
        series: 500,
        misbehaving: 1.0,
        interval,
        ..Options::default()
    });
    let mut ways: Vec<_> = (0..count).filter_map(|number| fleet.behaviour(number)).collect();
    ways.sort_by_key(|behaviour| behaviour.as_str());
    ways.dedup();
    assert_eq!(ways.len(), count, "every way once");
    let groups: Value = serde_json::from_slice(&get(&fleet, "/sd", "").body).expect("JSON");
    for number in 0..count {
        let behaviour = fleet.behaviour(number).expect("all misbehave");
        let group = &groups[number];
        assert_eq!(group["labels"]["behaviour"], behaviour.as_str());
        let address = group["targets"][0].as_str().expect("an address");
        if behaviour == Behaviour::Refuses {
            let error = TcpStream::connect(address).expect_err("nobody listens");
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
            continue;
        }
        let slow = matches!(
            behaviour,
            Behaviour::SlowHead
                | Behaviour::SlowBody
                | Behaviour::EndlessBody
                | Behaviour::Hangs
                | Behaviour::LengthTooLong
        );
        let patience = if slow { Duration::from_millis(700) } else { Duration::from_secs(20) };
        check(behaviour, &look(&fleet, number, patience));
    }
    assert_eq!(fleet.totals().misbehaved, count as u64 - 1);
    assert_eq!(fleet.totals().scrapes, 0);
}

fn check(behaviour: Behaviour, seen: &Seen) {
    let Seen { head, body, end } = seen;
    let is = |condition: bool| {
        let start = String::from_utf8_lossy(&body[..body.len().min(200)]);
        assert!(condition, "{behaviour:?}: {head:?} {} bytes {end:?} {start:?}", body.len());
    };
    let ok = head.starts_with("HTTP/1.1 200 OK\r\n");
    match behaviour {
        Behaviour::SlowHead => is(!head.is_empty() && head.len() < 20 && *end == End::Open),
        Behaviour::SlowBody => {
            is(ok && !body.is_empty() && body.len() < 2000 && *end == End::Open);
            is(seen.length() > Some(10_000));
        }
        Behaviour::EndlessBody => {
            is(ok && head.contains("chunked") && body.len() > 64 << 10 && *end == End::Open);
        }
        Behaviour::ClosesEarly => is(ok && seen.length() > Some(body.len()) && *end == End::Closed),
        Behaviour::Resets => is(*end == End::Reset),
        Behaviour::LengthTooShort => is(ok && seen.length() < Some(body.len())),
        Behaviour::LengthTooLong => {
            is(ok && seen.length() == Some(body.len() + 1000) && *end == End::Open);
        }
        Behaviour::BadChunks => is(ok && String::from_utf8_lossy(body).contains("\r\nzz top\r\n")),
        Behaviour::BrokenGzip => {
            is(ok && head.contains("Content-Encoding: gzip"));
            let mut out = Vec::new();
            is(flate2::read::GzDecoder::new(&body[..]).read_to_end(&mut out).is_err());
        }
        Behaviour::GzipBomb => {
            is(ok && head.contains("Content-Encoding: gzip") && seen.length() == Some(body.len()));
            let promised = body.last_chunk().map(|size| u32::from_le_bytes(*size));
            is(promised == Some(1 << 30) && body.len() < 4 << 20);
        }
        Behaviour::Html => {
            is(ok && head.contains("text/html") && body.starts_with(b"<!DOCTYPE html>"));
        }
        Behaviour::NoHttp => is(head.starts_with("SSH-2.0-")),
        Behaviour::EmptyBody => is(ok && seen.length() == Some(0) && body.is_empty()),
        Behaviour::EmptyAnswer => is(head.is_empty() && *end == End::Closed),
        Behaviour::Error500 => is(head.starts_with("HTTP/1.1 500 ") && !body.is_empty()),
        Behaviour::RedirectLoop => {
            is(head.starts_with("HTTP/1.1 302 ") && head.contains("Location: /"));
        }
        Behaviour::DuplicateLines => {
            let (series, _, bad) = seen.read();
            let unique: std::collections::HashSet<_> = series.iter().collect();
            is(ok && bad == 0 && unique.len() * 2 == series.len());
        }
        Behaviour::InvalidLines => {
            let (series, _, bad) = seen.read();
            is(ok && bad > 20 && series.len() > 300);
        }
        Behaviour::TooLarge => is(ok && seen.length() == Some(body.len()) && body.len() >= 2 << 20),
        Behaviour::Past | Behaviour::Future => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            let now = now.expect("a clock").as_millis() as i64;
            let (_, timestamps, bad) = seen.read();
            let hour = 3_600_000;
            let far = |timestamp: &Option<i64>| {
                timestamp.is_some_and(|timestamp| match behaviour {
                    Behaviour::Past => timestamp < now - hour,
                    _ => timestamp > now + hour,
                })
            };
            is(ok && bad == 0 && timestamps.len() > 300 && timestamps.iter().all(far));
        }
        Behaviour::Hangs => is(head.is_empty() && *end == End::Open),
        Behaviour::Refuses => is(false),
    }
}
