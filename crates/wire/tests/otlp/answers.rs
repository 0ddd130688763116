//! What a server answers, both directions.

use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceResponse,
};
use prost::Message as _;
use wire::otlp::{PartialSuccess, Response, Status};
use wire::protobuf::{Error, Message, Reason};

fn encode(message: &impl Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.write(&mut bytes);
    assert_eq!(bytes.len(), message.encoded_len());
    bytes
}

/// `google.rpc.Status`, which no crate among the dependencies of the tests generates.
#[derive(Clone, PartialEq, prost::Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<ExportMetricsPartialSuccess>,
}

#[test]
fn responses_come_back() {
    let counts = [0, 1, -1, i64::MIN, i64::MAX];
    let partials = counts.iter().flat_map(|count| ["", "too old"].map(|text| Some((*count, text))));
    for partial in partials.chain([None]) {
        let ours = Response {
            partial_success: partial.map(|(rejected_data_points, error_message)| PartialSuccess {
                rejected_data_points,
                error_message,
            }),
        };
        let generated = ExportMetricsServiceResponse {
            partial_success: partial.map(|(rejected_data_points, error_message)| {
                let error_message = error_message.to_owned();
                ExportMetricsPartialSuccess { rejected_data_points, error_message }
            }),
        };
        let bytes = generated.encode_to_vec();
        assert_eq!(encode(&ours), bytes);
        assert_eq!(Response::read(&bytes), Ok(ours));
    }
}

#[test]
fn statuses_come_back() {
    for code in [0, 3, 14, -1, i32::MIN] {
        for message in ["", "no such tenant"] {
            let ours = Status { code, message };
            let mut generated = RpcStatus { code, message: message.to_owned(), details: vec![] };
            assert_eq!(encode(&ours), generated.encode_to_vec());
            generated.details.push(ExportMetricsPartialSuccess::default());
            assert_eq!(Status::read(&generated.encode_to_vec()), Ok(ours));
        }
    }
}

#[test]
fn a_page_is_no_answer() {
    let page = b"<html>502 Bad Gateway</html>";
    let refused = Err(Error { offset: 0, reason: Reason::Group });
    assert_eq!(Response::read(page), refused.map(|()| Response::default()));
    assert_eq!(Status::read(page), refused.map(|()| Status::default()));
    for length in 0..12 {
        let whole = [0x08, 3, 0x12, 8, b'n', b'o', b' ', b's', b'p', b'a', b'c', b'e'];
        let read = Status::read(&whole[..length]);
        assert_eq!(read.is_ok(), [0, 2].contains(&length), "{length}");
    }
}
