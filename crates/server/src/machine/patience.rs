//! Asks a file system for its usage without waiting for ever.
//!
//! statfs on a network mount whose server is gone does not come back. Such mounts are asked by a thread
//! of their own; who wants to know waits a second at most. While the thread hangs, every network mount
//! counts as failed; the moment it comes back, all go on. Other file systems are asked directly.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// How long a scrape waits for one answer.
const WAIT: Duration = Duration::from_secs(1);

/// What statfs says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Usage {
    pub(super) size_bytes: f64,
    pub(super) free_bytes: f64,
    pub(super) available_bytes: f64,
    pub(super) files: f64,
    pub(super) files_free: f64,
}

fn statfs(path: &str) -> Option<Usage> {
    let stat = rustix::fs::statfs(path).ok()?;
    let block_bytes = stat.f_bsize as f64;
    Some(Usage {
        size_bytes: stat.f_blocks as f64 * block_bytes,
        free_bytes: stat.f_bfree as f64 * block_bytes,
        available_bytes: stat.f_bavail as f64 * block_bytes,
        files: stat.f_files as f64,
        files_free: stat.f_ffree as f64,
    })
}

/// File systems behind which another machine or program stands.
fn may_hang(kind: &str) -> bool {
    const KINDS: [&str; 14] = [
        "9p",
        "afs",
        "ceph",
        "cifs",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "orangefs",
        "smb3",
        "smbfs",
        "virtiofs",
    ];
    kind.starts_with("fuse") || KINDS.contains(&kind)
}

/// Asks, with patience.
#[derive(Default)]
pub(super) struct Patience {
    desk: Arc<Desk>,
}

#[derive(Default)]
struct Desk {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    has_thread: bool,
    path: String,
    phase: Phase,
}

/// What the one question is at. It belongs to whoever asked it.
#[derive(Default, Clone, Copy, PartialEq)]
enum Phase {
    #[default]
    Free,
    Asked,
    /// The thread is in statfs.
    Underway,
    Answered(Option<Usage>),
    /// Nobody waits any more.
    Abandoned,
}

impl Patience {
    /// What the file system at `path` says, if it says anything in time.
    pub(super) fn usage(&self, path: &str, kind: &str) -> Option<Usage> {
        if may_hang(kind) { self.ask(path, statfs, WAIT) } else { statfs(path) }
    }

    fn ask(&self, path: &str, ask: fn(&str) -> Option<Usage>, wait: Duration) -> Option<Usage> {
        let deadline = Instant::now() + wait;
        let mut state = self.desk.state.lock();
        while state.phase != Phase::Free {
            // A question that was given up shows that the server is gone: don't wait for it again.
            if state.phase == Phase::Abandoned {
                return None;
            }
            if self.desk.changed.wait_until(&mut state, deadline).timed_out() {
                return None;
            }
        }
        if !state.has_thread {
            let desk = self.desk.clone();
            let thread = std::thread::Builder::new().name("statfs".to_owned());
            thread.spawn(move || desk.serve(ask)).ok()?;
            state.has_thread = true;
        }
        state.path.clear();
        state.path.push_str(path);
        state.phase = Phase::Asked;
        self.desk.changed.notify_all();
        loop {
            if let Phase::Answered(usage) = state.phase {
                state.phase = Phase::Free;
                self.desk.changed.notify_all();
                return usage;
            }
            if self.desk.changed.wait_until(&mut state, deadline).timed_out() {
                if let Phase::Answered(usage) = state.phase {
                    state.phase = Phase::Free;
                    self.desk.changed.notify_all();
                    return usage;
                }
                let is_taken = state.phase == Phase::Underway;
                state.phase = if is_taken { Phase::Abandoned } else { Phase::Free };
                self.desk.changed.notify_all();
                return None;
            }
        }
    }
}

impl Desk {
    fn serve(&self, ask: fn(&str) -> Option<Usage>) {
        let mut path = String::new();
        let mut state = self.state.lock();
        loop {
            if state.phase != Phase::Asked {
                self.changed.wait(&mut state);
                continue;
            }
            std::mem::swap(&mut path, &mut state.path);
            state.phase = Phase::Underway;
            drop(state);
            let usage = ask(&path);
            state = self.state.lock();
            state.phase = match state.phase {
                Phase::Underway => Phase::Answered(usage),
                _ => Phase::Free,
            };
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USAGE: Usage = Usage {
        size_bytes: 5.0,
        free_bytes: 4.0,
        available_bytes: 3.0,
        files: 2.0,
        files_free: 1.0,
    };

    static GATE: Mutex<()> = Mutex::new(());

    fn ask(path: &str) -> Option<Usage> {
        match path {
            "/hangs" => {
                drop(GATE.lock());
                Some(USAGE)
            }
            "/fails" => None,
            _ => Some(USAGE),
        }
    }

    #[test]
    fn a_server_that_is_gone_delays_once_and_is_asked_again_when_it_is_back() {
        let patience = Patience::default();
        let long = Duration::from_secs(60);
        assert_eq!(patience.ask("/good", ask, long), Some(USAGE));
        assert_eq!(patience.ask("/fails", ask, long), None);
        let gone = GATE.lock();
        assert_eq!(patience.ask("/hangs", ask, Duration::from_millis(20)), None);
        let begin = Instant::now();
        assert_eq!(patience.ask("/good", ask, long), None, "not waited for again");
        assert!(begin.elapsed() < long / 2);
        drop(gone);
        let mut state = patience.desk.state.lock();
        while state.phase != Phase::Free {
            assert!(!patience.desk.changed.wait_for(&mut state, long).timed_out());
        }
        drop(state);
        assert_eq!(patience.ask("/good", ask, long), Some(USAGE));
    }

    #[test]
    fn the_root_is_there_and_a_name_that_is_not_fails() {
        let patience = Patience::default();
        assert!(
            patience.usage("/", "ext4").is_some_and(|usage| usage.size_bytes >= usage.free_bytes)
        );
        assert!(patience.usage("/", "nfs").is_some(), "through the thread");
        assert_eq!(patience.usage("/no/such/place", "fuse.sshfs"), None);
    }
}
