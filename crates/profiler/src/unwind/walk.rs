//! The walk: a rule for each call, until the thread's start.
//!
//! 1. The rule of the instruction says where the frame's address, the return address and the caller's frame
//!    pointer are.
//! 2. The frame's address becomes the stack pointer. It has to grow, so that no stack is walked for ever; a
//!    signal's frame and a stack that was switched may jump, a bounded number of times.
//! 3. Where no rule is known (code made at run time), frame pointers are followed, as long as what they
//!    lead to looks like a return address.
//!
//! No step allocates, locks or panics.
use super::architecture::Architecture;
use super::memory::Memory;
use super::rule::{Cfa, Place, Rule};
use super::{End, Registers, Walk};

/// How often a walk may go to another stack.
const JUMPS: usize = 64;

/// What a caller can't be at.
const LOWEST: u64 = 4096;
/// Addresses have 48 bits.
const HIGHEST: u64 = (1 << 48) - 1;

/// Knows the rules of instructions.
pub(super) trait Rulebook {
    /// The rule at `pc`; [`Rule::UNKNOWN`] where there is none.
    fn rule(&self, pc: u64) -> Rule;
}

/// One step's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// To a caller, on the same stack.
    Call(Registers),
    /// To a caller, perhaps on another stack.
    Switched(Registers),
    /// To what a signal interrupted.
    Interrupted(Registers),
    Root,
    Lost,
}

/// Walks from `registers`. *Steady*; async-signal-safe.
#[inline(always)]
pub(super) fn walk<A: Architecture, R: Rulebook, M: Memory>(
    registers: &Registers,
    rules: &R,
    memory: &mut M,
    frames: &mut [u64],
) -> Walk {
    let mut at = Registers { pc: A::address(registers.pc), ..*registers };
    // Whether `pc` is an instruction that was about to run, and not the one behind a call.
    let mut exact = true;
    let mut jumps = 0;
    let mut depth = 0;
    for frame in frames.iter_mut() {
        let pc = if exact { at.pc } else { at.pc - 1 };
        *frame = pc;
        depth += 1;
        let step = step::<A, M>(rules.rule(pc), &at, exact, memory);
        let next = match step {
            Step::Call(next) => {
                // A function that has pushed nothing has the stack pointer of its caller.
                if next.sp <= at.sp && !(A::LINK && exact && next.sp == at.sp) {
                    return Walk { depth, end: End::Lost };
                }
                exact = false;
                next
            }
            Step::Switched(next) | Step::Interrupted(next) => {
                jumps += 1;
                if jumps > JUMPS {
                    return Walk { depth, end: End::Lost };
                }
                exact = matches!(step, Step::Interrupted(_));
                next
            }
            Step::Root => return Walk { depth, end: End::Root },
            Step::Lost => return Walk { depth, end: End::Lost },
        };
        // What was interrupted may stand at an address without code, having called it.
        if !exact && !(LOWEST..=HIGHEST).contains(&next.pc) {
            let end = if next.pc == 0 { End::Root } else { End::Lost };
            return Walk { depth, end };
        }
        at = next;
    }
    Walk { depth, end: End::Truncated }
}

#[inline(always)]
fn step<A: Architecture, M: Memory>(
    rule: Rule,
    at: &Registers,
    exact: bool,
    memory: &mut M,
) -> Step {
    let cfa = match rule.cfa {
        Cfa::Sp => add(at.sp, rule.cfa_offset),
        Cfa::Fp => add(at.fp, rule.cfa_offset),
        _ => return uncommon::<A, M>(rule, at, exact, memory),
    };
    match caller::<A, M>(rule, at, exact, cfa, memory) {
        Ok(next) => Step::Call(next),
        Err(step) => step,
    }
}

/// The caller of a frame at `cfa`.
#[inline(always)]
fn caller<A: Architecture, M: Memory>(
    rule: Rule,
    at: &Registers,
    exact: bool,
    cfa: u64,
    memory: &mut M,
) -> Result<Registers, Step> {
    let mut load = |place, offset, same| match place {
        Place::AtCfa => memory.word(add(cfa, offset)),
        Place::Same => Some(same),
        Place::AtFp => memory.word(add(at.fp, offset)),
        Place::AtSp => memory.word(add(at.sp, offset)),
        Place::IsCfa => Some(add(cfa, offset)),
        Place::Undefined => Some(0),
    };
    let pc = match rule.ra {
        Place::Undefined => return Err(Step::Root),
        // Whoever called something else has overwritten it.
        Place::Same if !exact => return Err(Step::Lost),
        place => load(place, rule.ra_offset, at.lr).ok_or(Step::Lost)?,
    };
    let fp = load(rule.fp, rule.fp_offset, at.fp).ok_or(Step::Lost)?;
    Ok(Registers { pc: A::address(pc), sp: cfa, fp, lr: 0 })
}

/// What few frames need. Kept out of the loop.
#[cold]
#[inline(never)]
fn uncommon<A: Architecture, M: Memory>(
    rule: Rule,
    at: &Registers,
    exact: bool,
    memory: &mut M,
) -> Step {
    let base = match rule.cfa {
        Cfa::Sp | Cfa::DerefSp => at.sp,
        Cfa::Fp | Cfa::DerefFp => at.fp,
        Cfa::Plt => {
            let pushed = u64::from((at.pc & 15) as i64 >= i64::from(rule.addend));
            let cfa = at.sp.wrapping_add(8 + 8 * pushed);
            return caller::<A, M>(rule, at, exact, cfa, memory)
                .map_or_else(|step| step, Step::Call);
        }
        Cfa::Signal => return interrupted::<A, M>(at, memory),
        Cfa::Unknown => return unknown::<A, M>(at, exact, memory),
    };
    let Some(stored) = memory.word(add(base, rule.cfa_offset)) else { return Step::Lost };
    let cfa = stored.wrapping_add_signed(i64::from(rule.addend) * 8);
    match caller::<A, M>(rule, at, exact, cfa, memory) {
        Ok(next) if next.sp > at.sp => Step::Call(next),
        Ok(next) => Step::Switched(next),
        Err(step) => step,
    }
}

fn interrupted<A: Architecture, M: Memory>(at: &Registers, memory: &mut M) -> Step {
    match A::interrupted(at.sp, memory) {
        Some(next) => Step::Interrupted(Registers { pc: A::address(next.pc), ..next }),
        None => Step::Lost,
    }
}

/// Where no table says how to go on.
fn unknown<A: Architecture, M: Memory>(at: &Registers, exact: bool, memory: &mut M) -> Step {
    if A::returns_from_signal(at.pc, memory) {
        return interrupted::<A, M>(at, memory);
    }
    if exact && let Some(next) = A::without_frame(at, memory) {
        return Step::Call(next);
    }
    // The code that threads begin in clears it, so that this is an end.
    if at.fp == 0 {
        return Step::Root;
    }
    if at.fp < at.sp {
        return Step::Lost;
    }
    let Some(sp) = at.fp.checked_add(16) else { return Step::Lost };
    let (Some(fp), Some(pc)) = (memory.word(at.fp), memory.word(at.fp + 8)) else {
        return Step::Lost;
    };
    let pc = A::address(pc);
    if pc == 0 {
        return Step::Root;
    }
    if !A::follows_call(pc, memory) {
        return Step::Lost;
    }
    Step::Call(Registers { pc, sp, fp, lr: 0 })
}

#[inline(always)]
fn add(address: u64, offset: i32) -> u64 {
    address.wrapping_add_signed(i64::from(offset))
}
