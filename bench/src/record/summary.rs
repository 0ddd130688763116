//! The tables, the bars and the last line.

use std::collections::BTreeMap;

use bench::engine::Measured;
use bench::report::{Bar, Bars, ResultLine, Table, number};
use bench::statistics::{least, ratio};

use crate::case::CASES;
use crate::engines::ENGINES;

const OURS: &str = "unladen";

type All = BTreeMap<String, Measured>;

/// Prints everything that was measured.
pub fn print(measured: &All) {
    println!("\nns per operation");
    print_table(measured, "", 1);
    println!("\ncalls of the allocator per operation");
    print_table(measured, "_allocations", 2);
    println!("\nbytes allocated per operation");
    print_table(measured, "_bytes", 1);
    print_bars(measured);
    let ours = |case| of(measured, OURS, case);
    println!();
    ResultLine::new("record")
        .number("bound_ns", ours("bound"), 2)
        .number("unbound3_ns", ours("unbound3"), 2)
        .number("reordered3_ns", ours("reordered3"), 2)
        .number("histogram_bound_ns", ours("histogram_native"), 2)
        .number("contended2_ns", ours("contended2"), 2)
        .number("allocations", most_allocations(measured), 2)
        .print();
}

fn of(measured: &All, name: &str, case: &str) -> Option<f64> {
    measured.get(name)?.median(case)
}

/// Calls of the allocator per operation in the case of ours that has most.
fn most_allocations(measured: &All) -> Option<f64> {
    let ours = measured.get(OURS)?;
    let cases = CASES.iter().filter_map(|case| ours.most(&format!("{case}_allocations")));
    cases.max_by(f64::total_cmp)
}

fn fastest_peer(measured: &All, case: &str) -> Option<f64> {
    least(
        measured.keys().filter(|name| !name.starts_with(OURS)).map(|name| of(measured, name, case)),
    )
}

fn print_table(measured: &All, suffix: &str, digits: usize) {
    let mut table = Table::new(["engine"].into_iter().chain(CASES));
    let known = ENGINES.iter().map(|(name, _)| *name);
    let known = known.filter(|name| measured.contains_key(*name));
    let others = measured.keys().map(String::as_str);
    let others = others.filter(|name| !ENGINES.iter().any(|(known, _)| known == name));
    for name in known.chain(others) {
        let cell = |case| number(of(measured, name, &format!("{case}{suffix}")), digits);
        table.row([name.to_owned()].into_iter().chain(CASES.map(cell)));
    }
    table.print();
}

fn print_bars(measured: &All) {
    println!();
    let ours = |case| of(measured, OURS, case);
    let against = |case| ratio(fastest_peer(measured, case), ours(case));
    let mut bars = Bars::default();
    bars.add("fastest peer / ours: bound", against("bound"), Bar::AtLeast(1.0));
    for case in ["unbound3", "reordered3"] {
        bars.add(&format!("{case}, ns"), ours(case), Bar::AtMost(25.0));
        bars.add(&format!("fastest peer / ours: {case}"), against(case), Bar::AtLeast(3.0));
    }
    bars.add("native histogram bound, ns", ours("histogram_native"), Bar::AtMost(10.0));
    let contended = ratio(ours("contended2"), ours("bound"));
    bars.add("two threads / one, per operation", contended, Bar::AtMost(1.5));
    bars.add("calls of the allocator", most_allocations(measured), Bar::AtMost(0.0));
    bars.print();
}
