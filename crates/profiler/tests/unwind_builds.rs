//! A program that walks its own stacks wherever it is interrupted, built in all the ways that matter: each
//! has to reach the thread's start in 99.9% of the walks.
#![cfg(target_os = "linux")]
use std::path::{Path, PathBuf};
use std::process::Command;

/// A build's name and what it passes to the compiler.
const BUILDS: &[(&str, &[&str])] = &[
    ("release", &["-Copt-level=3"]),
    ("frame-pointers", &["-Copt-level=3", "-Cforce-frame-pointers=yes"]),
    ("small", &["-Copt-level=z", "-Clto=off", "-Cpanic=abort"]),
    ("static", &["-Copt-level=2", "-Ctarget-feature=+crt-static"]),
    (
        "static-fixed",
        &["-Copt-level=2", "-Ctarget-feature=+crt-static", "-Crelocation-model=static"],
    ),
];

/// The library as it was built for this test, and the one that both use.
fn built(directory: &Path, name: &str) -> PathBuf {
    let mut found: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let file = path.file_name().unwrap().to_str().unwrap();
            file.starts_with(&format!("lib{name}-")) && file.ends_with(".rlib")
        })
        .collect();
    found.sort_by_key(|path| path.metadata().unwrap().modified().unwrap());
    found.pop().unwrap_or_else(|| panic!("no lib{name} in {}", directory.display()))
}

fn compile(source: &str, output: &Path, flags: &[&str], deps: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/unwind").join(source);
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let compiled = Command::new(rustc)
        .args(["--edition=2024", "-Cstrip=none", "-o"])
        .arg(output)
        .args(flags)
        .arg("-L")
        .arg(format!("dependency={}", deps.display()))
        .arg(source)
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{flags:?}: {}", String::from_utf8_lossy(&compiled.stderr));
}

#[test]
fn stacks_are_complete_however_the_program_is_built() {
    let own = std::env::current_exe().unwrap();
    let deps = own.parent().unwrap();
    let directory = deps.join(format!("unwind-builds-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let library = directory.join("liblibrary.so");
    compile("library.rs", &library, &["--crate-type=cdylib", "-Copt-level=1"], deps);
    let externs =
        ["profiler", "libc"].map(|name| format!("{name}={}", built(deps, name).display()));
    let mut wrong = String::new();
    for (build, flags) in BUILDS {
        let program = directory.join(build);
        let mut all = vec!["--extern", &externs[0], "--extern", &externs[1]];
        all.extend_from_slice(flags);
        compile("program.rs", &program, &all, deps);
        let run = Command::new(&program).arg("600").arg(&library).output().unwrap();
        let (out, err) =
            (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
        let result = format!("{build}: {}\n{out}{err}", run.status);
        if !run.status.success() {
            wrong.push_str(&result);
        }
        if std::env::var_os("UNWIND_BUILDS_SHOW").is_some() {
            std::fs::write(deps.join(format!("unwind-{build}.txt")), result).unwrap();
        }
    }
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(wrong.is_empty(), "{wrong}");
}
