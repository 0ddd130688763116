//! What was added to a profile since a reader looked last.

use std::fmt;
use std::sync::Arc;

use super::Profile;
use super::recording::Place;
use super::write::Scratch;

/// How many values are copied with the lock held: 128 KiB of them, some ten microseconds.
const COPIED: usize = 16 * 1024;

/// What was added to a profile since it was opened or last written. Any number of windows stand side by
/// side. What one has not seen yet is not dropped, so an open window that nobody writes holds memory.
pub struct Window {
    pub(super) place: Arc<Place>,
    id: u64,
    /// The rows as they were when it looked last.
    pub(super) last: Vec<i64>,
    /// The rows as they are.
    pub(super) now: Vec<i64>,
    /// The values per row.
    pub(super) width: usize,
    pub(super) scratch: Scratch,
}

impl Window {
    pub(super) fn new(profile: &Profile, from_zero: bool) -> Self {
        let place = profile.0.clone();
        let (id, look, width) = {
            let mut state = place.shared.lock();
            let id = state.new_reader();
            let entries = state.profile_mut(place.index);
            entries.open(id, from_zero);
            (id, entries.look(), entries.width())
        };
        let (last, now, scratch) = Default::default();
        let mut window = Window { place, id, last, now, width, scratch };
        if from_zero {
            window.copy(|entries| entries.base());
        } else {
            window.copy(|entries| entries.values());
            window.seen(look);
        }
        std::mem::swap(&mut window.last, &mut window.now);
        window
    }

    /// Copies all rows, in parts, so that nobody who records waits for long.
    fn copy(&mut self, rows: impl Fn(&super::entries::Entries) -> &[i64]) {
        self.now.clear();
        let length = rows(self.place.shared.lock().profile(self.place.index)).len();
        self.now.reserve(length);
        while self.now.len() < length {
            let state = self.place.shared.lock();
            let rows = rows(state.profile(self.place.index));
            let end = length.min(self.now.len() + COPIED);
            self.now.extend_from_slice(&rows[self.now.len()..end]);
        }
    }

    /// The bytes on the heap.
    pub fn memory_usage(&self) -> usize {
        (self.last.capacity() + self.now.capacity()) * 8 + self.scratch.memory_usage()
    }

    /// Remembers the rows as they are now and says when that was.
    pub(super) fn look(&mut self) -> u32 {
        let look = self.place.shared.lock().profile_mut(self.place.index).look();
        self.copy(|entries| entries.values());
        self.last.resize(self.now.len().max(self.last.len()), 0);
        look
    }

    /// Everything up to that look is dealt with.
    pub(super) fn seen(&mut self, look: u32) {
        self.place.shared.lock().profile_mut(self.place.index).seen(self.id, look);
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.place.shared.lock().profile_mut(self.place.index).close(self.id);
    }
}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Window").field("rows", &self.last.len()).finish_non_exhaustive()
    }
}
