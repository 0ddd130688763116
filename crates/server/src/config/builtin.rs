//! The configuration when none is given: the server and its machine, scraped by the server itself.

use std::path::Path;

use super::error::ConfigErrors;
use super::load::{Loaded, Options, load_text};

/// The text, with `${LISTEN}` for the address at which the server is reached.
const TEXT: &str = include_str!("builtin.yml");

/// What errors and the page call it.
pub const BUILTIN_NAME: &str = "built-in configuration";

/// The text of the built-in configuration for a server that is reached at `address`, `host:port`;
/// `prefix` is what stands before `/metrics` in its paths, empty or such as `/unladen`.
pub fn builtin_text(address: &str, prefix: &str) -> String {
    let prefix = prefix.trim_end_matches('/');
    let text = TEXT.replace("${LISTEN}", address);
    if prefix.is_empty() {
        return text;
    }
    text.replace("metrics_path: /", &format!("metrics_path: {prefix}/")).replace(
        "  - job_name: unladen\n",
        &format!("  - job_name: unladen\n    metrics_path: {prefix}/metrics\n"),
    )
}

/// The built-in configuration, read like any other.
///
/// # Errors
/// `address` or `prefix` hold characters that YAML or the configuration refuses.
pub fn builtin(address: &str, prefix: &str) -> Result<Loaded, ConfigErrors> {
    let text = builtin_text(address, prefix);
    load_text(&text, Path::new(BUILTIN_NAME), Path::new(""), &Options::default())
}
