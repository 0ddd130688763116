//! Compresses the built page, file by file, for `web/page.rs` to embed.
//!
//! Where `ui/dist` is missing the build succeeds with a warning, and the server says how to build it.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

fn main() {
    let manifest = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let dist = manifest.join("../../ui/dist");
    println!("cargo:rerun-if-changed={}", dist.display());
    let mut table = String::from("static FILES: &[Embedded] = &[\n");
    let mut files = Vec::new();
    if dist.join("index.html").is_file() {
        list(&dist, &mut files);
        files.sort();
    } else {
        println!(
            "cargo:warning=ui/dist is missing, the binary will have no page: `make page` builds it"
        );
    }
    for (index, file) in files.iter().enumerate() {
        let name = file.strip_prefix(&dist).expect("it was found in there");
        let name = name.to_str().expect("the page's files have plain names");
        let bytes = fs::read(file).expect("the page's files can be read");
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&bytes).expect("memory takes everything");
        let compressed = encoder.finish().expect("memory takes everything");
        let target = out.join(format!("page-{index}.gz"));
        fs::write(&target, &compressed).expect("the build's folder can be written");
        writeln!(
            table,
            "    Embedded {{ name: {name:?}, content_type: {:?}, gzip: include_bytes!({:?}), \
             length: {} }},",
            content_type(name),
            target.display().to_string(),
            bytes.len()
        )
        .expect("a String takes everything");
    }
    table.push_str("];\n");
    fs::write(out.join("page.rs"), table).expect("the build's folder can be written");
}

fn list(directory: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            list(&path, files);
        } else {
            files.push(path);
        }
    }
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "json" | "map" => "application/json",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
