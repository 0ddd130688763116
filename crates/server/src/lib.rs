//! The binary unladen: scrape, keep, query, look.

pub mod config;
pub mod relabel;
pub mod secret;
