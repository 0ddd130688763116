//! Go: its package as a peer, and as a reader of what the others wrote.

use bench::Failure;
use bench::engine::{Measured, peer_binary, run_peer};
use bench::protocol::Line;

use crate::All;
use crate::workload::Size;

/// Measures the peer, and has it read every profile: samples, totals and hash have to be those that our
/// reader found.
pub fn run(size: Size, rounds: usize, written: &[Line], all: &mut All) -> Result<(), Failure> {
    let program = peer_binary("peer-go");
    let settings = [
        ("--stacks", size.stacks),
        ("--depth", size.depth),
        ("--functions", size.functions),
        ("--files", size.files),
        ("--rounds", rounds),
    ];
    let mut arguments = vec!["encode".to_owned()];
    for (option, value) in settings {
        arguments.extend([option.to_owned(), value.to_string()]);
    }
    println!("running peer-go encode");
    for line in run_peer(&program, &words(&arguments)) {
        all.entry(line.name.clone()).or_insert_with(Measured::default).take(&line);
    }
    for line in written {
        let (Some(path), Some(values)) = (line.text("path"), line.text("values")) else { continue };
        let arguments = ["read-profile", "--file", path, "--values", values];
        let Some(read) = run_peer(&program, &arguments).into_iter().next() else { continue };
        for key in ["samples", "hash"] {
            if read.text(key) != line.text(key) {
                return Err(format!("{}: Go's reader found {read}, we {line}", line.name).into());
            }
        }
        println!("{}: Go's reader finds the same samples and totals", line.name);
    }
    Ok(())
}

fn words(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}
