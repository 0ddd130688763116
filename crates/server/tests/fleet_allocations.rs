//! A fleet that serves what it has served before allocates nothing, whoever asks.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use server::fleet::{Churn, Fleet, Options, Shape};
use testkit::allocations::{Count, Counting, count_all_threads};

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

#[test]
fn scrapes_allocate_nothing() {
    // More than a socket takes at once, so that bodies are made in pieces.
    for (series, gzip) in [(1000, false), (60_000, false), (1000, true)] {
        let churn = Some(Churn { share: 0.5, period: std::time::Duration::from_secs(1) });
        let fleet = Fleet::start(Options {
            listen: "0.0.0.0:0".to_owned(),
            targets: 8,
            series,
            shape: Shape::Mixed,
            interval: std::time::Duration::from_millis(100),
            churn,
            gzip,
            ..Options::default()
        })
        .expect("a fleet");
        let port = fleet.address().port();
        let mut streams: Vec<_> = (1..=8)
            .map(|last| {
                let at = SocketAddr::new(Ipv4Addr::new(127, 1, 0, last).into(), port);
                TcpStream::connect(at).expect("it listens")
            })
            .collect();
        let mut room = vec![0; 64 << 20];
        let mut round = || {
            for stream in &mut streams {
                let request = b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n";
                stream.write_all(request).expect("it goes out");
                read_answer(stream, &mut room);
            }
        };
        for _ in 0..3 {
            round();
        }
        let rounds = 5;
        let during = count_all_threads(|| (0..rounds).for_each(|_| round()));
        assert_eq!(during, Count::ZERO, "{series} series, gzip: {gzip}");
        // The last one may not be counted yet.
        assert!(fleet.totals().scrapes >= 8 * (3 + rounds) - 1);
    }
}

/// Reads an answer without allocating.
fn read_answer(stream: &mut TcpStream, room: &mut [u8]) {
    let mut got = 0;
    let mut all = usize::MAX;
    while got < all {
        let read = stream.read(&mut room[got..]).expect("it comes");
        assert!(read > 0, "it ends");
        got += read;
        if all == usize::MAX
            && let Some(end) = room[..got].windows(4).position(|window| window == b"\r\n\r\n")
        {
            let head = std::str::from_utf8(&room[..end]).expect("text");
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            all = end + 4 + length.and_then(|text| text.parse::<usize>().ok()).expect("a length");
        }
    }
}
