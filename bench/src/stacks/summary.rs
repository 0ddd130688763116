//! The tables, the bars and the last lines.

use std::collections::BTreeMap;

use bench::engine::Measured;
use bench::report::{Bar, Bars, ResultLine, Table, number};
use bench::statistics::ratio;

use crate::passes::WAITS;
use crate::{BUILDS, COUNTS};

type All = BTreeMap<String, Measured>;

/// Prints everything that was measured.
pub fn print(measured: &All) {
    for (build, _) in BUILDS {
        if let Some(measured) = measured.get(build) {
            println!("\nbuild: {build}");
            print_build(measured);
        }
    }
    let of = |build: &str, key: &str| measured.get(build)?.median(key);
    let pointers = of("frame-pointers", "ns_per_frame_64");
    let without = of("without", "ns_per_frame_64");
    let best = measured.get("frame-pointers").or(measured.get("without"));
    let passes = |count: usize| best?.median(&format!("interrupted_passes_{count}"));
    let flat = best.and_then(flat);
    let complete = complete(measured);
    let worst = of("without", "totals_worst");
    let process = of("without", "totals_process");
    let (threads, seconds) = (of("without", "totals_threads"), of("without", "totals_seconds"));

    println!();
    let mut bars = Bars::default();
    bars.add("worst deviation of passes a second, 16 to 1,024 threads", flat, Bar::AtMost(0.15));
    bars.add("ns per frame, frame pointers", pointers, Bar::AtMost(25.0));
    bars.add("ns per frame, without", without, Bar::AtMost(150.0));
    bars.add("complete stacks, percent", complete.map(|share| 100.0 * share), Bar::AtLeast(99.9));
    bars.add("worst thread's total, seconds off", worst, Bar::AtMost(0.5));
    bars.print();

    println!();
    ResultLine::new("totals")
        .number("threads", threads, 0)
        .number("seconds", seconds, 0)
        .number("worst", worst, 3)
        .number("process", process, 4)
        .number("cpu", of("without", "totals_cpu"), 4)
        .print();
    ResultLine::new("stacks")
        .number("passes_4", passes(4), 0)
        .number("passes_16", passes(16), 0)
        .number("passes_256", passes(256), 0)
        .number("flat", flat, 3)
        .number("ns_per_frame", pointers, 1)
        .number("ns_per_frame_no_fp", without, 1)
        .number("complete", complete, 4)
        .print();
}

fn print_build(measured: &Measured) {
    for wait in WAITS {
        println!("\nthreads {wait}, per second");
        let columns = [
            "passes",
            "cpu_us_per_pass",
            "samples",
            "signals",
            "asleep",
            "handler_ns_per_frame",
            "depth",
        ];
        let mut table = Table::new(["threads"].into_iter().chain(columns));
        for count in COUNTS {
            let cell = |what| {
                let digits = usize::from(what == "handler_ns_per_frame");
                number(measured.median(&format!("{wait}_{what}_{count}")), digits)
            };
            table.row([count.to_string()].into_iter().chain(columns.map(cell)));
        }
        table.print();
    }
    println!(
        "\nthe walk alone, ns per frame: {} one thread after the other of 64, {} one thread; {} frames",
        number(measured.median("ns_per_frame_64"), 1),
        number(measured.median("ns_per_frame_1"), 1),
        number(measured.median("depth"), 0),
    );
}

/// The largest deviation from the passes with 16 threads.
fn flat(measured: &Measured) -> Option<f64> {
    let of = |count: usize| measured.median(&format!("interrupted_passes_{count}"));
    let deviation = |count: &usize| Some((ratio(of(*count), of(16))? - 1.0).abs());
    COUNTS[1..].iter().filter_map(deviation).max_by(f64::total_cmp)
}

/// The share of complete stacks among all that were walked, in both builds.
fn complete(measured: &All) -> Option<f64> {
    let all = |what: &str| -> f64 {
        let keys = COUNTS.iter().map(|count| format!("interrupted_{what}_{count}"));
        keys.flat_map(|key| measured.values().filter_map(move |m| m.median(&key))).sum()
    };
    ratio(Some(all("complete")), Some(all("complete") + all("truncated") + all("lost")))
}
