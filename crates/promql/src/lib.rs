//! PromQL as in Prometheus 3.x: parse, then evaluate over what the store selects.
//!
//! ```text
//! text ─ parse ─▶ ast::Query ─ evaluate ─▶ Value + annotations
//! ```
#![forbid(unsafe_code)]

pub mod annotations;
pub mod ast;
pub mod engine;
pub mod error;
mod evaluate;
pub mod functions;
pub mod histogram;
mod kahan;
mod lexer;
mod number;
pub mod parser;
pub mod printer;
pub mod quote;
pub mod value;

pub use annotations::Annotations;
pub use ast::Query;
pub use engine::{Cancel, Engine, Limits, Options, Outcome, Stats};
pub use error::QueryError;
pub use parser::{MAX_DEPTH, ParseError, ParseOptions, parse, parse_selector, parse_with};
pub use printer::{format_duration, prettify};
pub use value::Value;
