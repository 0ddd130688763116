//! The HTTP API v1, as Prometheus answers it.
//!
//! ```text
//! form      parameters           reply    answers on blocking threads, streamed
//! json      JSON by hand         answer   the envelope of successful answers
//! error     failures             tree     the syntax tree of a query
//! query     /query …             series   /series, /labels, /label/<name>/values
//! targets   /targets, /metadata  status   /status/…, /features
//! rules     /rules, /alerts      federate /federate
//! bound     what ends a look     kept     pages and compressors of answers
//! cost      /status/cost, /status/profile
//! ```
//! Queries run on blocking threads of the web's own runtime, at most as many at once as the command
//! line says, and a few looks at series and labels besides; scraping has another runtime, so that no
//! query makes a scrape late.

mod answer;
mod bound;
mod cost;
mod error;
mod federate;
mod form;
mod json;
mod kept;
mod query;
mod reply;
mod rules;
mod series;
mod status;
mod targets;
mod tree;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use promql::Cancel;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) use error::{ApiError, ErrorKind};
pub(crate) use reply::{CHUNKS_AHEAD, Out, accepts_gzip, in_stage, stream};
pub(crate) use status::PROMETHEUS_VERSION;

use crate::app::App;
use crate::web::Body;
use bound::Bound;
use form::Form;
use reply::Answer;

/// What is under `/api/v1`, with the label `handler` of its metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Endpoint {
    Query,
    QueryRange,
    QueryExemplars,
    FormatQuery,
    ParseQuery,
    Labels,
    LabelValues(String),
    Series,
    ScrapePools,
    Targets,
    TargetsMetadata,
    Metadata,
    Alertmanagers,
    Alerts,
    Rules,
    Config,
    Runtimeinfo,
    Buildinfo,
    Flags,
    Tsdb,
    Features,
    Walreplay,
    Notifications,
    Cost,
    Profile,
    /// Known, and not there yet: the reason.
    NotYet(&'static str),
}

impl Endpoint {
    /// The endpoint of a path behind `/api/v1`, its pattern, and whether forms may be posted to it.
    fn find(path: &str) -> Option<(Endpoint, &'static str, Methods)> {
        use Methods::{Get, GetPost, Post};
        if let Some(name) = path.strip_prefix("/label/").and_then(|p| p.strip_suffix("/values")) {
            let name = percent_encoding::percent_decode_str(name).decode_utf8_lossy();
            if !name.contains('/') {
                let endpoint = Endpoint::LabelValues(name.into_owned());
                return Some((endpoint, "/api/v1/label/:name/values", Get));
            }
        }
        let (endpoint, methods) = match path {
            "/query" => (Endpoint::Query, GetPost),
            "/query_range" => (Endpoint::QueryRange, GetPost),
            "/query_exemplars" => (Endpoint::QueryExemplars, GetPost),
            "/format_query" => (Endpoint::FormatQuery, GetPost),
            "/parse_query" => (Endpoint::ParseQuery, GetPost),
            "/labels" => (Endpoint::Labels, GetPost),
            "/series" => (Endpoint::Series, GetPost),
            "/scrape_pools" => (Endpoint::ScrapePools, Get),
            "/targets" => (Endpoint::Targets, Get),
            "/targets/metadata" => (Endpoint::TargetsMetadata, Get),
            "/metadata" => (Endpoint::Metadata, Get),
            "/alertmanagers" => (Endpoint::Alertmanagers, Get),
            "/alerts" => (Endpoint::Alerts, Get),
            "/rules" => (Endpoint::Rules, Get),
            "/status/config" => (Endpoint::Config, Get),
            "/status/runtimeinfo" => (Endpoint::Runtimeinfo, Get),
            "/status/buildinfo" => (Endpoint::Buildinfo, Get),
            "/status/flags" => (Endpoint::Flags, Get),
            "/status/tsdb" => (Endpoint::Tsdb, Get),
            "/features" => (Endpoint::Features, Get),
            "/status/walreplay" => (Endpoint::Walreplay, Get),
            "/status/cost" => (Endpoint::Cost, Get),
            "/status/profile" => (Endpoint::Profile, Get),
            "/notifications" => (Endpoint::Notifications, Get),
            "/targets/relabel_steps" => (Endpoint::NotYet("showing the steps of relabelling"), Get),
            "/status/tsdb/blocks" => (Endpoint::NotYet("listing the blocks"), Get),
            "/status/self_metrics" => (Endpoint::NotYet("the server's own metrics as JSON"), Get),
            "/write" => (Endpoint::NotYet("receiving remote write"), Post),
            "/read" => (Endpoint::NotYet("remote read"), Post),
            "/otlp/v1/metrics" => (Endpoint::NotYet("receiving OTLP"), Post),
            "/admin/tsdb/delete_series"
            | "/admin/tsdb/clean_tombstones"
            | "/admin/tsdb/snapshot" => (Endpoint::NotYet("admin APIs"), Post),
            _ => return None,
        };
        let own = |pattern: &&&str| pattern.strip_prefix("/api/v1") == Some(path);
        let pattern = PATTERNS.iter().find(own).copied();
        Some((endpoint, pattern.unwrap_or("/api/v1/other"), methods))
    }

    /// Whether it can be answered before the store is open.
    fn is_early(&self) -> bool {
        matches!(self, Endpoint::Walreplay | Endpoint::Notifications)
    }

    fn is_query(&self) -> bool {
        matches!(self, Endpoint::Query | Endpoint::QueryRange)
    }

    /// Whether it may look at all series.
    fn is_look(&self) -> bool {
        use Endpoint::{LabelValues, Labels, QueryExemplars, Series};
        matches!(self, Labels | LabelValues(_) | Series | QueryExemplars)
    }
}

/// The label `handler` of each endpoint; a closed list keeps the metrics' series few.
const PATTERNS: [&str; 25] = [
    "/api/v1/query",
    "/api/v1/query_range",
    "/api/v1/query_exemplars",
    "/api/v1/format_query",
    "/api/v1/parse_query",
    "/api/v1/labels",
    "/api/v1/series",
    "/api/v1/scrape_pools",
    "/api/v1/targets",
    "/api/v1/targets/metadata",
    "/api/v1/metadata",
    "/api/v1/alertmanagers",
    "/api/v1/alerts",
    "/api/v1/rules",
    "/api/v1/status/config",
    "/api/v1/status/runtimeinfo",
    "/api/v1/status/buildinfo",
    "/api/v1/status/flags",
    "/api/v1/status/tsdb",
    "/api/v1/features",
    "/api/v1/status/walreplay",
    "/api/v1/status/cost",
    "/api/v1/status/profile",
    "/api/v1/notifications",
    "/api/v1/label/:name/values",
];

/// How an endpoint may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Methods {
    Get,
    GetPost,
    Post,
}

impl Methods {
    fn allow(self, method: &Method) -> bool {
        match self {
            Methods::Get => method == Method::GET,
            Methods::GetPost => method == Method::GET || method == Method::POST,
            Methods::Post => method == Method::POST || method == Method::PUT,
        }
    }
}

/// Answers requests under `/api/v1`.
pub(crate) struct Api {
    app: Arc<App>,
    /// Queries that may run at once.
    queries: Arc<Semaphore>,
    /// Other looks into the store that may run at once.
    looks: Arc<Semaphore>,
    /// Profiles that may be collected at once.
    profiles: Arc<Semaphore>,
}

/// A request whose body has been read.
pub(crate) struct Call<'a> {
    pub(crate) method: &'a Method,
    /// Behind `/api/v1`.
    pub(crate) path: &'a str,
    pub(crate) query: Option<&'a str>,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: Bytes,
}

impl Api {
    pub(crate) fn new(app: Arc<App>) -> Self {
        let queries = Arc::new(Semaphore::new(app.options.query_concurrency.max(1)));
        let looks = Arc::new(Semaphore::new(LOOKS));
        let profiles = Arc::new(Semaphore::new(cost::PROFILES));
        Api { app, queries, looks, profiles }
    }

    /// The answer, and the label `handler` of the request's metrics.
    pub(crate) async fn answer(&self, call: Call<'_>) -> (Response<Body>, &'static str) {
        if call.method == Method::OPTIONS {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            self.allow_origin(call.headers, &mut response);
            return (response, "/api/v1/*path");
        }
        let Some((endpoint, handler, methods)) = Endpoint::find(call.path) else {
            return (crate::web::not_found(), "/api/v1/*path");
        };
        if !methods.allow(call.method) {
            return (crate::web::method_not_allowed(), handler);
        }
        let mut response = if endpoint.is_early() || self.app.is_ready() {
            self.respond(&endpoint, &call).await
        } else {
            crate::web::unavailable(&self.app)
        };
        self.allow_origin(call.headers, &mut response);
        (response, handler)
    }

    async fn respond(&self, endpoint: &Endpoint, call: &Call<'_>) -> Response<Body> {
        let form = Form::new(call.query, &call.body);
        let gzip = accepts_gzip(call.headers);
        if endpoint.is_query() {
            return self.respond_to_query(endpoint.clone(), form, gzip).await;
        }
        if endpoint.is_look() {
            return self.respond_to_look(endpoint.clone(), form, gzip).await;
        }
        if *endpoint == Endpoint::Profile {
            return cost::profile(&self.app, &self.profiles, &form, gzip).await;
        }
        let (app, endpoint) = (self.app.clone(), endpoint.clone());
        reply::run(gzip, move || light(&app, &endpoint, &form)).await
    }

    /// Waits for a turn, runs the query, and stops it when the client goes away. What the request says
    /// is read first: a mistake needs no turn, and the time that it grants covers the waiting, too.
    async fn respond_to_query(&self, endpoint: Endpoint, form: Form, gzip: bool) -> Response<Body> {
        let asked = Instant::now();
        let app = self.app.clone();
        let prepared = tokio::task::spawn_blocking(move || match endpoint {
            Endpoint::QueryRange => query::range(&app, &form),
            _ => query::instant(&app, &form),
        });
        let prepared = match prepared.await {
            Ok(Ok(prepared)) => prepared,
            Ok(Err(error)) => return error.response(),
            Err(_) => return reply::panicked(),
        };
        let deadline = prepared.deadline(&self.app, asked);
        let turn = match turn(&self.queries, deadline).await {
            Ok(turn) => turn,
            Err(error) => return error.response(),
        };
        let queued = asked.elapsed();
        let cancel = Cancel::default();
        let mut guard = CancelOnDrop(Some(cancel.clone()));
        let app = self.app.clone();
        let response = reply::run(gzip, move || {
            let _running = app.metrics.query_running();
            let answer = prepared.run(&app, &cancel, deadline, queued);
            // The turn ends with the evaluation: a slow reader of the answer keeps none.
            drop(turn);
            answer
        })
        .await;
        // The head is there: from now on the writer notices by itself when nobody listens.
        guard.disarm();
        response
    }

    /// Waits for a turn, and looks for series, labels or exemplars.
    async fn respond_to_look(&self, endpoint: Endpoint, form: Form, gzip: bool) -> Response<Body> {
        let is_exemplars = endpoint == Endpoint::QueryExemplars;
        let app = self.app.clone();
        let mut response = self
            .look(gzip, ApiError::response, move |bound| match &endpoint {
                Endpoint::Labels => series::names(&app, &form, bound),
                Endpoint::LabelValues(name) => series::values(&app, &form, name, bound),
                Endpoint::QueryExemplars => query::exemplars(&app, &form, bound)
                    .map(|found| found.unwrap_or_else(|| Answer::json(|_| {}))),
                _ => series::series(&app, &form, bound),
            })
            .await;
        // A query without selectors has no content, as in Prometheus.
        if is_exemplars && hyper::body::Body::size_hint(response.body()).exact() == Some(0) {
            *response.status_mut() = StatusCode::NO_CONTENT;
            response.headers_mut().remove(header::CONTENT_TYPE);
        }
        response
    }

    /// Runs a look into the store: one of a few at once, for as long as a query may take, and no longer
    /// than its client waits.
    async fn look(
        &self,
        gzip: bool,
        failure: fn(&ApiError) -> Response<Body>,
        job: impl FnOnce(&Bound) -> Result<Answer, ApiError> + Send + 'static,
    ) -> Response<Body> {
        let asked = Instant::now();
        let deadline = asked.checked_add(self.app.options.query_timeout).unwrap_or(asked + YEAR);
        let turn = match turn(&self.looks, deadline).await {
            Ok(turn) => turn,
            Err(error) => return failure(&error),
        };
        let bound = Bound { deadline, cancel: Cancel::default() };
        let mut guard = CancelOnDrop(Some(bound.cancel.clone()));
        let response = reply::run_or(gzip, failure, move || {
            let answer = bound.check().and_then(|()| job(&bound));
            drop(turn);
            answer
        })
        .await;
        guard.disarm();
        response
    }

    /// What pages of other origins may do with the answer.
    fn allow_origin(&self, headers: &HeaderMap, response: &mut Response<Body>) {
        let answer = response.headers_mut();
        answer.append(header::VARY, HeaderValue::from_static("Origin"));
        let Some(origin) = headers.get(header::ORIGIN) else { return };
        for (name, value) in [
            (header::ACCESS_CONTROL_ALLOW_HEADERS, "Accept, Authorization, Content-Type, Origin"),
            (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, OPTIONS"),
            (header::ACCESS_CONTROL_EXPOSE_HEADERS, "Date"),
        ] {
            answer.insert(name, HeaderValue::from_static(value));
        }
        let allowed = &self.app.options.cors_origin;
        if origin.to_str().is_ok_and(|origin| allowed.is_match(origin)) {
            answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        }
    }

    /// `/federate`, which stands outside of `/api/v1`.
    pub(crate) async fn federate(&self, call: &Call<'_>) -> Response<Body> {
        let form = Form::new(call.query, &call.body);
        let accept = call.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
        let negotiated = wire::exposition::negotiate::negotiate(accept);
        let app = self.app.clone();
        self.look(accepts_gzip(call.headers), federate::failure, move |bound| {
            federate::federate(&app, &form, negotiated, bound)
        })
        .await
    }
}

/// Looks at series, labels and exemplars that may run at once; others wait.
pub(crate) const LOOKS: usize = 8;

/// As good as never.
pub(crate) const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// Waits for a turn, until `deadline`.
async fn turn(turns: &Arc<Semaphore>, deadline: Instant) -> Result<OwnedSemaphorePermit, ApiError> {
    let wait = turns.clone().acquire_owned();
    match tokio::time::timeout_at(deadline.into(), wait).await {
        Ok(Ok(turn)) => Ok(turn),
        Ok(Err(_)) | Err(_) => {
            Err(ApiError::new(ErrorKind::Timeout, "query timed out in query queue"))
        }
    }
}

/// Stops a query whose client has gone.
struct CancelOnDrop(Option<Cancel>);

impl CancelOnDrop {
    fn disarm(&mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(cancel) = &self.0 {
            cancel.cancel();
        }
    }
}

/// Everything but looks into the store.
fn light(app: &Arc<App>, endpoint: &Endpoint, form: &Form) -> Result<Answer, ApiError> {
    Ok(match endpoint {
        Endpoint::FormatQuery => query::format(app, form)?,
        Endpoint::ParseQuery => query::tree(app, form)?,
        Endpoint::ScrapePools => targets::pools(app),
        Endpoint::Targets => targets::targets(app, form),
        Endpoint::TargetsMetadata => targets::target_metadata(app, form)?,
        Endpoint::Metadata => targets::metric_metadata(app, form)?,
        Endpoint::Alertmanagers => rules::alertmanagers(),
        Endpoint::Alerts => rules::alerts(),
        Endpoint::Rules => rules::rules(form)?,
        Endpoint::Config => status::config(app),
        Endpoint::Runtimeinfo => status::runtimeinfo(app),
        Endpoint::Buildinfo => status::buildinfo(),
        Endpoint::Flags => status::flags(app),
        Endpoint::Tsdb => status::tsdb(app, form)?,
        Endpoint::Features => status::features(app),
        Endpoint::Walreplay => status::walreplay(),
        Endpoint::Cost => cost::cost(app),
        Endpoint::Notifications => answer::success(|out| out.text("[]")),
        Endpoint::NotYet(what) => {
            let message = format!("{what}: not supported yet");
            return Err(ApiError::new(ErrorKind::NotFound, message));
        }
        Endpoint::Query
        | Endpoint::QueryRange
        | Endpoint::QueryExemplars
        | Endpoint::Labels
        | Endpoint::LabelValues(_)
        | Endpoint::Series
        | Endpoint::Profile => unreachable!("what looks into the store has a way of its own"),
    })
}

/// How long the last chunks of answers may take when the server goes down.
pub(crate) const DRAIN: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_endpoint_has_a_pattern() {
        for pattern in PATTERNS {
            let path = pattern.strip_prefix("/api/v1").unwrap().replace(":name", "a%2Fb");
            if path.contains("a%2Fb") {
                continue;
            }
            let (_, found, _) = Endpoint::find(&path).expect(pattern);
            assert_eq!(found, pattern);
        }
        let (endpoint, _, _) = Endpoint::find("/label/a.b/values").unwrap();
        assert_eq!(endpoint, Endpoint::LabelValues("a.b".to_owned()));
        assert!(Endpoint::find("/nope").is_none());
    }
}
