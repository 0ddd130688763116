//! Blocks as a whole: against a naive model, against damage, and against Prometheus' own tools.

mod corpus;
mod crash;
mod damage;
mod model;
mod promtool;
