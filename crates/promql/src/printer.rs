//! Queries as text: on one line, and broken into lines where they are long.
//!
//! Children stand in front of parents in the tree, so one pass over the nodes prints each from the
//! texts of its children. [`prettify`] goes from the root down and breaks what is longer than
//! [`LINE`] bytes on one line.

use std::fmt::{self, Write};

use store::labels::{METRIC_NAME, is_legacy_name};
use store::{MatchOp, Matcher};

use crate::ast::{
    Aggregate, At, Binary, BinaryOp, Cardinality, Duration, DurationOp, Kind, Matching, NodeId,
    Query, RangeExtension, TimeModifiers, VectorSelector,
};
use crate::number::{fixed, general};
use crate::quote::push_quoted;

/// The longest expression that stays on one line, in bytes.
pub const LINE: usize = 100;

/// The query on one line, as Prometheus writes it. Cost: linear in the text times the depth.
impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::with_capacity(self.text.len() + 16);
        Printer { query: self }.write(self.root, &mut out);
        f.write_str(&out)
    }
}

/// The query over several lines, as the formatter of Prometheus breaks it.
pub fn prettify(query: &Query) -> String {
    Pretty { printer: Printer { query }, lengths: Printer { query }.lengths() }.run()
}

/// `1h30m`, `500ms`, `0s`: milliseconds as Prometheus writes durations.
pub fn format_duration(milliseconds: i64) -> String {
    const UNITS: [(&str, u64, bool); 7] = [
        // Years and weeks only where nothing remains: 90d reads better than 12w6d.
        ("y", 365 * 24 * 3_600_000, true),
        ("w", 7 * 24 * 3_600_000, true),
        ("d", 24 * 3_600_000, false),
        ("h", 3_600_000, false),
        ("m", 60_000, false),
        ("s", 1000, false),
        ("ms", 1, false),
    ];
    if milliseconds == 0 {
        return "0s".to_owned();
    }
    let mut out = String::from(if milliseconds < 0 { "-" } else { "" });
    let mut rest = milliseconds.unsigned_abs();
    for (unit, length, whole) in UNITS {
        if rest < length || (whole && !rest.is_multiple_of(length)) {
            continue;
        }
        // Writing to a String never fails.
        let _ = write!(out, "{}{unit}", rest / length);
        rest %= length;
    }
    out
}

/// A piece of work of the printer.
enum Piece {
    Node(NodeId),
    Text(&'static str),
    Suffix(NodeId),
}

struct Printer<'a> {
    query: &'a Query,
}

impl Printer<'_> {
    fn write(&self, root: NodeId, out: &mut String) {
        let mut work = vec![Piece::Node(root)];
        while let Some(piece) = work.pop() {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Suffix(id) => self.suffix(id, out),
                Piece::Node(id) => self.begin(id, out, &mut work),
            }
        }
    }

    /// Writes the beginning of a node, and leaves the rest as work.
    fn begin(&self, id: NodeId, out: &mut String, work: &mut Vec<Piece>) {
        match &self.query.node(id).kind {
            Kind::Number { value, duration } => push_number(out, *value, *duration),
            Kind::String(text) => push_quoted(out, text),
            Kind::VectorSelector(selector) => push_selector(out, selector, true),
            Kind::MatrixSelector { selector, range } => {
                if let Kind::VectorSelector(selector) = &self.query.node(*selector).kind {
                    push_matrix(out, selector, range);
                }
            }
            Kind::Subquery { expr, .. } => work.extend([Piece::Suffix(id), Piece::Node(*expr)]),
            Kind::Unary { negate, expr } => {
                out.push(if *negate { '-' } else { '+' });
                work.push(Piece::Node(*expr));
            }
            Kind::Paren(expr) => {
                out.push('(');
                work.extend([Piece::Text(")"), Piece::Node(*expr)]);
            }
            Kind::Binary(binary) => work.extend([
                Piece::Node(binary.right),
                Piece::Text(" "),
                Piece::Suffix(id),
                Piece::Text(" "),
                Piece::Node(binary.left),
            ]),
            Kind::Aggregate(aggregate) => {
                push_aggregate(out, aggregate);
                out.push('(');
                work.extend([Piece::Text(")"), Piece::Node(aggregate.expr)]);
                if let Some(parameter) = aggregate.parameter {
                    work.extend([Piece::Text(", "), Piece::Node(parameter)]);
                }
            }
            Kind::Call { function, arguments } => {
                out.push_str(function.name);
                out.push('(');
                work.push(Piece::Text(")"));
                for (index, argument) in arguments.iter().enumerate().rev() {
                    work.push(Piece::Node(*argument));
                    if index > 0 {
                        work.push(Piece::Text(", "));
                    }
                }
            }
        }
    }

    /// What follows a subquery's expression, or stands between a binary expression's sides.
    fn suffix(&self, id: NodeId, out: &mut String) {
        match &self.query.node(id).kind {
            Kind::Subquery { range, step, at, .. } => {
                out.push('[');
                push_duration(out, range);
                out.push(':');
                if let Some(step) = step.as_ref().filter(|step| **step != Duration::Milliseconds(0))
                {
                    push_duration(out, step);
                }
                out.push(']');
                push_at(out, at);
                push_offset(out, at);
            }
            Kind::Binary(binary) => push_operator(out, binary),
            _ => {}
        }
    }

    /// The length on one line of every node.
    fn lengths(&self) -> Vec<usize> {
        let mut lengths: Vec<usize> = Vec::with_capacity(self.query.nodes.len());
        let mut own = String::new();
        for index in 0..self.query.nodes.len() {
            own.clear();
            let mut work = Vec::new();
            let id = NodeId(index as u32);
            self.begin(id, &mut own, &mut work);
            let mut below = 0;
            for piece in work {
                match piece {
                    Piece::Text(text) => own.push_str(text),
                    Piece::Suffix(id) => self.suffix(id, &mut own),
                    Piece::Node(child) => below += lengths[child.0 as usize],
                }
            }
            lengths.push(own.len() + below);
        }
        lengths
    }
}

/// A piece of work of the formatter; levels count two blanks each.
enum Line {
    Node(NodeId, usize),
    /// A node whose indentation is written already: a sign stands in front of it.
    Bare(NodeId, usize),
    Text(&'static str),
    Indent(usize),
    Suffix(NodeId),
}

struct Pretty<'a> {
    printer: Printer<'a>,
    lengths: Vec<usize>,
}

impl Pretty<'_> {
    fn run(&self) -> String {
        let mut out = String::new();
        let mut work = vec![Line::Node(self.printer.query.root, 0)];
        while let Some(line) = work.pop() {
            match line {
                Line::Text(text) => out.push_str(text),
                Line::Indent(level) => indent(&mut out, level),
                Line::Suffix(id) => self.printer.suffix(id, &mut out),
                Line::Node(id, level) => self.node(id, level, false, &mut out, &mut work),
                Line::Bare(id, level) => self.node(id, level, true, &mut out, &mut work),
            }
        }
        out
    }

    fn node(&self, id: NodeId, level: usize, bare: bool, out: &mut String, work: &mut Vec<Line>) {
        let kind = &self.printer.query.node(id).kind;
        let fits = self.lengths[id.0 as usize] <= LINE;
        let begin = |out: &mut String| {
            if !bare {
                indent(out, level);
            }
        };
        match kind {
            Kind::Unary { negate, expr } => {
                begin(out);
                out.push(if *negate { '-' } else { '+' });
                work.push(Line::Bare(*expr, level));
            }
            // A subquery that fits is not indented, as in Prometheus.
            Kind::Subquery { .. } if fits => self.printer.write(id, out),
            Kind::Subquery { expr, .. } => {
                let inner = if bare { Line::Bare(*expr, level) } else { Line::Node(*expr, level) };
                work.extend([Line::Suffix(id), inner]);
            }
            Kind::Binary(binary) if !fits => {
                // The left side brings its own indentation, one level deeper.
                let left = if bare {
                    Line::Bare(binary.left, level + 1)
                } else {
                    Line::Node(binary.left, level + 1)
                };
                work.extend([
                    Line::Node(binary.right, level + 1),
                    Line::Text("\n"),
                    Line::Suffix(id),
                    Line::Indent(level),
                    Line::Text("\n"),
                    left,
                ]);
            }
            Kind::Aggregate(aggregate) if !fits => {
                begin(out);
                push_aggregate(out, aggregate);
                out.push_str("(\n");
                work.extend([Line::Text(")"), Line::Indent(level), Line::Text("\n")]);
                work.push(Line::Node(aggregate.expr, level + 1));
                if let Some(parameter) = aggregate.parameter {
                    work.extend([Line::Text(",\n"), Line::Node(parameter, level + 1)]);
                }
            }
            Kind::Call { function, arguments } if !fits => {
                begin(out);
                out.push_str(function.name);
                out.push_str("(\n");
                work.extend([Line::Text(")"), Line::Indent(level), Line::Text("\n")]);
                for (index, argument) in arguments.iter().enumerate().rev() {
                    work.push(Line::Node(*argument, level + 1));
                    if index > 0 {
                        work.push(Line::Text(",\n"));
                    }
                }
            }
            Kind::Paren(expr) if !fits => {
                begin(out);
                out.push_str("(\n");
                work.extend([Line::Text(")"), Line::Indent(level), Line::Text("\n")]);
                work.push(Line::Node(*expr, level + 1));
            }
            _ => {
                begin(out);
                self.printer.write(id, out);
            }
        }
    }
}

fn indent(out: &mut String, level: usize) {
    for _ in 0..level {
        out.push_str("  ");
    }
}

fn push_number(out: &mut String, value: f64, duration: bool) {
    if duration {
        let nanoseconds = (value * 1e9) as i64;
        out.push_str(&format_duration(nanoseconds / 1_000_000));
    } else {
        out.push_str(&fixed(value));
    }
}

fn push_labels(out: &mut String, labels: &[Box<str>]) {
    out.push('(');
    for (index, label) in labels.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        if is_legacy_name(label) {
            out.push_str(label);
        } else {
            push_quoted(out, label);
        }
    }
    out.push(')');
}

fn push_aggregate(out: &mut String, aggregate: &Aggregate) {
    out.push_str(aggregate.op.as_str());
    if aggregate.without || !aggregate.grouping.is_empty() {
        out.push_str(if aggregate.without { " without " } else { " by " });
        push_labels(out, &aggregate.grouping);
        out.push(' ');
    }
}

fn push_operator(out: &mut String, binary: &Binary) {
    out.push_str(binary.op.as_str());
    if binary.return_bool {
        out.push_str(" bool");
    }
    if let Some(matching) = &binary.matching {
        push_matching(out, matching);
    }
}

fn push_matching(out: &mut String, matching: &Matching) {
    let grouped = match matching.cardinality {
        Cardinality::ManyToOne => Some(" group_left "),
        Cardinality::OneToMany => Some(" group_right "),
        Cardinality::OneToOne | Cardinality::ManyToMany => None,
    };
    if matching.on || !matching.labels.is_empty() || grouped.is_some() {
        out.push_str(if matching.on { " on " } else { " ignoring " });
        push_labels(out, &matching.labels);
    }
    if let Some(grouped) = grouped {
        out.push_str(grouped);
        push_labels(out, &matching.include);
    }
    let mut fill = |name: &str, value: f64| {
        // Writing to a String never fails.
        let _ = write!(out, " {name} ({})", general(value));
    };
    match (matching.fill_left, matching.fill_right) {
        (Some(left), Some(right)) if left == right => fill("fill", left),
        (left, right) => {
            if let Some(value) = left {
                fill("fill_left", value);
            }
            if let Some(value) = right {
                fill("fill_right", value);
            }
        }
    }
}

/// A selector; with its modifiers or, inside a range selector, without.
fn push_selector(out: &mut String, selector: &VectorSelector, modifiers: bool) {
    let name = selector.name.as_deref().unwrap_or("");
    out.push_str(name);
    let mut matchers: Vec<String> = selector
        .matchers
        .iter()
        .filter(|matcher| {
            let of_name = matcher.name() == METRIC_NAME
                && matcher.op() == MatchOp::Equal
                && matcher.value() == name
                && !name.is_empty();
            !of_name
        })
        .map(matcher_text)
        .collect();
    if !matchers.is_empty() {
        matchers.sort_unstable();
        out.push('{');
        out.push_str(&matchers.join(","));
        out.push('}');
    }
    if modifiers {
        push_at(out, &selector.at);
        push_extension(out, selector.extension);
        push_offset(out, &selector.at);
    }
}

fn matcher_text(matcher: &Matcher) -> String {
    let mut out = String::new();
    if is_legacy_name(matcher.name()) {
        out.push_str(matcher.name());
    } else {
        push_quoted(&mut out, matcher.name());
    }
    out.push_str(matcher.op().as_str());
    push_quoted(&mut out, matcher.value());
    out
}

fn push_matrix(out: &mut String, selector: &VectorSelector, range: &Duration) {
    push_selector(out, selector, false);
    out.push('[');
    push_duration(out, range);
    out.push(']');
    push_extension(out, selector.extension);
    push_at(out, &selector.at);
    push_offset(out, &selector.at);
}

fn push_extension(out: &mut String, extension: RangeExtension) {
    out.push_str(match extension {
        RangeExtension::None => "",
        RangeExtension::Anchored => " anchored",
        RangeExtension::Smoothed => " smoothed",
    });
}

fn push_at(out: &mut String, modifiers: &TimeModifiers) {
    match modifiers.at {
        None => {}
        Some(At::Start) => out.push_str(" @ start()"),
        Some(At::End) => out.push_str(" @ end()"),
        Some(At::Timestamp(milliseconds)) => {
            // Writing to a String never fails.
            let _ = write!(out, " @ {:.3}", milliseconds as f64 / 1000.0);
        }
    }
}

fn push_offset(out: &mut String, modifiers: &TimeModifiers) {
    if let Some(offset) = &modifiers.offset {
        out.push_str(" offset ");
        let mut text = String::new();
        push_duration(&mut text, offset);
        // Behind `offset`, operators belong to the duration only if it begins with a parenthesis.
        let unsigned = match offset {
            Duration::Expression { operations, .. } => operations
                .iter()
                .rev()
                .find(|operation| !matches!(operation, DurationOp::Negate | DurationOp::Plus)),
            Duration::Milliseconds(_) => None,
        };
        let binary = matches!(unsigned, Some(DurationOp::Binary(_)));
        if binary && !text.starts_with('(') {
            text = format!("({text})");
        }
        out.push_str(&text);
    }
}

fn push_duration(out: &mut String, duration: &Duration) {
    match duration {
        Duration::Milliseconds(milliseconds) => out.push_str(&format_duration(*milliseconds)),
        Duration::Expression { operations, .. } => out.push_str(&duration_text(operations)),
    }
}

/// Reverse Polish order into infix. Parentheses were kept as operations.
fn duration_text(operations: &[DurationOp]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for operation in operations {
        let mut top = || texts.pop().unwrap_or_default();
        let text = match operation {
            DurationOp::Number { seconds, duration } => {
                let mut text = String::new();
                push_number(&mut text, *seconds, *duration);
                text
            }
            DurationOp::Step => "step()".to_owned(),
            DurationOp::Range => "range()".to_owned(),
            DurationOp::Negate => format!("-{}", top()),
            DurationOp::Plus => top(),
            DurationOp::Paren => format!("({})", top()),
            DurationOp::Binary(op) => {
                let right = top();
                let mut left = top();
                if *op == BinaryOp::Pow && left.starts_with('-') {
                    left = format!("({left})");
                }
                format!("{left} {} {right}", op.as_str())
            }
            DurationOp::Min | DurationOp::Max => {
                let name = if *operation == DurationOp::Min { "min_of" } else { "max_of" };
                let right = top();
                format!("{name}({}, {right})", top())
            }
        };
        texts.push(text);
    }
    texts.pop().unwrap_or_default()
}
