//! Sections that are written down byte by byte, for both processors.
use super::super::aarch64::Aarch64;
use super::super::x86_64::X86_64;
use super::*;

const SECTION: u64 = 0x50_0000;
const CODE: u64 = 0x40_0000;
const END: u64 = 0x48_0000;

/// Call frame instructions.
mod cfi {
    pub(super) const UNDEFINED: u8 = 0x07;
    pub(super) const SAME: u8 = 0x08;
    pub(super) const REGISTER: u8 = 0x09;
    pub(super) const REMEMBER: u8 = 0x0a;
    pub(super) const RESTORE: u8 = 0x0b;
    pub(super) const DEF_CFA: u8 = 0x0c;
    pub(super) const DEF_CFA_REGISTER: u8 = 0x0d;
    pub(super) const DEF_CFA_OFFSET: u8 = 0x0e;
    pub(super) const DEF_CFA_EXPRESSION: u8 = 0x0f;
    pub(super) const EXPRESSION: u8 = 0x10;
    pub(super) const VAL_OFFSET: u8 = 0x14;
    pub(super) const NEGATE_RA_STATE: u8 = 0x2d;

    /// Forward by so many times the code alignment.
    pub(super) const fn forward(by: u8) -> u8 {
        0x40 | by
    }

    /// A register saved at the frame's address plus a factored offset, which follows.
    pub(super) const fn offset(register: u8) -> u8 {
        0x80 | register
    }
}
use cfi::{
    DEF_CFA, DEF_CFA_EXPRESSION, DEF_CFA_OFFSET, DEF_CFA_REGISTER, EXPRESSION, NEGATE_RA_STATE,
    REGISTER, REMEMBER, RESTORE, SAME, UNDEFINED, VAL_OFFSET, forward, offset,
};

struct Written(Vec<u8>);

impl Written {
    /// With a common entry.
    fn new(augmentation: &str, alignment: u8, ra: u8, initial: &[u8]) -> Written {
        let mut body = vec![0, 0, 0, 0, 1];
        body.extend(augmentation.bytes());
        body.extend([0, alignment, 0x78, ra, 1, 0x04]); // data in units of -8; addresses as eight bytes
        body.extend(initial);
        let mut written = Written(Vec::new());
        written.entry(body);
        written
    }

    fn entry(&mut self, mut body: Vec<u8>) {
        body.resize(body.len().next_multiple_of(4), 0);
        self.0.extend(u32::try_from(body.len()).unwrap().to_ne_bytes());
        self.0.extend(body);
    }

    fn function(mut self, start: u64, length: u64, instructions: &[u8]) -> Written {
        let mut body = u32::try_from(self.0.len() + 4).unwrap().to_ne_bytes().to_vec();
        body.extend(start.to_ne_bytes());
        body.extend(length.to_ne_bytes());
        body.push(0);
        body.extend(instructions);
        self.entry(body);
        self
    }

    fn read<A: Architecture>(&self, rules: &mut Rules) -> Table {
        let section =
            Section { bytes: &self.0, address: SECTION, header: SECTION, start: CODE, end: END };
        Table::read::<A>(&section, rules)
    }
}

fn x86_64() -> Written {
    Written::new("zR", 1, 16, &[DEF_CFA, 7, 8, offset(16), 1])
}

fn aarch64() -> Written {
    Written::new("zR", 4, 30, &[DEF_CFA, 31, 0])
}

const PLAIN: Rule = Rule {
    cfa: Cfa::Sp,
    ra: Place::AtCfa,
    fp: Place::Same,
    addend: 0,
    cfa_offset: 8,
    ra_offset: -8,
    fp_offset: 0,
};

const LEAF: Rule = Rule { ra: Place::Same, cfa_offset: 0, ra_offset: 0, ..PLAIN };

/// Instructions of a function, and its rules from given offsets on.
type Case<'a> = (&'a str, &'a [u8], &'a [(u64, Rule)]);

fn check<A: Architecture>(written: fn() -> Written, cases: &[Case<'_>]) {
    for (name, instructions, expected) in cases {
        let mut rules = Rules::new();
        let table = written().function(CODE + 32, 64, instructions).read::<A>(&mut rules);
        let at = |pc: u64| rules.as_slice()[usize::from(table.find(pc).0)];
        assert_eq!(table.counts.refused, 0, "{name}");
        for outside in [CODE - 1, CODE, CODE + 31, CODE + 96, CODE + 1000, END, u64::MAX] {
            assert_eq!(at(outside), Rule::UNKNOWN, "{name}: {outside:x}");
        }
        let ends = expected.iter().skip(1).map(|(start, _)| *start).chain([64]);
        for ((start, rule), end) in expected.iter().zip(ends) {
            for offset in *start..end {
                assert_eq!(at(CODE + 32 + offset), *rule, "{name}: at {offset}");
            }
        }
    }
}

#[test]
fn rows_of_x86_64_become_rules() {
    let pushed = Rule { fp: Place::AtCfa, cfa_offset: 16, fp_offset: -16, ..PLAIN };
    let framed = Rule { cfa: Cfa::Fp, ..pushed };
    let aligned = Rule {
        cfa: Cfa::DerefFp,
        cfa_offset: -8,
        fp: Place::AtFp,
        fp_offset: 0,
        addend: 1,
        ..PLAIN
    };
    let lazy = [DEF_CFA_EXPRESSION, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
    check::<X86_64>(
        x86_64,
        &[
            ("a leaf", &[], &[(0, PLAIN)]),
            (
                "with a frame pointer",
                &[
                    forward(1),
                    DEF_CFA_OFFSET,
                    16,
                    offset(6),
                    2,
                    forward(3),
                    DEF_CFA_REGISTER,
                    6,
                    forward(40),
                    DEF_CFA,
                    7,
                    8,
                ],
                &[(0, PLAIN), (1, pushed), (4, framed), (44, Rule { cfa_offset: 8, ..pushed })],
            ),
            (
                "two ends",
                &[
                    forward(2),
                    DEF_CFA_OFFSET,
                    48,
                    forward(9),
                    REMEMBER,
                    DEF_CFA_OFFSET,
                    8,
                    forward(1),
                    RESTORE,
                ],
                &[
                    (0, PLAIN),
                    (2, Rule { cfa_offset: 48, ..PLAIN }),
                    (11, PLAIN),
                    (12, Rule { cfa_offset: 48, ..PLAIN }),
                ],
            ),
            ("where threads begin", &[UNDEFINED, 16], &[(0, Rule::ROOT)]),
            (
                "the table of procedures",
                &lazy,
                &[(0, Rule { cfa: Cfa::Plt, addend: 11, cfa_offset: 0, ..PLAIN })],
            ),
            (
                "an aligned stack",
                &[DEF_CFA_EXPRESSION, 5, 0x76, 0x78, 0x06, 0x23, 8, EXPRESSION, 6, 2, 0x76, 0],
                &[(0, aligned)],
            ),
            (
                "a stored stack pointer",
                &[DEF_CFA_EXPRESSION, 6, 0x77, 0xd8, 0, 0x06, 0x23, 16],
                &[(0, Rule { cfa: Cfa::DerefSp, cfa_offset: 88, addend: 2, ..PLAIN })],
            ),
            (
                "a sum as an expression",
                &[DEF_CFA_EXPRESSION, 4, 0x77, 16, 0x23, 8],
                &[(0, Rule { cfa_offset: 24, ..PLAIN })],
            ),
            (
                "room for a large frame, made by means of r11",
                &[DEF_CFA, 11, 0x88, 0x80, 3],
                &[(0, Rule { cfa: Cfa::Register, addend: 11, cfa_offset: 49_160, ..PLAIN })],
            ),
            (
                "a return address in a register",
                &[REGISTER, 16, 5],
                &[(0, Rule { ra: Place::Register, ra_offset: 5, ..PLAIN })],
            ),
            (
                "a frame pointer that is computed",
                &[VAL_OFFSET, 6, 2],
                &[(0, Rule { fp: Place::IsCfa, fp_offset: -16, ..PLAIN })],
            ),
            (
                "a frame pointer that is lost",
                &[UNDEFINED, 6],
                &[(0, Rule { fp: Place::Undefined, ..PLAIN })],
            ),
            (
                "an expression that a walk can't follow",
                &[DEF_CFA_EXPRESSION, 3, 0x77, 8, 0x2a],
                &[(0, Rule::UNKNOWN)],
            ),
            ("a return address that was never saved", &[SAME, 16], &[(0, Rule::UNKNOWN)]),
        ],
    );
}

#[test]
fn rows_of_aarch64_become_rules() {
    let saved = Rule {
        ra: Place::AtCfa,
        ra_offset: -40,
        fp: Place::AtCfa,
        fp_offset: -48,
        cfa_offset: 48,
        ..LEAF
    };
    check::<Aarch64>(
        aarch64,
        &[
            ("a leaf", &[], &[(0, LEAF)]),
            (
                "a frame, signed",
                &[
                    forward(1),
                    NEGATE_RA_STATE,
                    forward(1),
                    DEF_CFA_OFFSET,
                    48,
                    offset(29),
                    6,
                    offset(30),
                    5,
                    forward(1),
                    DEF_CFA_REGISTER,
                    29,
                ],
                &[(0, LEAF), (8, saved), (12, Rule { cfa: Cfa::Fp, ..saved })],
            ),
            ("where threads begin", &[UNDEFINED, 30], &[(0, Rule::ROOT)]),
        ],
    );
    check::<Aarch64>(
        || Written::new("zRS", 4, 30, &[DEF_CFA, 29, 0]),
        &[("the kernel's frame", &[], &[(0, Rule::SIGNAL)])],
    );
}

#[test]
fn the_kernels_frame_of_x86_64_is_told_from_others_that_are_marked() {
    let marked = || Written::new("zRS", 1, 16, &[DEF_CFA, 7, 8, offset(16), 1]);
    check::<X86_64>(
        marked,
        &[
            (
                "the kernel's",
                &[DEF_CFA_EXPRESSION, 4, 0x77, 0xa0, 0x01, 0x06],
                &[(0, Rule::SIGNAL)],
            ),
            ("another", &[], &[(0, PLAIN)]),
        ],
    );
}

#[test]
fn functions_in_any_order_gaps_and_repetitions() {
    let mut rules = Rules::new();
    let deep = &[DEF_CFA_OFFSET, 64];
    let table = x86_64()
        .function(CODE + 0x3000, 0x1000, &[])
        .function(CODE + 0x100, 0xf9, deep)
        .function(CODE + 0x200, 0x100, deep) // seven bytes of padding before it
        .function(CODE + 0x200, 0x80, &[]) // the same code once more
        .function(CODE + 0x340, 0x10, &[])
        .function(0, 0x10, &[]) // discarded by the linker
        .function(END - 4, 0x10, &[])
        .read::<X86_64>(&mut rules);
    assert_eq!(table.counts, Counts { rows: 5, unsupported: 0, refused: 2 });
    let at = |offset: u64| rules.as_slice()[usize::from(table.find(CODE + offset).0)];
    let deep = Rule { cfa_offset: 64, ..PLAIN };
    for (offset, expected) in [
        (0xff, Rule::UNKNOWN),
        (0x100, deep),
        (0x1ff, deep),
        (0x2ff, deep),
        (0x300, Rule::UNKNOWN),
        (0x33f, Rule::UNKNOWN),
        (0x340, PLAIN),
        (0x34f, PLAIN),
        (0x350, Rule::UNKNOWN),
        (0x2fff, Rule::UNKNOWN),
        (0x3000, PLAIN),
        (0x3abc, PLAIN),
        (0x3fff, PLAIN),
        (0x4000, Rule::UNKNOWN),
    ] {
        assert_eq!(at(offset), expected, "{offset:x}");
    }
    assert_eq!(table.len(), 7, "ranges with the same rule are one");
}

#[test]
fn damage_costs_what_it_damages_and_never_more_than_an_error() {
    let whole =
        x86_64().function(CODE, 64, &[forward(1), DEF_CFA_OFFSET, 16]).function(CODE + 64, 64, &[]);
    let intact = extent(&whole.0);
    assert_eq!(intact, whole.0.len());
    for at in 0..whole.0.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut damaged = Written(whole.0.clone());
            damaged.0[at] = value;
            assert!(extent(&damaged.0) <= damaged.0.len());
            let mut rules = Rules::new();
            let table = damaged.read::<X86_64>(&mut rules);
            for pc in CODE..CODE + 128 {
                assert!(usize::from(table.find(pc).0) < rules.as_slice().len());
            }
        }
        let mut cut = Written(whole.0[..at].to_vec());
        assert!(extent(&cut.0) <= at);
        cut.read::<X86_64>(&mut Rules::new());
        cut.0.extend([0; 4]);
        assert!(extent(&cut.0) <= at + 4);
    }
    let mut ended = whole.0;
    ended.extend([0; 4]);
    ended.extend([9; 100]);
    assert_eq!(extent(&ended), intact, "what stands behind the end isn't taken");
}
