//! The life of the server: start, reload, maintenance, end.
//!
//! 1. The configuration is read; a bad one ends the start with code 2.
//! 2. Sockets are bound and answer "not ready"; a taken address ends the start with code 1.
//! 3. The store is opened; then scraping starts, and requests are answered.
//! 4. Until a signal or a request says so: reloads, and the store's regular work.
//! 5. Scrapes stop, answers under way are finished, the store is synced.
//!
//! Scraping has a runtime of its own. Queries live on another one, whose threads they may fill.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use promql::Engine;
use store::Db;
use store::disk::Directory;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{MissedTickBehavior, interval};

use crate::api::DRAIN;
use crate::app::{App, Command, Life, Running, now_ms};
use crate::cli::ServeOptions;
use crate::config::{self, Loaded};
use crate::metrics::Metrics;
use crate::web::{self, Web};
use crate::{log, scrape};

/// From one round of the store's regular work to the next.
const MAINTENANCE: Duration = Duration::from_secs(5);

/// Threads for answers besides those of queries.
const OTHER_ANSWERS: usize = 16;

/// Why the server did not start, and the code to exit with.
struct Failed {
    message: String,
    code: u8,
}

impl Failed {
    #[cold]
    fn new(message: impl Into<String>) -> Self {
        Failed { message: message.into(), code: 1 }
    }
}

/// Runs the server until it is told to end.
pub fn run(options: ServeOptions) -> ExitCode {
    log::start(options.log_level, options.log_format);
    match start(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            for line in failed.message.lines() {
                tracing::error!("{line}");
            }
            ExitCode::from(failed.code)
        }
    }
}

fn start(options: ServeOptions) -> Result<(), Failed> {
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "Starting unladen");
    for warning in &options.warnings {
        tracing::warn!("{warning}");
    }
    let from_file = match &options.config_file {
        None => None,
        Some(path) => Some(load(path).map_err(|message| Failed { message, code: 2 })?),
    };
    let io = |error: std::io::Error| Failed::new(format!("cannot start threads: {error}"));
    let scraping = tokio::runtime::Builder::new_multi_thread()
        .thread_name("scrape")
        .enable_all()
        .build()
        .map_err(io)?;
    let answering = tokio::runtime::Builder::new_multi_thread()
        .thread_name("web")
        .max_blocking_threads(options.query_concurrency.saturating_add(OTHER_ANSWERS))
        .enable_all()
        .build()
        .map_err(io)?;
    let listeners = answering.block_on(bind(&options.listen_addresses)).map_err(Failed::new)?;
    let addresses: Vec<_> =
        listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();
    let loaded = match from_file {
        Some(loaded) => loaded,
        None => builtin(&options, addresses.first().map_or(9090, std::net::SocketAddr::port))?,
    };
    let (commands, receiver) = mpsc::channel(4);
    let app = Arc::new(app(options, loaded, commands)?);
    let (stop, stopped) = watch::channel(false);
    let web = Arc::new(Web::new(app.clone()));
    let serving = answering.spawn(web::serve(listeners, web, stopped, DRAIN));
    for address in &addresses {
        tracing::info!(%address, "Listening");
    }
    let outcome = scraping.block_on(live(&app, receiver));
    app.set_life(Life::Stopping);
    let _ = stop.send(true);
    // A panic in there is in the log.
    let _ = answering.block_on(serving);
    end(answering);
    end(scraping);
    tracing::info!("See you next time!");
    outcome
}

/// Gives threads that don't end by themselves a moment.
fn end(runtime: Runtime) {
    runtime.shutdown_timeout(Duration::from_secs(1));
}

async fn bind(addresses: &[String]) -> Result<Vec<tokio::net::TcpListener>, String> {
    let mut listeners = Vec::with_capacity(addresses.len());
    for address in addresses {
        let listener = web::bind(address).await;
        listeners.push(listener.map_err(|error| format!("{error}: is another server there?"))?);
    }
    Ok(listeners)
}

fn app(
    options: ServeOptions,
    loaded: Loaded,
    commands: mpsc::Sender<Command>,
) -> Result<App, Failed> {
    let internal = |error: &dyn std::fmt::Display| Failed::new(format!("internal: {error}"));
    let engine = engine(&options, &loaded).map_err(Failed::new)?;
    let metrics = Metrics::new(options.query_concurrency).map_err(|error| internal(&error))?;
    let now = now_ms();
    metrics.reloaded(true, now);
    let running =
        Running { loaded: Arc::new(loaded), last_reload_worked: true, last_success_ms: now };
    Ok(App::new(options, engine, metrics, running, commands))
}

fn engine(options: &ServeOptions, loaded: &Loaded) -> Result<Engine, String> {
    let milliseconds = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    Engine::new(promql::Options {
        max_samples: options.query_max_samples,
        timeout: options.query_timeout,
        lookback_delta: milliseconds(options.lookback_delta),
        default_evaluation_interval: milliseconds(loaded.config.global.evaluation_interval),
        delayed_name_removal: options.has_feature("promql-delayed-name-removal"),
        ..promql::Options::default()
    })
    .map_err(|error| error.to_string())
}

/// Reads a configuration that the server can run with.
fn load(path: &Path) -> Result<Loaded, String> {
    let loaded = config::load(path, &config::Options::default()).map_err(|errors| {
        format!("Error loading config (--config.file={}):\n{errors}", path.display())
    })?;
    runnable(loaded, path)
}

/// Refuses what would be ignored, and logs remarks.
fn runnable(loaded: Loaded, path: &Path) -> Result<Loaded, String> {
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    if loaded.unsupported.is_empty() {
        return Ok(loaded);
    }
    let mut message = format!(
        "{} asks for what doesn't work yet; leave it out, or stay with Prometheus for now:",
        path.display()
    );
    for notice in &loaded.unsupported {
        message.push('\n');
        message.push_str(&notice.to_string());
    }
    Err(message)
}

/// The configuration when none is given.
fn builtin(options: &ServeOptions, port: u16) -> Result<Loaded, Failed> {
    let address = match options.listen_addresses.first().map(String::as_str) {
        Some(given) => match given.rsplit_once(':').map_or("", |(host, _)| host) {
            "" | "0.0.0.0" | "[::]" => format!("localhost:{port}"),
            host => format!("{host}:{port}"),
        },
        None => format!("localhost:{port}"),
    };
    tracing::info!("No --config.file: watching this server and this machine");
    config::builtin(&address, &options.route_prefix)
        .map_err(|errors| Failed { message: errors.to_string(), code: 2 })
}

/// From the opened store to the end.
async fn live(app: &Arc<App>, commands: mpsc::Receiver<Command>) -> Result<(), Failed> {
    let signals = Signals::new()
        .map_err(|error| Failed::new(format!("cannot listen to signals: {error}")))?;
    let db = open(app).await?;
    let scraper = Arc::new(scrape::Manager::new(
        db.clone(),
        app.metrics.registry(),
        scrape::Options {
            sync_interval: app.options.discovery_interval,
            ..scrape::Options::default()
        },
    ));
    app.metrics.attach(app, &db).map_err(|error| Failed::new(format!("internal: {error}")))?;
    scraper
        .apply(&app.running.load().loaded.config)
        .map_err(|error| Failed { message: error.to_string(), code: 2 })?;
    app.open(db.clone(), scraper.clone());
    tracing::info!("Server is ready to receive web requests.");
    work(app, &db, &scraper, signals, commands).await;
    app.set_life(Life::Stopping);
    tracing::info!("Stopping: scrapes first, then what was appended is written down");
    scraper.shutdown().await;
    let synced = tokio::task::spawn_blocking(move || db.sync()).await;
    match synced {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Failed::new(format!("the last samples may be lost: {error}"))),
        Err(_) => Err(Failed::new("the last samples may be lost: the sync panicked")),
    }
}

async fn open(app: &Arc<App>) -> Result<Arc<Db>, Failed> {
    let options = &app.options;
    let loaded = app.running.load().loaded.clone();
    let milliseconds = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    let exemplars = options.has_feature("exemplar-storage");
    let store_options = store::Options {
        retention_ms: milliseconds(
            loaded.config.storage.retention_time.unwrap_or(options.retention),
        ),
        block_range_ms: milliseconds(options.block_duration),
        max_exemplars: match exemplars {
            true => usize::try_from(loaded.config.storage.max_exemplars).unwrap_or(usize::MAX),
            false => 0,
        },
        ..store::Options::default()
    };
    let path: PathBuf = options.storage_path.clone();
    let begun = Instant::now();
    let opened = tokio::task::spawn_blocking(move || {
        let failed = |error: &dyn std::fmt::Display| {
            Failed::new(format!("cannot open the data in {}: {error}", path.display()))
        };
        let directory = Directory::open(&path).map_err(|error| failed(&error))?;
        Db::open(Arc::new(directory), store_options, now_ms()).map_err(|error| failed(&error))
    })
    .await;
    let (db, recovery) =
        opened.map_err(|_| Failed::new("opening the data panicked")).and_then(|opened| opened)?;
    for damage in &recovery.damages {
        tracing::error!("damaged: {damage}");
    }
    if recovery.foreign_segments > 0 {
        tracing::warn!(
            segments = recovery.foreign_segments,
            "wal/ holds a write-ahead log of Prometheus, which is not read yet: its samples that are \
             in no block are not shown"
        );
    }
    app.metrics.opened(&recovery, begun.elapsed());
    tracing::info!(
        series = recovery.series,
        samples = recovery.samples,
        bytes = recovery.bytes,
        blocks = recovery.blocks,
        took = ?begun.elapsed(),
        "Store opened"
    );
    Ok(Arc::new(db))
}

struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Signals {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }
}

/// Reloads and maintains until the end is asked for.
async fn work(
    app: &Arc<App>,
    db: &Arc<Db>,
    scraper: &Arc<scrape::Manager>,
    mut signals: Signals,
    mut commands: mpsc::Receiver<Command>,
) {
    let mut maintenance = interval(MAINTENANCE);
    maintenance.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut look = interval(app.options.auto_reload.unwrap_or(Duration::from_secs(3600)));
    let mut seen = app.options.config_file.as_deref().and_then(content);
    let mut maintaining: Option<oneshot::Receiver<()>> = None;
    loop {
        tokio::select! {
            _ = signals.terminate.recv() => {
                tracing::warn!(signal = "SIGTERM", "Received an OS signal, exiting gracefully...");
                return;
            }
            _ = signals.interrupt.recv() => {
                tracing::warn!(signal = "SIGINT", "Received an OS signal, exiting gracefully...");
                return;
            }
            // Whoever asked by signal reads the log.
            _ = signals.hangup.recv() => { let _ = reload(app, scraper).await; }
            Some(command) = commands.recv() => match command {
                Command::Quit => {
                    tracing::warn!("Received termination request via web service, exiting gracefully...");
                    return;
                }
                Command::Reload(answer) => { let _ = answer.send(reload(app, scraper).await); }
            },
            _ = look.tick(), if app.options.auto_reload.is_some() => {
                let now = app.options.config_file.as_deref().and_then(content);
                if now.is_some() && now != seen {
                    seen = now;
                    let _ = reload(app, scraper).await;
                }
            }
            _ = maintenance.tick() => {
                // A round that takes longer than the interval is not joined by another one.
                let busy = maintaining.as_mut().is_some_and(|done| {
                    matches!(done.try_recv(), Err(oneshot::error::TryRecvError::Empty))
                });
                if !busy {
                    maintaining = Some(maintain(app, db));
                }
            }
        }
    }
}

/// What a configuration file holds, for noticing that it changed.
fn content(path: &Path) -> Option<Vec<u8>> {
    std::fs::read(path).ok()
}

/// Starts one round of the store's regular work.
fn maintain(app: &Arc<App>, db: &Arc<Db>) -> oneshot::Receiver<()> {
    let (sender, receiver) = oneshot::channel();
    let (app, db) = (app.clone(), db.clone());
    tokio::task::spawn_blocking(move || {
        match db.maintain(now_ms()) {
            Ok(done) => {
                if done.blocks_cut + done.blocks_deleted > 0 {
                    tracing::info!(
                        cut = done.blocks_cut,
                        deleted = done.blocks_deleted,
                        series_removed = done.series_removed,
                        segments_removed = done.segments_removed,
                        "Blocks changed"
                    );
                }
                app.metrics.maintained(&done);
            }
            Err(error) => {
                tracing::error!(%error, "the store's regular work failed and is tried again");
                app.metrics.maintenance_failed();
            }
        }
        let _ = sender.send(());
    });
    receiver
}

/// Takes up the configuration file as it is now; a bad one changes nothing.
async fn reload(app: &Arc<App>, scraper: &Arc<scrape::Manager>) -> Result<(), String> {
    let outcome = try_reload(app, scraper).await;
    let now = now_ms();
    app.metrics.reloaded(outcome.is_ok(), now);
    let before = app.running.load_full();
    match outcome {
        Ok(loaded) => {
            app.running.store(Arc::new(Running {
                loaded,
                last_reload_worked: true,
                last_success_ms: now,
            }));
            tracing::info!("Completed loading of configuration file");
            Ok(())
        }
        Err(reason) => {
            app.running.store(Arc::new(Running { last_reload_worked: false, ..(*before).clone() }));
            for line in reason.lines() {
                tracing::error!("{line}");
            }
            Err(reason)
        }
    }
}

async fn try_reload(app: &Arc<App>, scraper: &Arc<scrape::Manager>) -> Result<Arc<Loaded>, String> {
    let Some(path) = app.options.config_file.clone() else {
        // The built-in configuration never changes.
        return Ok(app.running.load().loaded.clone());
    };
    tracing::info!(file = %path.display(), "Loading configuration file");
    let loaded = tokio::task::spawn_blocking(move || load(&path))
        .await
        .map_err(|_| "reading the configuration panicked".to_owned())??;
    let before = app.running.load().loaded.config.global.evaluation_interval;
    let replaced = match loaded.config.global.evaluation_interval == before {
        true => None,
        false => Some(engine(&app.options, &loaded)?),
    };
    scraper.apply(&loaded.config).map_err(|error| error.to_string())?;
    if let Some(engine) = replaced {
        app.engine.store(Arc::new(engine));
    }
    Ok(Arc::new(loaded))
}

/// Checks configuration files and prints what there is to say, to standard output what is fine and
/// to standard error what is not.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "this is what the command is for")]
pub fn check_config(files: &[PathBuf]) -> ExitCode {
    let mut failed = false;
    for file in files {
        println!("Checking {}", file.display());
        match config::load(file, &config::Options::default()) {
            Ok(loaded) => {
                for notice in &loaded.warnings {
                    println!("  WARNING: {notice}");
                }
                for notice in &loaded.unsupported {
                    println!("  WARNING: {notice} (unladen serve refuses it)");
                }
                println!(" SUCCESS: {} is valid prometheus config file syntax\n", file.display());
            }
            Err(errors) => {
                failed = true;
                for line in errors.to_string().lines() {
                    eprintln!("  FAILED: {line}");
                }
                eprintln!();
            }
        }
    }
    ExitCode::from(u8::from(failed))
}
