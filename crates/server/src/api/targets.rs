//! Targets: which there are, how they do, and what they say about their metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use url::Url;

use super::answer::success;
use super::error::ApiError;
use super::form::Form;
use super::json;
use super::reply::{Answer, Out};
use crate::app::App;
use crate::scrape::{Metadata, TargetStatus};
use crate::time;

/// `/scrape_pools`
pub(super) fn pools(app: &App) -> Answer {
    let pools: Vec<_> = app.targets().pools.into_keys().collect();
    success(move |out| {
        out.text("{\"scrapePools\":");
        json::strings(out, &pools);
        out.text("}");
    })
}

/// `/targets`
pub(super) fn targets(app: &App, form: &Form) -> Answer {
    let pool = form.get("scrapePool").to_owned();
    let state = form.get("state").to_lowercase();
    let show = |wanted: &str| matches!(state.as_str(), "" | "any") || state == wanted;
    let (active, dropped) = (show("active"), show("dropped"));
    let status = app.targets();
    let own = app.options.clone();
    success(move |out| {
        let chosen = || status.pools.iter().filter(|(name, _)| pool.is_empty() || **name == pool);
        out.text("{\"activeTargets\":");
        let targets = chosen().filter(|_| active).flat_map(|(_, pool)| &pool.active);
        json::list(out, targets, |out, target| {
            write_target(out, target, &global_url(&target.scrape_url, &own));
        });
        out.text(",\"droppedTargets\":");
        let targets = chosen().filter(|_| dropped).flat_map(|(_, pool)| &pool.dropped);
        json::list(out, targets, |out, target| {
            out.text("{\"discoveredLabels\":");
            json::labels(out, &target.discovered_labels);
            out.text(",\"scrapePool\":");
            json::string(out, &target.scrape_pool);
            out.text("}");
        });
        out.text(",\"droppedTargetCounts\":");
        if dropped {
            out.text("{");
            for (index, (name, pool)) in status.pools.iter().enumerate() {
                out.text(if index > 0 { "," } else { "" });
                json::string(out, name);
                out.text(":");
                json::integer(out, pool.dropped_count as i64);
            }
            out.text("}");
        } else {
            out.text("null");
        }
        out.text("}");
    })
}

fn write_target(out: &mut Out, target: &TargetStatus, global_url: &str) {
    out.text("{\"discoveredLabels\":");
    json::labels(out, &target.discovered_labels);
    out.text(",\"labels\":");
    json::labels(out, &target.labels);
    for (name, text) in [
        ("scrapePool", &*target.scrape_pool),
        ("scrapeUrl", &*target.scrape_url),
        ("globalUrl", global_url),
        ("lastError", target.last_error.as_deref().unwrap_or_default()),
        ("lastScrape", &time::rfc3339(target.last_scrape_ms)),
    ] {
        field(out, name);
        json::string(out, text);
    }
    field(out, "lastScrapeDuration");
    json::number(out, target.last_scrape_duration.as_secs_f64());
    for (name, text) in [
        ("health", target.health.as_str()),
        ("scrapeInterval", &*target.scrape_interval),
        ("scrapeTimeout", &*target.scrape_timeout),
    ] {
        field(out, name);
        json::string(out, text);
    }
    // What Prometheus does not tell: the sizes of the last scrape.
    for (name, count) in [
        ("lastScrapeSamples", target.samples_scraped),
        ("lastScrapeSamplesPostRelabel", target.samples_post_relabel),
        ("lastScrapeBodyBytes", target.body_bytes),
        ("lastScrapeTransferredBytes", target.transferred_bytes),
    ] {
        field(out, name);
        json::integer(out, i64::try_from(count).unwrap_or(i64::MAX));
    }
    out.text("}");
}

fn field(out: &mut Out, name: &str) {
    out.text(",\"");
    out.text(name);
    out.text("\":");
}

/// The address of a target as others reach it: `localhost` is our host, and our own port what our
/// external address says.
fn global_url(scrape_url: &str, options: &crate::cli::ServeOptions) -> String {
    let Ok(mut url) = Url::parse(scrape_url) else { return scrape_url.to_owned() };
    let local = match url.host_str() {
        Some("localhost" | "127.0.0.1" | "[::1]") => true,
        Some(host) => host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback() && ip.is_ipv6()),
        None => false,
    };
    if !local {
        return scrape_url.to_owned();
    }
    let external = &options.external_url;
    let own_port = options.listen_addresses.first().and_then(|address| {
        address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok())
    });
    let port = url.port();
    let is_own = url.port_or_known_default() == own_port;
    let _ = url.set_host(external.host_str());
    if is_own {
        let _ = url.set_scheme(external.scheme());
        let _ = url.set_port(external.port());
    } else {
        let _ = url.set_port(port);
    }
    url.to_string()
}

/// `/targets/metadata`
pub(super) fn target_metadata(app: &App, form: &Form) -> Result<Answer, ApiError> {
    let limit = number(form, "limit")?;
    let matchers = match form.get("match_target") {
        "" => Vec::new(),
        text => promql::parse_selector(text)
            .map_err(|error| ApiError::parameter("match_target", error))?,
    };
    let metric = form.get("metric").to_owned();
    let status = app.targets();
    Ok(success(move |out| {
        let mut written = 0;
        out.text("[");
        for target in status.pools.values().flat_map(|pool| &pool.active) {
            // As Prometheus: the limit is looked at between targets.
            if limit.is_some_and(|limit| written >= limit) {
                break;
            }
            let labels = &target.labels;
            let matches = |m: &store::Matcher| m.matches(labels.get(m.name()).unwrap_or_default());
            if !matchers.iter().all(matches) {
                continue;
            }
            let all = if metric.is_empty() {
                target.metadata()
            } else {
                target.metadata_of(&metric).into_iter().collect()
            };
            for entry in all {
                out.text(if written > 0 { ",{\"target\":" } else { "{\"target\":" });
                written += 1;
                json::labels(out, labels);
                if metric.is_empty() {
                    field(out, "metric");
                    json::string(out, &entry.family);
                }
                out.text(",");
                write_metadata(out, &entry);
                out.text("}");
            }
        }
        out.text("]");
    }))
}

/// `/metadata`
pub(super) fn metric_metadata(app: &App, form: &Form) -> Result<Answer, ApiError> {
    let limit = number(form, "limit")?.unwrap_or(usize::MAX);
    let per_metric = number(form, "limit_per_metric")?.filter(|&limit| limit > 0);
    let metric = form.get("metric");
    let mut found: BTreeMap<String, BTreeSet<(String, String, String)>> = BTreeMap::new();
    let status = app.targets();
    for target in status.pools.values().flat_map(|pool| &pool.active) {
        let all = if metric.is_empty() {
            target.metadata()
        } else {
            target.metadata_of(metric).into_iter().collect()
        };
        for entry in all {
            let texts = found.entry(entry.family.to_string()).or_default();
            if per_metric.is_none_or(|limit| texts.len() < limit) {
                texts.insert((
                    entry.kind.name().to_owned(),
                    entry.help.to_string(),
                    entry.unit.to_string(),
                ));
            }
        }
    }
    Ok(success(move |out| {
        out.text("{");
        for (index, (name, texts)) in found.iter().take(limit).enumerate() {
            out.text(if index > 0 { "," } else { "" });
            json::string(out, name);
            out.text(":");
            json::list(out, texts, |out, (kind, help, unit)| {
                out.text("{\"type\":");
                json::string(out, kind);
                field(out, "unit");
                json::string(out, unit);
                field(out, "help");
                json::string(out, help);
                out.text("}");
            });
        }
        out.text("}");
    }))
}

fn write_metadata(out: &mut Out, entry: &Metadata) {
    out.text("\"type\":");
    json::string(out, entry.kind.name());
    field(out, "help");
    json::string(out, &entry.help);
    field(out, "unit");
    json::string(out, &entry.unit);
}

fn number(form: &Form, name: &str) -> Result<Option<usize>, ApiError> {
    match form.get(name) {
        "" => Ok(None),
        text => super::form::parse_whole(text)
            // Negative limits are none.
            .map(|limit| usize::try_from(limit).ok())
            .map_err(|_| ApiError::bad_data(format!("{name} must be a number"))),
    }
}
