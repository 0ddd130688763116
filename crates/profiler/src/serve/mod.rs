//! `/debug/pprof/` for any HTTP server.
//!
//! ```text
//! query       what is asked for
//! sampling    the profiler that is asked, running always or while somebody asks
//! answer      statuses, headers, and bodies that are rendered while they are written
//! collection  a profile that is collected, and then written
//! text        profiles as text
//! index       the page that leads to the others
//! gzip        packs a profile on its way
//! adapter     the answers of `unladen`'s listener, and of hyper and axum (features `listener`, `http-body`)
//! ```
//! ```no_run
//! use profiler::serve::{Pprof, Request};
//!
//! let pprof = Pprof::new(profiler::Profiler::start()?);
//! let answer = pprof.answer(&Request {
//!     path: "/debug/pprof/profile",
//!     query: Some("seconds=5"),
//!     ..Request::default()
//! });
//! assert_eq!(answer.status(), 200);
//! if let Some(time) = answer.ready_at() {
//!     // Wait until then, as the server waits for things; to stop collecting, drop the answer.
//!     # let _ = time;
//! }
//! // On a thread that may be blocked, for a profile is made of what was collected:
//! let mut body = Vec::new();
//! answer.write_to(&mut body)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//! # The pages
//! `profile` (CPU time), `wall` (elapsed time), `heap`, `allocs`, `threads`, and Go's `cmdline` and `symbol`;
//! `/debug/pprof/` itself leads to them. Parameters:
//! - `seconds`: how long to collect; up to 3,600, fractions too. CPU and wall-clock take 30 unless it is
//!   given. Heap and allocations give what is there, or with it what changes meanwhile.
//! - `debug`: 0 for the format of pprof, 1 for text. `threads?debug=2` has each thread for itself.
//! - `symbolize=false` leaves names out, for whoever finds them by build id.
//! - Others, such as Go's `gc`, are ignored. A value that can't be read is answered with 400.
//!
//! # Who waits for whom
//! All requests share one sampler: each remembers what the values were and writes what came since. Sixteen
//! may collect at a time, and besides as many may have what there is to be had at once; one beyond is
//! answered with 503. No lock is held while a client reads.
#[cfg(any(feature = "listener", feature = "http-body"))]
mod adapter;
mod answer;
mod collection;
mod gzip;
mod index;
mod query;
mod sampling;
mod text;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

pub use answer::Answer;
use collection::Collection;
use gzip::Gzips;
use index::Index;
use query::{Kind, Page, Parameters};
use sampling::Sampling;

use crate::events::Events;
use crate::profile::Profile;
use crate::profiler::{Builder, Profiler};

/// Collections at a time, unless something else is said.
const MOST: usize = 16;

/// Answers requests for profiles. Cloning gives another reference to the same.
#[derive(Clone)]
pub struct Pprof {
    sampling: Sampling,
    heap: Option<Profile>,
    events: Option<Events>,
    gzip_level: u32,
    most: usize,
    shared: Arc<Shared>,
}

/// What all answers share.
#[derive(Default)]
struct Shared {
    /// That take a time, and those that do not: an hour of the first ones must not shut out the others.
    collections: [AtomicUsize; 2],
    gzips: Gzips,
}

impl fmt::Debug for Pprof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pprof").field("sampling", &self.sampling).finish_non_exhaustive()
    }
}

/// What an answer depends on.
#[derive(Clone, Copy, Debug)]
pub struct Request<'r> {
    /// The method; `GET` by default.
    pub method: &'r str,
    /// The path; what stands behind its last slash says which page.
    pub path: &'r str,
    /// What stands behind `?` in the address, as it came.
    pub query: Option<&'r str>,
    /// The body of a request to `symbol`; others have none.
    pub body: &'r [u8],
}

impl Default for Request<'_> {
    fn default() -> Self {
        Request { method: "GET", path: "/debug/pprof/", query: None, body: &[] }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Place")
    }
}

/// A place among the collections, given up when it is dropped.
struct Place(Arc<Shared>, Length);

/// How long somebody takes a place for.
#[derive(Clone, Copy)]
enum Length {
    /// As long as was asked for.
    Time = 0,
    /// Until it is written.
    AtOnce = 1,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.collections[self.1 as usize].fetch_sub(1, Relaxed);
    }
}

impl Pprof {
    /// Serves what a profiler that runs all the time samples.
    pub fn new(profiler: Profiler) -> Self {
        Pprof::of(Sampling::always(profiler))
    }

    /// Starts a profiler with the first request that needs one, and stops it with the last. Whatever goes
    /// wrong at the start is answered to that request. It costs nothing in between; but the request has to
    /// wait for the unwind tables to be prepared, on the thread that calls [`answer`](Pprof::answer).
    pub fn on_demand(builder: Builder) -> Self {
        Pprof::of(Sampling::on_demand(builder))
    }

    /// Serves no samples of threads; for a heap profile alone, or the kernel's.
    pub fn without_sampling() -> Self {
        Pprof::of(Sampling::none())
    }

    fn of(sampling: Sampling) -> Self {
        Pprof {
            sampling,
            heap: None,
            events: None,
            gzip_level: 1,
            most: MOST,
            shared: Arc::default(),
        }
    }

    /// Serves the profile of [`heap::start`](crate::heap::start) as `heap` and `allocs`.
    #[must_use]
    pub fn heap(mut self, profile: Profile) -> Self {
        self.heap = Some(profile);
        self
    }

    /// Serves the CPU time of the [kernel's events](crate::events) as `profile`, instead of the sampler's.
    #[must_use]
    pub fn events(mut self, events: Events) -> Self {
        self.events = Some(events);
        self
    }

    /// Packs profiles at this level of gzip, from 1, which it is without this, to 9; 0 for not at all.
    #[must_use]
    pub fn gzip_level(mut self, level: u32) -> Self {
        self.gzip_level = level.min(9);
        self
    }

    /// How many requests may collect at a time, and how many may besides have what does not take one; 16
    /// without this.
    #[must_use]
    pub fn collections(mut self, most: usize) -> Self {
        self.most = most.max(1);
        self
    }

    /// Answers a request. Collecting begins here; nothing is rendered yet. Takes memory in proportion to the
    /// stacks that are known, and mostly some microseconds. It blocks while another request has the sampler
    /// wait for threads, and with [`on_demand`](Pprof::on_demand) while a profiler starts: call it, and drop
    /// what it gives, on a thread that may be blocked. *Growth.*
    ///
    /// The answer is 200 with what is asked for, 301 for `/debug/pprof`, 400 for a parameter that can't be
    /// read, 404 for what is not there or is off, 405 for a method, 500 where sampling can't start, 503 where
    /// too many are collected.
    pub fn answer(&self, request: &Request<'_>) -> Answer {
        let page = match Page::find(request.path) {
            Some(page) => page,
            None => return Answer::refused(404, "Unknown profile").for_method(request.method),
        };
        let is_allowed = match request.method {
            "GET" | "HEAD" => true,
            "POST" => page == Page::Symbol,
            _ => false,
        };
        if !is_allowed {
            return Answer::not_allowed(page == Page::Symbol);
        }
        let query = request.query.unwrap_or_default();
        let answer = match page {
            Page::Index => Answer::page(self.index()),
            Page::Redirect => Answer::redirect("pprof/"),
            Page::Cmdline => Answer::text(command_line()),
            Page::Symbol if request.method == "POST" => {
                self.names(query::addresses(&String::from_utf8_lossy(request.body)))
            }
            Page::Symbol => self.names(query::addresses(query)),
            Page::Profile(kind) => {
                let is_head = request.method == "HEAD";
                match Parameters::parse(query) {
                    Ok(parameters) => self.profile(kind, parameters, is_head),
                    Err(reason) => Answer::refused(400, reason),
                }
            }
        };
        answer.for_method(request.method)
    }

    fn profile(&self, kind: Kind, parameters: Parameters, is_head: bool) -> Answer {
        if let Some(reason) = self.is_off(kind) {
            return Answer::refused(404, format!("the profile {} is off: {reason}", kind.name()));
        }
        if kind == Kind::Threads && parameters.seconds.is_some() {
            let text = "\"seconds\" parameter is not supported for this profile type";
            return Answer::refused(400, text);
        }
        if is_head {
            return Answer::head(kind, parameters);
        }
        let length = kind.length(&parameters).map_or(Length::AtOnce, |_| Length::Time);
        let Some(place) = self.place(length) else { return Answer::busy(self.most) };
        match Collection::begin(self, kind, parameters, place) {
            Ok(collection) => Answer::collection(collection),
            Err(error) => Answer::refused(500, format!("cannot sample: {error}")),
        }
    }

    fn names(&self, addresses: Vec<u64>) -> Answer {
        match self.place(Length::AtOnce) {
            Some(place) => Answer::names(Names { addresses, _place: place }),
            None => Answer::busy(self.most),
        }
    }

    /// A place among the collections, if there is one.
    fn place(&self, length: Length) -> Option<Place> {
        let count = &self.shared.collections[length as usize];
        let taken = count.fetch_update(Relaxed, Relaxed, |n| (n < self.most).then_some(n + 1));
        taken.ok().map(|_| Place(self.shared.clone(), length))
    }

    /// Why a profile can't be had; none where it can.
    fn is_off(&self, kind: Kind) -> Option<&'static str> {
        match kind {
            Kind::Heap | Kind::Allocs if self.heap.is_none() => {
                Some("the program does not sample its heap")
            }
            Kind::Heap | Kind::Allocs => None,
            Kind::Cpu if self.events.is_some() => None,
            Kind::Cpu | Kind::Wall | Kind::Threads => self.sampling.is_off(),
        }
    }

    fn index(&self) -> String {
        let mut facts = self.sampling.facts();
        if self.heap.is_some() {
            facts.extend(sampling::heap_facts());
        }
        let collecting = self.shared.collections[Length::Time as usize].load(Relaxed);
        facts.push(("Collected now", format!("{collecting} of at most {}", self.most)));
        let program = std::env::args_os().next().unwrap_or_default();
        let program = std::path::Path::new(&program);
        let program = program.file_name().unwrap_or_default().to_string_lossy();
        let is_off = |kind| self.is_off(kind);
        Index { program: &program, is_off: &is_off, facts: &facts }.write()
    }
}

/// The program's command line, NUL between its words.
fn command_line() -> String {
    let words: Vec<_> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    words.join("\0")
}

/// Names of addresses, as Go's tool asks for them: looked for when they are written.
#[derive(Debug)]
struct Names {
    addresses: Vec<u64>,
    _place: Place,
}

impl Names {
    fn write(&self) -> String {
        use std::fmt::Write;
        // How many there are is not known; that there are some is all that is looked at.
        let is_known = cfg!(feature = "symbols");
        let mut text = format!("num_symbols: {}\n", u8::from(is_known));
        collection::names_of(&self.addresses, &mut |address, name| {
            // Writing to a String never fails.
            let _ = writeln!(text, "{address:#x} {name}");
        });
        text
    }
}
