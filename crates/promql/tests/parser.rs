//! What the parser accepts, refuses and prints, from the tables in `parser/`.

use promql::ast::{Duration, DurationOp, Kind, Node, Query, Span};
use promql::{MAX_DEPTH, ParseOptions, parse, parse_selector, parse_with, prettify};
use proptest::prelude::*;

/// One query of a table with the lines that say what becomes of it.
#[derive(Default)]
struct Case {
    line: usize,
    query: String,
    printed: Option<String>,
    error: Option<String>,
    formatted: Option<String>,
}

fn append(text: &mut Option<String>, line: &str) {
    match text {
        Some(text) => {
            text.push('\n');
            text.push_str(line);
        }
        None => *text = Some(line.to_owned()),
    }
}

fn read(table: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut case = Case::default();
    let mut query: Option<String> = None;
    for (index, line) in table.lines().chain([""]).enumerate() {
        let (mark, rest) = line.split_at(line.len().min(2));
        match mark.trim_end() {
            "#" => {}
            ">" => append(&mut query, rest),
            "=" => case.printed = Some(rest.to_owned()),
            "!" => case.error = Some(rest.to_owned()),
            "|" => append(&mut case.formatted, rest),
            "" => {
                if let Some(query) = query.take() {
                    case.query = query;
                    case.line = index;
                    cases.push(std::mem::take(&mut case));
                }
            }
            other => panic!("line {}: what does {other:?} mean?", index + 1),
        }
    }
    cases
}

fn run(name: &str, table: &str) -> usize {
    let cases = read(table);
    let mut failures = String::new();
    for case in &cases {
        let found = parse(&case.query);
        let mut expect = |what: &str, wanted: Option<&str>, got: &str| {
            if wanted.is_some_and(|wanted| wanted != got) {
                let wanted = wanted.unwrap_or_default();
                failures.push_str(&format!(
                    "{name}:{}: {what} of {:?}\n  wanted {wanted}\n  got    {got}\n",
                    case.line, case.query
                ));
            }
        };
        match &found {
            Ok(query) => {
                expect("the error", case.error.as_deref(), "none");
                expect("the print", case.printed.as_deref(), &query.to_string());
                expect("the format", case.formatted.as_deref(), &prettify(query));
            }
            Err(error) => {
                expect(
                    "the error",
                    Some(case.error.as_deref().unwrap_or("none")),
                    &error.to_string(),
                );
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
    cases.len()
}

#[test]
fn tables() {
    for (name, table, least) in [
        ("accepted.txt", include_str!("parser/accepted.txt"), 90),
        ("refused.txt", include_str!("parser/refused.txt"), 130),
        ("formatted.txt", include_str!("parser/formatted.txt"), 12),
    ] {
        let cases = run(name, table);
        assert!(cases >= least, "{name} holds {cases} cases: is it still read?");
    }
}

/// What is accepted has spans inside the text, children before parents, and prints to a text that
/// parses to the same again.
#[test]
fn accepted_queries_survive_printing() {
    for case in read(include_str!("parser/accepted.txt")) {
        let query = parse(&case.query).unwrap();
        assert_well_formed(&query);
        assert_same(&query, &parse(&query.to_string()).unwrap());
        assert_same(&query, &parse(&prettify(&query)).unwrap());
    }
}

fn assert_well_formed(query: &Query) {
    assert_eq!(query.root.0 as usize, query.nodes.len() - 1, "the root comes last");
    for (index, node) in query.nodes.iter().enumerate() {
        let span = node.span;
        let text = query.text.get(span.start as usize..span.end as usize);
        assert!(text.is_some_and(|text| !text.is_empty()), "{:?}: {node:?}", query.text);
        for child in children(node) {
            assert!((child as usize) < index, "{:?}: a parent before its child", query.text);
            let inner = query.nodes[child as usize].span;
            assert!(span.start <= inner.start && inner.end <= span.end, "{:?}", query.text);
        }
    }
}

fn children(node: &Node) -> Vec<u32> {
    match &node.kind {
        Kind::Number { .. } | Kind::String(_) | Kind::VectorSelector(_) => vec![],
        Kind::MatrixSelector { selector, .. } => vec![selector.0],
        Kind::Subquery { expr, .. } | Kind::Unary { expr, .. } | Kind::Paren(expr) => vec![expr.0],
        Kind::Binary(binary) => vec![binary.left.0, binary.right.0],
        Kind::Aggregate(aggregate) => {
            aggregate.parameter.iter().chain([&aggregate.expr]).map(|id| id.0).collect()
        }
        Kind::Call { arguments, .. } => arguments.iter().map(|id| id.0).collect(),
    }
}

/// Equal but for where things stand, for the order of matchers, and for parentheses in durations.
fn assert_same(left: &Query, right: &Query) {
    let plain = |query: &Query| -> Vec<String> {
        let nodes = query.nodes.iter().cloned().map(|mut node| {
            node.span = Span::default();
            plain_kind(&mut node.kind);
            format!("{node:?}")
        });
        nodes.collect()
    };
    assert_eq!(plain(left), plain(right), "{:?} and {:?}", left.text, right.text);
}

fn plain_kind(kind: &mut Kind) {
    let plain = |duration: &mut Duration| {
        if let Duration::Expression { span, operations } = duration {
            *span = Span::default();
            operations.retain(|op| !matches!(op, DurationOp::Paren | DurationOp::Plus));
        }
    };
    match kind {
        Kind::VectorSelector(selector) => {
            selector.matchers.sort_by_key(ToString::to_string);
            selector.at.offset.iter_mut().for_each(plain);
        }
        Kind::MatrixSelector { range, .. } => plain(range),
        Kind::Subquery { range, step, at, .. } => {
            plain(range);
            step.iter_mut().for_each(plain);
            at.offset.iter_mut().for_each(plain);
        }
        _ => {}
    }
}

#[test]
fn experimental_parts_are_off_without_options() {
    for (query, error) in [
        ("mad_over_time(a[5m])", "1:1: parse error: function \"mad_over_time\" is not enabled"),
        (
            "limitk(1, a)",
            "1:1: parse error: limitk() is experimental and must be enabled with \
             --enable-feature=promql-experimental-functions",
        ),
        ("a[5m + 5m]", "1:3: parse error: experimental duration expression is not enabled"),
        ("a offset -step()", "1:10: parse error: experimental duration expression is not enabled"),
        ("a[5m] anchored", "1:1: parse error: anchored modifier is experimental and not enabled"),
        (
            "a + fill(0) b",
            "1:1: parse error: binop fill modifiers are experimental and not enabled",
        ),
    ] {
        let found = parse_with(query, ParseOptions::default()).unwrap_err();
        assert_eq!(found.to_string(), error);
        parse(query).unwrap();
    }
}

#[test]
fn a_selector_stands_alone() {
    for (text, expected) in [
        ("up", Ok("__name__=\"up\"")),
        ("sum", Ok("__name__=\"sum\"")),
        ("{job=~\"a|b\", env!=\"\"}", Ok("job=~\"a|b\",env!=\"\"")),
        ("{}", Ok("")),
        ("up offset 5m", Err("1:4: parse error: unexpected <offset>")),
        ("1", Err("1:1: parse error: unexpected number \"1\"")),
        ("", Err("unknown position: parse error: unexpected end of input")),
    ] {
        let found = parse_selector(text)
            .map(|matchers| matchers.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))
            .map_err(|error| error.to_string());
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{text}");
    }
}

/// However deep a text nests, it is refused or parsed, and never overflows a stack.
#[test]
fn nesting_is_bounded() {
    let n = 100_000;
    for text in [
        "(".repeat(n),
        "(".repeat(n) + "up" + &")".repeat(n),
        "-".repeat(n) + "up",
        "abs(".repeat(n),
        "sum(".repeat(n) + "up" + &")".repeat(n),
        "1^".repeat(n) + "1",
        "up + ".repeat(n) + "up",
        "up".to_owned() + &"[5m:]".repeat(n),
        "up[".to_owned() + &"(".repeat(n),
        "up[".to_owned() + &"-".repeat(n) + "5m]",
        "up offset ".to_owned() + &"max_of(".repeat(n),
    ] {
        let error = parse(&text).unwrap_err().to_string();
        let expected = ["deeper than", "unclosed", "end of input", "got range vector instead"];
        assert!(expected.iter().any(|part| error.contains(part)), "{error}");
    }
    let deep = MAX_DEPTH - 1;
    parse(&("(".repeat(deep) + "up" + &")".repeat(deep))).unwrap();
    parse(&("up + ".repeat(deep) + "up")).unwrap();
}

fn duration() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("5m".to_owned()),
        Just("1h30m".to_owned()),
        Just("300".to_owned()),
        Just("1.5".to_owned()),
        Just("step()".to_owned()),
        Just("range()".to_owned()),
    ];
    leaf.prop_recursive(3, 8, 2, |inner| {
        prop_oneof![
            (inner.clone(), "[-+*/%^]", inner.clone())
                .prop_map(|(l, op, r)| format!("{l} {op} {r}")),
            inner.clone().prop_map(|d| format!("({d})")),
            inner.clone().prop_map(|d| format!("-{d}")),
            (inner.clone(), inner).prop_map(|(l, r)| format!("max_of({l}, {r})")),
        ]
    })
}

fn modified() -> impl Strategy<Value = String> {
    let name = prop_oneof!["[a-z_][a-z0-9_:]{0,6}", Just("{\"a.b\"}".to_owned())];
    let matchers = prop_oneof![Just(""), Just("{a=\"b\"}"), Just("{a!~\"b.*\",c!=\"\\n\"}")];
    let times = prop_oneof![
        Just(""),
        Just(" @ 1.5"),
        Just(" @ end()"),
        Just(" offset -5m"),
        Just(" anchored")
    ];
    (name, matchers, times, proptest::option::of(duration())).prop_map(
        |(name, matchers, times, offset)| {
            let matchers = if name.starts_with('{') { "" } else { matchers };
            match offset {
                Some(offset) if !times.contains("offset") => {
                    format!("{name}{matchers}{times} offset ({offset})")
                }
                _ => format!("{name}{matchers}{times}"),
            }
        },
    )
}

fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        3 => modified(),
        1 => "[0-9]{1,4}(\\.[0-9]{1,3})?(e-?[0-9])?",
        1 => Just("NaN".to_owned()),
    ];
    leaf.prop_recursive(5, 24, 2, |inner| {
        let op = prop_oneof![
            Just("+"),
            Just("- bool"),
            Just("*"),
            Just("^"),
            Just("== bool"),
            Just("<"),
            Just("and"),
            Just("unless on (a, \"b c\")"),
            Just("/ ignoring (a) group_left (b)"),
            Just("atan2"),
            Just("% fill_left(1) fill_right(-2)"),
            Just("</"),
        ];
        prop_oneof![
            (inner.clone(), op, inner.clone()).prop_map(|(l, op, r)| format!("{l} {op} {r}")),
            inner.clone().prop_map(|e| format!("({e})")),
            inner.clone().prop_map(|e| format!("-{e}")),
            inner.clone().prop_map(|e| format!("sum by (a) ({e})")),
            inner.clone().prop_map(|e| format!("topk(3, {e}) without (x)")),
            inner.clone().prop_map(|e| format!("clamp({e}, -1, 2)")),
            (inner.clone(), duration()).prop_map(|(e, d)| format!("rate(({e})[1h:{d}] @ start())")),
            (modified(), duration()).prop_map(|(e, d)| format!("rate({e}[{d}])")),
            inner,
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn parse_of_print_is_the_same(text in expression()) {
        // Some of what is generated has wrong types; that is for the tables.
        if let Ok(query) = parse(&text) {
            assert_well_formed(&query);
            assert_same(&query, &parse(&query.to_string()).unwrap());
            assert_same(&query, &parse(&prettify(&query)).unwrap());
        }
    }

    #[test]
    fn nothing_panics(text in "\\PC{0,40}|[-a-z0-9(){}\\[\\]=~\"'`@:,.+*/^<>! \\n#\\\\]{0,60}") {
        let _ = parse(&text);
        let _ = parse_selector(&text);
    }
}
