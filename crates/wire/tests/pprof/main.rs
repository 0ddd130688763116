//! Profiles: the writer and the reader against the types that prost makes of the schema, against what Go
//! says of real profiles, and against damage.

mod damage;
mod go;
mod model;
mod properties;
mod raw;
