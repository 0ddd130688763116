//! Asking what locations stand for: outside the lock, once for each that has an answer.

use std::ops::Range;
use std::slice;
use std::sync::Arc;

use super::locations::{LocationId, Symbols};
use super::mappings::MappingId;
use super::marks::Marks;
use super::tables::{Shared, State};
use super::{Mapping, Symbol, Symbolize};
use crate::heap;

/// How many locations are looked at or answered with the lock held.
const HELD: usize = 256;

struct Open {
    id: LocationId,
    address: u64,
    mapping_id: MappingId,
    mapping: Option<Arc<Mapping>>,
}

struct Answer {
    name: Range<usize>,
    system_name: Range<usize>,
    file: Range<usize>,
    line: u32,
    start_line: u32,
}

/// Asks for those of `used` that nobody asked for yet, or too seldom to take it that nobody knows them, and
/// keeps the answers.
/// *Steady* if there are none, else *growth*.
pub(super) fn ask(shared: &Shared, used: &Marks, symbolizer: &mut dyn Symbolize) {
    let mut open = collect(shared, used);
    // One mapping at a time: where a library took another's place, the same address is two.
    open.sort_by_key(|open| open.mapping_id.0);
    let mut answers = Answers::default();
    for group in open.chunk_by(|one, other| one.mapping_id == other.mapping_id) {
        let addresses: Vec<u64> = group.iter().map(|open| open.address).collect();
        symbolizer.prepare(&addresses, group[0].mapping.as_deref().map_or(&[], slice::from_ref));
        for batch in group.chunks(HELD) {
            batch.iter().for_each(|open| answers.ask(open, symbolizer));
            answers.keep(&mut shared.lock(), batch);
        }
    }
}

fn collect(shared: &Shared, used: &Marks) -> Vec<Open> {
    let mut open = Vec::new();
    let mut next = used.next(0);
    while next.is_some() {
        let mut state = shared.lock();
        for _ in 0..HELD {
            let Some(id) = next else { break };
            next = used.next(id + 1);
            let id = LocationId(id);
            state.locations.look_again(id);
            let location = state.locations.get(id);
            if matches!(location.symbols, Symbols::Open(_)) {
                let mapping = state.locations.mappings.get(location.mapping).cloned();
                let (address, mapping_id) = (location.address, location.mapping);
                open.push(Open { id, address, mapping_id, mapping });
            }
        }
    }
    open
}

/// What a symbolizer lent, until the lock is there to keep it.
#[derive(Default)]
struct Answers {
    text: String,
    answers: Vec<Answer>,
    /// Where the answers for each location end.
    ends: Vec<usize>,
}

impl Answers {
    fn ask(&mut self, open: &Open, symbolizer: &mut dyn Symbolize) {
        let start = self.answers.len();
        let mut is_shim = false;
        symbolizer.symbolize(open.address, open.mapping.as_deref(), &mut |symbol| {
            // Inlined into a caller, the allocator is not what a reader looks for: the caller is.
            if is_shim && !heap::is_shim(symbol.name) {
                self.answers.truncate(start);
            }
            is_shim = heap::is_shim(symbol.name);
            self.add(symbol);
        });
        self.ends.push(self.answers.len());
    }

    fn add(&mut self, symbol: Symbol<'_>) {
        let mut put = |text: &str| {
            let start = self.text.len();
            self.text.push_str(text);
            start..self.text.len()
        };
        let answer = Answer {
            name: put(symbol.name),
            system_name: put(symbol.system_name),
            file: put(symbol.file),
            line: symbol.line,
            start_line: symbol.start_line,
        };
        self.answers.push(answer);
    }

    fn keep(&mut self, state: &mut State, batch: &[Open]) {
        let mut start = 0;
        for (open, &end) in batch.iter().zip(&self.ends) {
            let symbols = self.answers[start..end].iter().map(|answer| Symbol {
                name: &self.text[answer.name.clone()],
                system_name: &self.text[answer.system_name.clone()],
                file: &self.text[answer.file.clone()],
                line: answer.line,
                start_line: answer.start_line,
            });
            state.set_symbols(open.id, symbols);
            start = end;
        }
        self.text.clear();
        self.answers.clear();
        self.ends.clear();
    }
}
