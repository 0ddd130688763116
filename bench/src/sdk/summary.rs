//! The tables, the bars and the last lines.

use std::collections::BTreeMap;

use bench::engine::Measured;
use bench::report::{Bar, Bars, ResultLine, Table, number, scaled};
use bench::statistics::ratio;

use crate::case::{CASES, Mode, Temporality};

/// Who, and in which case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    case: String,
    name: String,
}

impl Key {
    /// The results of the engine `name`.
    pub fn new(name: &str, mode: Mode, temporality: Temporality) -> Self {
        Key { case: Key::case(mode, temporality), name: name.to_owned() }
    }

    /// How the peers call a case.
    pub fn case(mode: Mode, temporality: Temporality) -> String {
        format!("{mode}-{temporality}")
    }
}

/// Everything that was measured.
pub type All = BTreeMap<Key, Measured>;

/// Attributes at each observation, and handles that were resolved before.
pub const OURS: &str = "unladen";
pub const OURS_RESOLVED: &str = "unladen-resolved";

/// Prints everything.
pub fn print(operations: &All, peaks: &All) {
    print_operations(operations);
    print_peaks(peaks);
    print_bars(operations, peaks);
    println!();
    for (mode, temporality) in CASES {
        let of = |name: &str, key| median(operations, name, (mode, temporality), key);
        let ours = of(OURS, "ns_per_point");
        let against = |peer| ratio(of(peer, "ns_per_point"), ours);
        ResultLine::new("sdk")
            .word("mode", &mode.to_string())
            .word("temporality", &temporality.to_string())
            .number("bytes_per_op", of(OURS, "bytes_per_op"), 0)
            .number("ns_per_point", ours, 2)
            .number("vs_otel_java", against("otel_java"), 1)
            .number("vs_otel_rust", against("opentelemetry_sdk"), 1)
            .number("vs_otel_go", against("otel_go"), 1)
            .print();
    }
}

fn median(all: &All, name: &str, case: (Mode, Temporality), key: &str) -> Option<f64> {
    all.get(&Key::new(name, case.0, case.1))?.median(key)
}

fn print_operations(operations: &All) {
    println!("\nan operation: 100 collections");
    let mut table =
        Table::new(["case", "engine", "ns/point", "cpu ns/point", "bytes/op", "allocations/op"]);
    for (Key { case, name }, measured) in operations {
        let median = |key| measured.median(key);
        table.row([
            case.clone(),
            name.clone(),
            number(median("ns_per_point"), 2),
            number(median("cpu_ns_per_point"), 2),
            number(median("bytes_per_op"), 0),
            number(median("allocations_per_op"), 0),
        ]);
    }
    table.print();
}

fn print_peaks(peaks: &All) {
    println!("\nthe peak: many sets, bytes per point");
    let mut table = Table::new([
        "case",
        "engine",
        "kept",
        "resident",
        "peak resident",
        "last collection ns/point",
    ]);
    for (Key { case, name }, measured) in peaks {
        let median = |key| scaled(measured.median(key), 1.0, 1);
        table.row([
            case.clone(),
            name.clone(),
            median("bytes_per_point"),
            median("resident_per_point"),
            median("peak_per_point"),
            median("last_collection_ns_per_point"),
        ]);
    }
    table.print();
}

fn print_bars(operations: &All, peaks: &All) {
    println!();
    let mut bars = Bars::default();
    for case in CASES {
        let told = Key::case(case.0, case.1);
        let of = |name: &str, key| median(operations, name, case, key);
        if case.0 == Mode::Reusable {
            for (name, most) in [(OURS, 20.0), (OURS_RESOLVED, 5.0)] {
                let calls = || Some(of(name, "allocations_per_op")? + of(name, "frees_per_op")?);
                let bytes = of(name, "bytes_per_op");
                bars.add(&format!("{told} {name}, bytes"), bytes, Bar::AtMost(0.0));
                let both = format!("{told} {name}, allocations and frees");
                bars.add(&both, calls(), Bar::AtMost(0.0));
                let time = of(name, "ns_per_point");
                bars.add(&format!("{told} {name}, ns/point"), time, Bar::AtMost(most));
            }
        } else {
            let against = ratio(of("otel_java", "ns_per_point"), of(OURS, "ns_per_point"));
            bars.add(&format!("{told}, Java / ours"), against, Bar::AtLeast(2.0));
        }
        for key in ["bytes_per_point", "peak_per_point"] {
            let bytes = median(peaks, OURS, case, key);
            bars.add(&format!("{told} peak, {key}"), bytes, Bar::AtMost(100.0));
        }
    }
    for temporality in [Temporality::Cumulative, Temporality::Delta] {
        for key in ["bytes_per_point", "peak_per_point"] {
            let of = |mode| median(peaks, OURS, (mode, temporality), key);
            let over = ratio(of(Mode::Reusable), of(Mode::Immutable));
            let name = format!("{temporality} {key}, reusable / immutable");
            bars.add(&name, over, Bar::AtMost(1.05));
        }
    }
    bars.print();
}
