//! The binary unladen: scrape, keep, query, look.

mod api;
mod app;
pub mod cli;
pub mod config;
mod cost;
mod cpu_span;
pub mod discovery;
pub mod duration;
pub mod fleet;
pub mod http_client;
pub mod loadtest;
mod log;
pub mod machine;
mod metrics;
pub mod plan;
pub mod profiles;
mod profiling;
pub mod relabel;
pub mod scrape;
pub mod secret;
pub mod serve;
mod shelf;
pub mod size;
mod time;
mod web;
mod worker;
