//! `http_sd_configs`: a list of groups, fetched every so often.
//!
//! When it cannot be fetched, or is no list of groups, the last good one stays.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Context, Group, Published, with};
use crate::config::HttpDiscovery;
use crate::config::http_client::redacted_url;
use crate::http_client::{Client, Endpoint, Get, Session};
use crate::worker::stand_aside;

const URL: &str = "__meta_url";

/// One element of `http_sd_configs`.
pub(super) struct Poll {
    config: HttpDiscovery,
    client: Client,
    session: Session,
    headers: String,
    published: Arc<Published>,
    context: Context,
}

impl Poll {
    pub(super) fn new(
        config: &HttpDiscovery,
        client: Client,
        published: Arc<Published>,
        context: Context,
    ) -> Self {
        let headers = format!(
            "Accept: application/json\r\nAccept-Encoding: gzip, zstd\r\n\
             X-Prometheus-Refresh-Interval-Seconds: {}\r\n",
            config.refresh_interval.as_secs_f64()
        );
        let session = Session::default();
        Poll { config: config.clone(), client, session, headers, published, context }
    }

    pub(super) async fn run(mut self) {
        let mut ticks = tokio::time::interval(self.config.refresh_interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            match self.fetch().await {
                Ok(groups) => {
                    self.published.set_error(None);
                    self.context.publish(&self.published, groups);
                }
                Err(error) => {
                    self.context.counters.http_failures.fetch_add(1, Ordering::Relaxed);
                    let error = format!("{}: {error}", redacted_url(&self.config.url));
                    tracing::error!(job = %self.context.job, error, "Cannot fetch http_sd");
                    self.published.set_error(Some(error));
                }
            }
        }
    }

    async fn fetch(&mut self) -> Result<Vec<Group>, String> {
        let endpoint = Endpoint::from_url(&self.config.url).map_err(|error| error.to_string())?;
        let get = Get {
            url: &self.config.url,
            endpoint: &endpoint,
            headers: &self.headers,
            body_limit: None,
            timeout: self.config.refresh_interval,
        };
        let answer = self
            .session
            .get(&self.client, &self.context.buffers, get)
            .await
            .map_err(|error| error.to_string())?;
        if answer.status != 200 {
            return Err(format!("server returned HTTP status {}", self.session.status_line()));
        }
        let content_type = self.session.content_type();
        if !is_json(content_type) {
            return Err(format!("unsupported content type {content_type:?}, not application/json"));
        }
        // Thousands of targets take milliseconds.
        stand_aside(|| {
            let mut groups = Group::read_json(answer.body())?;
            let url = self.config.url.as_str();
            for group in &mut groups {
                group.labels = with(&group.labels, URL, url);
            }
            Ok(groups)
        })
    }
}

/// `application/json`, alone or with the charset utf-8.
fn is_json(content_type: &str) -> bool {
    let (media_type, parameter) = match content_type.split_once(';') {
        Some((media_type, parameter)) => (media_type, Some(parameter.trim())),
        None => (content_type, None),
    };
    let charset = parameter.is_none_or(|parameter| {
        parameter.eq_ignore_ascii_case("charset=utf-8")
            || parameter.eq_ignore_ascii_case("charset=\"utf-8\"")
    });
    media_type.trim().eq_ignore_ascii_case("application/json") && charset
}
