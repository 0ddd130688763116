//! A library that is loaded and unloaded while stacks are walked.

/// Calls `f` below `depth` calls.
#[unsafe(no_mangle)]
pub extern "C" fn descend(depth: u32, f: extern "C" fn() -> u64) -> u64 {
    if std::hint::black_box(depth) == 0 {
        return f();
    }
    let text = format!("{depth:>width$}", width = (depth % 7) as usize);
    descend(depth - 1, f).wrapping_mul(31).wrapping_add(text.len() as u64)
}
