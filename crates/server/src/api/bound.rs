//! What bounds a request that looks into the store besides queries: its time, and its client.

use std::time::Instant;

use promql::Cancel;

use super::error::{ApiError, ErrorKind};

/// When to stop looking.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    pub(super) deadline: Instant,
    pub(super) cancel: Cancel,
}

impl Bound {
    /// To be asked between two steps, each of which is short. Cheap.
    ///
    /// # Errors
    /// The client has gone, or the time is up.
    pub(super) fn check(&self) -> Result<(), ApiError> {
        if self.cancel.is_cancelled() {
            return Err(ApiError::new(ErrorKind::Cancelled, "the client has gone"));
        }
        if Instant::now() >= self.deadline {
            return Err(ApiError::new(
                ErrorKind::Timeout,
                "the request took longer than --query.timeout",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn time_and_clients_bound() {
        let now = Instant::now();
        let (near, far) = (now, now + Duration::from_secs(3600));
        for (deadline, gone, expected) in [
            (far, false, None),
            (near, false, Some(ErrorKind::Timeout)),
            (far, true, Some(ErrorKind::Cancelled)),
        ] {
            let bound = Bound { deadline, cancel: Cancel::default() };
            if gone {
                bound.cancel.cancel();
            }
            assert_eq!(bound.check().err().map(|error| error.kind()), expected);
        }
    }
}
