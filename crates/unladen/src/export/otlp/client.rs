//! One attempt to send a request, and what the other side says to it.

use std::time::{Duration, SystemTime};

use ureq::Agent;
use ureq::http::Response;
use wire::otlp::{CONTENT_TYPE, Response as Taken, Status};

use crate::export::error::Reason;

use super::options::Options;

/// Bytes of an answer that are read; what a server says beyond that is nobody's.
const MOST_OF_AN_ANSWER: u64 = 64 * 1024;

/// Bytes of an answer that is no protobuf which are told to people.
const MOST_OF_A_TEXT: usize = 200;

/// What came of an attempt.
pub(super) enum Answer {
    /// The other side took all but so many points.
    Taken { rejected: usize, message: String },
    /// It took nothing and never will.
    Refused { message: String },
    /// It may take it later.
    Later { reason: Reason, after: Option<Duration>, message: String },
}

/// Sends requests, over one kept connection.
pub(super) struct Client {
    agent: Agent,
    endpoint: String,
    headers: Vec<(String, String)>,
    is_compressed: bool,
}

impl Client {
    pub(super) fn new(options: &Options) -> Self {
        let agent = Agent::config_builder()
            .timeout_global(Some(options.timeout))
            .http_status_as_error(false)
            // Who is sent elsewhere with what it posts should be told of the new address instead.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("unladen-otlp/", env!("CARGO_PKG_VERSION")))
            .max_idle_connections(1)
            .build()
            .new_agent();
        Client {
            agent,
            endpoint: options.endpoint.clone(),
            headers: options.headers.clone(),
            is_compressed: options.is_compressed,
        }
    }

    pub(super) fn send(&self, body: &[u8]) -> Answer {
        let mut request = self.agent.post(&self.endpoint).header("Content-Type", CONTENT_TYPE);
        if self.is_compressed {
            request = request.header("Content-Encoding", "gzip");
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        match request.send(body) {
            Ok(response) => self.read(response),
            // Wrong for every attempt, not for this one.
            Err(
                error @ (ureq::Error::BadUri(_)
                | ureq::Error::Http(_)
                | ureq::Error::TlsRequired
                | ureq::Error::RequireHttpsOnly(_)),
            ) => Answer::Refused { message: format!("can't send to {}: {error}", self.endpoint) },
            Err(error) => Answer::Later {
                reason: Reason::Unreachable,
                after: None,
                message: format!("no answer from {}: {error}", self.endpoint),
            },
        }
    }

    fn read(&self, mut response: Response<ureq::Body>) -> Answer {
        let status = response.status();
        let after = response.headers().get("Retry-After").and_then(|value| value.to_str().ok());
        let after = after.and_then(|value| retry_after(value, SystemTime::now()));
        let body = response.body_mut().with_config().limit(MOST_OF_AN_ANSWER).read_to_vec();
        if status.is_success() {
            // An answer that was cut off is no reason to send again what was taken.
            let body = body.unwrap_or_default();
            let partial = Taken::read(&body).ok().and_then(|answer| answer.partial_success);
            let partial = partial.unwrap_or_default();
            return Answer::Taken {
                rejected: usize::try_from(partial.rejected_data_points).unwrap_or(0),
                message: partial.error_message.to_owned(),
            };
        }
        let message =
            format!("{} says {status}{}", self.endpoint, reason(&body.unwrap_or_default()));
        match status.as_u16() {
            429 | 502 | 503 | 504 => Answer::Later { reason: Reason::Busy, after, message },
            _ => Answer::Refused { message },
        }
    }
}

/// Why, if the answer says so: a `google.rpc.Status`, or the text of a proxy.
fn reason(body: &[u8]) -> String {
    if let Ok(status) = Status::read(body)
        && !status.message.is_empty()
    {
        return format!(": {}", status.message);
    }
    let text = String::from_utf8_lossy(body);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(MOST_OF_A_TEXT) {
        _ if text.is_empty() || text.contains(char::is_control) => String::new(),
        Some((end, _)) => format!(": {}…", &text[..end]),
        None => format!(": {text}"),
    }
}

/// Seconds, or a date. More than an hour is taken for an hour.
fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let seconds = match value.trim().parse::<u64>() {
        Ok(seconds) => seconds,
        Err(_) => {
            let date = httpdate::parse_http_date(value.trim()).ok()?;
            date.duration_since(now).unwrap_or_default().as_secs()
        }
    };
    Some(Duration::from_secs(seconds.min(3600)))
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn when_to_come_again() {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_770);
        for (value, expected) in [
            ("0", Some(0)),
            (" 17 ", Some(17)),
            ("100000000", Some(3600)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(7)),
            ("Sun, 06 Nov 1994 08:49:07 GMT", Some(0)),
            ("soon", None),
            ("-1", None),
        ] {
            assert_eq!(retry_after(value, now), expected.map(Duration::from_secs), "{value}");
        }
    }
}
