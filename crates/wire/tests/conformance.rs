//! Bodies of real programs, read with the counts that Prometheus' own reader has for them.

use std::path::{Path, PathBuf};

use wire::exposition::{Event, Format, Reader};

fn shared() -> Option<PathBuf> {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|folder| folder.join("shared/conformance/exposition"))
        .find(|folder| folder.is_dir())
}

/// HELP, TYPE, UNIT, comments, samples, labels, exemplars.
type Counts = [usize; 7];

fn counts(body: &[u8], format: Format) -> Counts {
    let mut counts = [0; 7];
    for event in Reader::new(body, format) {
        match event.unwrap() {
            Event::Help { .. } => counts[0] += 1,
            Event::Type { .. } => counts[1] += 1,
            Event::Unit { .. } => counts[2] += 1,
            Event::Comment(_) => counts[3] += 1,
            Event::Sample(sample) => {
                counts[4] += 1;
                counts[5] += sample.labels().count();
                counts[6] += usize::from(sample.reading.exemplar.is_some());
            }
        }
    }
    counts
}

#[test]
fn every_body_is_read() {
    let Some(folder) = shared() else {
        return eprintln_skipped();
    };
    let known: &[(&str, Counts)] = &[
        ("1histogram.om.txt", [1, 1, 0, 0, 42, 204, 0]),
        ("alltypes.237mfs.nometa.prom.txt", [0, 0, 0, 1, 1857, 4606, 0]),
        ("alltypes.237mfs.prom.txt", [237, 237, 0, 1, 1857, 4606, 0]),
        ("alltypes.5mfs.om.txt", [5, 5, 0, 0, 53, 114, 6]),
    ];
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let format = match name {
            _ if name.ends_with(".om.txt") => Format::OpenMetrics,
            _ if name.ends_with(".prom.txt") => Format::Text,
            _ => continue,
        };
        let counted = counts(&std::fs::read(&path).unwrap(), format);
        match known.iter().find(|(known, _)| *known == name) {
            Some((_, expected)) => assert_eq!(counted, *expected, "{name}"),
            None => assert!(counted[4] > 0, "{name} has samples"),
        }
    }
}

#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn eprintln_skipped() {
    eprintln!("skipped: no shared/conformance/exposition beside the project");
}
