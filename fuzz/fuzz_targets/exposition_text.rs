//! Text 0.0.4: what [`exposition::check`] says of every body.
#![no_main]

#[path = "../src/exposition.rs"]
mod exposition;

use libfuzzer_sys::fuzz_target;
use wire::exposition::Format;

fuzz_target!(|body: &[u8]| exposition::check(body, Format::Text));
