//! Failed answers, with the kinds, statuses and words of Prometheus.

use crate::web::Body;
use http::{HeaderValue, Response, StatusCode, header};
use promql::QueryError;

use super::json;

/// What kind of failure it is; clients look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    /// A request that makes no sense.
    BadData,
    /// A query that cannot be evaluated.
    Execution,
    /// A query that was cancelled.
    Cancelled,
    /// A query that took too long.
    Timeout,
    /// A fault on our side.
    Internal,
    /// Something that is switched off.
    Unavailable,
    /// Something that isn't there.
    NotFound,
}

impl ErrorKind {
    fn word(self) -> &'static str {
        match self {
            ErrorKind::BadData => "bad_data",
            ErrorKind::Execution => "execution",
            ErrorKind::Cancelled => "canceled",
            ErrorKind::Timeout => "timeout",
            ErrorKind::Internal => "internal",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::NotFound => "not_found",
        }
    }

    fn status(self) -> StatusCode {
        match self {
            ErrorKind::BadData => StatusCode::BAD_REQUEST,
            ErrorKind::Execution => StatusCode::UNPROCESSABLE_ENTITY,
            // nginx' status for clients that closed the connection.
            ErrorKind::Cancelled => {
                StatusCode::from_u16(499).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
            }
            ErrorKind::Timeout => StatusCode::SERVICE_UNAVAILABLE,
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            // Prometheus answers what is switched off with 500, too.
            ErrorKind::Internal | ErrorKind::Unavailable => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// A failed answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    kind: ErrorKind,
    message: String,
}

impl ApiError {
    #[cold]
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        ApiError { kind, message: message.into() }
    }

    #[cold]
    pub(crate) fn bad_data(message: impl Into<String>) -> Self {
        ApiError::new(ErrorKind::BadData, message)
    }

    /// A parameter whose value is wrong.
    #[cold]
    pub(crate) fn parameter(name: &str, reason: impl std::fmt::Display) -> Self {
        ApiError::bad_data(format!("invalid parameter \"{name}\": {reason}"))
    }

    pub(crate) fn kind(&self) -> ErrorKind {
        self.kind
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// `{"status":"error","errorType":…,"error":…}`
    pub(crate) fn response(&self) -> Response<Body> {
        let mut body = Vec::with_capacity(self.message.len() + 64);
        body.extend_from_slice(b"{\"status\":\"error\",\"errorType\":\"");
        body.extend_from_slice(self.kind.word().as_bytes());
        body.extend_from_slice(b"\",\"error\":");
        json::string(&mut body, &self.message);
        body.push(b'}');
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.kind.status();
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        response
    }
}

impl From<QueryError> for ApiError {
    fn from(error: QueryError) -> Self {
        let kind = match &error {
            QueryError::Timeout => ErrorKind::Timeout,
            QueryError::Cancelled => ErrorKind::Cancelled,
            QueryError::Storage(_) => ErrorKind::Internal,
            _ => ErrorKind::Execution,
        };
        ApiError::new(kind, error.to_string())
    }
}

impl From<store::Error> for ApiError {
    fn from(error: store::Error) -> Self {
        ApiError::new(ErrorKind::Execution, error.to_string())
    }
}
