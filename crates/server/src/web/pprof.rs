//! `/debug/pprof/`: the server's own profiles.
//!
//! Whoever waits for a profile to be collected is a task; making it of what was collected is done on the
//! threads of answers. A client that goes away ends its collection, and so does the end of the server: what
//! was collected until then is sent.

use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderValue, Response, StatusCode};
use profiler::serve::Request;

use super::{Body, Web};
use crate::api::{Call, Out, accepts_gzip, stream};

impl Web {
    /// A page of profiles.
    pub(super) async fn profile(&self, call: &Call<'_>, is_head: bool) -> Response<Body> {
        let answer = self.app.pprof.answer(&Request {
            method: if is_head { "HEAD" } else { call.method.as_str() },
            path: call.path,
            query: call.query,
            body: &call.body,
        });
        if let Some(time) = answer.ready_at() {
            tokio::select! {
                () = tokio::time::sleep_until(time.into()) => {}
                () = self.app.stopping() => {}
            }
        }
        let status = StatusCode::from_u16(answer.status()).unwrap_or(StatusCode::OK);
        let headers: Vec<_> = answer
            .headers()
            // Ours are all valid.
            .filter_map(|(name, value)| {
                Some((HeaderName::try_from(name).ok()?, HeaderValue::from_str(value).ok()?))
            })
            .collect();
        let content_type = headers.iter().find(|(name, _)| name == CONTENT_TYPE);
        let content_type = content_type.map(|(_, value)| value.clone());
        let is_text =
            content_type.as_ref().is_some_and(|value| value.as_bytes().starts_with(b"text/"));
        let content_type =
            content_type.unwrap_or(HeaderValue::from_static("application/octet-stream"));
        // Profiles are packed already.
        let gzip = is_text && accepts_gzip(call.headers);
        let mut response = stream(gzip, content_type, move |out| {
            let _ = answer.try_fold(out, |out: &mut Out, chunk| {
                out.bytes(chunk);
                if out.is_gone() { Err(()) } else { Ok(out) }
            });
        })
        .await;
        // An answer of which nothing could be made says so itself.
        if response.status() == StatusCode::OK {
            *response.status_mut() = status;
            response.headers_mut().extend(headers);
        }
        response
    }
}
