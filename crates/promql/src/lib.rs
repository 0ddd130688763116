//! PromQL as in Prometheus 3.x: parse, then evaluate over what the store selects.
//!
//! ```text
//! text ─ parse ─▶ ast::Query ─ evaluate ─▶ Value + annotations
//! ```
#![forbid(unsafe_code)]

pub mod ast;
pub mod functions;
