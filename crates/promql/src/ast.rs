//! The syntax tree of a query.
//!
//! Nodes live in one vector, children before parents, so that a pass over the tree is a loop and
//! dropping a deep tree cannot overflow the stack. Every node knows the bytes it was written as.

use store::Matcher;

/// Bytes `start..end` of the query's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset behind the last byte.
    pub end: u32,
}

/// A node of one [`Query`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// A parsed, type-checked query.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// As it was written.
    pub text: Box<str>,
    /// Children before parents.
    pub nodes: Vec<Node>,
    /// The outermost expression.
    pub root: NodeId,
}

impl Query {
    /// The node of an id of this query.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// The type of a node's value.
    pub fn value_type(&self, id: NodeId) -> ValueType {
        self.node(id).value_type
    }
}

/// An expression and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Where it stands.
    pub span: Span,
    /// The type of its value.
    pub value_type: ValueType,
    /// What it is.
    pub kind: Kind,
}

/// The type of an expression's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueType {
    /// One number per step.
    Scalar,
    /// A string.
    String,
    /// A set of series with one sample each: `instant vector`.
    Vector,
    /// A set of series with samples over a range: `range vector`.
    Matrix,
}

impl ValueType {
    /// The word that the HTTP API uses.
    pub fn as_str(self) -> &'static str {
        match self {
            ValueType::Scalar => "scalar",
            ValueType::String => "string",
            ValueType::Vector => "vector",
            ValueType::Matrix => "matrix",
        }
    }

    /// The words of the documentation, which messages to people use.
    pub fn documented(self) -> &'static str {
        match self {
            ValueType::Scalar => "scalar",
            ValueType::String => "string",
            ValueType::Vector => "instant vector",
            ValueType::Matrix => "range vector",
        }
    }
}

/// What an expression is.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// `1.5`, `0x1f`, `Inf`, or a duration used as a number (`5m` is 300).
    Number {
        /// Its value.
        value: f64,
        /// Whether it was written as a duration.
        duration: bool,
    },
    /// `"text"`. Bytes written as `\xff` that make no UTF-8 stand in it as U+FFFD, which no literal
    /// can hold otherwise: a label's name with it is to be refused.
    String(Box<str>),
    /// `name{matchers} offset … @ …`
    VectorSelector(VectorSelector),
    /// `selector[range]`; `selector` is a [`Kind::VectorSelector`], which carries offset and `@`.
    MatrixSelector {
        /// The selector in front of the brackets.
        selector: NodeId,
        /// The range in the brackets.
        range: Duration,
    },
    /// `expr[range:step] offset … @ …`
    Subquery {
        /// The expression evaluated at every step.
        expr: NodeId,
        /// How far back.
        range: Duration,
        /// The step; the default evaluation interval where absent.
        step: Option<Duration>,
        /// Shift in time.
        at: TimeModifiers,
    },
    /// `-expr`, `+expr`
    Unary {
        /// Whether it negates.
        negate: bool,
        /// The operand.
        expr: NodeId,
    },
    /// `lhs op rhs`
    Binary(Binary),
    /// `sum by (label) (expr)`
    Aggregate(Aggregate),
    /// `function(arguments)`
    Call {
        /// The function.
        function: &'static crate::functions::Function,
        /// Its arguments, as many as were written.
        arguments: Vec<NodeId>,
    },
    /// `(expr)`
    Paren(NodeId),
}

/// A vector selector.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorSelector {
    /// The metric's name if it was written in front of the braces.
    pub name: Option<Box<str>>,
    /// All matchers, the one for the name included.
    pub matchers: Vec<Matcher>,
    /// Shift in time.
    pub at: TimeModifiers,
    /// `anchored` and `smoothed` of range selectors (experimental).
    pub extension: RangeExtension,
}

/// How a range selector treats its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RangeExtension {
    /// Samples inside the range only.
    #[default]
    None,
    /// `anchored`: the last sample before the range counts as one at its start.
    Anchored,
    /// `smoothed`: values at the ends are interpolated.
    Smoothed,
}

/// `offset` and `@`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct TimeModifiers {
    /// `offset`; looks back if positive. An offset of zero is none.
    pub offset: Option<Duration>,
    /// `@`
    pub at: Option<At>,
}

/// What stands behind `@`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum At {
    /// Milliseconds since the epoch.
    Timestamp(i64),
    /// `@ start()`
    Start,
    /// `@ end()`
    End,
}

/// A duration: written out, or computed from the query's step and range (experimental).
#[derive(Clone, Debug, PartialEq)]
pub enum Duration {
    /// Milliseconds.
    Milliseconds(i64),
    /// `5m * 2`, `step()`, `min(step(), 1m)` …, in reverse Polish order.
    Expression {
        /// Where it stands.
        span: Span,
        /// The operations.
        operations: Vec<DurationOp>,
    },
}

/// An operation of a computed duration, in reverse Polish order; all in seconds.
#[derive(Clone, Debug, PartialEq)]
pub enum DurationOp {
    /// Push a number of seconds; `duration` tells how it was written.
    Number {
        /// Seconds.
        seconds: f64,
        /// Whether it was written as a duration.
        duration: bool,
    },
    /// Push the query's step.
    Step,
    /// Push the query's range.
    Range,
    /// Replace the top by its negation.
    Negate,
    /// Keep the top as it is: `+x`.
    Plus,
    /// Replace the top two by their result.
    Binary(BinaryOp),
    /// Replace the top two by the smaller.
    Min,
    /// Replace the top two by the larger.
    Max,
    /// The top stood in parentheses; for printing.
    Paren,
}

/// Binary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the operators")]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Pow,
    Atan2,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    And,
    Or,
    Unless,
    /// `</` trims the buckets above a bound from a native histogram.
    TrimUpper,
    /// `>/` trims the buckets below a bound.
    TrimLower,
}

impl BinaryOp {
    /// The operator as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
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

    /// Whether it compares; the two trims do not.
    pub fn is_comparison(self) -> bool {
        matches!(
            self,
            BinaryOp::Equal
                | BinaryOp::NotEqual
                | BinaryOp::Less
                | BinaryOp::LessEqual
                | BinaryOp::Greater
                | BinaryOp::GreaterEqual
        )
    }

    /// `and`, `or`, `unless`.
    pub fn is_set(self) -> bool {
        matches!(self, BinaryOp::And | BinaryOp::Or | BinaryOp::Unless)
    }

    /// How strongly it binds; larger is stronger.
    pub fn precedence(self) -> u8 {
        match self {
            BinaryOp::Or => 1,
            BinaryOp::And | BinaryOp::Unless => 2,
            BinaryOp::Equal
            | BinaryOp::NotEqual
            | BinaryOp::Less
            | BinaryOp::LessEqual
            | BinaryOp::Greater
            | BinaryOp::GreaterEqual
            | BinaryOp::TrimUpper
            | BinaryOp::TrimLower => 3,
            BinaryOp::Add | BinaryOp::Sub => 4,
            BinaryOp::Mul | BinaryOp::Div | BinaryOp::Mod | BinaryOp::Atan2 => 5,
            BinaryOp::Pow => 6,
        }
    }
}

/// A binary expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Binary {
    /// The operator.
    pub op: BinaryOp,
    /// Left operand.
    pub left: NodeId,
    /// Right operand.
    pub right: NodeId,
    /// `bool` behind a comparison.
    pub return_bool: bool,
    /// How the series of two vectors find each other; none where a side is a scalar.
    pub matching: Option<Matching>,
}

/// How many series of each side may meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cardinality {
    /// The default.
    OneToOne,
    /// `group_left`
    ManyToOne,
    /// `group_right`
    OneToMany,
    /// Set operators.
    ManyToMany,
}

impl Cardinality {
    /// The words that messages and the HTTP API use.
    pub fn as_str(self) -> &'static str {
        match self {
            Cardinality::OneToOne => "one-to-one",
            Cardinality::ManyToOne => "many-to-one",
            Cardinality::OneToMany => "one-to-many",
            Cardinality::ManyToMany => "many-to-many",
        }
    }
}

/// `on`, `ignoring`, `group_left`, `group_right`, `fill`.
#[derive(Clone, Debug, PartialEq)]
pub struct Matching {
    /// Which sides may have several series per group.
    pub cardinality: Cardinality,
    /// Whether `labels` are those to match `on`, as opposed to `ignoring`.
    pub on: bool,
    /// The labels of `on` or `ignoring`.
    pub labels: Vec<Box<str>>,
    /// Labels copied from the "one" side.
    pub include: Vec<Box<str>>,
    /// `fill_left`: the value of a missing left side (experimental).
    pub fill_left: Option<f64>,
    /// `fill_right`
    pub fill_right: Option<f64>,
}

/// Aggregation operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the operators")]
pub enum AggregateOp {
    Avg,
    Bottomk,
    Count,
    CountValues,
    Group,
    Max,
    Min,
    Quantile,
    Stddev,
    Stdvar,
    Sum,
    Topk,
    Limitk,
    LimitRatio,
}

impl AggregateOp {
    /// The operator as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            AggregateOp::Avg => "avg",
            AggregateOp::Bottomk => "bottomk",
            AggregateOp::Count => "count",
            AggregateOp::CountValues => "count_values",
            AggregateOp::Group => "group",
            AggregateOp::Max => "max",
            AggregateOp::Min => "min",
            AggregateOp::Quantile => "quantile",
            AggregateOp::Stddev => "stddev",
            AggregateOp::Stdvar => "stdvar",
            AggregateOp::Sum => "sum",
            AggregateOp::Topk => "topk",
            AggregateOp::Limitk => "limitk",
            AggregateOp::LimitRatio => "limit_ratio",
        }
    }

    /// The type of the parameter in front of the vector, if there is one.
    pub fn parameter(self) -> Option<ValueType> {
        match self {
            AggregateOp::Bottomk
            | AggregateOp::Topk
            | AggregateOp::Quantile
            | AggregateOp::Limitk
            | AggregateOp::LimitRatio => Some(ValueType::Scalar),
            AggregateOp::CountValues => Some(ValueType::String),
            _ => None,
        }
    }

    /// Needs the feature `promql-experimental-functions`.
    pub fn is_experimental(self) -> bool {
        matches!(self, AggregateOp::Limitk | AggregateOp::LimitRatio)
    }
}

/// An aggregation.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// The operator.
    pub op: AggregateOp,
    /// The vector.
    pub expr: NodeId,
    /// `k`, the quantile, or the label of `count_values`.
    pub parameter: Option<NodeId>,
    /// The labels of `by` or `without`.
    pub grouping: Vec<Box<str>>,
    /// Whether it is `without`.
    pub without: bool,
}
