//! `.eh_frame` → ranges of instructions and the rule of each, ready to be searched.
//!
//! 1. Every entry of the section is run through once; each of its rows becomes a [`Rule`].
//! 2. Entries are sorted by address; neighbours with the same rule become one range.
//! 3. An index over blocks of 256 bytes of code says where to begin searching, so that a search touches
//!    one line of the index, one or two of the ranges and one of the rules.
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EndianSlice, Expression, NativeEndian, Operation,
    Register, RegisterRule, UnwindContext, UnwindExpression, UnwindSection, UnwindTableRow,
};

use super::architecture::Architecture;
use super::rule::{Cfa, Place, Rule, RuleId, Rules};

type Bytes<'a> = EndianSlice<'a, NativeEndian>;

/// Code between entries that is shorter is padding: nothing runs there, and the range before may cover it.
const PADDING: u64 = 16;

/// Bytes of code per entry of the index, as a power of two.
const BLOCK_BITS: u32 = 8;

/// A module's `.eh_frame` and what its entries are relative to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Section<'a> {
    /// The section up to its end.
    pub(super) bytes: &'a [u8],
    /// Where it is in memory.
    pub(super) address: u64,
    /// Where `.eh_frame_hdr` is.
    pub(super) header: u64,
    /// The first address of the module's code.
    pub(super) start: u64,
    /// Behind the last.
    pub(super) end: u64,
}

/// What became of a section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Rows before neighbours were merged.
    pub(super) rows: usize,
    /// Those of them for which there is no rule.
    pub(super) unsupported: usize,
    /// Entries that are damaged, or beyond 4 GiB of code.
    pub(super) refused: usize,
}

/// A module's ranges.
#[derive(Debug, Default)]
pub(super) struct Table {
    start: u64,
    /// Where each range begins, counted from `start`; it ends where the next one begins.
    starts: Box<[u32]>,
    /// Beside it.
    rules: Box<[RuleId]>,
    /// For each block of code the number of ranges that begin before it ends.
    blocks: Box<[u32]>,
    pub(super) counts: Counts,
}

impl Table {
    /// Reads a section. *Setup*.
    pub(super) fn read<A: Architecture>(section: &Section<'_>, rules: &mut Rules) -> Table {
        let mut reading = Reading {
            section,
            rules,
            rows: Vec::new(),
            entries: Vec::new(),
            counts: Counts::default(),
        };
        reading.entries::<A>();
        reading.finish()
    }

    /// The rule of the instruction at `pc`. *Steady*.
    pub(super) fn find(&self, pc: u64) -> RuleId {
        self.search(pc).unwrap_or(RuleId::UNKNOWN)
    }

    fn search(&self, pc: u64) -> Option<RuleId> {
        let offset = u32::try_from(pc.checked_sub(self.start)?).ok()?;
        let block = (offset >> BLOCK_BITS) as usize;
        let behind = *self.blocks.get(block)? as usize;
        let first = match block.checked_sub(1) {
            Some(before) => (*self.blocks.get(before)? as usize).saturating_sub(1),
            None => 0,
        };
        let begun = self.starts.get(first..behind)?.partition_point(|&start| start <= offset);
        self.rules.get((first + begun).checked_sub(1)?).copied()
    }

    /// How many ranges there are.
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Bytes on the heap.
    pub(super) fn memory_usage(&self) -> usize {
        size_of_val(&*self.starts) + size_of_val(&*self.rules) + size_of_val(&*self.blocks)
    }
}

/// An entry: its code, and its rows among all.
struct Entry {
    start: u32,
    end: u32,
    first: usize,
    behind: usize,
}

struct Reading<'a, 'r> {
    section: &'a Section<'a>,
    rules: &'r mut Rules,
    rows: Vec<(u32, RuleId)>,
    entries: Vec<Entry>,
    counts: Counts,
}

impl Reading<'_, '_> {
    /// Runs through all entries. Damage in one costs that one; in the chain of lengths, all behind it.
    fn entries<A: Architecture>(&mut self) {
        let mut eh_frame = EhFrame::new(self.section.bytes, NativeEndian);
        eh_frame.set_address_size(8);
        eh_frame.set_vendor(A::VENDOR);
        let bases = BaseAddresses::default()
            .set_eh_frame(self.section.address)
            .set_eh_frame_hdr(self.section.header)
            .set_text(self.section.start);
        let mut context = UnwindContext::new();
        let mut entries = eh_frame.entries(&bases);
        // The common entry of the last one: most share it, and reading it again costs as much as the rest.
        let mut common = None;
        loop {
            let entry = match entries.next() {
                Ok(Some(CieOrFde::Fde(entry))) => entry,
                Ok(Some(CieOrFde::Cie(_))) => continue,
                Ok(None) => break,
                Err(_) => {
                    self.counts.refused += 1;
                    break;
                }
            };
            let entry = entry.parse(|section, bases, offset| match &common {
                Some((at, cie)) if *at == offset => Ok(Clone::clone(cie)),
                _ => {
                    let cie = section.cie_from_offset(bases, offset)?;
                    common = Some((offset, cie.clone()));
                    Ok(cie)
                }
            });
            let Ok(entry) = entry else {
                self.counts.refused += 1;
                continue;
            };
            let Some((start, end)) = self.range(entry.initial_address(), entry.end_address())
            else {
                self.counts.refused += 1;
                continue;
            };
            let first = self.rows.len();
            if self.rows_of::<A>(&eh_frame, &bases, &mut context, &entry).is_err() {
                // What was read before the damage holds.
                self.counts.refused += 1;
            }
            if self.rows.len() > first {
                self.entries.push(Entry { start, end, first, behind: self.rows.len() });
            }
        }
    }

    /// Counted from the module's start; None for code that isn't the module's, as linkers leave entries of
    /// discarded functions behind.
    fn range(&self, start: u64, end: u64) -> Option<(u32, u32)> {
        if start < self.section.start || end > self.section.end || start >= end {
            return None;
        }
        let offset = |address: u64| u32::try_from(address - self.section.start).ok();
        Some((offset(start)?, offset(end)?))
    }

    fn rows_of<'b, A: Architecture>(
        &mut self,
        eh_frame: &EhFrame<Bytes<'b>>,
        bases: &BaseAddresses,
        context: &mut UnwindContext<usize>,
        entry: &gimli::FrameDescriptionEntry<Bytes<'b>>,
    ) -> gimli::Result<()> {
        let mut rows = entry.rows(eh_frame, bases, context)?;
        while let Some(row) = rows.next_row()? {
            let Ok(start) = u32::try_from(row.start_address().wrapping_sub(self.section.start))
            else {
                continue;
            };
            let rule = rule::<A>(row, eh_frame, entry.is_signal_trampoline());
            self.counts.rows += 1;
            let id = rule.map_or(RuleId::UNKNOWN, |rule| self.rules.id(rule));
            if id == RuleId::UNKNOWN {
                self.counts.unsupported += 1;
            }
            self.rows.push((start, id));
        }
        Ok(())
    }

    fn finish(mut self) -> Table {
        self.entries.sort_by_key(|entry| entry.start);
        let mut starts = Vec::new();
        let mut rules: Vec<RuleId> = Vec::new();
        let mut push = |start: u32, rule: RuleId| {
            if rules.last() != Some(&rule) {
                starts.push(start);
                rules.push(rule);
            }
        };
        let mut end = 0;
        for entry in &self.entries {
            if entry.start < end {
                continue; // Of identical functions that were merged, the first entry is as good as the rest.
            }
            if u64::from(entry.start - end) >= PADDING {
                push(end, RuleId::UNKNOWN);
            }
            for &(start, rule) in &self.rows[entry.first..entry.behind] {
                if start < entry.end {
                    push(start, rule);
                }
            }
            end = entry.end;
        }
        push(end, RuleId::UNKNOWN);
        Table {
            start: self.section.start,
            blocks: blocks(&starts, end),
            starts: starts.into(),
            rules: rules.into(),
            counts: self.counts,
        }
    }
}

/// The index over ranges that begin at `starts` and end at `end`.
fn blocks(starts: &[u32], end: u32) -> Box<[u32]> {
    let count = (u64::from(end) >> BLOCK_BITS) + 1;
    let mut begun = 0;
    (1..=count)
        .map(|block| {
            while starts.get(begun).is_some_and(|&start| u64::from(start) < block << BLOCK_BITS) {
                begun += 1;
            }
            begun as u32
        })
        .collect()
}

/// A row as a rule; None where it needs what a walk doesn't have.
fn rule<A: Architecture>(
    row: &UnwindTableRow<usize>,
    eh_frame: &EhFrame<Bytes<'_>>,
    signal: bool,
) -> Option<Rule> {
    let mut rule = Rule::UNKNOWN;
    match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            rule.cfa = base::<A>(*register, Cfa::Sp, Cfa::Fp).unwrap_or(Cfa::Register);
            if rule.cfa == Cfa::Register {
                A::saved(register.0)?;
                rule.addend = i8::try_from(register.0).ok()?;
            }
            rule.cfa_offset = i32::try_from(*offset).ok()?;
            if signal && A::LINK {
                return Some(Rule::SIGNAL);
            }
        }
        CfaRule::Expression(expression) => {
            let expression = expression.get(eh_frame).ok()?;
            if signal && A::is_signal(expression.0.slice()) {
                return Some(Rule::SIGNAL);
            }
            if let Some(limit) = A::procedures(expression.0.slice()) {
                (rule.cfa, rule.addend) = (Cfa::Plt, limit);
            } else {
                frame_address::<A>(expression, &mut rule)?;
            }
        }
    }
    (rule.ra, rule.ra_offset) = match row.register(A::RA) {
        Some(RegisterRule::Undefined) => return Some(Rule::ROOT),
        None | Some(RegisterRule::SameValue) if A::LINK => (Place::Same, 0),
        Some(RegisterRule::Register(register)) if A::LINK && register == A::RA => (Place::Same, 0),
        Some(RegisterRule::Register(register)) => {
            A::saved(register.0)?;
            (Place::Register, i32::from(register.0))
        }
        Some(found @ (RegisterRule::Offset(_) | RegisterRule::Expression(_))) => {
            place::<A>(&found, eh_frame)?
        }
        _ => return None,
    };
    // A frame pointer that is lost matters only to callers that need it.
    (rule.fp, rule.fp_offset) = match row.register(A::FP) {
        None => (Place::Same, 0),
        Some(found) => place::<A>(&found, eh_frame).unwrap_or((Place::Undefined, 0)),
    };
    Some(rule)
}

fn base<A: Architecture>(register: Register, sp: Cfa, fp: Cfa) -> Option<Cfa> {
    if register == A::SP {
        Some(sp)
    } else if register == A::FP {
        Some(fp)
    } else {
        None
    }
}

fn place<A: Architecture>(
    found: &RegisterRule<usize>,
    eh_frame: &EhFrame<Bytes<'_>>,
) -> Option<(Place, i32)> {
    let (place, offset) = match found {
        RegisterRule::SameValue => (Place::Same, 0),
        RegisterRule::Offset(offset) => (Place::AtCfa, *offset),
        RegisterRule::ValOffset(offset) => (Place::IsCfa, *offset),
        RegisterRule::Expression(expression) => saved_at::<A>(expression, eh_frame)?,
        _ => return None,
    };
    Some((place, i32::try_from(offset).ok()?))
}

/// Where a function that aligns its stack keeps its caller's registers: register and offset.
fn saved_at<A: Architecture>(
    expression: &UnwindExpression<usize>,
    eh_frame: &EhFrame<Bytes<'_>>,
) -> Option<(Place, i64)> {
    let terms = terms(expression.get(eh_frame).ok()?)?;
    let place = match base::<A>(terms.register, Cfa::Sp, Cfa::Fp)? {
        Cfa::Sp => Place::AtSp,
        _ => Place::AtFp,
    };
    (!terms.deref && terms.addend == 0).then_some((place, terms.offset))
}

/// A frame's address that was stored when the stack was aligned, or that is a plain sum.
fn frame_address<A: Architecture>(
    expression: Expression<Bytes<'_>>,
    rule: &mut Rule,
) -> Option<()> {
    let terms = terms(expression)?;
    if terms.deref {
        rule.cfa = base::<A>(terms.register, Cfa::DerefSp, Cfa::DerefFp)?;
        if terms.addend % 8 != 0 {
            return None;
        }
        rule.addend = i8::try_from(terms.addend / 8).ok()?;
        rule.cfa_offset = i32::try_from(terms.offset).ok()?;
    } else {
        rule.cfa = base::<A>(terms.register, Cfa::Sp, Cfa::Fp)?;
        rule.cfa_offset = i32::try_from(terms.offset.checked_add(terms.addend)?).ok()?;
    }
    Some(())
}

/// `register + offset`, or `*(register + offset) + addend`.
struct Terms {
    register: Register,
    offset: i64,
    deref: bool,
    addend: i64,
}

/// None for an expression of any other form.
fn terms(expression: Expression<Bytes<'_>>) -> Option<Terms> {
    let encoding = gimli::Encoding { format: gimli::Format::Dwarf32, version: 4, address_size: 8 };
    let mut terms: Option<Terms> = None;
    let mut operations = expression.operations(encoding);
    while let Some(operation) = operations.next().ok()? {
        match (operation, &mut terms) {
            (Operation::RegisterOffset { register, offset, .. }, None) => {
                terms = Some(Terms { register, offset, deref: false, addend: 0 });
            }
            (Operation::Deref { size: 8, space: false, .. }, Some(terms)) if !terms.deref => {
                terms.offset = terms.offset.checked_add(terms.addend)?;
                (terms.deref, terms.addend) = (true, 0);
            }
            (Operation::PlusConstant { value }, Some(terms)) => {
                terms.addend = terms.addend.checked_add(i64::try_from(value).ok()?)?;
            }
            _ => return None,
        }
    }
    terms
}

/// The bytes of an `.eh_frame` at the start of `bytes`, without what stands behind its end.
pub(super) fn extent(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(short) = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
        let length = match u32::from_ne_bytes(*short) {
            0 => return at,
            u32::MAX => {
                let long = bytes.get(at + 4..).and_then(|rest| rest.first_chunk::<8>());
                long.and_then(|long| {
                    usize::try_from(u64::from_ne_bytes(*long)).ok()?.checked_add(12)
                })
            }
            length => Some(length as usize + 4),
        };
        match length.and_then(|length| at.checked_add(length)) {
            Some(next) if next <= bytes.len() => at = next,
            _ => return at,
        }
    }
    at
}

#[cfg(test)]
mod tests;
