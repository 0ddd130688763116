//! A target: from what was discovered to what is scraped, and how its scrapes go.

use std::hash::Hasher;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use store::Labels;
use url::Url;

use super::metadata::Families;
use super::status::{Cost, Health, TargetStatus};
use crate::config::ScrapeConfig;
use crate::duration;
use crate::http_client::Endpoint;
use crate::relabel::Scratch;

const ADDRESS: &str = "__address__";
const SCHEME: &str = "__scheme__";
const METRICS_PATH: &str = "__metrics_path__";
const INTERVAL: &str = "__scrape_interval__";
const TIMEOUT: &str = "__scrape_timeout__";
const PARAM_PREFIX: &str = "__param_";
const META_PREFIX: &str = "__meta_";
const NHCB: &str = "__convert_classic_histograms_to_nhcb__";
const CLASSIC: &str = "__always_scrape_classic_histograms__";
const NATIVE: &str = "__scrape_native_histograms__";

/// Something that is scraped.
pub(super) struct Target {
    /// All labels but those of discovery; with the URL, what the target is.
    labels: Labels,
    /// The labels that its series get.
    pub(super) public: Labels,
    pub(super) url: Url,
    /// The URL as Prometheus writes it.
    pub(super) shown_url: Arc<str>,
    pub(super) endpoint: Endpoint,
    pub(super) interval: Duration,
    pub(super) timeout: Duration,
    shown_interval: Arc<str>,
    shown_timeout: Arc<str>,
    pub(super) families: Arc<Families>,
    discovered: Mutex<Labels>,
    state: Mutex<State>,
}

/// How the last scrape went.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) health: Health,
    pub(super) last_error: Option<Arc<str>>,
    pub(super) last_scrape_ms: Option<i64>,
    pub(super) duration: Duration,
    pub(super) samples_scraped: u64,
    pub(super) samples_post_relabel: u64,
    pub(super) body_bytes: u64,
    pub(super) transferred_bytes: u64,
    pub(super) memory_bytes: u64,
    pub(super) cost: Cost,
}

/// What becomes of something discovered.
pub(super) enum Populated {
    Target(Box<Target>),
    Dropped(Labels),
}

impl Target {
    /// The labels before relabelling: the target's own, its group's, the job's defaults.
    fn discovered_labels(config: &ScrapeConfig, own: &Labels, group: &Labels) -> Labels {
        let mut labels = group.to_builder();
        for (name, value) in own {
            labels.set(name, value);
        }
        let flag = |on: bool| if on { "true" } else { "false" };
        let interval = duration::format(config.scrape_interval);
        let timeout = duration::format(config.scrape_timeout);
        let defaults = [
            ("job", config.job_name.as_str()),
            (INTERVAL, interval.as_str()),
            (TIMEOUT, timeout.as_str()),
            (METRICS_PATH, config.metrics_path.as_str()),
            (SCHEME, config.scheme.as_str()),
            (NHCB, flag(config.convert_classic_histograms_to_nhcb)),
            (CLASSIC, flag(config.always_scrape_classic_histograms)),
            (NATIVE, flag(config.scrape_native_histograms)),
        ];
        for (name, value) in defaults {
            if labels.get(name).is_none() {
                labels.set(name, value);
            }
        }
        for (name, values) in &config.params {
            let name = format!("{PARAM_PREFIX}{name}");
            if let Some(first) = values.first()
                && labels.get(&name).is_none()
            {
                labels.set(&name, first);
            }
        }
        labels.build()
    }

    /// Makes a target of what was discovered.
    ///
    /// # Errors
    /// After relabelling there is no address, or something else that cannot be scraped.
    pub(super) fn populate(
        config: &ScrapeConfig,
        own: &Labels,
        group: &Labels,
        scratch: &mut Scratch,
    ) -> Result<Populated, String> {
        let discovered = Self::discovered_labels(config, own, group);
        let mut set = scratch.start();
        set.lend_all(&discovered);
        if !set.apply(&config.relabel_configs) {
            return Ok(Populated::Dropped(discovered.clone()));
        }
        let address = set.get(ADDRESS).ok_or("no address")?.to_owned();
        if address.contains('/') {
            return Err(format!("{address:?} is not a valid hostname"));
        }
        let time = |name: &str, what: &str| -> Result<Duration, String> {
            let text = set.get(name).unwrap_or("");
            let time = duration::parse(text)
                .map_err(|error| format!("error parsing scrape {what}: {error}"))?;
            if time.is_zero() {
                return Err(format!("scrape {what} cannot be 0"));
            }
            Ok(time)
        };
        let (interval, timeout) = (time(INTERVAL, "interval")?, time(TIMEOUT, "timeout")?);
        if timeout > interval {
            return Err(format!(
                "scrape timeout cannot be greater than scrape interval ({:?} > {:?})",
                set.get(TIMEOUT).unwrap_or(""),
                set.get(INTERVAL).unwrap_or("")
            ));
        }
        for name in [NHCB, CLASSIC, NATIVE] {
            if let Some(value) = set.get(name)
                && !is_boolean(value)
            {
                return Err(format!("{name} is {value:?}, which is neither true nor false"));
            }
        }
        set.retain(|name, _| !name.starts_with(META_PREFIX));
        if set.get("instance").is_none() {
            set.set("instance", &address);
        }
        let labels = set.to_labels();
        drop(set);
        let target = Target::new(labels, discovered, &address, interval, timeout, config)?;
        Ok(Populated::Target(Box::new(target)))
    }

    fn new(
        labels: Labels,
        discovered: Labels,
        address: &str,
        interval: Duration,
        timeout: Duration,
        config: &ScrapeConfig,
    ) -> Result<Self, String> {
        let shown_url = shown_url(&labels, address, config);
        let url = Url::parse(&shown_url)
            .map_err(|error| format!("{shown_url:?} is not a URL: {error}"))?;
        let endpoint = Endpoint::from_url(&url).map_err(|error| error.to_string())?;
        let public = labels.iter().filter(|(name, _)| !name.starts_with("__"));
        Ok(Target {
            public: Labels::from_pairs(public),
            url,
            shown_url: shown_url.into(),
            endpoint,
            interval,
            timeout,
            shown_interval: labels.get(INTERVAL).unwrap_or("").into(),
            shown_timeout: labels.get(TIMEOUT).unwrap_or("").into(),
            families: Arc::default(),
            discovered: Mutex::new(discovered),
            state: Mutex::default(),
            labels,
        })
    }

    /// What tells targets apart: all labels but those of discovery, and the URL.
    pub(super) fn identity(&self) -> (Labels, Arc<str>) {
        (self.labels.clone(), self.shown_url.clone())
    }

    /// What decides when among others it gets its place in time: the same after a restart.
    pub(super) fn hash(&self) -> u64 {
        let mut hash = Fnv::default();
        hash.write(format!("{:016}", self.labels.hash64()).as_bytes());
        hash.write(self.shown_url.as_bytes());
        hash.finish()
    }

    pub(super) fn set_discovered(&self, labels: Labels) {
        *self.discovered.lock() = labels;
    }

    pub(super) fn discovered(&self) -> Labels {
        self.discovered.lock().clone()
    }

    /// Samples of its last scrape; 0 before the first.
    pub(super) fn samples(&self) -> u64 {
        self.state.lock().samples_scraped
    }

    /// Bytes of what is remembered of its lines.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.state.lock().memory_bytes
    }

    /// Notes how a scrape went. Steady: does not allocate while the error stays the same or there is
    /// none.
    pub(super) fn note(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
    }

    pub(super) fn status(&self, pool: &Arc<str>) -> TargetStatus {
        let state = self.state.lock().clone();
        TargetStatus {
            discovered_labels: self.discovered(),
            labels: self.public.clone(),
            scrape_pool: pool.clone(),
            scrape_url: self.shown_url.clone(),
            last_error: state.last_error,
            last_scrape_ms: state.last_scrape_ms,
            last_scrape_duration: state.duration,
            health: state.health,
            scrape_interval: self.shown_interval.clone(),
            scrape_timeout: self.shown_timeout.clone(),
            samples_scraped: state.samples_scraped,
            samples_post_relabel: state.samples_post_relabel,
            body_bytes: state.body_bytes,
            transferred_bytes: state.transferred_bytes,
            memory_bytes: state.memory_bytes,
            cost: state.cost,
            families: self.families.clone(),
        }
    }
}

fn is_boolean(text: &str) -> bool {
    const WORDS: [&str; 12] =
        ["1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"];
    WORDS.contains(&text)
}

/// `scheme://address/path?query`, escaped as Go escapes it.
fn shown_url(labels: &Labels, address: &str, config: &ScrapeConfig) -> String {
    let path = labels.get(METRICS_PATH).unwrap_or("");
    let mut url = format!("{}://{address}", labels.get(SCHEME).unwrap_or(""));
    if !path.is_empty() && !path.starts_with('/') {
        url.push('/');
    }
    escape(path, &mut url, |b| b"$&+,/:;=@".contains(&b), false);
    let mut params = config.params.clone();
    for (name, value) in labels {
        if let Some(name) = name.strip_prefix(PARAM_PREFIX) {
            let values = params.entry(name.to_owned()).or_default();
            match values.first_mut() {
                Some(first) => value.clone_into(first),
                None => values.push(value.to_owned()),
            }
        }
    }
    let mut separator = '?';
    for (name, values) in &params {
        for value in values {
            url.push(separator);
            escape(name, &mut url, |_| false, true);
            url.push('=');
            escape(value, &mut url, |_| false, true);
            separator = '&';
        }
    }
    url
}

fn escape(text: &str, url: &mut String, also: impl Fn(u8) -> bool, query: bool) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || also(byte) {
            url.push(byte as char);
        } else if byte == b' ' && query {
            url.push('+');
        } else {
            url.push_str(&format!("%{byte:02X}"));
        }
    }
}

/// FNV-1a with 64 bits, which Prometheus hashes targets and servers with.
pub(super) struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
