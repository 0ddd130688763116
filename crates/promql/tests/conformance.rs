//! Runs behaviour scripts: our own in `tests/scripts`, and those of `shared/conformance/promql` where
//! that folder stands beside the repository.
//!
//! `tests/floors.txt` holds how many evaluations of each file passed last time; fewer is a failure.
//! `cargo test -p promql --test conformance -- --nocapture` shows the table, and with
//! `SCRIPT=name` in the environment the failures of one file. `SCRIPTS=folder` runs other scripts.
#![expect(clippy::print_stdout, reason = "the table is what the test is read for")]

mod script;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use promql::{Engine, Options};

fn engine() -> Engine {
    let options = Options {
        max_samples: 1_000_000,
        delayed_name_removal: true,
        start_timestamps: true,
        threads: 2,
        ..Options::default()
    };
    Engine::new(options).expect("threads start")
}

fn scripts(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory)
        .expect("the folder can be read")
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "test"))
        .collect();
    files.sort();
    files
}

fn name(path: &Path) -> String {
    path.file_stem().expect("a script has a name").to_string_lossy().into_owned()
}

#[test]
fn own_scripts_pass() {
    let engine = engine();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    for path in scripts(&directory) {
        let text = std::fs::read_to_string(&path).expect("the script can be read");
        let report = script::run(&engine, &text);
        assert!(report.passed > 0, "{} evaluates nothing", path.display());
        assert!(report.failed.is_empty(), "{}: {:#?}", path.display(), report.failed);
    }
}

/// The folder with the conformance scripts, beside one of the folders that hold this crate.
fn conformance_folder() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("SCRIPTS") {
        return Some(PathBuf::from(folder));
    }
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|ancestor| ancestor.join("shared/conformance/promql"))
        .find(|candidate| candidate.is_dir())
}

fn floors() -> BTreeMap<String, usize> {
    include_str!("floors.txt")
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| {
            let (name, passed) = line.split_once(' ').expect("a name and a number");
            (name.to_owned(), passed.trim().parse().expect("a number"))
        })
        .collect()
}

#[test]
fn conformance_does_not_fall() {
    let Some(folder) = conformance_folder() else {
        println!("skipped: no shared/conformance/promql beside this repository");
        return;
    };
    let engine = engine();
    let floors = floors();
    let wanted = std::env::var("SCRIPT").ok();
    let (mut passed, mut total) = (0, 0);
    let mut fallen = Vec::new();
    for path in scripts(&folder) {
        let name = name(&path);
        let text = std::fs::read_to_string(&path).expect("the script can be read");
        let report = script::run(&engine, &text);
        println!("{name} {}/{}", report.passed, report.total());
        if wanted.as_ref() == Some(&name) {
            for (line, reason) in &report.failed {
                println!("  {line}: {reason}");
            }
        }
        let floor = floors.get(&name).copied().unwrap_or(0);
        if report.passed < floor {
            fallen.push(format!("{name}: {} evaluations pass, {floor} did before", report.passed));
        }
        passed += report.passed;
        total += report.total();
    }
    println!("total {passed}/{total}");
    assert!(fallen.is_empty(), "{fallen:#?}");
}
