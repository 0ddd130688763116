//! The functions of PromQL: names, argument types, what they return.

use crate::ast::ValueType::{self, Matrix, Scalar, String, Vector};

/// The signature of a function.
#[derive(Debug, PartialEq)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// The types of its arguments; the last ones may be optional.
    pub arguments: &'static [ValueType],
    /// 0: as many arguments as `arguments`. Otherwise the last one may be left out, and may be
    /// written as often as this number says; any number of times where it is negative.
    pub variadic: i8,
    /// The type of its value.
    pub returns: ValueType,
    /// Needs the feature `promql-experimental-functions`.
    pub experimental: bool,
}

/// The function of a name. Cost: a binary search.
pub fn function(name: &str) -> Option<&'static Function> {
    FUNCTIONS.binary_search_by(|f| f.name.cmp(name)).ok().map(|at| &FUNCTIONS[at])
}

const fn stable(
    name: &'static str,
    arguments: &'static [ValueType],
    variadic: i8,
    returns: ValueType,
) -> Function {
    Function { name, arguments, variadic, returns, experimental: false }
}

const fn experimental(
    name: &'static str,
    arguments: &'static [ValueType],
    variadic: i8,
    returns: ValueType,
) -> Function {
    Function { name, arguments, variadic, returns, experimental: true }
}

/// All functions, sorted by name.
pub static FUNCTIONS: &[Function] = &[
    stable("abs", &[Vector], 0, Vector),
    stable("absent", &[Vector], 0, Vector),
    stable("absent_over_time", &[Matrix], 0, Vector),
    stable("acos", &[Vector], 0, Vector),
    stable("acosh", &[Vector], 0, Vector),
    stable("asin", &[Vector], 0, Vector),
    stable("asinh", &[Vector], 0, Vector),
    stable("atan", &[Vector], 0, Vector),
    stable("atanh", &[Vector], 0, Vector),
    stable("avg_over_time", &[Matrix], 0, Vector),
    stable("ceil", &[Vector], 0, Vector),
    stable("changes", &[Matrix], 0, Vector),
    stable("clamp", &[Vector, Scalar, Scalar], 0, Vector),
    stable("clamp_max", &[Vector, Scalar], 0, Vector),
    stable("clamp_min", &[Vector, Scalar], 0, Vector),
    stable("cos", &[Vector], 0, Vector),
    stable("cosh", &[Vector], 0, Vector),
    stable("count_over_time", &[Matrix], 0, Vector),
    stable("day_of_month", &[Vector], 1, Vector),
    stable("day_of_week", &[Vector], 1, Vector),
    stable("day_of_year", &[Vector], 1, Vector),
    stable("days_in_month", &[Vector], 1, Vector),
    stable("deg", &[Vector], 0, Vector),
    stable("delta", &[Matrix], 0, Vector),
    stable("deriv", &[Matrix], 0, Vector),
    experimental("double_exponential_smoothing", &[Matrix, Scalar, Scalar], 0, Vector),
    experimental("end", &[], 0, Scalar),
    stable("exp", &[Vector], 0, Vector),
    stable("first_over_time", &[Matrix], 0, Vector),
    stable("floor", &[Vector], 0, Vector),
    stable("histogram_avg", &[Vector], 0, Vector),
    stable("histogram_count", &[Vector], 0, Vector),
    stable("histogram_fraction", &[Scalar, Scalar, Vector], 0, Vector),
    stable("histogram_quantile", &[Scalar, Vector], 0, Vector),
    experimental("histogram_quantiles", &[Vector, String, Scalar, Scalar], 9, Vector),
    stable("histogram_stddev", &[Vector], 0, Vector),
    stable("histogram_stdvar", &[Vector], 0, Vector),
    stable("histogram_sum", &[Vector], 0, Vector),
    stable("hour", &[Vector], 1, Vector),
    stable("idelta", &[Matrix], 0, Vector),
    stable("increase", &[Matrix], 0, Vector),
    experimental("info", &[Vector, Vector], 1, Vector),
    stable("irate", &[Matrix], 0, Vector),
    stable("label_join", &[Vector, String, String, String], -1, Vector),
    stable("label_replace", &[Vector, String, String, String, String], 0, Vector),
    stable("last_over_time", &[Matrix], 0, Vector),
    stable("ln", &[Vector], 0, Vector),
    stable("log10", &[Vector], 0, Vector),
    stable("log2", &[Vector], 0, Vector),
    experimental("mad_over_time", &[Matrix], 0, Vector),
    experimental("max_of", &[Scalar, Scalar], 0, Scalar),
    stable("max_over_time", &[Matrix], 0, Vector),
    experimental("min_of", &[Scalar, Scalar], 0, Scalar),
    stable("min_over_time", &[Matrix], 0, Vector),
    stable("minute", &[Vector], 1, Vector),
    stable("month", &[Vector], 1, Vector),
    stable("pi", &[], 0, Scalar),
    stable("predict_linear", &[Matrix, Scalar], 0, Vector),
    stable("present_over_time", &[Matrix], 0, Vector),
    stable("quantile_over_time", &[Scalar, Matrix], 0, Vector),
    stable("rad", &[Vector], 0, Vector),
    experimental("range", &[], 0, Scalar),
    stable("rate", &[Matrix], 0, Vector),
    stable("resets", &[Matrix], 0, Vector),
    stable("round", &[Vector, Scalar], 1, Vector),
    stable("scalar", &[Vector], 0, Scalar),
    stable("sgn", &[Vector], 0, Vector),
    stable("sin", &[Vector], 0, Vector),
    stable("sinh", &[Vector], 0, Vector),
    stable("sort", &[Vector], 0, Vector),
    experimental("sort_by_label", &[Vector, String], -1, Vector),
    experimental("sort_by_label_desc", &[Vector, String], -1, Vector),
    stable("sort_desc", &[Vector], 0, Vector),
    stable("sqrt", &[Vector], 0, Vector),
    experimental("start", &[], 0, Scalar),
    experimental("start_timestamp", &[Vector], 0, Vector),
    stable("stddev_over_time", &[Matrix], 0, Vector),
    stable("stdvar_over_time", &[Matrix], 0, Vector),
    experimental("step", &[], 0, Scalar),
    stable("sum_over_time", &[Matrix], 0, Vector),
    stable("tan", &[Vector], 0, Vector),
    stable("tanh", &[Vector], 0, Vector),
    stable("time", &[], 0, Scalar),
    stable("timestamp", &[Vector], 0, Vector),
    experimental("ts_of_first_over_time", &[Matrix], 0, Vector),
    experimental("ts_of_last_over_time", &[Matrix], 0, Vector),
    experimental("ts_of_max_over_time", &[Matrix], 0, Vector),
    experimental("ts_of_min_over_time", &[Matrix], 0, Vector),
    stable("vector", &[Scalar], 0, Vector),
    stable("year", &[Vector], 1, Vector),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_found_by_its_name() {
        for entry in FUNCTIONS {
            assert_eq!(
                function(entry.name),
                Some(entry),
                "{}: the table is not sorted",
                entry.name
            );
        }
        assert_eq!(function("no_such_function"), None);
    }
}
