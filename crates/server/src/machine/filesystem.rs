//! `/proc/1/mounts` and statfs: how full the file systems are. Those that hold nothing of the user's
//! (`proc`, `cgroup2`, `overlay` …) are left out.

use std::io;
use std::ops::Range;

use unladen::{FamilyWriter, Samples};

use super::patience::{Patience, Usage};
use super::room::{Room, read};

/// A mount, as places in the text of all mounts, and what statfs said.
pub(super) struct Mount {
    device: Range<usize>,
    point: Range<usize>,
    kind: Range<usize>,
    readonly: bool,
    usage: Option<Usage>,
}

type Number = fn(&Usage) -> f64;

const FAMILIES: [(&str, &str, Number); 5] = [
    ("node_filesystem_size_bytes", "Filesystem size in bytes.", |u| u.size_bytes),
    ("node_filesystem_free_bytes", "Filesystem free space in bytes.", |u| u.free_bytes),
    (
        "node_filesystem_avail_bytes",
        "Filesystem space available to non-root users in bytes.",
        |u| u.available_bytes,
    ),
    ("node_filesystem_files", "Filesystem total file nodes.", |u| u.files),
    ("node_filesystem_files_free", "Filesystem total free file nodes.", |u| u.files_free),
];

pub(super) fn collect(
    patience: &Patience,
    room: &mut Room,
    out: &mut FamilyWriter<'_, '_>,
) -> io::Result<()> {
    let Room { bytes, name, mounts, .. } = room;
    // The mounts of the machine, or of the container where process 1 may not be looked at.
    if read("/proc/1/mounts", bytes).is_err() {
        read("/proc/self/mounts", bytes)?;
    }
    let text = parse(bytes, name, mounts);
    for mount in mounts.iter_mut() {
        mount.usage = patience.usage(&text[mount.point.clone()], &text[mount.kind.clone()]);
    }
    let write = |samples: &mut Samples<'_, '_>, mount: &Mount, value: f64| {
        let labels = [
            ("device", &text[mount.device.clone()]),
            ("fstype", &text[mount.kind.clone()]),
            ("mountpoint", &text[mount.point.clone()]),
        ];
        samples.sample(&labels, value);
    };
    for (name, help, number) in FAMILIES {
        let mut samples = out.gauge(name, help);
        for mount in mounts.iter() {
            if let Some(usage) = &mount.usage {
                write(&mut samples, mount, number(usage));
            }
        }
    }
    let mut samples = out.gauge("node_filesystem_readonly", "Filesystem read-only status.");
    for mount in mounts.iter().filter(|mount| mount.usage.is_some()) {
        write(&mut samples, mount, f64::from(u8::from(mount.readonly)));
    }
    let mut samples = out.gauge(
        "node_filesystem_device_error",
        "Whether an error occurred while getting statistics for the given device.",
    );
    for mount in mounts.iter() {
        write(&mut samples, mount, f64::from(u8::from(mount.usage.is_none())));
    }
    Ok(())
}

/// Puts the names of the mounts that count into `text`, without escapes, and where they stand into
/// `mounts`. A mount that is there twice comes once; one whose names are no UTF-8 can't be a label and
/// does not come.
fn parse<'r>(bytes: &[u8], text: &'r mut String, mounts: &mut Vec<Mount>) -> &'r str {
    text.clear();
    mounts.clear();
    for line in bytes.split(|byte| *byte == b'\n') {
        let Ok(line) = std::str::from_utf8(line) else { continue };
        let mut fields = line.split(' ');
        let (Some(device), Some(point), Some(kind), Some(options)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        if is_excluded_kind(kind) {
            continue;
        }
        let begin = text.len();
        let device = unescape(device, text);
        let point = unescape(point, text);
        let kind = unescape(kind, text);
        let at = |range: &Range<usize>| &text[range.clone()];
        let is_known = mounts.iter().any(|known| {
            at(&known.point) == at(&point)
                && at(&known.device) == at(&device)
                && at(&known.kind) == at(&kind)
        });
        if is_known || is_excluded_point(at(&point)) {
            text.truncate(begin);
            continue;
        }
        let readonly = options.split(',').any(|option| option == "ro");
        mounts.push(Mount { device, point, kind, readonly, usage: None });
    }
    text
}

/// Appends a field, in which the kernel writes blanks and backslashes as three octal digits, and says
/// where it stands.
fn unescape(field: &str, text: &mut String) -> Range<usize> {
    let begin = text.len();
    let mut rest = field;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        let digits = rest.get(at + 1..at + 4).unwrap_or_default();
        let is_octal = digits.len() == 3 && digits.bytes().all(|b| matches!(b, b'0'..=b'7'));
        match u8::from_str_radix(digits, 8) {
            Ok(byte) if is_octal && byte.is_ascii() => {
                text.push(char::from(byte));
                rest = &rest[at + 4..];
            }
            _ => {
                text.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    text.push_str(rest);
    begin..text.len()
}

fn is_excluded_kind(kind: &str) -> bool {
    const EXCLUDED: [&str; 24] = [
        "autofs",
        "binfmt_misc",
        "bpf",
        "cgroup",
        "cgroup2",
        "configfs",
        "debugfs",
        "devpts",
        "devtmpfs",
        "erofs",
        "fusectl",
        "hugetlbfs",
        "iso9660",
        "mqueue",
        "nsfs",
        "overlay",
        "proc",
        "procfs",
        "pstore",
        "rpc_pipefs",
        "securityfs",
        "selinuxfs",
        "squashfs",
        "sysfs",
    ];
    kind == "tracefs" || EXCLUDED.contains(&kind)
}

/// `^/(dev|proc|run/credentials/.+|sys|var/lib/docker/.+|var/lib/containers/storage/.+)($|/)`
fn is_excluded_point(point: &str) -> bool {
    let is_below = |folder: &str| {
        point.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let is_within = |folder: &str| {
        point.strip_prefix(folder).is_some_and(|rest| rest.len() > 1 && rest.starts_with('/'))
    };
    ["/dev", "/proc", "/sys"].into_iter().any(is_below)
        || ["/run/credentials", "/var/lib/docker", "/var/lib/containers/storage"]
            .into_iter()
            .any(is_within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_holds_something_and_each_once() {
        let bytes = b"/dev/vda / ext4 rw,relatime 0 0\nproc /proc proc rw 0 0\n\
            tmpfs /dev/shm tmpfs rw 0 0\n/dev/vda / ext4 rw 0 0\n\
            server:/a\\040b /with\\011tab\\134 nfs4 ro,vers=4 0 0\ntmpfs /run tmpfs rw,size=1ro 0 0\n\
            x /var/lib/docker/volumes xfs rw 0 0\nx /var/lib/docker xfs rw 0 0\n\
            \xff /bad ext4 rw 0 0\nshort line\n/dev/sda /devices ext4 ro 0 0\n";
        let (mut text, mut mounts) = (String::new(), Vec::new());
        let text = parse(bytes, &mut text, &mut mounts);
        let read: Vec<_> = mounts
            .iter()
            .map(|m| {
                (&text[m.device.clone()], &text[m.point.clone()], &text[m.kind.clone()], m.readonly)
            })
            .collect();
        assert_eq!(
            read,
            [
                ("/dev/vda", "/", "ext4", false),
                ("server:/a b", "/with\ttab\\", "nfs4", true),
                ("tmpfs", "/run", "tmpfs", false),
                ("x", "/var/lib/docker", "xfs", false),
                ("/dev/sda", "/devices", "ext4", true),
            ]
        );
    }

    #[test]
    fn leaves_what_is_no_escape_alone() {
        for (field, expected) in
            [("a\\", "a\\"), ("\\04", "\\04"), ("\\777x", "\\777x"), ("\\+12", "\\+12")]
        {
            let mut text = String::from("before");
            let range = unescape(field, &mut text);
            assert_eq!(&text[range], expected);
        }
    }
}
