//! Whether a body holds the samples of the workload: a sum over all samples that does not depend on
//! their order, nor on that of their labels, nor on how a number is written.

use crate::workload::{FAMILIES, Value, Workload};
use bench::Failure;

/// How many samples, and the sum of their hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    pub samples: u64,
    sum: u64,
}

impl Digest {
    /// What the workload's body must have. With `is_whole`, fractions are left as the integers they
    /// come from, which is what the floor writes.
    pub fn of_workload(workload: Workload, is_whole: bool) -> Digest {
        let mut digest = Digest::default();
        workload.each_queue(|queue, [vhost, name]| {
            for (family, described) in FAMILIES.iter().enumerate() {
                let value = match workload.value(queue, family) {
                    _ if is_whole => workload.raw(queue, family) as f64,
                    Value::Integer(value) => value as f64,
                    Value::Fraction(value) => value,
                };
                digest.add(described.name, &mut [("vhost", vhost), ("queue", name)], value);
            }
        });
        digest
    }

    /// What a body has.
    pub fn of_body(body: &[u8]) -> Result<Digest, Failure> {
        let mut digest = Digest::default();
        for line in std::str::from_utf8(body)?.lines() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            digest.line(line).ok_or_else(|| format!("no sample of the workload: {line}"))?;
        }
        Ok(digest)
    }

    /// No value of the workload needs an escape or holds a comma, so that splitting is enough.
    fn line(&mut self, line: &str) -> Option<()> {
        let (name, rest) = line.split_once('{')?;
        let (labels, value) = rest.split_once("} ")?;
        let (first, second) = labels.split_once(',')?;
        let (first, second) = (pair(first)?, pair(second)?);
        self.add(name, &mut [first, second], value.parse().ok()?);
        Some(())
    }

    fn add(&mut self, name: &str, labels: &mut [(&str, &str); 2], value: f64) {
        labels.sort_unstable();
        let mut hash = Fnv::default();
        hash.write(name.as_bytes());
        for (name, value) in labels {
            hash.write(name.as_bytes());
            hash.write(value.as_bytes());
        }
        hash.write(&value.to_bits().to_le_bytes());
        self.samples += 1;
        self.sum = self.sum.wrapping_add(hash.0);
    }
}

fn pair(label: &str) -> Option<(&str, &str)> {
    let (name, value) = label.split_once('=')?;
    Some((name, value.strip_prefix('"')?.strip_suffix('"')?))
}

/// A sum over the lines of a body that depends neither on their order, which some libraries change from
/// scrape to scrape, nor on where the body is cut into chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineSum {
    sum: u64,
    line: Fnv,
}

impl LineSum {
    /// Takes the next bytes of the body in.
    pub fn write(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.write(part);
            if part.ends_with(b"\n") {
                self.sum = self.sum.wrapping_add(std::mem::take(&mut self.line).0);
            }
        }
    }
}

/// FNV-1a: good enough to tell a wrong body, and the same in every process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str =
        "# TYPE a gauge\na{vhost=\"v\",queue=\"q\"} 1e+06\nb{vhost=\"v\",queue=\"r\"} 2\n# EOF\n";

    #[test]
    fn order_and_spelling_do_not_matter_and_values_do() {
        let digest = |body: &str| Digest::of_body(body.as_bytes()).unwrap();
        let same = "b{queue=\"r\",vhost=\"v\"} 2.0\na{vhost=\"v\",queue=\"q\"} 1000000\n";
        assert_eq!(digest(BODY), digest(same));
        assert_eq!(digest(BODY).samples, 2);
        for other in
            [("1e+06", "1"), ("a{", "c{"), ("\"q\"", "\"r\""), ("vhost=\"v\"", "vhost=\"w\"")]
        {
            assert_ne!(digest(BODY), digest(&BODY.replace(other.0, other.1)), "{other:?}");
        }
        assert!(Digest::of_body(b"a 1\n").is_err());
    }

    #[test]
    fn two_bodies_are_the_same_in_any_order_of_lines_and_cut_anywhere() {
        let sum = |parts: &[&str]| {
            let mut sum = LineSum::default();
            parts.iter().for_each(|part| sum.write(part.as_bytes()));
            sum
        };
        assert_eq!(sum(&["a 1\nb 2\n"]), sum(&["b", " 2\na 1", "\n"]));
        assert_ne!(sum(&["a 1\nb 2\n"]), sum(&["a 2\nb 1\n"]));
        assert_ne!(sum(&["a 1\n"]), sum(&["a 1"]));
    }
}
