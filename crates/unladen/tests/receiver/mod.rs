//! A server of OTLP over HTTP that answers as it is told and keeps what it got.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, mpsc};

use flate2::read::GzDecoder;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use parking_lot::Mutex;
use prost::Message;

/// What came.
pub(crate) struct Received {
    pub(crate) head: String,
    pub(crate) request: ExportMetricsServiceRequest,
}

/// Status, further header lines, body.
pub(crate) type Answer = (u16, &'static str, Vec<u8>);

pub(crate) struct Receiver {
    pub(crate) endpoint: String,
    answers: Arc<Mutex<VecDeque<Answer>>>,
    received: mpsc::Receiver<Received>,
}

impl Receiver {
    /// Answers with `answers`, then with success.
    pub(crate) fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}/v1/metrics", listener.local_addr().unwrap());
        let answers = Arc::new(Mutex::new(answers.into_iter().collect::<VecDeque<_>>()));
        let (sender, received) = mpsc::channel();
        let scripted = answers.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // One connection after the other: the exporter has one.
                while serve(stream.as_ref().unwrap(), &scripted, &sender).is_some() {}
            }
        });
        Receiver { endpoint, answers, received }
    }

    pub(crate) fn answer(&self, answer: Answer) {
        self.answers.lock().push_back(answer);
    }

    pub(crate) fn requests(&self) -> Vec<Received> {
        self.received.try_iter().collect()
    }
}

fn serve(
    stream: &TcpStream,
    answers: &Mutex<VecDeque<Answer>>,
    received: &mpsc::Sender<Received>,
) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let lower = head.to_lowercase();
    let field = |name: &str| {
        lower.lines().find_map(|line| line.strip_prefix(name).map(|value| value.trim().to_owned()))
    };
    let mut body = vec![0; field("content-length:")?.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    if field("content-encoding:").as_deref() == Some("gzip") {
        let mut plain = Vec::new();
        GzDecoder::new(&*body).read_to_end(&mut plain).unwrap();
        body = plain;
    }
    let request = ExportMetricsServiceRequest::decode(&*body).unwrap();
    let (status, fields, body) = answers.lock().pop_front().unwrap_or((200, "", Vec::new()));
    // Told before it is answered, so that who has the answer finds it.
    received.send(Received { head, request }).ok()?;
    let length = body.len();
    let mut stream = stream;
    write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n{fields}\r\n").ok()?;
    stream.write_all(&body).ok()
}
