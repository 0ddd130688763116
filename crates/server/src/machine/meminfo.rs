//! `/proc/meminfo`: what the memory is used for.

use std::io;

use unladen::FamilyWriter;

use super::room::{Room, join, odd, read_text};

pub(super) fn collect(room: &mut Room, out: &mut FamilyWriter<'_, '_>) -> io::Result<()> {
    let Room { bytes, name, help, .. } = room;
    let text = read_text("/proc/meminfo", bytes)?;
    if fields(text).next().is_none() {
        return Err(odd("no field in /proc/meminfo"));
    }
    for field in fields(text) {
        let unit = if field.is_bytes { "_bytes" } else { "" };
        // `Active(anon)` is the field Active_anon.
        let (front, back) = field.name.split_once('(').unwrap_or((field.name, ""));
        let back = back.trim_end_matches(')');
        let joint = if back.is_empty() { "" } else { "_" };
        let name = join(name, &["node_memory_", front, joint, back, unit]);
        let field_name = &name["node_memory_".len()..];
        let help = join(help, &["Memory information field ", field_name, "."]);
        out.gauge(name, help).sample(&[], field.value);
    }
    Ok(())
}

#[derive(Debug, PartialEq)]
struct Field<'a> {
    name: &'a str,
    value: f64,
    is_bytes: bool,
}

/// `Name: 17 kB`, or without unit.
fn fields(text: &str) -> impl Iterator<Item = Field<'_>> {
    text.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        let mut words = value.split_ascii_whitespace();
        let value: f64 = words.next()?.parse().ok()?;
        let is_bytes = words.next() == Some("kB");
        Some(Field { name, value: if is_bytes { value * 1024.0 } else { value }, is_bytes })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_sizes_and_counts() {
        let text =
            "MemTotal:       24668920 kB\nActive(anon):      17 kB\nHugePages_Total:   3\nodd\n";
        let field = |name, value, is_bytes| Field { name, value, is_bytes };
        assert_eq!(
            fields(text).collect::<Vec<_>>(),
            [
                field("MemTotal", 25_260_974_080.0, true),
                field("Active(anon)", 17_408.0, true),
                field("HugePages_Total", 3.0, false),
            ]
        );
    }
}
