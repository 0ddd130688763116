//! Binary operators on two samples.

use store::histogram::CounterResetHint;

use super::column::{Item, Output};
use super::number::{power, truth};
use crate::annotations::Annotations;
use crate::ast::{BinaryOp, Span};
use crate::histogram::{self, Incompatible, Noted};

/// The operator as it is written.
pub(crate) fn symbol(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "+",
        BinaryOp::Sub => "-",
        BinaryOp::Mul => "*",
        BinaryOp::Div => "/",
        BinaryOp::Mod => "%",
        BinaryOp::Pow => "^",
        BinaryOp::Atan2 => "atan2",
        BinaryOp::Equal => "==",
        BinaryOp::NotEqual => "!=",
        BinaryOp::Less => "<",
        BinaryOp::LessEqual => "<=",
        BinaryOp::Greater => ">",
        BinaryOp::GreaterEqual => ">=",
        BinaryOp::And => "and",
        BinaryOp::Or => "or",
        BinaryOp::Unless => "unless",
        BinaryOp::TrimUpper => "</",
        BinaryOp::TrimLower => ">/",
    }
}

/// Whether the result is another quantity than the operands.
pub(crate) fn changes_metric(op: BinaryOp) -> bool {
    use BinaryOp::{Add, Atan2, Div, Mod, Mul, Pow, Sub};
    matches!(op, Add | Sub | Mul | Div | Mod | Pow | Atan2)
}

/// Compares two floats; none if the operator doesn't compare.
pub(crate) fn compare(op: BinaryOp, left: f64, right: f64) -> Option<bool> {
    Some(match op {
        BinaryOp::Equal => left == right,
        BinaryOp::NotEqual => left != right,
        BinaryOp::Less => left < right,
        BinaryOp::LessEqual => left <= right,
        BinaryOp::Greater => left > right,
        BinaryOp::GreaterEqual => left >= right,
        _ => return None,
    })
}

/// Computes with two floats; none if the operator doesn't.
fn compute(op: BinaryOp, left: f64, right: f64) -> Option<f64> {
    Some(match op {
        BinaryOp::Add => left + right,
        BinaryOp::Sub => left - right,
        BinaryOp::Mul => left * right,
        BinaryOp::Div => left / right,
        BinaryOp::Mod => left % right,
        BinaryOp::Pow => power(left, right),
        BinaryOp::Atan2 => left.atan2(right),
        _ => return None,
    })
}

/// An operator between two scalars: a comparison is 1 or 0.
pub(crate) fn scalars(op: BinaryOp, left: f64, right: f64) -> f64 {
    match compare(op, left, right) {
        Some(result) => truth(result),
        None => compute(op, left, right).unwrap_or(f64::NAN),
    }
}

/// The value of an operation, and whether a comparison holds.
pub(crate) struct Applied {
    pub(crate) value: Output,
    pub(crate) keep: bool,
}

impl Applied {
    fn always(value: Output) -> Option<Self> {
        Some(Applied { value, keep: true })
    }
}

/// Applies an operator; none, with a note, if the two don't go together.
pub(crate) fn apply(
    op: BinaryOp,
    left: Item<'_>,
    right: Item<'_>,
    annotations: &mut Annotations,
    span: Span,
) -> Option<Applied> {
    let kind = |item: Item<'_>| match item {
        Item::Float(_) => "float",
        Item::Histogram(_) => "histogram",
    };
    let result = match (left, right) {
        (Item::Float(left), Item::Float(right)) => match compare(op, left, right) {
            Some(keep) => Some(Applied { value: Output::Float(left), keep }),
            None => {
                compute(op, left, right).and_then(|value| Applied::always(Output::Float(value)))
            }
        },
        (Item::Float(factor), Item::Histogram(operand)) if op == BinaryOp::Mul => {
            let product = histogram::compact(histogram::multiply(operand, factor));
            Applied::always(Output::histogram(product))
        }
        (Item::Float(_), Item::Histogram(_)) => None,
        (Item::Histogram(operand), Item::Float(number)) => {
            let found = match op {
                BinaryOp::Mul => Some(histogram::compact(histogram::multiply(operand, number))),
                BinaryOp::Div => Some(histogram::compact(histogram::divide(operand, number))),
                BinaryOp::TrimUpper => Some(histogram::trim(operand, number, true)),
                BinaryOp::TrimLower => Some(histogram::trim(operand, number, false)),
                _ => None,
            };
            found.and_then(|found| Applied::always(Output::histogram(found)))
        }
        (Item::Histogram(left), Item::Histogram(right)) => match op {
            BinaryOp::Add => return sum(histogram::add(left, right), op, annotations, span),
            BinaryOp::Sub => {
                let difference = histogram::subtract(left, right).map(|(mut result, noted)| {
                    result.counter_reset_hint = CounterResetHint::Gauge;
                    (result, noted)
                });
                return sum(difference, op, annotations, span);
            }
            BinaryOp::Equal | BinaryOp::NotEqual => {
                let keep = histogram::equal(left, right) == (op == BinaryOp::Equal);
                Some(Applied { value: Output::Histogram(left.clone()), keep })
            }
            _ => None,
        },
    };
    if result.is_none() {
        let (left, right) = (kind(left), kind(right));
        super::notes::incompatible_types(annotations, span, left, symbol(op), right);
    }
    result
}

fn sum(
    result: Result<(store::FloatHistogram, Noted), Incompatible>,
    op: BinaryOp,
    annotations: &mut Annotations,
    span: Span,
) -> Option<Applied> {
    let operation = if op == BinaryOp::Add { "addition" } else { "subtraction" };
    match result {
        Err(Incompatible) => {
            super::notes::incompatible_buckets(annotations, span, symbol(op));
            None
        }
        Ok((_, noted)) if noted.collision => {
            super::notes::collision(annotations, span, operation);
            None
        }
        Ok((result, noted)) => {
            if noted.reconciled {
                super::notes::reconciled(annotations, span, operation);
            }
            Applied::always(Output::histogram(result))
        }
    }
}
