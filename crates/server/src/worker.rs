//! Work on a thread that others wait for: a worker has a thread, and timers and connections that no other
//! thread looks after.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Does something that takes longer than others should have to wait: another thread goes on with what the
/// runtime has to do, where it has one that may. *Growth:* that thread may have to be started.
pub(crate) fn stand_aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}
