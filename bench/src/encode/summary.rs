//! The table, the bars and the last line.

use bench::report::{Bar, Bars, ResultLine, Table, number};
use bench::statistics::ratio;

use crate::All;
use crate::workload::Size;

const OURS: &str = "unladen";

/// Prints everything.
pub fn print(size: Size, all: &All) {
    let Size { stacks, depth, functions, files } = size;
    println!(
        "\n{} samples: {stacks} stacks of {depth} frames, {functions} functions, {files} files",
        size.samples()
    );
    let mut table = Table::new([
        "engine",
        "",
        "record ns/sample",
        "encode ms",
        "cycle ms",
        "calls to record",
        "calls to encode",
        "bytes",
    ]);
    for (name, measured) in all {
        for kind in ["cold", "again"] {
            let of = |key: &str| measured.median(&format!("{kind}_{key}"));
            table.row([
                name.clone(),
                kind.to_owned(),
                number(of("record_ns"), 0),
                number(of("encode_ms"), 2),
                number(of("ms"), 1),
                number(of("record_calls"), 0),
                number(of("encode_calls"), 0),
                number(measured.median("bytes"), 0),
            ]);
        }
    }
    table.print();
    let of = |name: &str, key: &str| all.get(name)?.median(key);
    println!(
        "\nours through gzip level 1: {} ms, {} bytes; 99% of the waits for the lock below {} µs",
        number(of(OURS, "gzip_ms"), 1),
        number(of(OURS, "gzip_bytes"), 0),
        number(of(OURS, "wait_p99_us"), 0),
    );
    let against = |peer, key| ratio(of(peer, key), of(OURS, key));
    let calls = || Some(of(OURS, "again_record_calls")? + of(OURS, "again_encode_calls")?);
    let (libdd, rs, go) = ("libdd_profiling", "pprof_rs", "go_pprof");
    println!();
    let mut bars = Bars::default();
    bars.add("recording a known stack, ns", of(OURS, "again_record_ns"), Bar::AtMost(1000.0));
    bars.add("encoding again, ms", of(OURS, "again_encode_ms"), Bar::AtMost(15.0));
    bars.add("again, calls of the allocator", calls(), Bar::AtMost(0.0));
    bars.add("the cycle again, libdd / ours", against(libdd, "again_ms"), Bar::AtLeast(20.0));
    bars.add("the cycle again, Go / ours", against(go, "again_ms"), Bar::AtLeast(5.0));
    bars.print();
    let mut table = Table::new(["peer / ours", "cycle again", "cold cycle"]);
    for peer in [libdd, rs, go] {
        let of = |key| number(against(peer, key), 1);
        table.row([peer.to_owned(), of("again_ms"), of("cold_ms")]);
    }
    println!();
    table.print();
    println!();
    ResultLine::new("encode")
        .number("record_ns_per_sample", of(OURS, "again_record_ns"), 0)
        .number("encode_ms", of(OURS, "again_encode_ms"), 2)
        .number("again_allocations", calls(), 0)
        .number("vs_libdd", against(libdd, "again_ms"), 1)
        .number("vs_pprof_rs", against(rs, "again_ms"), 1)
        .number("vs_go", against(go, "again_ms"), 1)
        .print();
}
