//! The functions of PromQL: names, argument types, what they return.

use crate::ast::ValueType;

/// The signature of a function.
#[derive(Debug, PartialEq)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// The types of its arguments; the last ones may be optional.
    pub arguments: &'static [ValueType],
    /// How many of the last argument may be left out (positive) or repeated without end (-1).
    pub variadic: i8,
    /// The type of its value.
    pub returns: ValueType,
    /// Needs the feature `promql-experimental-functions`.
    pub experimental: bool,
}
