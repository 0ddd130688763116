//! The binary unladen: scrape, keep, query, look.

pub mod config;
pub mod http_client;
pub mod relabel;
pub mod scrape;
pub mod secret;
