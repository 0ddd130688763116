//! The routes, and the middleware that measures them.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{MatchedPath, Path, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{any, get};
use profiler::serve::Pprof;
use tokio::task::spawn_blocking;
use unladen::endpoint::Endpoint;
use unladen::{Counter, Family, Gauge, Histogram, Registry, Spec};

/// What is measured of all requests.
pub(crate) struct Requests {
    served: Family<Counter, 3>,
    age: Family<Histogram, 2>,
    open: Gauge,
}

impl Requests {
    fn new(registry: &Registry) -> Result<Self, unladen::Error> {
        let age = Spec::new("http_server_request_duration_seconds", "Time to the response's head.");
        let open = registry.gauge(("http_server_active_requests", "Requests at work."), [])?;
        Ok(Requests {
            served: registry.counter(
                ("http_server_requests_total", "Requests."),
                ["method", "route", "status"],
            )?,
            age: registry.histogram(
                age.unit("seconds"),
                ["method", "route"],
                [0.001, 0.005, 0.025, 0.1, 0.5, 2.5],
            )?,
            open: open.with([]),
        })
    }
}

/// Counts down also for a request whose client went away.
struct Open<'r>(&'r Gauge);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.add(-1.0);
    }
}

/// Measures by route and not by path: paths are without number.
async fn measure(State(requests): State<Arc<Requests>>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    requests.open.add(1.0);
    let _open = Open(&requests.open);
    let method = known(request.method().as_str());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    let route = route.as_ref().map_or("none", MatchedPath::as_str);
    // Both find a known series without allocating.
    requests.served.add([method, route, response.status().as_str()], 1);
    requests.age.record([method, route], started.elapsed().as_secs_f64());
    response
}

/// A client may send any word as a method.
fn known(method: &str) -> &'static str {
    let all = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"];
    all.into_iter().find(|known| *known == method).unwrap_or("other")
}

async fn queue(Path(name): Path<String>) -> String {
    format!("{name} has no messages\n")
}

/// The service, measured in `registry`, with its metrics and profiles.
pub(crate) fn router(registry: &Registry, pprof: Pprof) -> Result<Router, unladen::Error> {
    let requests = Arc::new(Requests::new(registry)?);
    let endpoint = Endpoint::new(registry.clone());
    // Returns at once: a thread of the endpoint's renders, and the response streams.
    let metrics = get(async move |request: Request| endpoint.respond(&request));
    // So does this, when what is asked for has been collected; a client that goes away ends that. To begin may
    // take a while, when others collect.
    let profiles = any(async move |head: Parts, body: Bytes| {
        let answer = spawn_blocking(move || pprof.respond(&head, &body));
        answer.await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
    });
    Ok(Router::new()
        .route("/queues/{name}", get(queue))
        .route("/metrics", metrics)
        .route("/debug/pprof/", profiles.clone())
        .route("/debug/pprof/{page}", profiles)
        .layer(middleware::from_fn_with_state(requests, measure)))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http_body_util::BodyExt;
    use tower_service::Service;

    use super::*;

    #[tokio::test]
    async fn profiles_are_where_tools_look_for_them() {
        let pprof = Pprof::new(profiler::Profiler::start().unwrap());
        let mut service = router(&Registry::new(), pprof).unwrap();
        for (method, path, status, contains) in [
            ("GET", "/debug/pprof/", 200, "<a href=\"wall\">"),
            ("GET", "/debug/pprof/wall?seconds=0.2&debug=1", 200, "wall profile: total "),
            ("POST", "/debug/pprof/symbol", 200, "num_symbols: 1"),
            ("GET", "/debug/pprof/profile?seconds=x", 400, "must be a positive number"),
            ("GET", "/debug/pprof/heap", 404, "the profile heap is off"),
        ] {
            let (found, body) = ask(&mut service, method, path).await;
            assert_eq!(found, status, "{path}: {body}");
            assert!(body.contains(contains), "{path}: {body}");
        }
    }

    async fn ask(service: &mut Router, method: &str, path: &str) -> (u16, String) {
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        let response = service.call(request).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn requests_are_measured_by_route() {
        let registry = Registry::new();
        let mut service = router(&registry, Pprof::without_sampling()).unwrap();
        assert_eq!(ask(&mut service, "GET", "/queues/a").await.0, 200);
        assert_eq!(ask(&mut service, "GET", "/queues/b").await.0, 200);
        assert_eq!(ask(&mut service, "BREW", "/queues/b").await.0, 405);
        assert_eq!(ask(&mut service, "GET", "/nothing").await.0, 404);
        let (status, body) = ask(&mut service, "GET", "/metrics?name[]=http_server_requests").await;
        assert_eq!(status, 200);
        for line in [
            "{method=\"GET\",route=\"/queues/{name}\",status=\"200\"} 2\n",
            "{method=\"other\",route=\"/queues/{name}\",status=\"405\"} 1\n",
            "{method=\"GET\",route=\"none\",status=\"404\"} 1\n",
        ] {
            assert!(body.contains(&format!("http_server_requests_total{line}")), "{body}");
        }
        assert!(!body.contains("duration"), "{body}");
        let (_, body) = ask(&mut service, "GET", "/metrics").await;
        let count = "http_server_request_duration_seconds_count{method=\"GET\",\
            route=\"/queues/{name}\"} 2\n";
        assert!(body.contains(count), "{body}");
        // The scrape itself, unless its head has gone already.
        assert!(body.contains("\nhttp_server_active_requests "), "{body}");
    }
}
