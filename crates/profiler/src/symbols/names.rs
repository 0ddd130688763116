//! Text of a batch of symbols: each string once, in one piece of memory; and names as people write them.
//!
//! What is refused: more text than [`TEXT_MAX`] in a batch and names longer than [`NAME_MAX`], which are cut.
//! Both only damaged files and the most generic of code come near.

use std::fmt::{self, Write};
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashTable};

/// The bytes of text kept of one batch. What comes later is empty.
const TEXT_MAX: usize = 64 << 20;
/// The bytes kept of one name.
const NAME_MAX: usize = 4096;

/// A string of a batch; the default is the empty one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Text(u32);

/// The strings of a batch.
pub(super) struct Names {
    bytes: String,
    /// Where each string ends.
    ends: Vec<u32>,
    known: HashTable<u32>,
    demangled: HashMap<Text, Text, RandomState>,
    hasher: RandomState,
    scratch: String,
}

impl Names {
    pub(super) fn new() -> Self {
        let mut names = Names {
            bytes: String::new(),
            ends: Vec::new(),
            known: HashTable::new(),
            demangled: HashMap::default(),
            hasher: RandomState::default(),
            scratch: String::new(),
        };
        names.keep("");
        names
    }

    pub(super) fn get(&self, text: Text) -> &str {
        let at = text.0 as usize;
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        &self.bytes[start..self.ends[at] as usize]
    }

    /// The string for `text`, added if it is new.
    pub(super) fn keep(&mut self, text: &str) -> Text {
        let text = cut(text);
        let hash = self.hasher.hash_one(text);
        if let Some(&known) = self.known.find(hash, |&at| self.get(Text(at)) == text) {
            return Text(known);
        }
        if self.bytes.len() + text.len() > TEXT_MAX {
            return Text::default();
        }
        let at = self.ends.len() as u32;
        self.bytes.push_str(text);
        self.ends.push(self.bytes.len() as u32);
        let Names { bytes, ends, known, hasher, .. } = self;
        known.insert_unique(hash, at, |&at| {
            let start = if at == 0 { 0 } else { ends[at as usize - 1] as usize };
            hasher.hash_one(&bytes[start..ends[at as usize] as usize])
        });
        Text(at)
    }

    /// The same for what may not be UTF-8.
    pub(super) fn keep_bytes(&mut self, bytes: &[u8]) -> Text {
        self.keep(&String::from_utf8_lossy(bytes))
    }

    /// `system`, a name as the linker knows it, as people write it. Each is demangled once.
    pub(super) fn demangle(&mut self, system: Text) -> Text {
        if let Some(&known) = self.demangled.get(&system) {
            return known;
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let name =
            if demangle(self.get(system), &mut scratch) { self.keep(&scratch) } else { system };
        self.scratch = scratch;
        self.demangled.insert(system, name);
        name
    }

    /// The bytes of memory held.
    pub(super) fn memory_usage(&self) -> usize {
        self.bytes.capacity()
            + self.ends.capacity() * 4
            + self.known.capacity() * 5
            + self.demangled.capacity() * 9
            + self.scratch.capacity()
    }
}

/// Whether `name` is one that only the linker reads.
pub(super) fn is_mangled(name: &str) -> bool {
    name.starts_with("_R") || name.starts_with("_Z")
}

/// Writes the readable form of `system`, without the hash that Rust appends; false if it is readable as
/// it is, or cannot be read.
fn demangle(system: &str, out: &mut String) -> bool {
    // Clones of functions are called `name.llvm.123` or `name.cold`: rustc-demangle knows them.
    if let Ok(rust) = rustc_demangle::try_demangle(system) {
        return write!(Bounded(out), "{rust:#}").is_ok() || !out.is_empty();
    }
    if !system.starts_with("_Z") || system.len() >= NAME_MAX {
        return false;
    }
    let Ok(symbol) = cpp_demangle::Symbol::new(system) else { return false };
    symbol.structured_demangle(&mut Bounded(out), &Default::default()).is_ok() && !out.is_empty()
}

/// Takes the first [`NAME_MAX`] bytes: a few bytes of Rust's v0 names can stand for millions.
struct Bounded<'a>(&'a mut String);

impl Write for Bounded<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > NAME_MAX {
            let mut room = NAME_MAX - self.0.len().min(NAME_MAX);
            while !text.is_char_boundary(room) {
                room -= 1;
            }
            self.0.push_str(&text[..room]);
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

fn cut(text: &str) -> &str {
    if text.len() <= NAME_MAX {
        return text;
    }
    let mut end = NAME_MAX;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_demangled_once_and_kept_once() {
        let cases = [
            ("_ZN4core3ptr13drop_in_place17h0123456789abcdefE", "core::ptr::drop_in_place"),
            ("_RNvC6_123foo3bar", "123foo::bar"),
            ("_RINvNtC3std3mem8align_ofdE", "std::mem::align_of::<f64>"),
            (
                "_ZNSt6vectorIiSaIiEE9push_backERKi",
                "std::vector<int, std::allocator<int> >::push_back(int const&)",
            ),
            ("_ZN3foo3bar17h05af221e174051e9E.llvm.1234", "foo::bar"),
            ("main", "main"),
            ("_ZN4", "_ZN4"),
            ("_R", "_R"),
            ("", ""),
        ];
        let mut names = Names::new();
        for (system, readable) in cases {
            let system = names.keep(system);
            let name = names.demangle(system);
            assert_eq!(names.get(name), readable);
            assert_eq!(names.demangle(system), name);
            assert_eq!(names.keep(readable), name);
        }
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        let mut names = Names::new();
        let long = format!("x{}", "é".repeat(NAME_MAX));
        let text = names.keep(&long);
        assert_eq!(names.get(text).len(), NAME_MAX - 1);
        assert!(long.starts_with(names.get(text)));
    }
}
