//! `unladen fleet`: a load generator that costs little enough to run beside the server under test.
//!
//! ```text
//! options     the command line
//! shape/      what targets look like: families and dimensions → a template
//! template    one text for all targets of a shape; digits and identities are written over in place
//! value       what a series is worth at a moment
//! identity    names of pods, queues, devices; which generation of them is there
//! stock       templates and compressed bodies → pieces of answers
//! target      which target has which address
//! request     what a client asks for
//! connection  requests in, bodies out
//! behaviour   the ways in which targets misbehave
//! served      what was served in each second, what came late
//! pages       discovery, configuration, status, metrics
//! world       what all of them know
//! ```
//! One thread serves everything. A scrape of a healthy target is two system calls and one walk over what
//! moves in its body; nothing is allocated, and a connection keeps no body: where a socket is full, the
//! rest is made again when it has room.

mod behaviour;
mod connection;
mod identity;
mod options;
mod pages;
mod request;
mod served;
mod shape;
mod stock;
mod target;
mod template;
#[cfg(test)]
mod tests;
mod value;
mod world;

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::oneshot;
use tokio::task::LocalSet;

pub use behaviour::Behaviour;
pub use options::{Churn, MOST_SERIES, MOST_TARGETS, Options, Shape, Values, Wanted, parse};
pub use served::{Second, Totals};

use connection::Shared;
use stock::Stock;
use world::World;

/// Connections that may wait to be taken: servers open all of theirs at once.
const BACKLOG: u32 = 65_535;

/// How long to wait after the kernel refused a connection, for want of file descriptors.
const BREATH: Duration = Duration::from_millis(50);

/// What a request is read into.
const SCRATCH: usize = 16 << 10;

/// Lists of all targets that are made and sent at a time: that of a million has a hundred megabytes.
const LISTS: usize = 4;

/// A fleet that is being served, on a thread of its own. Ends when it is dropped.
pub struct Fleet {
    world: Arc<World>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
    memory: usize,
}

impl Fleet {
    /// Builds the bodies, listens, and serves from now on. *Setup.*
    ///
    /// # Errors
    /// What is wrong with the options, or why it can't listen.
    pub fn start(options: Options) -> Result<Fleet, String> {
        let stock = Stock::new(&options, world::tick(&options).as_secs_f64())?;
        let memory = stock.memory_usage();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("starting the thread that serves: {error}"))?;
        let (listener, refusing) = runtime.block_on(listen(&options.listen))?;
        let told = |error: io::Error| format!("the address that is listened on: {error}");
        let address = listener.local_addr().map_err(told)?;
        let refusing_port = refusing.local_addr().map_err(told)?.port();
        let world = Arc::new(World::new(options, address, refusing_port, stock.longest()));
        let (stop, stopped) = oneshot::channel();
        let of_thread = world.clone();
        let thread = std::thread::Builder::new()
            .name("fleet".to_owned())
            .spawn(move || {
                *of_thread.thread.lock() = std::fs::read_link("/proc/thread-self").ok();
                let shared = Rc::new(Shared {
                    world: of_thread,
                    stock: RefCell::new(stock),
                    scratch: RefCell::new(vec![0; SCRATCH]),
                    lists: tokio::sync::Semaphore::new(LISTS),
                });
                let local = LocalSet::new();
                local.block_on(&runtime, async move {
                    let _refusing = refusing;
                    tokio::select! {
                        () = accept(listener, shared) => {}
                        // The sender is dropped with the fleet.
                        _ = stopped => {}
                    }
                });
            })
            .map_err(|error| format!("starting the thread that serves: {error}"))?;
        Ok(Fleet { world, stop: Some(stop), thread: Some(thread), memory })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.world.address
    }

    /// What was served since the start, and what is late now.
    pub fn totals(&self) -> Totals {
        self.world.served.lock().totals(self.world.since_start())
    }

    /// The last seconds that are over, at most so many, and the number of the first of them, counted
    /// from the start.
    pub fn seconds(&self, last: usize) -> (u64, Vec<Second>) {
        self.world.served.lock().seconds(last, self.world.since_start())
    }

    /// Bytes that bodies and what moves them take: it does not depend on the number of targets.
    pub fn memory_usage(&self) -> usize {
        self.memory
    }

    /// How a target misbehaves; `None`: it is healthy.
    pub fn behaviour(&self, target: usize) -> Option<Behaviour> {
        self.world.behaviour(target)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // Its panic was reported where it happened.
            let _ = thread.join();
        }
    }
}

/// The socket that targets answer on, and one on which nobody does.
async fn listen(address: &str) -> Result<(TcpListener, TcpSocket), String> {
    let refused = |error: io::Error| format!("cannot listen on {address}: {error}");
    let spelt = match address.strip_prefix(':') {
        Some(port) => format!("0.0.0.0:{port}"),
        None => address.to_owned(),
    };
    let mut found = tokio::net::lookup_host(&spelt).await.map_err(refused)?;
    let at = found.next().ok_or_else(|| format!("--listen: {address} is no address"))?;
    let socket = || if at.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    let listening = socket().map_err(refused)?;
    listening.set_reuseaddr(true).map_err(refused)?;
    listening.bind(at).map_err(refused)?;
    let refusing = socket().map_err(refused)?;
    refusing.bind(SocketAddr::new(at.ip(), 0)).map_err(refused)?;
    Ok((listening.listen(BACKLOG).map_err(refused)?, refusing))
}

async fn accept(listener: TcpListener, shared: Rc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Answers are written in large pieces; waiting for more would only delay the last one.
                let _ = stream.set_nodelay(true);
                tokio::task::spawn_local(connection::serve(stream, shared.clone()));
            }
            Err(_) => tokio::time::sleep(BREATH).await,
        }
    }
}

/// Serves a fleet until the process is asked to end. Says where on `out`.
///
/// # Errors
/// What is wrong with the options, why it can't listen.
pub fn run(options: Options, out: &mut dyn io::Write) -> Result<(), String> {
    let (targets, series, shape) = (options.targets, options.series, options.shape.as_str());
    crate::serve::raise_open_files();
    let warning = rustix::process::getrlimit(rustix::process::Resource::Nofile)
        .current
        .filter(|limit| *limit < targets as u64 + 64)
        .map(|limit| {
            format!(
                "warning: only {limit} open files are allowed: not every target can have a \
                 connection at the same time (ulimit -n)\n"
            )
        })
        .unwrap_or_default();
    let fleet = Fleet::start(options)?;
    let port = fleet.address().port();
    let memory = fleet.memory_usage().div_ceil(1 << 20);
    let _ = write!(
        out,
        "{warning}{targets} targets with {series} series each, shape {shape}, in {memory} MiB: \
         http://127.0.0.1:{port}/\n  curl -s http://127.0.0.1:{port}/prometheus.yml > fleet.yml\n  \
         unladen serve --config.file=fleet.yml\n"
    );
    let _ = out.flush();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("waiting for signals: {error}"))?;
    runtime.block_on(asked_to_end()).map_err(|error| format!("waiting for signals: {error}"))
}

async fn asked_to_end() -> io::Result<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        interrupt = tokio::signal::ctrl_c() => interrupt,
    }
}
