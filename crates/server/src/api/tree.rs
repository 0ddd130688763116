//! The syntax tree of a query as `/parse_query` shows it: keys sorted, one object for each node.
//!
//! Children come before their parents in a query, so each node is written from the texts of its
//! children, without recursion. A text is moved into that of its parent, so that a tree costs its
//! depth in copies.

use promql::ast::{
    At, Duration, DurationOp, Kind, Node, NodeId, Query, RangeExtension, TimeModifiers,
    VectorSelector,
};
use wire::number::Buffer;

use super::json::{integer, list, string, strings};

/// Writes the tree of a query.
pub(crate) fn write(query: &Query) -> Vec<u8> {
    let mut texts: Vec<Vec<u8>> = Vec::with_capacity(query.nodes.len());
    for node in &query.nodes {
        let text = Writer { query, texts: &mut texts }.node(node);
        texts.push(text);
    }
    std::mem::take(&mut texts[query.root.0 as usize])
}

struct Writer<'a> {
    query: &'a Query,
    texts: &'a mut Vec<Vec<u8>>,
}

impl Writer<'_> {
    fn child(&mut self, id: NodeId) -> Vec<u8> {
        std::mem::take(&mut self.texts[id.0 as usize])
    }

    fn node(&mut self, node: &Node) -> Vec<u8> {
        let mut object = Object::new();
        match &node.kind {
            Kind::Number { value, .. } => {
                object.text("type", "numberLiteral");
                object.text("val", Buffer::new().plain(*value));
            }
            Kind::String(text) => {
                object.text("type", "stringLiteral");
                object.text("val", text);
            }
            Kind::Paren(expr) => {
                object.raw("expr", &self.child(*expr));
                object.text("type", "parenExpr");
            }
            Kind::Unary { negate, expr } => {
                object.raw("expr", &self.child(*expr));
                object.text("op", if *negate { "-" } else { "+" });
                object.text("type", "unaryExpr");
            }
            Kind::VectorSelector(selector) => {
                selector_fields(&mut object, selector, None);
                object.text("type", "vectorSelector");
            }
            Kind::MatrixSelector { selector, range } => {
                if let Kind::VectorSelector(selector) = &self.query.node(*selector).kind {
                    selector_fields(&mut object, selector, Some(range));
                }
                object.text("type", "matrixSelector");
            }
            Kind::Subquery { expr, range, step, at } => {
                object.raw("expr", &self.child(*expr));
                offset_fields(&mut object, at);
                duration_fields(&mut object, "range", "rangeExpr", Some(range));
                start_or_end(&mut object, at);
                duration_fields(&mut object, "step", "stepExpr", step.as_ref());
                timestamp(&mut object, at);
                object.text("type", "subquery");
            }
            Kind::Aggregate(aggregate) => {
                object.raw("expr", &self.child(aggregate.expr));
                object.with("grouping", |out| strings(out, &aggregate.grouping));
                object.text("op", aggregate.op.as_str());
                match aggregate.parameter {
                    Some(parameter) => object.raw("param", &self.child(parameter)),
                    None => object.raw("param", b"null"),
                }
                object.text("type", "aggregation");
                object.flag("without", aggregate.without);
            }
            Kind::Binary(binary) => {
                object.flag("bool", binary.return_bool);
                object.raw("lhs", &self.child(binary.left));
                match &binary.matching {
                    None => object.raw("matching", b"null"),
                    Some(matching) => object.raw("matching", &matching_object(matching)),
                }
                object.text("op", binary.op.as_str());
                object.raw("rhs", &self.child(binary.right));
                object.text("type", "binaryExpr");
            }
            Kind::Call { function, arguments } => {
                let arguments: Vec<_> = arguments.iter().map(|id| self.child(*id)).collect();
                object.with("args", |out| {
                    list(out, &arguments, |out, text| out.extend_from_slice(text));
                });
                let mut signature = Object::new();
                signature.with("argTypes", |out| {
                    strings(out, function.arguments.iter().map(|argument| argument.as_str()));
                });
                signature.text("name", function.name);
                signature.text("returnType", function.returns.as_str());
                signature.with("variadic", |out| integer(out, i64::from(function.variadic)));
                object.raw("func", &signature.finish());
                object.text("type", "call");
            }
        }
        object.finish()
    }
}

fn matching_object(matching: &promql::ast::Matching) -> Vec<u8> {
    let mut object = Object::new();
    object.text("card", matching.cardinality.as_str());
    let mut fills = Object::new();
    for (name, fill) in [("lhs", matching.fill_left), ("rhs", matching.fill_right)] {
        fills.with(name, |out| match fill {
            Some(value) => super::json::number(out, value),
            None => out.extend_from_slice(b"null"),
        });
    }
    object.raw("fillValues", &fills.finish());
    object.with("include", |out| strings(out, &matching.include));
    object.with("labels", |out| strings(out, &matching.labels));
    object.flag("on", matching.on);
    object.finish()
}

fn selector_fields(object: &mut Object, selector: &VectorSelector, range: Option<&Duration>) {
    object.flag("anchored", selector.extension == RangeExtension::Anchored);
    object.with("matchers", |out| {
        list(out, &selector.matchers, |out, matcher| {
            let mut object = Object::new();
            object.text("name", matcher.name());
            object.text("type", matcher.op().as_str());
            object.text("value", matcher.value());
            out.extend_from_slice(&object.finish());
        });
    });
    object.text("name", selector.name.as_deref().unwrap_or_default());
    offset_fields(object, &selector.at);
    if let Some(range) = range {
        duration_fields(object, "range", "rangeExpr", Some(range));
    }
    object.flag("smoothed", selector.extension == RangeExtension::Smoothed);
    start_or_end(object, &selector.at);
    timestamp(object, &selector.at);
}

fn offset_fields(object: &mut Object, at: &TimeModifiers) {
    duration_fields(object, "offset", "offsetExpr", at.offset.as_ref());
}

/// A duration's milliseconds, and its expression where it is one.
fn duration_fields(object: &mut Object, name: &str, expression: &str, duration: Option<&Duration>) {
    let (milliseconds, operations) = match duration {
        None => (0, None),
        Some(Duration::Milliseconds(milliseconds)) => (*milliseconds, None),
        Some(Duration::Expression { operations, .. }) => (0, Some(operations)),
    };
    object.with(name, |out| integer(out, milliseconds));
    match operations {
        None => object.raw(expression, b"null"),
        Some(operations) => object.raw(expression, &duration_tree(operations)),
    }
}

fn start_or_end(object: &mut Object, at: &TimeModifiers) {
    match at.at {
        Some(At::Start) => object.text("startOrEnd", "start"),
        Some(At::End) => object.text("startOrEnd", "end"),
        _ => object.raw("startOrEnd", b"null"),
    }
}

fn timestamp(object: &mut Object, at: &TimeModifiers) {
    match at.at {
        Some(At::Timestamp(milliseconds)) => {
            object.with("timestamp", |out| integer(out, milliseconds));
        }
        _ => object.raw("timestamp", b"null"),
    }
}

/// Reverse Polish order into nested objects. A parenthesis marks what it holds as wrapped.
fn duration_tree(operations: &[DurationOp]) -> Vec<u8> {
    let mut operands: Vec<Vec<u8>> = Vec::new();
    for (index, operation) in operations.iter().enumerate() {
        let wrapped = operations.get(index + 1) == Some(&DurationOp::Paren);
        let mut top = || operands.pop().unwrap_or_else(|| b"null".to_vec());
        let text = match operation {
            DurationOp::Paren => continue,
            DurationOp::Number { seconds, duration } => {
                let mut object = Object::new();
                object.flag("duration", *duration);
                object.text("type", "numberLiteral");
                object.text("val", Buffer::new().plain(*seconds));
                object.finish()
            }
            DurationOp::Step => duration_object(b"null", "step", b"null", wrapped),
            DurationOp::Range => duration_object(b"null", "range", b"null", wrapped),
            DurationOp::Negate => duration_object(b"null", "-", &top(), wrapped),
            DurationOp::Plus => duration_object(b"null", "+", &top(), wrapped),
            DurationOp::Binary(op) => {
                let right = top();
                duration_object(&top(), op.as_str(), &right, wrapped)
            }
            DurationOp::Min | DurationOp::Max => {
                let name = if *operation == DurationOp::Min { "min_of" } else { "max_of" };
                let right = top();
                duration_object(&top(), name, &right, wrapped)
            }
        };
        operands.push(text);
    }
    operands.pop().unwrap_or_else(|| b"null".to_vec())
}

fn duration_object(left: &[u8], op: &str, right: &[u8], wrapped: bool) -> Vec<u8> {
    let mut object = Object::new();
    object.raw("lhs", left);
    object.text("op", op);
    object.raw("rhs", right);
    object.text("type", "durationExpr");
    object.flag("wrapped", wrapped);
    object.finish()
}

/// An object, field by field.
struct Object(Vec<u8>);

impl Object {
    fn new() -> Self {
        Object(vec![b'{'])
    }

    fn with(&mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        string(&mut self.0, name);
        self.0.push(b':');
        write(&mut self.0);
    }

    fn raw(&mut self, name: &str, value: &[u8]) {
        self.with(name, |out| out.extend_from_slice(value));
    }

    fn text(&mut self, name: &str, value: &str) {
        self.with(name, |out| string(out, value));
    }

    fn flag(&mut self, name: &str, value: bool) {
        self.raw(name, if value { b"true" } else { b"false" });
    }

    fn finish(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }
}
