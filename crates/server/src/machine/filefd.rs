//! `/proc/sys/fs/file-nr`: how many files are open on the machine.

use std::io;

use unladen::FamilyWriter;

use super::room::{Room, number, odd, read_text};

pub(super) fn collect(room: &mut Room, out: &mut FamilyWriter<'_, '_>) -> io::Result<()> {
    let text = read_text("/proc/sys/fs/file-nr", &mut room.bytes)?;
    let (allocated, maximum) = parse(text).ok_or_else(|| odd("no three counts in file-nr"))?;
    out.gauge("node_filefd_allocated", "File descriptor statistics: allocated.")
        .sample(&[], allocated);
    out.gauge("node_filefd_maximum", "File descriptor statistics: maximum.").sample(&[], maximum);
    Ok(())
}

fn parse(text: &str) -> Option<(f64, f64)> {
    Some((number(text, 0)?, number(text, 2)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_allocated_and_maximum() {
        assert_eq!(parse("2297\t0\t2466170\n"), Some((2_297.0, 2_466_170.0)));
        assert_eq!(parse("2297\t0"), None);
    }
}
