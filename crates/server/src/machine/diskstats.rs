//! `/proc/diskstats`: what each disk read and wrote. Partitions, loops and memory disks are left out.

use std::io;

use unladen::{FamilyWriter, Kind};

use super::room::{Room, join, number, odd, read_text};

const SECTOR_BYTES: f64 = 512.0;
const SECONDS_PER_MILLISECOND: f64 = 1.0 / 1000.0;

/// A column of the file: its index, what it is multiplied by, the family it becomes.
struct Column {
    index: usize,
    factor: f64,
    kind: Kind,
    name: &'static str,
    help: &'static str,
}

const fn counter(index: usize, factor: f64, name: &'static str, help: &'static str) -> Column {
    Column { index, factor, kind: Kind::Counter, name, help }
}

/// In the order of the columns; kernels before 4.18 and 5.5 end earlier.
#[rustfmt::skip]
const COLUMNS: [Column; 17] = [
    counter(3, 1.0, "node_disk_reads_completed_total", "The total number of reads completed successfully."),
    counter(4, 1.0, "node_disk_reads_merged_total", "The total number of reads merged."),
    counter(5, SECTOR_BYTES, "node_disk_read_bytes_total", "The total number of bytes read successfully."),
    counter(6, SECONDS_PER_MILLISECOND, "node_disk_read_time_seconds_total", "The total number of seconds spent by all reads."),
    counter(7, 1.0, "node_disk_writes_completed_total", "The total number of writes completed successfully."),
    counter(8, 1.0, "node_disk_writes_merged_total", "The number of writes merged."),
    counter(9, SECTOR_BYTES, "node_disk_written_bytes_total", "The total number of bytes written successfully."),
    counter(10, SECONDS_PER_MILLISECOND, "node_disk_write_time_seconds_total", "This is the total number of seconds spent by all writes."),
    Column { index: 11, factor: 1.0, kind: Kind::Gauge, name: "node_disk_io_now", help: "The number of I/Os currently in progress." },
    counter(12, SECONDS_PER_MILLISECOND, "node_disk_io_time_seconds_total", "Total seconds spent doing I/Os."),
    counter(13, SECONDS_PER_MILLISECOND, "node_disk_io_time_weighted_seconds_total", "The weighted # of seconds spent doing I/Os."),
    counter(14, 1.0, "node_disk_discards_completed_total", "The total number of discards completed successfully."),
    counter(15, 1.0, "node_disk_discards_merged_total", "The total number of discards merged."),
    counter(16, 1.0, "node_disk_discarded_sectors_total", "The total number of sectors discarded successfully."),
    counter(17, SECONDS_PER_MILLISECOND, "node_disk_discard_time_seconds_total", "This is the total number of seconds spent by all discards."),
    counter(18, 1.0, "node_disk_flush_requests_total", "The total number of flush requests completed successfully"),
    counter(19, SECONDS_PER_MILLISECOND, "node_disk_flush_requests_time_seconds_total", "This is the total number of seconds spent by all flush requests."),
];

pub(super) fn collect(room: &mut Room, out: &mut FamilyWriter<'_, '_>) -> io::Result<()> {
    let text = read_text("/proc/diskstats", &mut room.bytes)?;
    if text.lines().any(|line| line.split_ascii_whitespace().count() < 14) {
        return Err(odd("a line of /proc/diskstats is too short"));
    }
    info(text, &mut room.more, &mut room.name, out);
    for column in &COLUMNS {
        if values(text, column).next().is_none() {
            continue;
        }
        let family = wire::exposition::writer::Family::new(column.name, column.help, column.kind);
        let mut samples = out.family(&family);
        for (device, value) in values(text, column) {
            samples.sample(&[("device", device)], value);
        }
    }
    Ok(())
}

fn disks(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| {
        let device = line.split_ascii_whitespace().nth(2)?;
        (!is_excluded(device)).then_some((device, line))
    })
}

fn values<'t>(text: &'t str, column: &Column) -> impl Iterator<Item = (&'t str, f64)> {
    let (index, factor) = (column.index, column.factor);
    disks(text).filter_map(move |(device, line)| {
        Some((device, number::<u64>(line, index)? as f64 * factor))
    })
}

/// `^(z?ram|loop|fd|(h|s|v|xv)d[a-z]|nvme\d+n\d+p)\d+$`
fn is_excluded(device: &str) -> bool {
    let front = device.trim_end_matches(|c: char| c.is_ascii_digit());
    if front.len() == device.len() {
        return false;
    }
    if ["ram", "zram", "loop", "fd"].contains(&front) {
        return true;
    }
    let is_disk = |prefix: &str| {
        front.strip_prefix(prefix).is_some_and(|rest| matches!(rest.as_bytes(), [b'a'..=b'z']))
    };
    if ["hd", "sd", "vd", "xvd"].into_iter().any(is_disk) {
        return true;
    }
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let numbers =
        front.strip_prefix("nvme").and_then(|rest| rest.strip_suffix('p')?.split_once('n'));
    numbers.is_some_and(|(controller, namespace)| is_number(controller) && is_number(namespace))
}

/// What udev knows of each disk, or nothing where there is no udev.
fn info(text: &str, more: &mut Vec<u8>, path: &mut String, out: &mut FamilyWriter<'_, '_>) {
    let mut samples = out.gauge("node_disk_info", "Info of /sys/block/<block_device>.");
    for (device, line) in disks(text) {
        let mut words = line.split_ascii_whitespace();
        let (Some(major), Some(minor)) = (words.next(), words.next()) else { continue };
        let path = join(path, &["/run/udev/data/b", major, ":", minor]);
        let udev = read_text(path, more).unwrap_or_default();
        samples.sample(
            &[
                ("device", device),
                ("major", major),
                ("minor", minor),
                ("model", property(udev, "ID_MODEL")),
                ("path", property(udev, "ID_PATH")),
                ("revision", property(udev, "ID_REVISION")),
                ("serial", serial(udev)),
                ("wwn", property(udev, "ID_WWN")),
            ],
            1.0,
        );
    }
}

/// `E:<name>=<value>`
fn property<'t>(udev: &'t str, name: &str) -> &'t str {
    udev.lines()
        .filter_map(|line| line.strip_prefix("E:")?.split_once('='))
        .find(|(key, _)| *key == name)
        .map_or("", |(_, value)| value)
}

/// SCSI disks have the number that is printed on them in a property of their own.
fn serial(udev: &str) -> &str {
    ["SCSI_IDENT_SERIAL", "ID_SERIAL_SHORT"]
        .into_iter()
        .map(|name| property(udev, name))
        .find(|serial| !serial.is_empty())
        .unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_out_partitions_loops_and_memory() {
        for excluded in
            ["ram0", "zram1", "loop7", "fd0", "hda1", "sdb12", "vda1", "xvdc3", "nvme0n1p2"]
        {
            assert!(is_excluded(excluded), "{excluded}");
        }
        for disk in
            ["sda", "vda", "xvdc", "nvme0n1", "dm-0", "md127", "sdaa1", "mmcblk0p1", "sr0", "zram"]
        {
            assert!(!is_excluded(disk), "{disk}");
        }
    }

    #[test]
    fn reads_columns_and_does_without_the_late_ones() {
        let text = "   7 0 loop0 1 1 1 1 1 1 1 1 1 1 1\n 254 0 vda 10 2 30 4 5 6 7 8 9 1500 11 12 13 14 15 16 17\n   8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n";
        let read = |name: &str| {
            let column = COLUMNS.iter().find(|column| column.name == name).unwrap();
            values(text, column).collect::<Vec<_>>()
        };
        assert_eq!(read("node_disk_reads_completed_total"), [("vda", 10.0), ("sda", 1.0)]);
        assert_eq!(read("node_disk_read_bytes_total"), [("vda", 15_360.0), ("sda", 1_536.0)]);
        assert_eq!(read("node_disk_io_time_seconds_total"), [("vda", 1.5), ("sda", 0.01)]);
        assert_eq!(read("node_disk_flush_requests_total"), [("vda", 16.0)]);
    }

    #[test]
    fn reads_udev() {
        let udev = "S:disk/by-id/x\nE:ID_MODEL=Fast_Disk\nE:ID_SERIAL_SHORT=17\nE:ID_WWN=0x5=7\n";
        assert_eq!(property(udev, "ID_MODEL"), "Fast_Disk");
        assert_eq!(property(udev, "ID_WWN"), "0x5=7");
        assert_eq!(property(udev, "ID_PATH"), "");
        assert_eq!(serial(udev), "17");
        assert_eq!(serial("E:SCSI_IDENT_SERIAL=1\nE:ID_SERIAL_SHORT=2"), "1");
    }
}
