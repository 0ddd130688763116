//! The binary unladen: scrape, keep, query, look.

pub mod config;
pub mod discovery;
pub mod duration;
pub mod http_client;
pub mod machine;
pub mod relabel;
pub mod scrape;
pub mod secret;
pub mod size;
