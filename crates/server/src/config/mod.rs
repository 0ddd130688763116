//! `prometheus.yml`: read, checked, its defaults filled in.
//!
//! All of Prometheus 3.14's configuration is understood, down to the fields of every discovery. What
//! does not work yet is in [`Loaded::unsupported`] with its place; nothing is ignored in silence.
//!
//! In layers: `node` is YAML with places; `schema` describes sections as tables, one file for each
//! family of sections; `read` reads nodes by tables into a `section`; `load` lets jobs inherit, checks
//! across sections and builds the `model` that the server works with; `print` writes the sections back.

mod address;
mod alerting;
mod builtin;
mod cloud_auth;
mod discovery;
mod error;
mod global;
pub mod http_client;
mod http_options;
mod load;
mod model;
mod node;
mod observe;
mod print;
mod read;
mod relabel_rules;
mod remote;
mod schema;
mod scrape;
mod section;
mod storage;

pub use builtin::{BUILTIN_NAME, builtin, builtin_text};
pub use error::{ConfigError, ConfigErrors, Notice, Position};
pub use http_client::HttpClient;
pub use load::{Loaded, Options, load, load_text, matching_files};
pub use model::*;
