//! Further paths on the listener: who answers them.

use std::fmt;
use std::sync::Arc;

use super::{Answer, Request};

/// A request on a further path.
#[derive(Clone, Copy, Debug, Default)]
pub struct RouteRequest<'r> {
    /// Method, query and what is accepted.
    pub request: Request<'r>,
    /// The path, as it came.
    pub path: &'r str,
    /// The body, empty for most methods.
    pub body: &'r [u8],
}

type Handler = dyn Fn(&RouteRequest<'_>) -> Answer + Send + Sync;

/// What answers below a path.
#[derive(Clone)]
pub(super) struct Route {
    pub(super) prefix: String,
    handler: Arc<Handler>,
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Route").field(&self.prefix).finish()
    }
}

impl Route {
    pub(super) fn new(
        prefix: &str,
        handler: impl Fn(&RouteRequest<'_>) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Route { prefix: prefix.to_owned(), handler: Arc::new(handler) }
    }

    /// Whether a path is the route's own or lies below it.
    pub(super) fn leads_to(&self, path: &str) -> bool {
        let rest = path.strip_prefix(self.prefix.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// What its handler answers; to `HEAD` without the body.
    pub(super) fn answer(&self, request: &RouteRequest<'_>) -> Answer {
        let answer = (self.handler)(request);
        match request.request.method {
            "HEAD" => answer.without_body(),
            _ => answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_leads_to_what_is_below_it() {
        for (prefix, path, expected) in [
            ("/a/b/", "/a/b/", true),
            ("/a/b/", "/a/b", true),
            ("/a/b/", "/a/b/c/d", true),
            ("/a/b/", "/a/bc", false),
            ("/a/b", "/a/b/c", true),
            ("/a/b", "/a", false),
            ("/", "/a", true),
        ] {
            let route = Route::new(prefix, |_| Answer::text(200, ""));
            assert_eq!(route.leads_to(path), expected, "{prefix} {path}");
        }
    }
}
