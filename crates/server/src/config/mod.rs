//! `prometheus.yml`: read, checked, its defaults filled in.

pub mod http_client;
mod model;

pub use http_client::HttpClient;
pub use model::*;
