//! Profiles, and adding to them.

use std::fmt;
use std::sync::Arc;

use super::tables::{Locked, Shared};
use super::{EntryId, Label, LabelsId, Stack, Tables, ValueType, Window};

/// Values per stack and labels, which only add up. Cloning gives another reference.
#[derive(Clone)]
pub struct Profile(pub(super) Arc<Place>);

/// Where a profile is in its tables; gone with the last who has it.
pub(super) struct Place {
    pub(super) shared: Arc<Shared>,
    pub(super) index: u32,
}

impl Drop for Place {
    fn drop(&mut self) {
        // In parts, so that nobody who records waits for all of it.
        while self.shared.lock().close_profile(self.index) {}
    }
}

impl Profile {
    /// A profile with these columns, of which `default` is shown first. `period` is the measure of
    /// `period_type` between two samples. A column whose kind begins with `inuse` is a balance: it may go
    /// down, and an entry is kept as long as it is not zero. *Setup*; locks.
    ///
    /// # Panics
    /// If there are no columns, or fewer than `default`.
    pub fn new(
        tables: &Tables,
        columns: &[ValueType],
        default: usize,
        period_type: ValueType,
        period: i64,
    ) -> Self {
        assert!(default < columns.len(), "the default is the place of one of the columns");
        let index = tables.0.lock().open_profile(columns, default, period_type, period);
        Profile(Arc::new(Place { shared: tables.0.clone(), index }))
    }

    /// Whether it belongs to these tables.
    pub(crate) fn is_of(&self, tables: &Tables) -> bool {
        Arc::ptr_eq(&self.0.shared, &tables.0)
    }

    /// Locks the tables to add to the profile. Waits for who has them, which is for some 50 microseconds
    /// at most. While the recording is held, nothing else of the tables or profiles may be called, and what
    /// the thread allocates is not sampled. *Steady.*
    #[inline]
    pub fn lock(&self) -> Recording<'_> {
        let mut state = self.0.shared.lock();
        state.labels.begin();
        Recording { state, profile: self.0.index }
    }

    /// The tables that it is kept in.
    pub fn tables(&self) -> Tables {
        Tables(self.0.shared.clone())
    }

    /// A window on what is added from now on. *Setup*; locks.
    pub fn window(&self) -> Window {
        Window::new(self, false)
    }

    /// A window on everything that was ever added. What dropped entries had is in it, at a frame
    /// `[dropped]`. *Setup*; locks.
    pub fn total(&self) -> Window {
        Window::new(self, true)
    }
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profile").field("index", &self.0.index).finish_non_exhaustive()
    }
}

/// A profile and its tables, locked, for those who add to it.
pub struct Recording<'a> {
    state: Locked<'a>,
    profile: u32,
}

impl Recording<'_> {
    /// Finds or adds a set of labels. The order of the labels matters. At the bound, sets and entries with
    /// labels are dropped that nobody used lately; where there are none, it is a set that says
    /// `labels="[overflow]"`. *Steady* for a known set, *growth* for a new one.
    pub fn labels(&mut self, labels: &[Label<'_>]) -> LabelsId {
        self.state.intern_labels(labels)
    }

    /// Whether that set still is there: one that no entry has is dropped when others need its place. Who
    /// keeps an id for long asks before using it, and calls [`labels`](Self::labels) again if not. `false`
    /// for the set that says `[overflow]`, since there may be room now. *Steady.*
    #[inline]
    pub fn has_labels(&self, labels: LabelsId) -> bool {
        self.state.labels.has(labels)
    }

    /// Adds `values`, one per column, to the entry of `stack` with both sets of labels, and says which one
    /// that is. A set that was dropped meanwhile counts as the empty one. *Steady* for a known stack with
    /// known labels: about a microsecond for 500 frames; *growth* for a new one: about ten.
    #[inline]
    pub fn record(
        &mut self,
        stack: Stack<'_>,
        thread: LabelsId,
        scope: LabelsId,
        values: &[i64],
    ) -> EntryId {
        self.state.record(self.profile, stack, thread, scope, values)
    }

    /// Adds `values`, one per column, to an entry. `false`: it was dropped meanwhile, and the stack has to
    /// be recorded anew. *Steady.*
    #[inline]
    #[must_use]
    pub fn add(&mut self, entry: EntryId, values: &[i64]) -> bool {
        let entries = self.state.profile_mut(self.profile);
        match entries.index(entry) {
            Some(index) => {
                entries.add(index, values);
                true
            }
            None => false,
        }
    }
}

impl fmt::Debug for Recording<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording").field("profile", &self.profile).finish_non_exhaustive()
    }
}
