//! What all requests share: the store, the engine, the configuration that runs, the state of life.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use profiler::serve::Pprof;
use promql::Engine;
use store::Db;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::api::{ApiError, ErrorKind};
use crate::cli::ServeOptions;
use crate::config::Loaded;
use crate::metrics::Metrics;
use crate::profiling::Profiles;
use crate::scrape;

/// Shared by all requests.
pub(crate) struct App {
    pub(crate) options: ServeOptions,
    pub(crate) engine: ArcSwap<Engine>,
    pub(crate) metrics: Metrics,
    pub(crate) pprof: Pprof,
    pub(crate) profiles: Profiles,
    /// The configuration that runs.
    pub(crate) running: ArcSwap<Running>,
    /// Milliseconds since the epoch.
    pub(crate) started_ms: i64,
    pub(crate) commands: mpsc::Sender<Command>,
    db: OnceLock<Arc<Db>>,
    scraper: OnceLock<Arc<scrape::Manager>>,
    life: AtomicU8,
    stopping: Notify,
}

/// The configuration that runs, and how the last reload went.
#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) last_reload_worked: bool,
    /// When a configuration was last taken up, in milliseconds since the epoch.
    pub(crate) last_success_ms: i64,
}

/// What a request can ask of the server as a whole.
pub(crate) enum Command {
    /// Read the configuration again; the answer says what is wrong with it.
    Reload(oneshot::Sender<Result<(), String>>),
    /// End.
    Quit,
}

/// Where the server is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// The store is being opened.
    Starting,
    /// Requests are answered.
    Ready,
    /// It is on its way down.
    Stopping,
}

impl App {
    pub(crate) fn new(
        options: ServeOptions,
        engine: Engine,
        metrics: Metrics,
        (pprof, profiles): (Pprof, Profiles),
        running: Running,
        commands: mpsc::Sender<Command>,
    ) -> Self {
        App {
            options,
            engine: ArcSwap::from_pointee(engine),
            metrics,
            pprof,
            profiles,
            running: ArcSwap::from_pointee(running),
            started_ms: now_ms(),
            commands,
            db: OnceLock::new(),
            scraper: OnceLock::new(),
            life: AtomicU8::new(Life::Starting as u8),
            stopping: Notify::new(),
        }
    }

    /// Makes the server ready.
    pub(crate) fn open(&self, db: Arc<Db>, scraper: Arc<scrape::Manager>) {
        let _ = self.db.set(db);
        let _ = self.scraper.set(scraper);
        self.set_life(Life::Ready);
    }

    pub(crate) fn set_life(&self, life: Life) {
        self.life.store(life as u8, Ordering::Release);
        if life == Life::Stopping {
            self.stopping.notify_waiters();
        }
    }

    pub(crate) fn life(&self) -> Life {
        match self.life.load(Ordering::Acquire) {
            0 => Life::Starting,
            1 => Life::Ready,
            _ => Life::Stopping,
        }
    }

    /// Waits until the server is on its way down.
    pub(crate) async fn stopping(&self) {
        let stopping = self.stopping.notified();
        if self.life() != Life::Stopping {
            stopping.await;
        }
    }

    /// Whether requests are answered.
    pub(crate) fn is_ready(&self) -> bool {
        self.life() == Life::Ready
    }

    /// The store.
    ///
    /// # Errors
    /// It is not open yet.
    pub(crate) fn db(&self) -> Result<&Arc<Db>, ApiError> {
        self.db.get().ok_or_else(|| ApiError::new(ErrorKind::Unavailable, "TSDB not ready"))
    }

    /// What scraping looks like now; nothing before the start is through.
    pub(crate) fn targets(&self) -> scrape::Status {
        self.scraper.get().map(|scraper| scraper.status()).unwrap_or_default()
    }

    /// What scraping holds in memory now.
    pub(crate) fn held(&self) -> scrape::Held {
        self.scraper.get().map(|scraper| scraper.held()).unwrap_or_default()
    }

    /// How long samples are kept with a configuration; none at all means for ever.
    pub(crate) fn retention(&self, loaded: &Loaded) -> Duration {
        loaded.config.storage.retention_time.unwrap_or(self.options.retention)
    }

    pub(crate) fn now_ms(&self) -> i64 {
        now_ms()
    }
}

/// Milliseconds since the epoch.
pub(crate) fn now_ms() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
    }
}
