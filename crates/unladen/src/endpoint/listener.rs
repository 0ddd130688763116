//! A listener of its own for programs that have no HTTP server.
//!
//! 1. One thread takes connections; each connection has a thread, which renders straight into its socket:
//!    a slow reader holds up nobody else, and no scrape waits for an executor.
//! 2. Connections are bounded. When all are in use, the one that has been idle for longest is closed; if
//!    none is, further ones wait in the kernel's queue.
//! 3. A request's head has to come in time, and an answer has to be taken in time.
//! 4. When the listener is dropped, idle connections are closed, answers that are under way get a few
//!    seconds to end, and the rest is cut off.

use std::fmt;
use std::io;
use std::net::{
    IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::connection::Connection;
use super::route::{Route, RouteRequest};
use super::{Answer, Endpoint};
use crate::registry::Registry;

/// How long to wait after the system refused a connection or a thread.
const BREATH: Duration = Duration::from_millis(50);

/// How long answers that are under way may take when the listener stops.
const GRACE: Duration = Duration::from_secs(5);

/// What a listener is given beside its address.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) path: String,
    pub(super) routes: Vec<Route>,
    most_connections: usize,
    /// For a request's head, from its first byte on.
    pub(super) request_patience: Duration,
    /// For a whole answer.
    pub(super) answer_patience: Duration,
    /// Between requests.
    pub(super) idle_patience: Duration,
}

/// Makes a [`Listener`] with other settings than the usual ones.
#[derive(Clone, Debug)]
pub struct Builder {
    endpoint: Endpoint,
    settings: Settings,
}

impl Builder {
    /// Where the metrics are; `/metrics` without this.
    #[must_use]
    pub fn path(mut self, path: &str) -> Self {
        path.clone_into(&mut self.settings.path);
        self
    }

    /// Has `handler` answer a path, and what lies below it, beside the metrics. What of several leads to a
    /// path is the first that was given. A handler runs on the connection's thread and may block it; an answer
    /// that has to be waited for ([`Answer::rendered`]) is dropped when its client goes away.
    ///
    /// ```no_run
    /// # use unladen::endpoint::{Answer, Endpoint, Listener};
    /// # let endpoint = Endpoint::new(unladen::Registry::new());
    /// let listener = Listener::builder(endpoint)
    ///     .route("/healthy", |_| Answer::whole(200, Vec::new(), "yes\n"))
    ///     .bind("127.0.0.1:9100")?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn route(
        mut self,
        path: &str,
        handler: impl Fn(&RouteRequest<'_>) -> Answer + Send + Sync + 'static,
    ) -> Self {
        self.settings.routes.push(Route::new(path, handler));
        self
    }

    /// How many connections there may be at a time; 32 without this. Each has a thread.
    #[must_use]
    pub fn connections(mut self, most: usize) -> Self {
        self.settings.most_connections = most.max(1);
        self
    }

    /// How long a reader may take for an answer, from its first byte to its last; a minute without this.
    #[must_use]
    pub fn answer_patience(mut self, patience: Duration) -> Self {
        self.settings.answer_patience = patience;
        self
    }

    /// How long a request's head may take from its first byte to its last; 10 seconds without this.
    #[must_use]
    pub fn request_patience(mut self, patience: Duration) -> Self {
        self.settings.request_patience = patience;
        self
    }

    /// How long a connection may stay without a request; five minutes without this.
    #[must_use]
    pub fn idle_patience(mut self, patience: Duration) -> Self {
        self.settings.idle_patience = patience;
        self
    }

    /// Listens on an address. Port 0 is one that is free.
    ///
    /// # Errors
    /// What the system says, with the address; a path that does not begin with `/` or holds anything but
    /// letters, digits and `/-_.~`.
    pub fn bind(self, address: impl ToSocketAddrs + fmt::Debug) -> io::Result<Listener> {
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"/-_.~".contains(&b);
        let routes = self.settings.routes.iter().map(|route| &route.prefix);
        for path in std::iter::once(&self.settings.path).chain(routes) {
            if !path.starts_with('/') || !path.bytes().all(is_plain) {
                let reason = format!("the path {path:?} is not one of letters, digits and /-_.~");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
            }
        }
        let refused = |error: io::Error| {
            io::Error::new(error.kind(), format!("can't listen on {address:?}: {error}"))
        };
        let socket = TcpListener::bind(&address).map_err(refused)?;
        let local = socket.local_addr().map_err(refused)?;
        let shared = Arc::new(Shared {
            endpoint: self.endpoint,
            settings: self.settings,
            state: Mutex::default(),
            changed: Condvar::new(),
            clock: AtomicU64::new(1),
        });
        let its_own = shared.clone();
        std::thread::Builder::new()
            .name("unladen-listen".into())
            .spawn(move || its_own.accept(&socket))
            .map_err(refused)?;
        Ok(Listener { shared, local })
    }
}

/// Serves a registry's metrics over HTTP until it is dropped.
///
/// ```no_run
/// let registry = unladen::Registry::new();
/// let listener = unladen::endpoint::Listener::bind("127.0.0.1:9100", &registry)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Listener {
    shared: Arc<Shared>,
    local: SocketAddr,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("local", &self.local).finish_non_exhaustive()
    }
}

impl Listener {
    /// Serves `registry` under `/metrics`, with a page at `/` that leads there. Port 0 is one that is
    /// free.
    ///
    /// # Errors
    /// What the system says, with the address.
    pub fn bind(
        address: impl ToSocketAddrs + fmt::Debug,
        registry: &Registry,
    ) -> io::Result<Listener> {
        Listener::builder(Endpoint::new(registry.clone())).bind(address)
    }

    /// For other settings.
    pub fn builder(endpoint: Endpoint) -> Builder {
        let settings = Settings {
            path: "/metrics".to_owned(),
            routes: Vec::new(),
            most_connections: 32,
            request_patience: Duration::from_secs(10),
            answer_patience: Duration::from_secs(60),
            idle_patience: Duration::from_secs(300),
        };
        Builder { endpoint, settings }
    }

    /// The address, with the port that was given or found.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }
}

impl Drop for Listener {
    /// Waits for answers that are being sent, but no longer than five seconds; for those that are still
    /// collecting, not at all.
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.is_stopping = true;
        state.connections.iter().filter(|slot| slot.sends_nothing()).for_each(|slot| slot.cut());
        drop(state);
        self.shared.changed.notify_all();
        // Wakes the thread that takes connections; it finds that nobody wants them.
        let address = match self.local.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        let address = SocketAddr::new(address, self.local.port());
        let _ = TcpStream::connect_timeout(&address, Duration::from_secs(1));
        let deadline = Instant::now() + GRACE;
        let mut state = self.shared.state.lock();
        while !state.is_over() {
            if self.shared.changed.wait_until(&mut state, deadline).timed_out() {
                state.connections.iter().for_each(|slot| slot.cut());
                return;
            }
        }
    }
}

/// What the threads share.
pub(super) struct Shared {
    pub(super) endpoint: Endpoint,
    pub(super) settings: Settings,
    state: Mutex<State>,
    changed: Condvar,
    /// Counts when connections fell idle.
    clock: AtomicU64,
}

#[derive(Default)]
struct State {
    connections: Vec<Arc<Slot>>,
    is_stopping: bool,
    is_deaf: bool,
}

impl State {
    fn is_over(&self) -> bool {
        self.is_deaf && self.connections.is_empty()
    }
}

/// A connection as the others see it.
pub(super) struct Slot {
    pub(super) stream: TcpStream,
    /// When it fell idle; 0 while it has a request.
    idle_since: AtomicU64,
    /// Its answer has to be waited for.
    is_waiting: AtomicBool,
}

impl Slot {
    fn is_idle(&self) -> bool {
        self.idle_since.load(Relaxed) > 0
    }

    fn sends_nothing(&self) -> bool {
        self.is_idle() || self.is_waiting.load(Relaxed)
    }

    /// Ends what its thread waits for.
    fn cut(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Shared {
    fn accept(self: &Arc<Self>, socket: &TcpListener) {
        loop {
            let accepted = socket.accept();
            if self.state.lock().is_stopping {
                break;
            }
            match accepted {
                Ok((stream, _)) => {
                    if !self.wait_for_room() {
                        break;
                    }
                    self.start(stream);
                }
                // For want of file descriptors, mostly.
                Err(_) => self.breathe(),
            }
        }
        self.state.lock().is_deaf = true;
        self.changed.notify_all();
    }

    fn breathe(&self) {
        let mut state = self.state.lock();
        if !state.is_stopping {
            self.changed.wait_for(&mut state, BREATH);
        }
    }

    /// Waits until there may be another connection; says whether one is still wanted.
    fn wait_for_room(&self) -> bool {
        let mut state = self.state.lock();
        while state.connections.len() >= self.settings.most_connections && !state.is_stopping {
            let idle = state.connections.iter().filter(|slot| slot.is_idle());
            if let Some(slot) = idle.min_by_key(|slot| slot.idle_since.load(Relaxed)) {
                slot.cut();
            }
            self.changed.wait(&mut state);
        }
        !state.is_stopping
    }

    fn start(self: &Arc<Self>, stream: TcpStream) {
        // Answers are written in large pieces; waiting for more would only delay the last one.
        let _ = stream.set_nodelay(true);
        let slot = Arc::new(Slot {
            stream,
            idle_since: AtomicU64::new(0),
            is_waiting: AtomicBool::new(false),
        });
        let mut state = self.state.lock();
        if state.is_stopping {
            return;
        }
        state.connections.push(slot.clone());
        drop(state);
        let held = Held { shared: self.clone(), slot };
        let thread = std::thread::Builder::new().name("unladen-scrape".into());
        if thread.spawn(move || held.serve()).is_err() {
            self.breathe();
        }
    }
}

/// A connection's place among the others, given up even when its thread panics.
struct Held {
    shared: Arc<Shared>,
    slot: Arc<Slot>,
}

impl Held {
    fn serve(&self) {
        let mut connection = Connection::new(&self.slot, &self.shared);
        loop {
            if !self.shared.falls_idle(&self.slot) {
                return;
            }
            let has_request = connection.wait_for_request();
            self.slot.idle_since.store(0, Relaxed);
            if !has_request || !connection.answer() {
                return;
            }
        }
    }
}

impl Shared {
    /// Counts a connection as idle, for whoever waits for one; says whether it may go on.
    fn falls_idle(&self, slot: &Slot) -> bool {
        let state = self.state.lock();
        slot.idle_since.store(self.clock.fetch_add(1, Relaxed), Relaxed);
        if state.connections.len() >= self.settings.most_connections {
            self.changed.notify_all();
        }
        !state.is_stopping
    }
}

impl Shared {
    /// Marks a connection as one whose answer has to be waited for; says whether it may be.
    pub(super) fn begins_to_wait(&self, slot: &Slot) -> bool {
        let state = self.state.lock();
        slot.is_waiting.store(true, Relaxed);
        !state.is_stopping
    }

    /// Waits without looking at the connection; says whether the listener did so too.
    pub(super) fn wait(&self, time: Instant) -> bool {
        let mut state = self.state.lock();
        while !state.is_stopping {
            if self.changed.wait_until(&mut state, time).timed_out() {
                break;
            }
        }
        !state.is_stopping
    }

    /// The wait is over; says whether the answer is still wanted.
    pub(super) fn has_waited(&self, slot: &Slot) -> bool {
        let state = self.state.lock();
        slot.is_waiting.store(false, Relaxed);
        !state.is_stopping
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared.state.lock().connections.retain(|slot| !Arc::ptr_eq(slot, &self.slot));
        self.shared.changed.notify_all();
    }
}
