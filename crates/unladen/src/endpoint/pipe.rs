//! From the thread that renders a body to the task that sends it: a few chunks at most in between.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

/// Chunks between the two.
const MOST: usize = 2;

/// A pipe whose reader may let a chunk wait for so long. *Setup*: one allocation.
pub(super) fn pipe(patience: Duration) -> (Sender, Receiver) {
    let shared = Arc::new(Shared::default());
    (Sender { shared: shared.clone(), patience }, Receiver(shared))
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    has_room: Condvar,
}

#[derive(Default)]
struct State {
    chunks: [Option<Bytes>; MOST],
    waker: Option<Waker>,
    /// The body is whole.
    is_whole: bool,
    /// Nobody writes any more.
    has_ended: bool,
    /// Nobody reads any more.
    is_abandoned: bool,
}

/// The end that writes. Dropped without [`finish`](Sender::finish), it breaks the body off.
pub(super) struct Sender {
    shared: Arc<Shared>,
    patience: Duration,
}

/// The end that reads. Dropped, it ends the rendering.
#[derive(Debug)]
pub(super) struct Receiver(Arc<Shared>);

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// Nobody reads the body.
#[derive(Debug)]
pub(super) struct Abandoned;

/// The writer went away before the end.
#[derive(Debug)]
pub(super) struct Broken;

impl Sender {
    /// Waits for room. *Steady.*
    pub(super) fn send(&mut self, chunk: Bytes) -> Result<(), Abandoned> {
        let mut state = self.shared.state.lock();
        let deadline = Instant::now() + self.patience;
        loop {
            if state.is_abandoned {
                return Err(Abandoned);
            }
            if let Some(place) = state.chunks.iter_mut().find(|place| place.is_none()) {
                *place = Some(chunk);
                let waker = state.waker.take();
                drop(state);
                waker.into_iter().for_each(Waker::wake);
                return Ok(());
            }
            if self.shared.has_room.wait_until(&mut state, deadline).timed_out() && state.is_full()
            {
                return Err(Abandoned);
            }
        }
    }

    /// Waits for a time; says whether the reader did so too.
    pub(super) fn wait_until(&self, time: Instant) -> bool {
        let mut state = self.shared.state.lock();
        while !state.is_abandoned {
            if self.shared.has_room.wait_until(&mut state, time).timed_out() {
                break;
            }
        }
        !state.is_abandoned
    }

    /// Says that the body is whole.
    pub(super) fn finish(&mut self) {
        self.shared.state.lock().is_whole = true;
    }
}

impl State {
    fn is_full(&self) -> bool {
        self.chunks.iter().all(Option::is_some)
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.has_ended = true;
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Receiver {
    /// The next chunk; none behind the last. *Steady.*
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Broken>>> {
        let mut state = self.0.state.lock();
        if let Some(chunk) = state.chunks[0].take() {
            state.chunks.rotate_left(1);
            self.0.has_room.notify_one();
            return Poll::Ready(Some(Ok(chunk)));
        }
        match (state.has_ended, state.is_whole) {
            (true, true) => Poll::Ready(None),
            (true, false) => {
                // Said once; whoever asks again gets the end.
                state.is_whole = true;
                Poll::Ready(Some(Err(Broken)))
            }
            (false, _) => {
                match &mut state.waker {
                    Some(waker) => waker.clone_from(context.waker()),
                    none => *none = Some(context.waker().clone()),
                }
                Poll::Pending
            }
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_abandoned = true;
        // Whoever waits for a chunk's buffer gets it back now.
        let chunks = std::mem::take(&mut state.chunks);
        drop(state);
        drop(chunks);
        self.0.has_room.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(receiver: &mut Receiver) -> Poll<Option<Result<Bytes, Broken>>> {
        receiver.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn chunks_come_in_order_and_then_the_end() {
        let (mut sender, mut receiver) = pipe(Duration::from_secs(60));
        assert!(poll(&mut receiver).is_pending());
        for chunk in ["a", "b"] {
            sender.send(Bytes::from_static(chunk.as_bytes())).unwrap();
        }
        for expected in ["a", "b"] {
            let Poll::Ready(Some(Ok(chunk))) = poll(&mut receiver) else { panic!("no chunk") };
            assert_eq!(chunk, expected);
        }
        assert!(poll(&mut receiver).is_pending());
        sender.finish();
        assert!(poll(&mut receiver).is_pending(), "not before its end is known to be the last");
        drop(sender);
        assert!(matches!(poll(&mut receiver), Poll::Ready(None)));
    }

    #[test]
    fn a_part_is_not_taken_for_the_whole() {
        let (mut sender, mut receiver) = pipe(Duration::from_secs(60));
        sender.send(Bytes::from_static(b"a")).unwrap();
        drop(sender);
        assert!(matches!(poll(&mut receiver), Poll::Ready(Some(Ok(_)))));
        assert!(matches!(poll(&mut receiver), Poll::Ready(Some(Err(Broken)))));
        assert!(matches!(poll(&mut receiver), Poll::Ready(None)));
    }

    #[test]
    fn nobody_renders_for_nobody() {
        let (mut sender, receiver) = pipe(Duration::from_millis(10));
        for _ in 0..MOST {
            sender.send(Bytes::from_static(b"a")).unwrap();
        }
        sender.send(Bytes::from_static(b"a")).unwrap_err();
        drop(receiver);
        let (mut sender, receiver) = pipe(Duration::from_secs(60));
        assert!(sender.wait_until(Instant::now()));
        let never = Instant::now() + Duration::from_secs(3600);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| sender.wait_until(never));
            drop(receiver);
            assert!(!waiting.join().unwrap());
        });
        sender.send(Bytes::from_static(b"a")).unwrap_err();
    }
}
