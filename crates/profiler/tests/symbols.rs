//! Names and lines for addresses, compared with those of addr2line.
#![cfg(feature = "symbols")]

use std::env;
use std::path::Path;

use addr2line::Loader;
use object::{Object, ObjectSection, ObjectSymbol};
use profiler::profile::{Mapping, Symbolize};
use profiler::symbols::Resolver;

/// What is said about an address: name, file and line of each function, innermost first.
type Calls = Vec<(String, String, u32)>;

fn calls(resolver: &mut Resolver, address: u64, mapping: Option<&Mapping>) -> Calls {
    let mut calls = Calls::new();
    resolver.symbolize(address, mapping, &mut |symbol| {
        calls.push((symbol.name.to_owned(), symbol.file.to_owned(), symbol.line));
    });
    calls
}

/// The addresses of `every`th instruction or so of all functions of a file.
fn addresses(path: &Path, every: u64) -> Vec<u64> {
    let bytes = std::fs::read(path).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    let text = elf.section_by_name(".text").unwrap();
    let mut all: Vec<u64> = elf
        .symbols()
        .filter(|symbol| symbol.kind() == object::SymbolKind::Text && symbol.size() > 0)
        .filter(|symbol| symbol.section_index() == Some(text.index()))
        .flat_map(|symbol| {
            (symbol.address()..symbol.address() + symbol.size()).step_by(every as usize)
        })
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn expected(loader: &Loader, address: u64) -> Calls {
    let mut calls = Calls::new();
    let mut frames = loader.find_frames(address).unwrap();
    while let Some(frame) = frames.next().unwrap() {
        let system = frame.function.map(|f| f.raw_name().unwrap().into_owned());
        let Some(system) = system.or_else(|| loader.find_symbol(address).map(str::to_owned)) else {
            continue;
        };
        let place = frame.location;
        calls.push((
            format!("{:#}", rustc_demangle::demangle(&system)),
            place.as_ref().and_then(|place| place.file).unwrap_or_default().to_owned(),
            place.as_ref().and_then(|place| place.line).unwrap_or_default(),
        ));
    }
    // Lines without types leave out where a function belongs to, which the symbol table knows.
    let symbol = loader.find_symbol(address).unwrap_or_default();
    if calls.is_empty() && !symbol.is_empty() {
        calls.push((symbol.to_owned(), String::new(), 0));
    }
    if let Some(last) = calls.last_mut()
        && symbol.starts_with("_")
    {
        last.0 = format!("{:#}", rustc_demangle::demangle(symbol));
    }
    calls
}

/// Whether both say the same: we say in which module a function is, also where only its bare name is that
/// of the linker.
fn is_same(ours: &Calls, theirs: &Calls) -> bool {
    ours.len() == theirs.len()
        && ours.iter().zip(theirs).all(|(a, b)| {
            let name =
                a.0 == b.0 || a.0.strip_suffix(&b.0).is_some_and(|rest| rest.ends_with("::"));
            name && a.1 == b.1 && a.2 == b.2
        })
}

#[test]
fn names_and_lines_are_those_of_addr2line() {
    let path = env::current_exe().unwrap();
    let asked = addresses(&path, 97);
    assert!(asked.len() > 5_000, "{}", asked.len());
    let loader = Loader::new(&path).unwrap();
    let mut resolver = Resolver::of_file(&path).unwrap();
    resolver.prepare(&asked, &[]);
    let (mut inlined, mut different) = (0, Vec::new());
    for &address in &asked {
        let (ours, theirs) = (calls(&mut resolver, address, None), expected(&loader, address));
        inlined += usize::from(theirs.len() > 1);
        if !is_same(&ours, &theirs) {
            different.push((address, ours, theirs));
        }
    }
    assert!(inlined > 500, "{inlined}");
    let shown = &different[..different.len().min(5)];
    assert!(
        different.len() * 1000 <= asked.len(),
        "{} of {}: {shown:#x?}",
        different.len(),
        asked.len()
    );
}
