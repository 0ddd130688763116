//! Threads on which bodies are rendered, so that no executor's thread waits for one.
//!
//! A thread is started where none is idle and kept for the next body; of those that are idle, all but one
//! end after a while. There are at most [`MOST`]: a scrape beyond is refused.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use parking_lot::{Condvar, Mutex};

use super::Answer;
use super::pipe::Sender;

/// Bodies that are rendered at the same time, each by a thread of its own for as long as its reader
/// takes.
const MOST: usize = 64;

/// How long a thread waits for another body before it ends, unless it is the last.
const IDLE: Duration = Duration::from_secs(10);

/// Buffers that a thread keeps: as many as an HTTP server may hold back before it stops taking more.
/// hyper takes up to 16 pieces of at most 400 KiB.
const MOST_BUFFERS: usize = 20;

/// Something to render, and where to.
pub(super) struct Job {
    pub(super) answer: Answer,
    pub(super) sender: Sender,
}

/// The threads of one endpoint. They end when it goes, after what they are at.
#[derive(Default)]
pub(super) struct Workers(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    idle: usize,
    threads: usize,
    is_closed: bool,
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.state.lock();
        f.debug_struct("Workers").field("threads", &state.threads).finish_non_exhaustive()
    }
}

impl Workers {
    /// Has a job done; says no where there are too many already or the system has no thread. *Steady*
    /// where a thread is idle.
    pub(super) fn take(&self, job: Job) -> bool {
        let mut state = self.0.state.lock();
        if state.idle > state.jobs.len() {
            state.jobs.push_back(job);
            self.0.changed.notify_one();
            return true;
        }
        if state.threads == MOST {
            return false;
        }
        let shared = self.0.clone();
        let thread = std::thread::Builder::new().name("unladen-render".into());
        if thread.spawn(move || work(&shared)).is_err() {
            return false;
        }
        state.threads += 1;
        state.jobs.push_back(job);
        true
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.0.state.lock().is_closed = true;
        self.0.changed.notify_all();
    }
}

fn work(shared: &Shared) {
    let mut buffers = Buffers::default();
    let mut state = shared.state.lock();
    loop {
        if let Some(Job { answer, mut sender }) = state.jobs.pop_front() {
            drop(state);
            // The body is cut off by the sender's end; the panic itself is told by its hook.
            let render = || {
                if !answer.ready_at().is_none_or(|time| sender.wait_until(time)) {
                    return;
                }
                let send = |(), chunk: &[u8]| sender.send(buffers.fill(chunk));
                if answer.try_fold((), send).is_ok() {
                    sender.finish();
                }
            };
            let _ = catch_unwind(AssertUnwindSafe(render));
            drop(sender);
            state = shared.state.lock();
            continue;
        }
        let is_last = state.threads == 1;
        if state.is_closed {
            break;
        }
        state.idle += 1;
        let timed_out = match is_last {
            true => {
                shared.changed.wait(&mut state);
                false
            }
            false => shared.changed.wait_for(&mut state, IDLE).timed_out(),
        };
        state.idle -= 1;
        if timed_out && state.jobs.is_empty() && state.threads > 1 {
            break;
        }
    }
    state.threads -= 1;
}

/// Buffers that go out as [`Bytes`](bytes::Bytes) and are filled again when their readers have dropped
/// them.
#[derive(Default)]
struct Buffers {
    all: VecDeque<BytesMut>,
}

impl Buffers {
    /// A copy of `chunk`. *Steady* once there are as many buffers as the reader holds back.
    fn fill(&mut self, chunk: &[u8]) -> bytes::Bytes {
        let is_free = |buffer: &mut BytesMut| buffer.try_reclaim(chunk.len());
        let mut buffer = match self.all.iter_mut().position(is_free) {
            Some(at) => self.all.remove(at).unwrap_or_default(),
            None => BytesMut::with_capacity(wire::exposition::writer::CHUNK),
        };
        buffer.extend_from_slice(chunk);
        let bytes = buffer.split().freeze();
        // Behind those that have been out for longer.
        if self.all.len() < MOST_BUFFERS {
            self.all.push_back(buffer);
        }
        bytes
    }
}
