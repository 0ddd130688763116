//! What the library writes is read again as the same by its own readers, a few hundred bodies of each
//! format; `make compare-readers` asks those of others too, and more.
#![cfg(feature = "readers")]

use std::process::Command;

#[test]
fn bodies_are_read_as_they_were_written() {
    let program = env!("CARGO_BIN_EXE_compare-readers");
    let output = Command::new(program).arg("--smoke").output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}{said}");
    let last = printed.lines().next_back().unwrap_or_default();
    assert!(last.starts_with("RESULT readers bodies="), "{printed}");
    let asked = " differing_ours=0 differing_expfmt=n/a differing_textparse=n/a differing_otlp=n/a";
    assert!(last.ends_with(asked), "{printed}");
}
