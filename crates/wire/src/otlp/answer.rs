//! What a server answers: `ExportMetricsServiceResponse` to a request that it took, in full or in part,
//! and `google.rpc.Status` with any other HTTP status.

use crate::protobuf::{Error, Message, Reader, Sink};

/// The answer to a request that was taken (`ExportMetricsServiceResponse`, HTTP status 200).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Response<'a> {
    /// None where all was taken and there is nothing to say.
    pub partial_success: Option<PartialSuccess<'a>>,
}

/// What was not taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartialSuccess<'a> {
    /// How many points; 0 for a mere warning.
    pub rejected_data_points: i64,
    /// Why, and what to do about it.
    pub error_message: &'a str,
}

const PARTIAL_SUCCESS: u32 = 1;
const REJECTED_DATA_POINTS: u32 = 1;
const ERROR_MESSAGE: u32 = 2;

impl<'a> Response<'a> {
    /// Reads an answer; an empty one is a full success. *Steady.*
    ///
    /// # Errors
    /// What is no answer: often the page of a proxy.
    pub fn read(body: &'a [u8]) -> Result<Self, Error> {
        let mut response = Response::default();
        for field in Reader::new(body) {
            let field = field?;
            if field.number != PARTIAL_SUCCESS {
                continue;
            }
            let mut partial = PartialSuccess::default();
            for field in field.message()? {
                let field = field?;
                match field.number {
                    REJECTED_DATA_POINTS => partial.rejected_data_points = field.int64()?,
                    ERROR_MESSAGE => partial.error_message = field.string()?,
                    _ => (),
                }
            }
            response.partial_success = Some(partial);
        }
        Ok(response)
    }
}

impl Message for Response<'_> {
    fn write<S: Sink>(&self, sink: &mut S) {
        if let Some(partial) = &self.partial_success {
            sink.message(PARTIAL_SUCCESS, partial);
        }
    }
}

impl Message for PartialSuccess<'_> {
    fn write<S: Sink>(&self, sink: &mut S) {
        if self.rejected_data_points != 0 {
            sink.int64(REJECTED_DATA_POINTS, self.rejected_data_points);
        }
        if !self.error_message.is_empty() {
            sink.string(ERROR_MESSAGE, self.error_message);
        }
    }
}

/// The answer to a request that was not taken (`google.rpc.Status`, HTTP status 4xx or 5xx), without the
/// details that it may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status<'a> {
    /// A code of gRPC; 0 where there is none.
    pub code: i32,
    /// What was wrong, for people.
    pub message: &'a str,
}

const CODE: u32 = 1;
const MESSAGE: u32 = 2;

impl<'a> Status<'a> {
    /// Reads a status. *Steady.*
    ///
    /// # Errors
    /// What is no status: often the text of a proxy.
    pub fn read(body: &'a [u8]) -> Result<Self, Error> {
        let mut status = Status::default();
        for field in Reader::new(body) {
            let field = field?;
            match field.number {
                CODE => status.code = field.int32()?,
                MESSAGE => status.message = field.string()?,
                _ => (),
            }
        }
        Ok(status)
    }
}

impl Message for Status<'_> {
    fn write<S: Sink>(&self, sink: &mut S) {
        if self.code != 0 {
            sink.int64(CODE, i64::from(self.code));
        }
        if !self.message.is_empty() {
            sink.string(MESSAGE, self.message);
        }
    }
}
