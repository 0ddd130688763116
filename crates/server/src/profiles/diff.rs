//! Two profiles' table: what each name costs in the second and did not in the first.

use std::collections::BTreeMap;

use super::column::percent;
use super::options::Selection;
use super::stacks::Stacks;
use super::top::{Sums, Table, pick, sums};

/// Whether the two can be compared.
pub(super) fn check(old: &Stacks, new: &Stacks) -> Result<(), String> {
    let (a, b) = (&old.column, &new.column);
    if (&a.kind, &a.unit) == (&b.kind, &b.unit) {
        return Ok(());
    }
    Err(format!(
        "the old profile has {} in {} and the new one {} in {}: choose with --sample-index a value \
         that both have",
        a.kind, a.unit, b.kind, b.unit
    ))
}

/// Makes the old values those of a profile that took as long as the new one.
pub(super) fn normalize(old: &mut Stacks, new: &Stacks) -> Result<(), String> {
    for (which, it) in [("old", &*old), ("new", new)] {
        if it.duration_nanos == 0 {
            return Err(format!(
                "the {which} profile does not say how long it took: compare without --normalize"
            ));
        }
    }
    old.scale(new.duration_nanos as f64 / old.duration_nanos as f64);
    Ok(())
}

/// What is compared, in one line.
pub(super) fn heading(old: &Stacks, new: &Stacks) -> String {
    let column = &new.column;
    let (before, after) = (old.total(), new.total());
    let change = column.write_change(after - before);
    let share = percent(after - before, before);
    let (before, after) = (column.write(before), column.write(after));
    format!("{}: {before} → {after} ({change}, {share}% of the old)", column.kind)
}

/// The table.
pub(super) fn table(old: &Stacks, new: &Stacks, selection: &Selection) -> String {
    let mut names = BTreeMap::<&str, [Sums; 2]>::new();
    for (index, stacks) in [old, new].into_iter().enumerate() {
        for (id, it) in (0..).map(super::stacks::NameId).zip(sums(stacks)) {
            names.entry(stacks.names().name(id)).or_default()[index] = it;
        }
    }
    let column = &new.column;
    let total = old.total();
    let mut rows: Vec<(&str, [Sums; 2])> =
        names.into_iter().filter(|(_, [a, b])| a.flat != b.flat || a.cum != b.cum).collect();
    let changed = rows.len();
    pick(&mut rows, selection, |(_, [a, b])| [b.flat - a.flat, b.cum - a.cum]);
    let mut table = Table::new(selection);
    let head =
        [selection.by.header(), "OLD", "NEW", "CHANGE", "[     %]", "CUM CHANGE", "[     %]"];
    table.row(head.map(str::to_owned).to_vec());
    let share = |value: f64| format!("[{:>6}]", percent(value, total));
    for (name, [a, b]) in &rows {
        let (flat, cum) = (b.flat - a.flat, b.cum - a.cum);
        table.row(vec![
            (*name).to_owned(),
            column.write(a.flat),
            column.write(b.flat),
            column.write_change(flat),
            share(flat),
            column.write_change(cum),
            share(cum),
        ]);
    }
    let change = new.total() - total;
    table.row(vec![
        String::new(),
        column.write(total),
        column.write(new.total()),
        column.write_change(change),
        share(change),
    ]);
    let shown = match rows.len() {
        shown if shown < changed => format!(", {shown} of {changed} names that changed"),
        _ => String::new(),
    };
    format!("{}{shown}\n{}", heading(old, new), table.finish())
}
