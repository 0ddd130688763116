//! Profiles: the writer and the reader against the types that prost makes of the schema, against what Go
//! says of real profiles, and against damage.
#![expect(clippy::print_stdout, reason = "what is skipped is said")]

mod damage;
mod go;
mod model;
mod properties;
mod raw;
