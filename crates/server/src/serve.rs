//! The life of the server: start, reload, maintenance, end.
//!
//! 1. The configuration is read; a bad one ends the start with code 2.
//! 2. Sockets are bound and answer "not ready"; a taken address ends the start with code 1.
//! 3. The store is opened; then scraping starts, and requests are answered.
//! 4. Until a signal or a request says so: reloads, and the store's regular work on its own thread.
//! 5. Scrapes stop, answers under way are finished, the store is synced.
//!
//! Scraping has runtimes of its own, a thread each. Queries live on another one, whose threads they may fill.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use promql::Engine;
use store::Db;
use store::disk::Directory;
use tokio::runtime::{Handle, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::api::{DRAIN, YEAR};
use crate::app::{App, Command, Life, Running, now_ms};
use crate::cli::ServeOptions;
use crate::config::{self, Loaded};
use crate::metrics::Metrics;
use crate::web::{self, Web};
use crate::{log, profiling, scrape};

/// From one round of the store's regular work to the next.
const MAINTENANCE: Duration = Duration::from_secs(5);

/// How long a thread of the web's waits for the next answer to write.
const BLOCKING_KEEP_ALIVE: Duration = Duration::from_secs(150);

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
    raise_open_files();
    let from_file = match &options.config_file {
        None => None,
        Some(path) => Some(load(path).map_err(|message| Failed { message, code: 2 })?),
    };
    let io = |error: std::io::Error| Failed::new(format!("cannot start threads: {error}"));
    let scraping = scraping().map_err(io)?;
    let answering = tokio::runtime::Builder::new_multi_thread()
        .thread_name("web")
        .on_thread_start(|| profiling::spend_in("answer"))
        // A slow reader of an answer keeps a thread: one for each connection, and queries never wait.
        .max_blocking_threads(options.query_concurrency + options.max_connections)
        // Whoever is scraped every minute needs no new thread every minute.
        .thread_keep_alive(BLOCKING_KEEP_ALIVE)
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
    let mut serving = answering.spawn(web::serve(listeners, web, stopped, DRAIN));
    for address in &addresses {
        tracing::info!(%address, "Listening");
    }
    let workers = scraping.iter().map(|worker| worker.handle().clone()).collect();
    let outcome = scraping[0].block_on(live(&app, workers, receiver, &mut serving));
    app.set_life(Life::Stopping);
    let _ = stop.send(true);
    if !serving.is_finished() {
        // A panic in there is in the log.
        let _ = answering.block_on(serving);
    }
    end(scraping.into_iter().chain([answering]));
    tracing::info!("See you next time!");
    outcome
}

/// A worker for each processor: a thread with its own timers and connections ([`scrape::Options`]), and
/// others beside it only while it is busy with something long.
fn scraping() -> std::io::Result<Vec<Runtime>> {
    let worker = || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("scrape")
            .on_thread_start(|| profiling::spend_in("fetch"))
            .enable_all()
            .build()
    };
    (0..available_parallelism().map_or(1, usize::from)).map(|_| worker()).collect()
}

/// Takes as many file descriptors as the system allows: connections, targets and blocks need them, and
/// the soft limit is often 1,024 for the sake of programs that use `select`.
pub(crate) fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(
            %error,
            limit = limit.current.unwrap_or(u64::MAX),
            "cannot raise the limit of open files; connections or targets may run out of them"
        );
    }
}

/// Gives threads that don't end by themselves a moment: all of them together.
fn end(runtimes: impl Iterator<Item = Runtime>) {
    let until = Instant::now() + Duration::from_secs(1);
    for runtime in runtimes {
        runtime.shutdown_timeout(until.saturating_duration_since(Instant::now()));
    }
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
    let profiles = profiling::start(&options, metrics.registry());
    let running =
        Running { loaded: Arc::new(loaded), last_reload_worked: true, last_success_ms: now };
    Ok(App::new(options, engine, metrics, profiles, running, commands))
}

fn engine(options: &ServeOptions, loaded: &Loaded) -> Result<Engine, String> {
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
async fn live(
    app: &Arc<App>,
    workers: Vec<Handle>,
    commands: mpsc::Receiver<Command>,
    serving: &mut JoinHandle<()>,
) -> Result<(), Failed> {
    let mut signals = Signals::new()
        .map_err(|error| Failed::new(format!("cannot listen to signals: {error}")))?;
    let db = tokio::select! {
        opened = open(app) => opened?,
        signal = signals.end() => {
            // What is opened is as safe as when the process is killed: nothing was appended.
            tracing::warn!(signal, "Received an OS signal while the data was opened, exiting");
            return Ok(());
        }
    };
    let scraper = Arc::new(scrape::Manager::new(
        db.clone(),
        app.metrics.registry(),
        scrape::Options {
            sync_interval: app.options.discovery_interval,
            workers,
            ..scrape::Options::default()
        },
    ));
    app.metrics.attach(app, &db).map_err(|error| Failed::new(format!("internal: {error}")))?;
    scraper
        .apply(&app.running.load().loaded.config)
        .map_err(|error| Failed { message: error.to_string(), code: 2 })?;
    app.open(db.clone(), scraper.clone());
    tracing::info!("Server is ready to receive web requests.");
    let mut upkeep = Upkeep::start(app, &db)
        .map_err(|error| Failed::new(format!("cannot start threads: {error}")))?;
    let server = Server { app: app.clone(), db, scraper };
    let worked = tokio::select! {
        () = work(&server, signals, commands) => Ok(()),
        _ = serving => Err(Failed::new("no connections are taken any more, for the reason above")),
        _ = &mut upkeep.ended => {
            Err(Failed::new("the store's regular work ended, for the reason above"))
        }
    };
    app.set_life(Life::Stopping);
    tracing::info!("Stopping: scrapes first, then what was appended is written down");
    server.scraper.shutdown().await;
    worked.and(upkeep.end().await)
}

/// What runs, for reloads.
struct Server {
    app: Arc<App>,
    db: Arc<Db>,
    scraper: Arc<scrape::Manager>,
}

/// The store's regular work, on a thread of its own: no pool that others fill can make it wait, and
/// its rounds follow one another.
struct Upkeep {
    /// Dropped to end the work.
    stop: std::sync::mpsc::Sender<()>,
    /// How the last sync went.
    ended: oneshot::Receiver<Result<(), store::Error>>,
}

impl Upkeep {
    fn start(app: &Arc<App>, db: &Arc<Db>) -> std::io::Result<Self> {
        use std::sync::mpsc::{RecvTimeoutError, channel};
        let (stop, stopped) = channel::<()>();
        let (sender, ended) = oneshot::channel();
        let (app, db) = (app.clone(), db.clone());
        std::thread::Builder::new().name("upkeep".to_owned()).spawn(move || {
            let _stage = profiler::stage("upkeep");
            while stopped.recv_timeout(MAINTENANCE) == Err(RecvTimeoutError::Timeout) {
                maintain(&app, &db);
            }
            // Nobody listens only when the server fails anyway.
            let _ = sender.send(db.sync());
        })?;
        Ok(Upkeep { stop, ended })
    }

    /// Waits for the round under way, then for everything appended to be on disk.
    async fn end(self) -> Result<(), Failed> {
        let Upkeep { stop, ended } = self;
        drop(stop);
        match ended.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Failed::new(format!("the last samples may be lost: {error}"))),
            Err(_) => Err(Failed::new("the last samples may be lost: the sync panicked")),
        }
    }
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

async fn open(app: &Arc<App>) -> Result<Arc<Db>, Failed> {
    let options = &app.options;
    let loaded = app.running.load().loaded.clone();
    let exemplars = options.has_feature("exemplar-storage");
    let store_options = store::Options {
        retention_ms: milliseconds(app.retention(&loaded)),
        block_range_ms: milliseconds(options.block_duration),
        max_exemplars: match exemplars {
            true => usize::try_from(loaded.config.storage.max_exemplars).unwrap_or(usize::MAX),
            false => 0,
        },
        around_journal: |write| {
            let _stage = profiler::stage("journal");
            write();
        },
        ..store::Options::default()
    };
    let path: PathBuf = options.storage_path.clone();
    let begun = Instant::now();
    let opened = tokio::task::spawn_blocking(move || {
        let _stage = profiler::stage("open");
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

    /// Waits for a signal to end, and says which.
    async fn end(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Reloads until the end is asked for.
async fn work(server: &Server, mut signals: Signals, mut commands: mpsc::Receiver<Command>) {
    let Signals { hangup, terminate, interrupt } = &mut signals;
    let auto_reload = server.app.options.auto_reload;
    let mut look = interval(auto_reload.unwrap_or(YEAR));
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen = match auto_reload {
        Some(_) => server.fingerprint().await,
        None => None,
    };
    loop {
        tokio::select! {
            _ = terminate.recv() => {
                tracing::warn!(signal = "SIGTERM", "Received an OS signal, exiting gracefully...");
                return;
            }
            _ = interrupt.recv() => {
                tracing::warn!(signal = "SIGINT", "Received an OS signal, exiting gracefully...");
                return;
            }
            // Whoever asked by signal reads the log.
            _ = hangup.recv() => { let _ = server.reload().await; }
            Some(command) = commands.recv() => match command {
                Command::Quit => {
                    tracing::warn!("Received termination request via web service, exiting gracefully...");
                    return;
                }
                Command::Reload(answer) => { let _ = answer.send(server.reload().await); }
            },
            _ = look.tick(), if auto_reload.is_some() => {
                let now = server.fingerprint().await;
                // A reload that failed is tried again: what it lacked may be elsewhere.
                if now.is_some() && now != seen && server.reload().await.is_ok() {
                    // A file that was written since then differs at the next look. Only where other
                    // files are included than before, those have to be read once more.
                    let after = server.fingerprint().await;
                    seen = if same_files(&now, &after) { now } else { after };
                }
            }
        }
    }
}

/// What the files of a configuration hold, each as a hash; a missing one has none.
type Fingerprint = Vec<(PathBuf, Option<u64>)>;

fn same_files(one: &Option<Fingerprint>, other: &Option<Fingerprint>) -> bool {
    let names = |print: &Option<Fingerprint>| -> Option<Vec<PathBuf>> {
        print.as_ref().map(|files| files.iter().map(|(path, _)| path.clone()).collect())
    };
    names(one) == names(other)
}

fn fingerprint(files: &[PathBuf]) -> Fingerprint {
    use std::hash::BuildHasher;
    let hasher = foldhash::quality::FixedState::with_seed(0);
    let hash = |path: &PathBuf| std::fs::read(path).ok().map(|bytes| hasher.hash_one(bytes));
    files.iter().map(|path| (path.clone(), hash(path))).collect()
}

/// Damaged places that a round of the store's work tells one by one in the log.
const DAMAGES_LOGGED: usize = 10;

/// One round of the store's regular work.
fn maintain(app: &App, db: &Db) {
    let done = db.maintain(now_ms()).unwrap_or_else(|unfinished| {
        let store::Unfinished { done, error } = *unfinished;
        tracing::error!(%error, "the store's regular work failed and is tried again");
        app.metrics.maintenance_failed();
        done
    });
    if done.blocks_cut + done.blocks_deleted > 0 {
        tracing::info!(
            cut = done.blocks_cut,
            deleted = done.blocks_deleted,
            series_removed = done.series_removed,
            segments_removed = done.segments_removed,
            "Blocks changed"
        );
    }
    for damage in done.damages.iter().take(DAMAGES_LOGGED) {
        tracing::error!("{damage}");
    }
    if done.damaged > DAMAGES_LOGGED as u64 {
        tracing::error!(damaged = done.damaged, "More of the store is damaged than is told here");
    }
    app.metrics.maintained(&done);
}

impl Server {
    /// What the files of the running configuration hold now; `None` without files.
    async fn fingerprint(&self) -> Option<Fingerprint> {
        let loaded = self.app.running.load().loaded.clone();
        self.app.options.config_file.as_ref()?;
        tokio::task::spawn_blocking(move || fingerprint(&loaded.files)).await.ok()
    }

    /// Takes up the configuration file as it is now; a bad one changes nothing.
    async fn reload(&self) -> Result<(), String> {
        let app = &self.app;
        let outcome = self.try_reload().await;
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
                app.running
                    .store(Arc::new(Running { last_reload_worked: false, ..(*before).clone() }));
                for line in reason.lines() {
                    tracing::error!("{line}");
                }
                Err(reason)
            }
        }
    }

    async fn try_reload(&self) -> Result<Arc<Loaded>, String> {
        let app = &self.app;
        let before = app.running.load().loaded.clone();
        let Some(path) = app.options.config_file.clone() else {
            // The built-in configuration never changes.
            return Ok(before);
        };
        tracing::info!(file = %path.display(), "Loading configuration file");
        let loaded = tokio::task::spawn_blocking(move || load(&path))
            .await
            .map_err(|_| "reading the configuration panicked".to_owned())??;
        let (old, new) = (&before.config, &loaded.config);
        let replaced = match new.global.evaluation_interval == old.global.evaluation_interval {
            true => None,
            false => Some(engine(&app.options, &loaded)?),
        };
        self.scraper.apply(new).map_err(|error| error.to_string())?;
        if let Some(engine) = replaced {
            app.engine.store(Arc::new(engine));
        }
        self.db.set_retention(milliseconds(app.retention(&loaded)));
        if new.storage.max_exemplars != old.storage.max_exemplars {
            tracing::warn!(
                "storage.exemplars.max_exemplars changed: it takes effect at the next start"
            );
        }
        Ok(Arc::new(loaded))
    }
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
