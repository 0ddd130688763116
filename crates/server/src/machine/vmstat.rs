//! `/proc/vmstat`: paging and faults; of its many fields those that node_exporter takes by default.

use std::io;

use unladen::{FamilyWriter, Kind};
use wire::exposition::writer::Family;

use super::room::{Room, join, odd, read_text};

pub(super) fn collect(room: &mut Room, out: &mut FamilyWriter<'_, '_>) -> io::Result<()> {
    let Room { bytes, name, help, .. } = room;
    let text = read_text("/proc/vmstat", bytes)?;
    if fields(text).next().is_none() {
        return Err(odd("no known field in /proc/vmstat"));
    }
    for (field, value) in fields(text) {
        let name = join(name, &["node_vmstat_", field]);
        let help = join(help, &["/proc/vmstat information field ", field, "."]);
        // Some grow and some don't, and the file does not say which.
        let family = Family::new(name, help, Kind::Unknown);
        out.family(&family).sample(&[], value);
    }
    Ok(())
}

fn fields(text: &str) -> impl Iterator<Item = (&str, f64)> {
    text.lines().filter_map(|line| {
        let (field, value) = line.split_once(' ')?;
        let value = value.trim().parse::<u64>().ok()? as f64;
        is_taken(field).then_some((field, value))
    })
}

/// `^(oom_kill|pgpg|pswp|pg.*fault).*`
fn is_taken(field: &str) -> bool {
    ["oom_kill", "pgpg", "pswp"].iter().any(|prefix| field.starts_with(prefix))
        || field.strip_prefix("pg").is_some_and(|rest| rest.contains("fault"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_paging_and_faults() {
        let text = "nr_free_pages 1\npgpgin 2\npswpout 3\npgfault 4\npgmajfault 5\noom_kill 6\n\
            pgalloc_dma 7\npgpgout x\nthp_fault_alloc 8\n";
        assert_eq!(
            fields(text).collect::<Vec<_>>(),
            [
                ("pgpgin", 2.0),
                ("pswpout", 3.0),
                ("pgfault", 4.0),
                ("pgmajfault", 5.0),
                ("oom_kill", 6.0),
            ]
        );
    }
}
