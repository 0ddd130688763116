//! What is written and read of OTLP, against types generated from opentelemetry-proto.

mod model;
mod write;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use proptest::prelude::*;
use prost::Message as _;

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
}
