//! A pattern and a text, split at the first zero byte: the short cuts and the regular expression give the
//! same answer, and a pattern that lists its literals matches each of them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use store::Pattern;
use store::pattern::Captures;

fuzz_target!(|input: &str| {
    let (source, text) = input.split_once('\0').unwrap_or((input, input));
    let Ok(pattern) = Pattern::new(source) else { return };
    assert_eq!(pattern.is_match(text), pattern.captures(text, &mut Captures::default()));
    for literal in pattern.literals().unwrap_or_default() {
        assert!(pattern.captures(literal, &mut Captures::default()), "{source:?} on {literal:?}");
    }
});
