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
use super::memory::{Known, Memory};
use super::rule::{Cfa, Place, Rule, Usual};
use super::{End, Registers, Walk};

/// How often a walk may go to another stack.
const JUMPS: usize = 64;

/// What a caller can't be at.
const LOWEST: u64 = 4096;
/// Addresses have 48 bits.
const HIGHEST: u64 = (1 << 48) - 1;

/// Knows the rules of instructions.
pub(super) trait Rulebook {
    /// The rule at `pc`, an address of 48 bits, if it is at hand and a usual one.
    fn cached(&self, pc: u64) -> Option<Usual>;

    /// The rule at `pc`; [`Rule::UNKNOWN`] where there is none.
    fn rule(&self, pc: u64) -> Rule;

    /// Whether `pc` is in a module that has rules.
    fn covers(&self, pc: u64) -> bool;
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

/// Where a walk is.
struct Position {
    at: Registers,
    /// Whether `at.pc` is an instruction that was about to run, and not the one behind a call.
    exact: bool,
    jumps: usize,
}

/// How far ahead of the walk the stack is announced: about ten frames, as long as memory takes to answer.
const AHEAD: u64 = 1536;

/// Walks from `registers`. *Steady*; async-signal-safe.
#[inline(always)]
pub(super) fn walk<A: Architecture, R: Rulebook, M: Memory>(
    registers: &Registers,
    rules: &R,
    memory: &mut M,
    frames: &mut [u64],
) -> Walk {
    let at = Registers { pc: A::address(registers.pc), ..*registers };
    let mut position = Position { at, exact: true, jumps: 0 };
    let mut depth = 0;
    loop {
        depth += position.run::<A, _, _>(
            rules,
            memory.known(),
            frames.get_mut(depth..).unwrap_or(&mut []),
        );
        let Some(frame) = frames.get_mut(depth) else {
            return Walk { depth, end: End::Truncated };
        };
        *frame = position.instruction();
        depth += 1;
        if let Some(end) = position.step::<A, _, _>(rules, memory) {
            return Walk { depth, end };
        }
    }
}

impl Position {
    /// The address within the instruction where the walk is.
    #[inline(always)]
    fn instruction(&self) -> u64 {
        self.at.pc - u64::from(!self.exact)
    }

    /// Steps as long as they are the usual ones: the rule is at hand, the memory known, and the caller's
    /// values relative to the frame. It calls nothing, so that all it needs stays in registers, and leaves
    /// whatever is unusual to [`Position::step`], with nothing of it done. Returns how many frames it wrote.
    #[inline(always)]
    fn run<A: Architecture, R: Rulebook, W: Known>(
        &mut self,
        rules: &R,
        known: W,
        frames: &mut [u64],
    ) -> usize {
        let Registers { mut pc, mut sp, mut fp, .. } = self.at;
        let mut behind = u64::from(!self.exact);
        let mut depth = 0;
        if pc > HIGHEST {
            return 0;
        }
        for frame in frames {
            let Some(rule) = rules.cached(pc - behind) else { break };
            let (cfa, ra, saved) = rule.frame(sp, fp);
            known.announce(cfa.wrapping_add(AHEAD));
            known.announce(cfa.wrapping_add(AHEAD + 64));
            // Where the frame pointer wasn't saved, what is read instead isn't used.
            let (Some(caller), Some(caller_fp)) = (known.peek(ra), known.peek(saved.unwrap_or(ra)))
            else {
                break;
            };
            let caller = A::address(caller);
            if cfa <= sp || !(LOWEST..=HIGHEST).contains(&caller) {
                break;
            }
            *frame = pc - behind;
            depth += 1;
            (pc, sp, behind) = (caller, cfa, 1);
            fp = if saved.is_some() { caller_fp } else { fp };
        }
        if depth > 0 {
            (self.at, self.exact) = (Registers::new(pc, sp, fp, 0), false);
        }
        depth
    }

    /// Any step. Says how the walk ended if it did.
    #[inline(never)]
    fn step<A: Architecture, R: Rulebook, M: Memory>(
        &mut self,
        rules: &R,
        memory: &mut M,
    ) -> Option<End> {
        let (at, exact) = (self.at, self.exact);
        let rule = rules.rule(self.instruction());
        let step = match rule.cfa {
            Cfa::Unknown => unknown::<A, R, M>(rules, &at, exact, memory),
            _ => step::<A, M>(rule, &at, exact, memory),
        };
        match step {
            Step::Call(next) => {
                // A function that keeps the return address in a register has its caller's stack pointer.
                if next.sp <= at.sp && !(exact && next.sp == at.sp) {
                    return Some(End::Lost);
                }
                (self.at, self.exact) = (next, false);
            }
            Step::Switched(next) | Step::Interrupted(next) => {
                self.jumps += 1;
                if self.jumps > JUMPS {
                    return Some(End::Lost);
                }
                (self.at, self.exact) = (next, matches!(step, Step::Interrupted(_)));
            }
            Step::Root => return Some(End::Root),
            Step::Lost => return Some(End::Lost),
        }
        // What was interrupted may stand at an address without code, having called it.
        let pc = self.at.pc;
        if self.exact || (LOWEST..=HIGHEST).contains(&pc) {
            return None;
        }
        Some(if pc == 0 { End::Root } else { End::Lost })
    }
}

/// A step by a rule.
fn step<A: Architecture, M: Memory>(
    rule: Rule,
    at: &Registers,
    exact: bool,
    memory: &mut M,
) -> Step {
    let addend = i64::from(rule.addend);
    let cfa = match rule.cfa {
        Cfa::Sp => Some(add(at.sp, rule.cfa_offset)),
        Cfa::Fp => Some(add(at.fp, rule.cfa_offset)),
        Cfa::Plt => {
            let pushed = u64::from((at.pc & 15) as i64 >= addend);
            Some(at.sp.wrapping_add(8 + 8 * pushed))
        }
        Cfa::Register => {
            let value =
                u16::try_from(addend).ok().and_then(|number| saved::<A, M>(at, number, memory));
            value.map(|value| add(value, rule.cfa_offset))
        }
        Cfa::DerefSp | Cfa::DerefFp => {
            let base = if rule.cfa == Cfa::DerefSp { at.sp } else { at.fp };
            let stored = memory.word(add(base, rule.cfa_offset));
            stored.map(|stored| stored.wrapping_add_signed(addend * 8))
        }
        Cfa::Signal => return interrupted::<A, M>(at, memory),
        Cfa::Unknown => None,
    };
    let Some(cfa) = cfa else { return Step::Lost };
    match caller::<A, M>(rule, at, exact, cfa, memory) {
        // Code that switches stacks keeps where the other one is.
        Ok(next) if next.sp <= at.sp && matches!(rule.cfa, Cfa::DerefSp | Cfa::DerefFp) => {
            Step::Switched(next)
        }
        Ok(next) => Step::Call(next),
        Err(step) => step,
    }
}

/// The caller of a frame at `cfa`.
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
        Place::Register => saved::<A, M>(at, u16::try_from(offset).ok()?, memory),
    };
    let pc = match rule.ra {
        Place::Undefined => return Err(Step::Root),
        // Whoever called something else has overwritten it.
        Place::Same if !exact => return Err(Step::Lost),
        place => load(place, rule.ra_offset, at.lr).ok_or(Step::Lost)?,
    };
    let fp = load(rule.fp, rule.fp_offset, at.fp).ok_or(Step::Lost)?;
    Ok(Registers::new(A::address(pc), cfa, fp, 0))
}

/// A register that a walk doesn't follow: known where a signal has interrupted, and nowhere else.
fn saved<A: Architecture, M: Memory>(at: &Registers, register: u16, memory: &mut M) -> Option<u64> {
    if at.context == 0 {
        return None;
    }
    memory.word(at.context.checked_add(A::saved(register)?)?)
}

fn interrupted<A: Architecture, M: Memory>(at: &Registers, memory: &mut M) -> Step {
    match A::interrupted(at.sp, memory) {
        Some(next) => Step::Interrupted(Registers { pc: A::address(next.pc), ..next }),
        None => Step::Lost,
    }
}

/// Where no table says how to go on: code made at run time, and the little that programs are linked with
/// whose authors left the tables out.
fn unknown<A: Architecture, R: Rulebook, M: Memory>(
    rules: &R,
    at: &Registers,
    exact: bool,
    memory: &mut M,
) -> Step {
    if A::returns_from_signal(at.pc, memory) {
        return interrupted::<A, M>(at, memory);
    }
    let frameless = exact && (rules.covers(at.pc) || A::is_stub(at.pc, memory));
    if frameless && let Some(next) = leaf::<A, R, M>(rules, at, memory) {
        return Step::Call(next);
    }
    if rules.covers(at.pc) {
        if !exact && A::begins_thread(at.pc, memory) {
            return Step::Root;
        }
        if let Some(next) = scan::<A, R, M>(rules, at, memory) {
            return Step::Call(next);
        }
    }
    match by_frame_pointer::<A, M>(at, memory) {
        Step::Lost => {}
        step => return step,
    }
    if exact && let Some(next) = leaf::<A, R, M>(rules, at, memory) {
        return Step::Call(next);
    }
    // The code that threads begin in clears it, so that this is an end.
    if at.fp == 0 { Step::Root } else { Step::Lost }
}

/// The caller of code that keeps hardly any frame, if it is known code and calls.
fn leaf<A: Architecture, R: Rulebook, M: Memory>(
    rules: &R,
    at: &Registers,
    memory: &mut M,
) -> Option<Registers> {
    let calls = |memory: &mut M, next: &Registers| {
        A::follows_call(next.pc, memory) && rules.rule(next.pc - 1) != Rule::UNKNOWN
    };
    A::callers(at, memory).into_iter().flatten().find(|next| calls(memory, next))
}

/// The nearest word on the stack that looks like a return address into known modules. For C libraries that
/// are built without tables and frame pointers, as musl is: most of their functions have small frames.
fn scan<A: Architecture, R: Rulebook, M: Memory>(
    rules: &R,
    at: &Registers,
    memory: &mut M,
) -> Option<Registers> {
    const WORDS: u64 = 96;
    for slot in (0..WORDS).map_while(|word| at.sp.checked_add(word * 8)) {
        let pc = A::address(memory.word(slot)?);
        if !rules.covers(pc.wrapping_sub(1)) || !A::follows_call(pc, memory) {
            continue;
        }
        let fits = |fp: u64| fp > slot && fp - slot < 1 << 20 && fp.is_multiple_of(8);
        let mut fp = at.fp;
        if fp != 0 && !fits(fp) {
            // It was used for something else, and is saved near the return address.
            let saved = (1..8).filter_map(|word| slot.checked_sub(word * 8));
            let saved = saved.take_while(|&saved| saved >= at.sp);
            fp = saved.filter_map(|saved| memory.word(saved)).find(|&fp| fits(fp)).unwrap_or(fp);
        }
        return Some(Registers::new(pc, slot.checked_add(8)?, fp, 0));
    }
    None
}

fn by_frame_pointer<A: Architecture, M: Memory>(at: &Registers, memory: &mut M) -> Step {
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
    if A::follows_call(pc, memory) { Step::Call(Registers::new(pc, sp, fp, 0)) } else { Step::Lost }
}

#[inline(always)]
fn add(address: u64, offset: i32) -> u64 {
    address.wrapping_add_signed(i64::from(offset))
}

#[cfg(test)]
mod tests;
