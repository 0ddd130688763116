//! `/status/cost` and `/status/profile`: what the server costs, and where that goes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Response;
use tokio::sync::Semaphore;

use super::answer::success;
use super::error::{ApiError, ErrorKind};
use super::form::{Form, parse_whole};
use super::json::{self, Sink};
use super::reply::{self, Answer, Out};
use super::{YEAR, turn};
use crate::app::App;
use crate::cost::{self, Collection, Costs, Kind, LONGEST, Process, Request, Tree};
use crate::scrape::Cost;
use crate::time;
use crate::web::Body;

/// Profiles that may be collected at once; others wait.
pub(super) const PROFILES: usize = 4;

/// Nodes of a tree that are sent, at most.
const MOST_NODES: usize = 10_000;

/// `/status/cost`
pub(super) fn cost(app: &App) -> Answer {
    let costs = cost::gather(app);
    let since = time::rfc3339(Some(app.started_ms));
    let uptime_ms = app.now_ms().saturating_sub(app.started_ms).max(0);
    success(move |out| {
        out.text("{");
        field(out, "since");
        json::string(out, &since);
        float(out, ",uptime_seconds", uptime_ms as f64 / 1000.0);
        out.text(",\"samples\":{");
        whole(out, "ingested", costs.samples);
        float(out, ",per_second", costs.samples_per_second);
        out.text("},");
        process(out, &costs.process);
        sums(out, &costs);
        out.text("}");
    })
}

fn process(out: &mut Out, process: &Process) {
    out.text("\"process\":{");
    float(out, "cpu_seconds", process.cpu.as_secs_f64());
    whole(out, ",rss_bytes", process.resident.all);
    whole(out, ",rss_anonymous_bytes", process.resident.anonymous);
    whole(out, ",rss_file_bytes", process.resident.file);
    whole(out, ",heap_allocated_bytes", process.allocated_bytes);
    whole(out, ",heap_allocations", process.allocations);
    whole(out, ",heap_in_use_bytes", process.in_use_bytes);
    whole(out, ",open_fds", process.open_files);
    out.text("}");
}

/// The lists.
fn sums(out: &mut Out, costs: &Costs) {
    out.text(",\"stages\":");
    json::list(out, &costs.stages, |out, stage| {
        text(out, "{", "stage", stage.name);
        float(out, ",cpu_seconds", stage.cpu.as_secs_f64());
        whole(out, ",allocations", stage.allocations);
        whole(out, ",allocated_bytes", stage.allocated_bytes);
        out.text("}");
    });
    out.text(",\"parts\":");
    json::list(out, &costs.parts, |out, part| {
        text(out, "{", "part", part.name);
        whole(out, ",bytes", part.bytes);
        whole(out, ",items", part.items);
        out.text("}");
    });
    out.text(",\"pools\":");
    json::list(out, &costs.pools, |out, pool| {
        text(out, "{", "pool", &pool.name);
        whole(out, ",targets", pool.targets as u64);
        scraping(out, &pool.cost, pool.held_bytes);
        out.text("}");
    });
    out.text(",\"targets\":");
    json::list(out, &costs.targets, |out, target| {
        text(out, "{", "pool", &target.pool);
        text(out, ",", "url", &target.url);
        out.text(",\"labels\":");
        json::labels(out, &target.labels);
        scraping(out, &target.cost, target.held_bytes);
        out.text("}");
    });
}

/// What scrapes cost.
fn scraping(out: &mut Out, cost: &Cost, held_bytes: u64) {
    whole(out, ",scrapes", cost.scrapes);
    whole(out, ",samples", cost.samples);
    float(out, ",cpu_seconds", cost.cpu_nanoseconds as f64 / 1e9);
    float(out, ",fetch_seconds", cost.fetch_nanoseconds as f64 / 1e9);
    whole(out, ",allocated_bytes", cost.allocated_bytes);
    whole(out, ",held_bytes", held_bytes);
    whole(out, ",body_bytes", cost.body_bytes);
    whole(out, ",transferred_bytes", cost.transferred_bytes);
}

/// `"name":`, behind a comma where the name begins with one.
fn field(out: &mut Out, name: &str) {
    let (comma, name) = match name.strip_prefix(',') {
        Some(name) => (",", name),
        None => ("", name),
    };
    out.text(comma);
    json::string(out, name);
    out.text(":");
}

fn text(out: &mut Out, before: &str, name: &str, value: &str) {
    out.text(before);
    field(out, name);
    json::string(out, value);
}

fn whole(out: &mut Out, name: &str, value: u64) {
    field(out, name);
    json::integer(out, i64::try_from(value).unwrap_or(i64::MAX));
}

fn float(out: &mut Out, name: &str, value: f64) {
    field(out, name);
    json::number(out, value);
}

/// `/status/profile`: waits for a turn, collects for as long as is asked for, then makes the tree on a thread
/// of queries. A client that goes away ends it where it waits; so does the end of the server, which
/// answers with what there is.
pub(super) async fn profile(
    app: &Arc<App>,
    turns: &Arc<Semaphore>,
    form: &Form,
    gzip: bool,
) -> Response<Body> {
    let request = match read(form) {
        Ok(request) => request,
        Err(error) => return error.response(),
    };
    let patience = app.options.query_timeout;
    let asked = Instant::now();
    let turn = match turn(turns, asked.checked_add(patience).unwrap_or(asked + YEAR)).await {
        Ok(turn) => turn,
        Err(error) => return error.response(),
    };
    let (kind, seconds) = (request.kind, request.seconds);
    let profiles = app.profiles.clone();
    let begun = tokio::task::spawn_blocking(move || {
        reply::in_stage("query", || Collection::begin(&profiles, request))
    });
    let collection = match begun.await {
        Ok(Ok(collection)) => collection,
        Ok(Err(reason)) => return ApiError::new(ErrorKind::NotFound, reason).response(),
        Err(_) => return reply::panicked(),
    };
    if let Some(seconds) = seconds {
        tokio::select! {
            () = tokio::time::sleep(seconds) => {}
            () = app.stopping() => {}
        }
    }
    let deadline = Instant::now().checked_add(patience).unwrap_or(asked + YEAR);
    reply::run(gzip, move || {
        let tree = collection.finish(MOST_NODES, deadline);
        drop(turn);
        Ok(success(move |out| write(out, kind, &tree)))
    })
    .await
}

fn read(form: &Form) -> Result<Request, ApiError> {
    let wanted = form.get("type");
    let kind = Kind::ALL.into_iter().find(|kind| kind.name() == wanted).ok_or_else(|| {
        let names = Kind::ALL.map(Kind::name).join(", ");
        ApiError::parameter("type", format!("{wanted:?} is none of {names}"))
    })?;
    let most = LONGEST.as_secs();
    let seconds = match form.get("seconds") {
        "" => 0,
        text => match parse_whole(text).map(u64::try_from) {
            Ok(Ok(seconds)) if seconds <= most => seconds,
            _ => {
                let reason = format!("{text:?} is no whole number from 0 to {most}");
                return Err(ApiError::parameter("seconds", reason));
            }
        },
    };
    let stage = Some(form.get("stage")).filter(|stage| !stage.is_empty()).map(str::to_owned);
    let seconds = Some(Duration::from_secs(seconds)).filter(|seconds| !seconds.is_zero());
    Ok(Request { kind, stage, seconds })
}

/// `{"type":…,"unit":…,"total":…,"names":[…],"nodes":[[name,own,total,parent],…]}`
fn write(out: &mut Out, kind: Kind, tree: &Tree) {
    text(out, "{", "type", kind.name());
    text(out, ",", "unit", kind.unit());
    whole(out, ",total", tree.nodes.first().map_or(0, |root| root.total));
    out.text(",\"names\":");
    json::strings(out, &tree.names);
    out.text(",\"nodes\":");
    json::list(out, &tree.nodes, |out, node| {
        let parent = node.parent.map_or(-1, i64::from);
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let fields = [i64::from(node.name), number(node.own), number(node.total), parent];
        json::list(out, fields, json::integer);
    });
    out.put(b"}");
}
