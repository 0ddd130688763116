//! Operations that look at each sample on its own: signs, functions of one number, scalars.

use store::FloatHistogram;

use super::column::{Column, Grid, Item, Output};
use super::context::{Context, Scratch};
use super::element;
use super::number::{maximum, minimum, truth};
use super::source::{Meta, Source};
use crate::ast::{BinaryOp, Span};
use crate::error::QueryError;
use crate::histogram;

/// What is done to each sample.
pub(crate) enum Operation {
    /// Floats only; histograms are dropped.
    Float(fn(f64) -> f64),
    /// Histograms only; floats are dropped.
    Histogram(fn(&FloatHistogram) -> f64),
    /// Lower and upper limit of each step.
    Clamp(Vec<f64>, Vec<f64>),
    /// To which multiple, at each step.
    Round(Vec<f64>),
    /// `-x`
    Negate,
    /// The time of the step, in seconds.
    Time,
    /// A binary operator with a scalar.
    Scalar(ScalarOperator),
}

/// A binary operator with a scalar.
pub(crate) struct ScalarOperator {
    pub(crate) op: BinaryOp,
    /// The scalar at each step.
    pub(crate) scalar: Vec<f64>,
    /// Whether the scalar stands on the left.
    pub(crate) scalar_left: bool,
    pub(crate) return_bool: bool,
    pub(crate) span: Span,
}

/// A vector with something done to each sample when asked.
pub(crate) struct MapSource<'a> {
    pub(crate) input: Box<dyn Source + 'a>,
    pub(crate) metas: Vec<Meta>,
    pub(crate) operation: Operation,
    pub(crate) grid: Grid,
}

impl Source for MapSource<'_> {
    fn metas(&self) -> &[Meta] {
        &self.metas
    }

    fn fill(
        &self,
        context: &Context<'_>,
        index: usize,
        scratch: &mut Scratch,
        out: &mut Column,
    ) -> Result<(), QueryError> {
        self.input.fill(context, index, scratch, out)?;
        for step in 0..out.len() {
            let Some(item) = out.get(step) else { continue };
            let output = match (&self.operation, item) {
                (Operation::Float(function), Item::Float(value)) => Output::Float(function(value)),
                (Operation::Histogram(function), Item::Histogram(histogram)) => {
                    Output::Float(function(histogram))
                }
                (Operation::Clamp(lower, upper), Item::Float(value)) => {
                    clamp(value, lower[step], upper[step])
                }
                (Operation::Round(to), Item::Float(value)) => {
                    // The inverse loses less for fractions such as 0.1.
                    let inverse = 1.0 / to[step];
                    Output::Float((value * inverse + 0.5).floor() / inverse)
                }
                (Operation::Negate, Item::Float(value)) => Output::Float(-value),
                (Operation::Negate, Item::Histogram(histogram)) => {
                    Output::histogram(histogram::multiply(histogram, -1.0))
                }
                (Operation::Time, _) => Output::Float(self.grid.time(step) as f64 / 1000.0),
                (Operation::Scalar(operator), item) => operator.apply(item, step, scratch),
                _ => Output::Nothing,
            };
            out.set(step, output);
        }
        Ok(())
    }
}

fn clamp(value: f64, lower: f64, upper: f64) -> Output {
    if upper < lower {
        return Output::Nothing;
    }
    Output::Float(maximum(lower, minimum(upper, value)))
}

impl ScalarOperator {
    fn apply(&self, item: Item<'_>, step: usize, scratch: &mut Scratch) -> Output {
        let scalar = Item::Float(self.scalar[step]);
        let (left, right) = if self.scalar_left { (scalar, item) } else { (item, scalar) };
        let annotations = &mut scratch.annotations;
        let Some(applied) = element::apply(self.op, left, right, annotations, self.span) else {
            return Output::Nothing;
        };
        if self.return_bool {
            return Output::Float(truth(applied.keep));
        }
        if !applied.keep {
            return Output::Nothing;
        }
        match item {
            // A comparison yields the vector's sample, on whichever side it stands.
            Item::Float(value) if self.is_comparison() => Output::Float(value),
            _ => applied.value,
        }
    }

    fn is_comparison(&self) -> bool {
        element::compare(self.op, 0.0, 0.0).is_some()
    }

    /// Whether the result is another quantity than the vector.
    pub(crate) fn changes_metric(&self) -> bool {
        self.return_bool || element::changes_metric(self.op)
    }
}

/// The function of one float with this name.
pub(crate) fn float_function(name: &str) -> Option<fn(f64) -> f64> {
    Some(match name {
        "abs" => f64::abs,
        "acos" => f64::acos,
        "acosh" => f64::acosh,
        "asin" => f64::asin,
        "asinh" => f64::asinh,
        "atan" => f64::atan,
        "atanh" => f64::atanh,
        "ceil" => f64::ceil,
        "cos" => f64::cos,
        "cosh" => f64::cosh,
        "deg" => |value| value * 180.0 / std::f64::consts::PI,
        "exp" => f64::exp,
        "floor" => f64::floor,
        "ln" => f64::ln,
        "log10" => f64::log10,
        "log2" => f64::log2,
        "rad" => |value| value * std::f64::consts::PI / 180.0,
        "sgn" => |value| {
            if value > 0.0 {
                1.0
            } else if value < 0.0 {
                -1.0
            } else {
                value
            }
        },
        "sin" => f64::sin,
        "sinh" => f64::sinh,
        "sqrt" => f64::sqrt,
        "tan" => f64::tan,
        "tanh" => f64::tanh,
        _ => return date_function(name),
    })
}

/// The function of a time in seconds with this name.
pub(crate) fn date_function(name: &str) -> Option<fn(f64) -> f64> {
    Some(match name {
        "day_of_month" => |seconds| f64::from(date(seconds).2),
        "day_of_week" => |seconds| (days(seconds) + 4).rem_euclid(7) as f64,
        "day_of_year" => |seconds| {
            let (year, month, day) = date(seconds);
            let before: u32 = (1..month).map(|month| month_length(year, month)).sum();
            f64::from(before + day)
        },
        "days_in_month" => |seconds| {
            let (year, month, _) = date(seconds);
            f64::from(month_length(year, month))
        },
        "hour" => |seconds| (second_of_day(seconds) / 3600) as f64,
        "minute" => |seconds| (second_of_day(seconds) / 60 % 60) as f64,
        "month" => |seconds| f64::from(date(seconds).1),
        "year" => |seconds| date(seconds).0 as f64,
        _ => return None,
    })
}

fn days(seconds: f64) -> i64 {
    (seconds as i64).div_euclid(86_400)
}

fn second_of_day(seconds: f64) -> i64 {
    (seconds as i64).rem_euclid(86_400)
}

fn date(seconds: f64) -> (i64, u32, u32) {
    crate::number::civil(days(seconds))
}

fn month_length(year: i64, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// The function of one histogram with this name.
pub(crate) fn histogram_function(name: &str) -> Option<fn(&FloatHistogram) -> f64> {
    Some(match name {
        "histogram_count" => |h| h.count,
        "histogram_sum" => |h| h.sum,
        "histogram_avg" => |h| h.sum / h.count,
        "histogram_stddev" => |h| histogram::variance(h).sqrt(),
        "histogram_stdvar" => histogram::variance,
        _ => return None,
    })
}
