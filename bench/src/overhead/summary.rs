//! The tables, the bars and the last line.

use std::collections::BTreeMap;

use bench::engine::Measured;
use bench::report::{Bar, Bars, ResultLine, Table, number};

use crate::ENGINES;

type All = BTreeMap<String, Measured>;

/// Prints everything that was measured.
pub fn print(measured: &All) {
    println!(
        "\nwhat profiling costs, percent: the middle of all pairs, and where it lies nineteen times in twenty"
    );
    let mut table = Table::new(["engine", "case", "pairs", "processors", "wall", "", "cpu", ""]);
    for (engine, _, commands) in ENGINES {
        for command in commands {
            let what = command.replace(' ', "_");
            let [wall, cpu] = ["wall", "cpu"].map(|unit| cost(measured, engine, &what, unit));
            let count = wall.map_or(0, |cost| cost.pairs);
            let [wall_range, cpu_range] = [wall, cpu].map(range);
            let [wall, cpu] = [wall, cpu].map(|cost| number(cost.map(|c| 100.0 * c.middle), 2));
            let processors = cost(measured, engine, &what, "processors").map(|had| had.middle);
            let name = engine.to_owned();
            let processors = number(processors, 2);
            let count = count.to_string();
            let command = (*command).to_owned();
            let cells = [name, command, count, processors, wall, wall_range, cpu, cpu_range];
            table.row(cells);
        }
    }
    table.print();
    let service = measured.get("service");
    let of = |key: &str| service.and_then(|service| service.median(key));
    println!(
        "\nthe service's latency without exports, us: p50 {}, p99 {}, p99.9 {}; with exports, times: {}, {}, {}",
        number(of("p50_us"), 0),
        number(of("p99_us"), 0),
        number(of("p999_us"), 0),
        number(of("p50_ratio"), 3),
        number(of("p99_ratio"), 3),
        number(of("p999_ratio"), 3),
    );
    // CPU time for a unit of work: what another program on the machine does is not in it.
    let worst = |engine: &str| {
        let (_, _, commands) = ENGINES.iter().find(|(name, _, _)| *name == engine)?;
        // A program that does nothing but allocate is shown, and is no measure of a busy one.
        let commands = commands.iter().filter(|command| !command.ends_with("pure"));
        let costs = commands.filter_map(|command| {
            cost(measured, engine, &command.replace(' ', "_"), "cpu").map(|cost| cost.middle)
        });
        costs.max_by(f64::total_cmp).map(|cost| 100.0 * cost)
    };
    let (wall, heap, p99) = (worst("unladen"), worst("heap"), of("p99_ratio"));
    println!();
    let mut bars = Bars::default();
    bars.add("wall and CPU, percent", wall, Bar::AtMost(1.0));
    bars.add("heap, percent", heap, Bar::AtMost(1.0));
    bars.add("p99 with exports / without", p99, Bar::AtMost(1.03));
    bars.print();
    println!();
    ResultLine::new("overhead")
        .number("wall", wall, 2)
        .number("heap", heap, 2)
        .number("p99_ratio", p99, 3)
        .number("pprof_rs", worst("pprof_rs"), 2)
        .number("pprof_rs_fp", worst("pprof_rs_fp"), 2)
        .print();
}

/// A share of the time.
#[derive(Clone, Copy)]
struct Cost {
    middle: f64,
    least: f64,
    most: f64,
    pairs: usize,
}

/// The middle of all pairs. Its range is that between the pairs whose places the middle one of so many
/// draws has nineteen times in twenty, whatever their distribution.
fn cost(measured: &All, engine: &str, what: &str, unit: &str) -> Option<Cost> {
    let prefix = format!("{what}_{unit}_");
    let mut pairs = measured.get(engine)?.all(&prefix);
    pairs.sort_by(f64::total_cmp);
    let middle = bench::statistics::median(&pairs)?;
    let half = 0.98 * (pairs.len() as f64).sqrt();
    let place = |place: f64| pairs[(place.max(0.0) as usize).min(pairs.len() - 1)];
    let center = (pairs.len() as f64 - 1.0) / 2.0;
    let (least, most) = (place((center - half).floor()), place((center + half).ceil()));
    Some(Cost { middle, least, most, pairs: pairs.len() })
}

fn range(cost: Option<Cost>) -> String {
    cost.map_or_else(String::new, |cost| {
        format!("{:.2} to {:.2}", 100.0 * cost.least, 100.0 * cost.most)
    })
}
