//! Which thread is sampled when, and how.
//!
//! ```text
//! sampler   a tick
//! accounts  who gets which time
//! budget    when the next one is
//! wake      that it comes then
//! threads   who there is, what each was last seen doing, whose turn it is
//! tasks     what the kernel shows of threads
//! clock     whether a thread ran
//! signal    the handler, and sending
//! slots     where handlers write
//! counters  what was done, and what it cost
//! ```
mod accounts;
mod budget;
mod clock;
mod counters;
mod sampler;
mod signal;
mod slots;
mod tasks;
mod threads;
mod wake;

pub(crate) use accounts::scope_labels;
pub(crate) use budget::{Budget, LONGEST};
pub(crate) use clock::{cpu_of, now, own_cpu, process_cpu};
pub(crate) use counters::Counters;
pub use counters::Statistics;
pub use sampler::ThreadStack;
pub(crate) use sampler::{Options, Sampler};
pub(crate) use signal::without_signals;
pub use tasks::Tid;
pub(crate) use tasks::{Status, Tasks};
