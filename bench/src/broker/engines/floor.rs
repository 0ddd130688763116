//! The floor: what any text exposition has to do. Ready prefixes are copied and integers formatted into
//! a buffer of 64 KiB; nothing is looked up, no value is atomic, no digit has Go's form.

use bench::Failure;

use super::{Built, Engine, Scraper};
use crate::workload::{FAMILIES, Workload};

const BUFFER: usize = 64 * 1024;

/// More than any line of the workload takes.
const LONGEST_LINE: usize = 256;

struct Floor {
    /// `name{vhost="…",queue="…"} ` of every series, one after the other.
    prefixes: Vec<u8>,
    /// Where each prefix ends, and the value behind it.
    series: Vec<(u32, u32)>,
    families: Vec<Header>,
}

/// HELP and TYPE of a family, and how many series it has.
struct Header {
    text: String,
    series: usize,
}

pub fn build(workload: Workload) -> Result<Built, Failure> {
    let mut floor = Floor { prefixes: Vec::new(), series: Vec::new(), families: Vec::new() };
    for (family, described) in FAMILIES.iter().enumerate() {
        let (name, help) = (described.name, described.help);
        let kind = if described.is_counter { "counter" } else { "gauge" };
        let text = format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
        floor.families.push(Header { text, series: workload.queues });
        workload.each_queue(|number, [vhost, queue]| {
            let prefix = format!("{name}{{vhost=\"{vhost}\",queue=\"{queue}\"}} ");
            floor.prefixes.extend_from_slice(prefix.as_bytes());
            let value = workload.raw(number, family) as u32;
            floor.series.push((floor.prefixes.len() as u32, value));
        });
    }
    Ok(Built { engine: Box::new(floor), program_bytes: 0, is_floor: true })
}

impl Engine for Floor {
    fn scraper(&self) -> Box<Scraper<'_>> {
        let mut buffer = vec![0; BUFFER];
        let mut digits = itoa::Buffer::new();
        Box::new(move |sink| {
            let (mut length, mut begin, mut from) = (0, 0, 0);
            for family in &self.families {
                buffer[length..][..family.text.len()].copy_from_slice(family.text.as_bytes());
                length += family.text.len();
                for &(end, value) in &self.series[from..from + family.series] {
                    let prefix = &self.prefixes[begin..end as usize];
                    let digits = digits.format(value).as_bytes();
                    let line = &mut buffer[length..][..prefix.len() + digits.len() + 1];
                    line[..prefix.len()].copy_from_slice(prefix);
                    line[prefix.len()..][..digits.len()].copy_from_slice(digits);
                    line[prefix.len() + digits.len()] = b'\n';
                    length += line.len();
                    begin = end as usize;
                    if length > BUFFER - LONGEST_LINE {
                        sink(&buffer[..length]);
                        length = 0;
                    }
                }
                from += family.series;
            }
            sink(&buffer[..length]);
        })
    }
}
