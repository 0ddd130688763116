//! A table per name, as tprof of Erlang/OTP prints it: the largest at the bottom, next to the total.
//!
//! Besides tprof's columns (how often, how much, how much each time, which share) there are those of `go tool
//! pprof`: what was measured in the function itself, and with all that it calls (`CUM`).

use super::column::percent;
use super::options::Selection;
use super::stacks::{NameId, Stacks};
use super::text;

/// What was measured at a name.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    /// In it itself.
    pub(super) flat: f64,
    /// How many times.
    pub(super) count: f64,
    /// In it and all that it calls.
    pub(super) cum: f64,
}

/// The sums of every name, by [`NameId`]. A name that stands in a stack twice is counted once.
pub(super) fn sums(stacks: &Stacks) -> Vec<Sums> {
    let mut sums = vec![Sums::default(); stacks.names().len()];
    let mut seen = vec![0; sums.len()];
    for (stack, number) in stacks.iter().zip(1u32..) {
        for (place, name) in stack.frames.iter().enumerate() {
            let it = &mut sums[name.0 as usize];
            if place == 0 {
                it.flat += stack.value;
                it.count += stack.count;
            }
            if std::mem::replace(&mut seen[name.0 as usize], number) != number {
                it.cum += stack.value;
            }
        }
    }
    sums
}

/// The rows to show, smallest first: at most `limit` of them, by what is asked for.
pub(super) fn pick<T>(rows: &mut Vec<T>, selection: &Selection, key: impl Fn(&T) -> [f64; 2]) {
    let size = |row: &T| {
        let [flat, cum] = key(row).map(f64::abs);
        if selection.by_cum { [cum, flat] } else { [flat, cum] }
    };
    rows.sort_by(|a, b| {
        let ([a, aa], [b, bb]) = (size(b), size(a));
        a.total_cmp(&b).then(aa.total_cmp(&bb))
    });
    rows.truncate(if selection.limit == 0 { usize::MAX } else { selection.limit });
    if !selection.descending {
        rows.reverse();
    }
}

/// The table.
pub(super) fn table(stacks: &Stacks, selection: &Selection) -> String {
    let column = &stacks.column;
    let total = stacks.total();
    let sums = sums(stacks);
    let count = sums.iter().fold(0.0, |sum, it| sum + it.count);
    let mut rows: Vec<(NameId, Sums)> =
        (0..).map(NameId).zip(sums).filter(|(_, it)| it.flat != 0.0 || it.cum != 0.0).collect();
    let names = rows.len();
    // Of equal ones the order is that of names, and not of the profile.
    rows.sort_by_key(|(name, _)| stacks.names().name(*name));
    pick(&mut rows, selection, |(_, it)| [it.flat, it.cum]);
    let header = column.header();
    let mut table = Table::new(selection);
    let mut head = vec![selection.by.header().to_owned()];
    let counted = column.count.is_some();
    if counted {
        head.extend([column.things.to_uppercase(), header]);
        head.push(format!("PER {}", column.thing().to_uppercase()));
    } else {
        head.push(header);
    }
    head.extend(["[     %]", "CUM", "[     %]"].map(str::to_owned));
    table.row(head);
    let share = |value: f64| format!("[{:>6}]", percent(value, total));
    for (name, it) in &rows {
        let mut cells = vec![stacks.names().name(*name).to_owned()];
        if counted {
            cells.push(column.write_count(it.count));
        }
        cells.push(column.write(it.flat));
        if counted {
            cells.push(if it.count == 0.0 {
                "-".to_owned()
            } else {
                column.write(it.flat / it.count)
            });
        }
        cells.extend([share(it.flat), column.write(it.cum), share(it.cum)]);
        table.row(cells);
    }
    let mut cells = vec![String::new()];
    if counted {
        cells.push(column.write_count(count));
    }
    cells.push(column.write(total));
    if counted {
        cells.push(String::new());
    }
    cells.push(share(total));
    table.row(cells);
    let shown = match rows.len() {
        shown if shown < names => format!(", {shown} of {names} names"),
        _ => String::new(),
    };
    format!("{}{shown}\n{}", stacks.heading(), table.finish())
}

/// Rows of cells: the first one to the left, the others to the right.
pub(super) struct Table {
    rows: Vec<Vec<String>>,
    name_width: usize,
}

impl Table {
    pub(super) fn new(selection: &Selection) -> Self {
        Table { rows: Vec::new(), name_width: selection.name_width }
    }

    /// Adds a row; the first is the head.
    pub(super) fn row(&mut self, mut cells: Vec<String>) {
        if !self.rows.is_empty() {
            cells[0] = text::cut(&cells[0], self.name_width);
        }
        self.rows.push(cells);
    }

    pub(super) fn finish(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |index: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(index));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut out = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (index, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                match index {
                    0 => line.push_str(&format!("{cell:<width$}")),
                    _ => line.push_str(&format!("  {cell:>width$}")),
                }
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}
