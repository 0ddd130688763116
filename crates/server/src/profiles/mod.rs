//! `unladen profile`: profiles as tables and flame graphs, from a file or a URL.
//!
//! ```text
//! options   the command line
//! source    a file or a URL → the bytes of a profile, decompressed
//! column    which of a profile's values is looked at, and how it is written
//! stacks    a profile → stacks of names with values, by function, file, line, module or label
//! top       a table per name
//! diff      two profiles' table
//! tree      stacks → calls
//! flame     calls → SVG
//! text      names of others, made harmless for terminals and XML
//! ```
//! A profile is read whole: nothing here is on a path that has to be steady. What stands in it is anybody's:
//! sizes are bounded where they are read, and names are escaped where they are written.

mod column;
mod diff;
mod flame;
mod options;
mod source;
mod stacks;
pub(crate) mod text;
mod top;
mod tree;

pub use options::{By, Request, Selection, Tool, Wanted, parse};

use std::io::Write;

use stacks::Stacks;
use wire::pprof::Document;

/// Does what was asked for: writes the table or the SVG to `out`, or to the file that was asked for.
///
/// # Errors
/// What went wrong, with what and what to do about it.
pub fn run(request: &Request, out: &mut dyn Write) -> Result<(), String> {
    let load = |source: &str| -> Result<Stacks, String> {
        let body = source::load(source)?;
        let of_source =
            |reason: &dyn std::fmt::Display| format!("{}: {reason}", source::shown(source));
        let document = Document::read(&body).map_err(|error| of_source(&error))?;
        Stacks::new(&document, &request.selection).map_err(|error| of_source(&error))
    };
    let result = match &request.tool {
        Tool::Top { source } => top::table(&load(source)?, &request.selection),
        Tool::Flame { source } => {
            let stacks = load(source)?;
            let title = request.title.clone().unwrap_or_else(|| stacks.heading());
            flame::draw(&tree::Tree::new(&stacks), &stacks.column, &title, request.width)
        }
        Tool::Diff { old, new, flame, normalize } => {
            let (mut old, new) = (load(old)?, load(new)?);
            diff::check(&old, &new)?;
            if *normalize {
                diff::normalize(&mut old, &new)?;
            }
            if *flame {
                let tree = tree::Tree::of_two(&old, &new);
                let title = request.title.clone().unwrap_or_else(|| diff::heading(&old, &new));
                flame::draw(&tree, &new.column, &title, request.width)
            } else {
                diff::table(&old, &new, &request.selection)
            }
        }
    };
    match &request.output {
        Some(path) => {
            std::fs::write(path, result).map_err(|error| format!("{}: {error}", path.display()))
        }
        None => match out.write_all(result.as_bytes()).and_then(|()| out.flush()) {
            // Who reads with `head` has read enough.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            other => other.map_err(|error| format!("writing the result: {error}")),
        },
    }
}
