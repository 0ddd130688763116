//! Scraping: from targets to the store.
//!
//! ```text
//! status      what the API and the page show
//! metadata    type, help and unit of the families of a target
//! ```

mod metadata;
mod status;

pub use status::{DroppedTarget, Health, Metadata, PoolStatus, Status, TargetStatus};
