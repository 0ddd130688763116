//! A profile of the server, or of one of its stages, as a tree of calls.
//!
//! 1. A window is opened, on everything since the start or on what comes from now on.
//! 2. Whoever wants what comes waits; nothing is held meanwhile but the window.
//! 3. Entries that have the stage's label are added to a tree, which is cut to the nodes that are wanted.
//!    Names are asked for once per address, of these entries alone, and kept by the profiler's tables. When the time that a request
//!    may take is up, what has no name by then is shown as the file it is in.

use std::time::{Duration, Instant};

use profiler::profile::{Frame, Mapping, Profile, Symbol, Symbolize, Wanted, Window, WriteOptions};
use profiler::symbols::Resolver;

use super::tree::{Builder, Tree};
use crate::profiling::Profiles;

/// The longest time that may be collected.
pub(crate) const LONGEST: Duration = Duration::from_secs(300);

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Cpu,
    Wall,
    Allocated,
    Allocations,
    InUse,
}

impl Kind {
    /// All of them, as they are asked for.
    pub(crate) const ALL: [Kind; 5] =
        [Kind::Cpu, Kind::Wall, Kind::Allocated, Kind::InUse, Kind::Allocations];

    /// As it is asked for.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Cpu => "cpu",
            Kind::Wall => "wall",
            Kind::Allocated => "allocated",
            Kind::Allocations => "allocations",
            Kind::InUse => "inuse",
        }
    }

    pub(crate) fn unit(self) -> &'static str {
        match self {
            Kind::Cpu | Kind::Wall => "nanoseconds",
            Kind::Allocated | Kind::InUse => "bytes",
            Kind::Allocations => "count",
        }
    }

    /// The profile that has it, if it is taken.
    fn profile(self, profiles: &Profiles) -> Option<&Profile> {
        match self {
            Kind::Cpu | Kind::Wall => profiles.sampled.as_ref().map(profiler::Profiler::wall),
            Kind::Allocated | Kind::Allocations | Kind::InUse => profiles.heap.as_ref(),
        }
    }

    /// Where it is among the columns of that profile.
    fn column(self) -> usize {
        match self {
            Kind::Cpu => 2,
            Kind::Wall | Kind::Allocated => 1,
            Kind::Allocations => 0,
            Kind::InUse => 3,
        }
    }

    /// The flag that would have it taken.
    fn flag(self) -> &'static str {
        match self {
            Kind::Cpu | Kind::Wall => "--profile.budget",
            Kind::Allocated | Kind::Allocations | Kind::InUse => "--profile.heap-sample-bytes",
        }
    }
}

/// What somebody wants to see.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) kind: Kind,
    /// Of which stage; `none` for what is outside of all, nothing for all together.
    pub(crate) stage: Option<String>,
    /// For how long it is collected; none for everything since the start.
    pub(crate) seconds: Option<Duration>,
}

/// A profile that is being collected.
pub(crate) struct Collection {
    request: Request,
    profiles: Profiles,
    window: Window,
}

impl Collection {
    /// Opens the window. Locks the profiler. *Growth.*
    ///
    /// # Errors
    /// Nobody takes this profile: the flag that would have it taken.
    pub(crate) fn begin(profiles: &Profiles, request: Request) -> Result<Self, String> {
        let kind = request.kind;
        let Some(profile) = kind.profile(profiles) else {
            let (name, flag) = (kind.name(), kind.flag());
            return Err(format!("the profile {name} is not taken: see {flag}, and the log"));
        };
        // What was before belongs to others.
        profiles.settle();
        let window = if request.seconds.is_some() { profile.window() } else { profile.total() };
        Ok(Collection { request, profiles: profiles.clone(), window })
    }

    /// The tree of what was collected, with at most `most` nodes. Takes as long as finding names that were
    /// never asked for does, up to `deadline`; then it goes on without. *Growth.*
    pub(crate) fn finish(self, most: usize, deadline: Instant) -> Tree {
        let Collection { request, profiles, mut window } = self;
        profiles.settle();
        let column = request.kind.column();
        let mut resolver = Resolver::of_process();
        let mut symbolizer = Until { deadline, symbolizer: &mut resolver };
        let options = WriteOptions {
            keep: match column {
                0 => |values| values[0] > 0,
                1 => |values| values[1] > 0,
                2 => |values| values[2] > 0,
                _ => |values| values[3] > 0,
            },
            label: request.stage.as_deref().map(of_stage),
            symbolizer: Some(&mut symbolizer),
            ..WriteOptions::default()
        };
        let root = request.stage.as_deref().unwrap_or("all");
        let mut tree = Builder::new(root);
        window.for_each(options, |sample| {
            let value = u64::try_from(sample.values()[column]).unwrap_or(0);
            if value > 0 {
                tree.add(sample.frames().map(Name), value);
            }
        });
        tree.finish(most)
    }
}

/// What samples of a stage have for a label. What is outside of all has none.
fn of_stage(stage: &str) -> Wanted<'_> {
    Wanted { key: "stage", text: (stage != "none").then_some(stage) }
}

/// A call's name: that of the function, or of the file in which it is.
struct Name<'a>(Frame<'a>);

impl AsRef<str> for Name<'_> {
    fn as_ref(&self) -> &str {
        let Name(frame) = self;
        if !frame.symbol.name.is_empty() {
            return frame.symbol.name;
        }
        match frame.mapping {
            // The name of a file never holds what a function's may not.
            Some(mapping) => mapping.file.rsplit('/').next().unwrap_or(&mapping.file),
            None => "[unknown]",
        }
    }
}

/// Knows names until a moment, and none behind that.
struct Until<'a> {
    deadline: Instant,
    symbolizer: &'a mut dyn Symbolize,
}

impl Symbolize for Until<'_> {
    fn prepare(&mut self, addresses: &[u64], mappings: &[Mapping]) {
        if Instant::now() < self.deadline {
            self.symbolizer.prepare(addresses, mappings);
        }
    }

    fn symbolize(
        &mut self,
        address: u64,
        mapping: Option<&Mapping>,
        found: &mut dyn FnMut(Symbol<'_>),
    ) {
        if Instant::now() < self.deadline {
            self.symbolizer.symbolize(address, mapping, found);
        }
    }
}
