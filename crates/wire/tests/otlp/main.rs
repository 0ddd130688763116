//! What is written and read of OTLP, against types generated from opentelemetry-proto.

mod answers;
mod edges;
mod model;
mod read;
mod write;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use proptest::prelude::*;
use prost::Message as _;
use wire::otlp::{AttributeValue, Request};

/// How many points there are.
fn points(request: &ExportMetricsServiceRequest) -> usize {
    let scopes = request.resource_metrics.iter().flat_map(|it| &it.scope_metrics);
    let data = scopes.flat_map(|it| &it.metrics).filter_map(|it| it.data.as_ref());
    data.map(|data| match data {
        Data::Gauge(data) => data.data_points.len(),
        Data::Sum(data) => data.data_points.len(),
        Data::Histogram(data) => data.data_points.len(),
        Data::ExponentialHistogram(data) => data.data_points.len(),
        Data::Summary(data) => data.data_points.len(),
    })
    .sum()
}

proptest! {
    /// Byte for byte what the generated encoder writes: its decoder could not tell a NaN's bits, or a
    /// zero that is written from one that is left out.
    #[test]
    fn what_is_written_is_what_the_generated_encoder_writes(request in model::request(false)) {
        prop_assert_eq!(write::encode(&request), request.encode_to_vec());
    }

    #[test]
    fn what_is_written_decodes_as_what_it_was(request in model::request(true)) {
        let decoded = ExportMetricsServiceRequest::decode(write::encode(&request).as_slice());
        // Through bytes again, because NaN does not equal itself.
        prop_assert_eq!(decoded.unwrap().encode_to_vec(), request.encode_to_vec());
    }

    #[test]
    fn what_the_generated_encoder_writes_is_read(request in model::request(true)) {
        let body = request.encode_to_vec();
        prop_assert_eq!(Request::new(&body).check(), Ok(points(&request)));
        prop_assert_eq!(read::decode(&body).unwrap().encode_to_vec(), body);
    }

    #[test]
    fn a_walk_sees_what_is_nested(value in model::value()) {
        let bytes = value.encode_to_vec();
        let mut list = Vec::new();
        wire::protobuf::Sink::bytes(&mut list, 1, &bytes);
        let root = wire::otlp::attribute::elements(&list).next().unwrap().unwrap();
        prop_assert_eq!(read::walked(root).unwrap().encode_to_vec(), bytes);
        let array = read::walked(AttributeValue::Array(&list)).unwrap();
        prop_assert!(array.encode_to_vec().ends_with(&list));
    }

    /// Where it is cut between two fields there is no fault to find, for either.
    #[test]
    fn a_cut_request_is_refused_where_the_generated_decoder_refuses_it(
        request in model::request(true),
    ) {
        let body = request.encode_to_vec();
        // All of a short one, some of a long one.
        for length in (0..body.len()).step_by(1 + body.len() / 300) {
            let cut = &body[..length];
            let ours = read::decode(cut);
            let checked = Request::new(cut).check();
            prop_assert_eq!(checked.err(), ours.as_ref().err().copied());
            prop_assert!(checked.err().is_none_or(|error| error.offset <= length));
            let generated = ExportMetricsServiceRequest::decode(cut);
            prop_assert_eq!(ours.is_ok(), generated.is_ok());
        }
    }

    /// Whatever becomes of it, both ways to read agree on whether there is a fault.
    #[test]
    fn a_damaged_request_is_refused_or_read(
        request in model::request(true),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut body = request.encode_to_vec();
        prop_assume!(!body.is_empty());
        for (at, byte) in damage {
            let at = at.index(body.len());
            body[at] = byte;
        }
        match Request::new(&body).check() {
            Ok(_) => prop_assert!(read::decode(&body).is_ok()),
            Err(error) => {
                prop_assert!(error.offset <= body.len());
                prop_assert!(read::decode(&body).is_err());
            }
        }
    }
}
