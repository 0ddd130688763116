//! Names from ELF symbol tables, for code without debug information.
//!
//! The tables are run through once for all addresses, and nothing is kept but the best symbol of each. A
//! symbol's size counts: an address behind its end has no name rather than the wrong one. Only symbols
//! without size, as assembly has them, reach to the next symbol or the end of their section.

use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};

use super::dwarf::Patience;
use super::names::{Names, Text};

/// A symbol that an address may belong to.
#[derive(Clone, Copy, Default)]
struct Candidate<'a> {
    name: &'a [u8],
    start: u64,
    size: u64,
    rank: u8,
}

impl Candidate<'_> {
    /// Of several symbols the one that begins last counts, then the innermost, then the one that others
    /// are aliases of.
    fn beats(&self, other: &Candidate<'_>) -> bool {
        let key = |c: &Candidate<'_>| (!c.name.is_empty(), c.start, u64::MAX - c.size, c.rank);
        key(self) > key(other)
    }
}

/// Adds the symbols at the sorted addresses `wanted`, of both tables of `elf`, where `found` is empty.
pub(super) fn symbols(
    elf: &object::File<'_>,
    wanted: &[u64],
    found: &mut [Text],
    names: &mut Names,
    patience: &mut Patience,
) {
    let mut sized = vec![Candidate::default(); wanted.len()];
    // Of the symbols that begin after the address before, the last one; and the last without size.
    let mut nearest = vec![0; wanted.len()];
    let mut unsized_ = vec![Candidate::default(); wanted.len()];
    for symbol in elf.symbols().chain(elf.dynamic_symbols()) {
        let Some(symbol) = candidate(&symbol) else { continue };
        let from = wanted.partition_point(|&address| address < symbol.start);
        if from == wanted.len() {
            continue;
        }
        nearest[from] = symbol.start.max(nearest[from]);
        if symbol.size == 0 && symbol.beats(&unsized_[from]) {
            unsized_[from] = symbol;
        }
        for (address, best) in wanted[from..].iter().zip(&mut sized[from..]) {
            if address - symbol.start >= symbol.size {
                break;
            }
            if !patience.step() {
                return;
            }
            if symbol.beats(best) {
                *best = symbol;
            }
        }
    }
    let sections: Vec<(u64, u64)> =
        elf.sections().map(|s| (s.address(), s.address().saturating_add(s.size()))).collect();
    let (mut last, mut last_unsized) = (0, Candidate::default());
    for (at, &address) in wanted.iter().enumerate() {
        last = nearest[at].max(last);
        if unsized_[at].beats(&last_unsized) {
            last_unsized = unsized_[at];
        }
        let mut best = sized[at];
        if best.name.is_empty() && last_unsized.start == last {
            let both = |&(start, end): &(u64, u64)| start <= last && address < end;
            if sections.iter().any(both) {
                best = last_unsized;
            }
        }
        if found[at] == Text::default() {
            found[at] = names.keep_bytes(best.name);
        }
    }
}

/// A symbol that may be a function.
fn candidate<'a>(symbol: &object::Symbol<'a, '_>) -> Option<Candidate<'a>> {
    let kind = symbol.kind();
    if !matches!(kind, SymbolKind::Text | SymbolKind::Unknown) || symbol.is_undefined() {
        return None;
    }
    let (name, start) = (symbol.name_bytes().ok()?, symbol.address());
    // `$x` and `$d` say on aarch64 where code and data begin.
    if start == 0 || name.is_empty() || name[0] == b'$' {
        return None;
    }
    let function = u8::from(kind == SymbolKind::Text) * 8;
    let seen = u8::from(!symbol.is_local()) * 4 + u8::from(!symbol.is_weak()) * 2;
    let rank = function + seen + u8::from(name[0] != b'_');
    Some(Candidate { name, start, size: symbol.size(), rank })
}
