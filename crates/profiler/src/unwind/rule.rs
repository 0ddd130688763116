//! How to get from a call to its caller: one rule for a range of instructions.
//!
//! A program of a million such ranges has a few hundred different rules. They are kept once, in
//! [`Rules`], and named by a number of 16 bits, which fits beside an address into one word.
use std::collections::HashMap;

/// Where a value of the caller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(super) enum Place {
    /// In the register where it was.
    Same,
    /// Nowhere. Of a return address: there is no caller.
    Undefined,
    /// In memory, at the frame's address plus the offset.
    AtCfa,
    /// In memory, at the frame pointer plus the offset.
    AtFp,
    /// In memory, at the stack pointer plus the offset.
    AtSp,
    /// It is the frame's address plus the offset.
    IsCfa,
    /// In the register of DWARF's number that the offset is, which a signal has saved.
    Register,
}

/// How the frame's address is found: the stack pointer before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(super) enum Cfa {
    /// The stack pointer plus the offset.
    Sp,
    /// The frame pointer plus the offset.
    Fp,
    /// What is in memory at the stack pointer plus the offset, plus the addend.
    DerefSp,
    /// What is in memory at the frame pointer plus the offset, plus the addend.
    DerefFp,
    /// A jump through the table of procedures: one word more from the twelfth byte of each 16 on.
    Plt,
    /// The kernel put all registers there for a signal's handler.
    Signal,
    /// The register of DWARF's number that the addend is, which a signal has saved, plus the offset.
    Register,
    /// Nothing is known.
    Unknown,
}

/// From a call to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub(super) struct Rule {
    /// What the frame's address is counted from.
    pub(super) cfa: Cfa,
    /// Where the return address is.
    pub(super) ra: Place,
    /// Where the caller's frame pointer is.
    pub(super) fp: Place,
    /// What is added to a frame's address that was read from memory, in words; a limit; a number.
    pub(super) addend: i8,
    /// In bytes.
    pub(super) cfa_offset: i32,
    /// In bytes.
    pub(super) ra_offset: i32,
    /// In bytes.
    pub(super) fp_offset: i32,
}

// Four of them share a line of the processor's cache, and a walk reads each in one go.
const _: () = assert!(size_of::<Rule>() == 16);

impl Rule {
    /// For addresses of which nothing is known.
    pub(super) const UNKNOWN: Rule = Rule {
        cfa: Cfa::Unknown,
        ra: Place::Undefined,
        fp: Place::Undefined,
        addend: 0,
        cfa_offset: 0,
        ra_offset: 0,
        fp_offset: 0,
    };

    /// For the code that a signal's handler returns to.
    pub(super) const SIGNAL: Rule = Rule { cfa: Cfa::Signal, ..Rule::UNKNOWN };

    /// For the code that threads and programs begin in.
    pub(super) const ROOT: Rule = Rule { cfa: Cfa::Sp, ..Rule::UNKNOWN };
}

/// A rule as most are, in 30 bits, so that it fits beside an address: the frame's address is an offset from a
/// register, the return address is in the frame, and the caller's frame pointer in the frame or where it was.
///
/// ```text
/// 29   28         16..28            8..16                   0..8
///  1   0 sp 1 fp  the frame's size  return address below    frame pointer below; 0 for where it was
/// ```
/// Offsets are in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Usual(u32);

impl Usual {
    const MARK: u32 = 1 << 29;
    const FP: u32 = 1 << 28;
    /// How many bits there are.
    pub(super) const BITS: u32 = 30;

    /// None for an unusual rule, or one whose offsets are too large.
    pub(super) fn of(rule: &Rule) -> Option<Usual> {
        let words = |bytes: i32, most: i32| {
            let words = (bytes % 8 == 0).then_some(bytes / 8)?;
            u32::try_from(words).ok().filter(|_| words <= most)
        };
        let below = |bytes: i32| words(bytes.checked_neg()?, 0xff).filter(|&words| words > 0);
        let base = match rule.cfa {
            Cfa::Sp => 0,
            Cfa::Fp => Usual::FP,
            _ => return None,
        };
        let ra = below(rule.ra_offset).filter(|_| rule.ra == Place::AtCfa)?;
        let fp = match rule.fp {
            Place::Same => 0,
            Place::AtCfa => below(rule.fp_offset)?,
            _ => return None,
        };
        Some(Usual(Usual::MARK | base | words(rule.cfa_offset, 0xfff)? << 16 | ra << 8 | fp))
    }

    /// From the bits; None where they are none of a usual rule.
    #[inline(always)]
    pub(super) fn of_bits(bits: u64) -> Option<Usual> {
        let bits = bits as u32;
        (bits & Usual::MARK != 0).then_some(Usual(bits))
    }

    pub(super) fn bits(self) -> u64 {
        u64::from(self.0)
    }

    /// The frame's address, and where in memory the return address and the caller's frame pointer are, if
    /// it is in memory.
    #[inline(always)]
    pub(super) fn frame(self, sp: u64, fp: u64) -> (u64, u64, Option<u64>) {
        let base = if self.0 & Usual::FP != 0 { fp } else { sp };
        let field = |at: u32, mask: u32| u64::from(self.0 >> at & mask);
        let (size, ra, saved) = (field(16, 0xfff), field(8, 0xff), field(0, 0xff));
        let at = |words: u64| base.wrapping_add(size.wrapping_sub(words) << 3);
        (at(0), at(ra), (saved != 0).then(|| at(saved)))
    }
}

/// A rule's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct RuleId(pub(super) u16);

impl RuleId {
    /// That of [`Rule::UNKNOWN`].
    pub(super) const UNKNOWN: RuleId = RuleId(0);
}

/// The different rules.
#[derive(Debug)]
pub(super) struct Rules {
    list: Vec<Rule>,
    ids: HashMap<Rule, RuleId>,
    /// How many could not be kept.
    refused: usize,
}

impl Rules {
    /// With [`Rule::UNKNOWN`] as the first.
    pub(super) fn new() -> Self {
        let mut rules = Rules { list: Vec::new(), ids: HashMap::new(), refused: 0 };
        rules.id(Rule::UNKNOWN);
        rules
    }

    /// The number of `rule`. When all numbers are taken it is that of the unknown rule, and counted.
    pub(super) fn id(&mut self, rule: Rule) -> RuleId {
        if let Some(&id) = self.ids.get(&rule) {
            return id;
        }
        let Ok(next) = u16::try_from(self.list.len()) else {
            self.refused += 1;
            return RuleId::UNKNOWN;
        };
        let id = RuleId(next);
        self.list.push(rule);
        self.ids.insert(rule, id);
        id
    }

    /// All, by number.
    pub(super) fn as_slice(&self) -> &[Rule] {
        &self.list
    }

    /// Whether some had no place.
    pub(super) fn is_full(&self) -> bool {
        self.refused > 0
    }

    /// Bytes on the heap, about.
    pub(super) fn memory_usage(&self) -> usize {
        self.list.capacity() * size_of::<Rule>()
            + self.ids.capacity() * (size_of::<(Rule, RuleId)>() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usual_rule_fits_and_an_unusual_one_is_not_taken_for_one() {
        let rule = Rule {
            cfa: Cfa::Fp,
            ra: Place::AtCfa,
            fp: Place::AtCfa,
            addend: 0,
            cfa_offset: 0x7ff8,
            ra_offset: -8,
            fp_offset: -0x7f8,
        };
        let usual = Usual::of(&rule).unwrap();
        assert_eq!(Usual::of_bits(usual.bits()), Some(usual));
        assert!(usual.bits() >> Usual::BITS == 0);
        assert_eq!(usual.frame(7, 0x1_0000), (0x1_7ff8, 0x1_7ff0, Some(0x1_7800)));
        let same = Rule { cfa: Cfa::Sp, fp: Place::Same, cfa_offset: 8, ..rule };
        assert_eq!(Usual::of(&same).unwrap().frame(0x1000, 7), (0x1008, 0x1000, None));
        let unusual = [
            Rule { cfa_offset: 0x8000, ..rule },
            Rule { cfa_offset: -8, ..rule },
            Rule { cfa_offset: 12, ..rule },
            Rule { ra_offset: 0, ..rule },
            Rule { ra_offset: -0x800, ..rule },
            Rule { fp_offset: 8, ..rule },
            Rule { fp_offset: i32::MIN, ..rule },
            Rule { fp: Place::Undefined, ..rule },
            Rule { ra: Place::Same, ..rule },
            Rule { cfa: Cfa::DerefFp, ..rule },
            Rule::UNKNOWN,
            Rule::ROOT,
            Rule::SIGNAL,
        ];
        for rule in unusual {
            assert_eq!(Usual::of(&rule), None, "{rule:?}");
        }
    }

    #[test]
    fn a_rule_has_one_number_and_the_last_number_is_not_given_twice() {
        let mut rules = Rules::new();
        let nth = |n: i32| Rule { cfa: Cfa::Sp, cfa_offset: n * 8, ..Rule::UNKNOWN };
        assert_eq!(rules.id(Rule::UNKNOWN), RuleId::UNKNOWN);
        for n in 0..65_535 {
            assert_eq!(rules.id(nth(n)), RuleId(u16::try_from(n).unwrap() + 1));
        }
        assert_eq!(rules.id(nth(7)), RuleId(8));
        assert!(!rules.is_full());
        assert_eq!(rules.id(nth(65_535)), RuleId::UNKNOWN);
        assert!(rules.is_full());
        assert_eq!(rules.as_slice().len(), 65_536);
    }
}
