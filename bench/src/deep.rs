//! Calls nested deeply, through 512 different functions: a stack has as many different addresses and sizes
//! of frames as that of a real program, and tables of addresses are looked up as they would be there.
//!
//! Which function calls which follows from a seed, so that there are as many different stacks as seeds.

use std::hint::black_box;

/// What is done at the bottom.
pub type Leaf<'a> = &'a mut dyn FnMut();

/// Frames of a stack, beside those of the thread's start and of the leaf.
pub const FRAMES: usize = 500;

/// Nested calls: with a thread's start below and a wait above, [`FRAMES`] altogether, give or take five.
pub const NESTED: usize = 484;

type Function = fn(u64, usize, Leaf<'_>) -> u64;

/// Does `leaf` below `depth` nested calls.
pub fn descend(seed: u64, depth: usize, leaf: Leaf<'_>) -> u64 {
    next(seed, depth)(step(seed), depth, leaf)
}

fn step(state: u64) -> u64 {
    state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}

fn next(state: u64, depth: usize) -> Function {
    let number = (state >> 33) as usize + depth;
    FUNCTIONS[number / 16 % 32][number % 16]
}

#[inline(never)]
fn call<const NUMBER: u64, const ROOM: usize>(state: u64, depth: usize, leaf: Leaf<'_>) -> u64 {
    // A frame of its own size, which also keeps the call below from becoming a jump.
    let room = black_box([NUMBER; ROOM]);
    let below = match depth {
        0 => {
            leaf();
            0
        }
        _ => next(state, depth)(step(state), depth - 1, leaf),
    };
    below ^ black_box(room)[0]
}

macro_rules! sixteen {
    ($($high:literal)*) => {
        [$([
            call::<{ 16 * $high }, 1>, call::<{ 16 * $high + 1 }, 2>,
            call::<{ 16 * $high + 2 }, 3>, call::<{ 16 * $high + 3 }, 4>,
            call::<{ 16 * $high + 4 }, 5>, call::<{ 16 * $high + 5 }, 6>,
            call::<{ 16 * $high + 6 }, 7>, call::<{ 16 * $high + 7 }, 8>,
            call::<{ 16 * $high + 8 }, 9>, call::<{ 16 * $high + 9 }, 10>,
            call::<{ 16 * $high + 10 }, 11>, call::<{ 16 * $high + 11 }, 12>,
            call::<{ 16 * $high + 12 }, 13>, call::<{ 16 * $high + 13 }, 14>,
            call::<{ 16 * $high + 14 }, 15>, call::<{ 16 * $high + 15 }, 24>,
        ]),*]
    };
}

static FUNCTIONS: [[Function; 16]; 32] = sixteen!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18
    19 20 21 22 23 24 25 26 27 28 29 30 31);
