//! Stacks that are written down word by word, for both processors.
use std::collections::BTreeMap;

use super::super::aarch64::Aarch64;
use super::super::memory::Written;
use super::super::x86_64::X86_64;
use super::*;

/// Rules of functions that begin at multiples of 0x1000.
struct Book(BTreeMap<u64, Rule>);

impl Rulebook for Book {
    fn cached(&self, pc: u64) -> Option<Usual> {
        self.0.get(&(pc & !0xfff)).and_then(Usual::of)
    }

    fn covers(&self, pc: u64) -> bool {
        pc >> 12 == 0xa
    }

    fn rule(&self, pc: u64) -> Rule {
        self.0.get(&(pc & !0xfff)).copied().unwrap_or(Rule::UNKNOWN)
    }
}

fn sp(cfa_offset: i32) -> Rule {
    Rule {
        cfa: Cfa::Sp,
        ra: Place::AtCfa,
        fp: Place::Same,
        addend: 0,
        cfa_offset,
        ra_offset: -8,
        fp_offset: 0,
    }
}

fn framed() -> Rule {
    Rule { cfa: Cfa::Fp, fp: Place::AtCfa, fp_offset: -16, ..sp(16) }
}

/// A function of aarch64 that keeps its frame's record at its stack's end.
fn record(size: i32) -> Rule {
    Rule { ra_offset: 8 - size, fp: Place::AtCfa, fp_offset: -size, ..sp(size) }
}

struct Case<'a> {
    name: &'a str,
    at: Registers,
    rules: &'a [(u64, Rule)],
    memory: &'a [(u64, u64)],
    frames: &'a [u64],
    end: End,
}

fn check<A: Architecture>(cases: &[Case<'_>]) {
    for case in cases {
        let book = Book(case.rules.iter().copied().collect());
        let mut memory = Written { words: case.memory.iter().copied().collect() };
        let mut frames = [0; 100];
        let walk = walk::<A, _, _>(&case.at, &book, &mut memory, &mut frames);
        assert_eq!(frames[..walk.depth], *case.frames, "{}", case.name);
        assert_eq!(walk.end, case.end, "{}", case.name);
        for room in 0..walk.depth {
            let mut few = vec![0; room];
            let cut = walk_to::<A>(case, &mut few);
            assert_eq!(cut, Walk { depth: room, end: End::Truncated }, "{}", case.name);
            assert_eq!(few, case.frames[..room], "{}", case.name);
        }
    }
}

fn walk_to<A: Architecture>(case: &Case<'_>, frames: &mut [u64]) -> Walk {
    let book = Book(case.rules.iter().copied().collect());
    let mut memory = Written { words: case.memory.iter().copied().collect() };
    walk::<A, _, _>(&case.at, &book, &mut memory, frames)
}

const S: u64 = 0x7000_0000;

/// Eight bytes of code of which the last ones are `call` with an address behind it.
const CALL: u64 = u64::from_le_bytes([0, 0, 0, 0xe8, 1, 2, 3, 4]);
/// `bl`, in what follows four other bytes.
const BL: u64 = 0x9400_0001;

#[test]
fn walks_of_x86_64() {
    let root = (0x1000, Rule::ROOT);
    let deref = |cfa, cfa_offset, addend| Rule { cfa, cfa_offset, addend, ..sp(0) };
    check::<X86_64>(&[
        Case {
            name: "with and without frame pointers",
            at: Registers::new(0x4000, S, 0x77, 0),
            rules: &[
                root,
                (0x2000, framed()),
                (0x3000, sp(32)),
                (0x4000, sp(8)),
                (0x5000, framed()),
            ],
            memory: &[
                (S, 0x3010),
                (S + 32, 0x2020),
                // The frame pointer that the leaf has is that of its caller's caller.
                (0x78, 0),
                (S + 48, 0),
            ],
            frames: &[0x4000, 0x300f, 0x201f],
            end: End::Lost,
        },
        Case {
            name: "down to the start",
            at: Registers::new(0x4000, S, S + 40, 0),
            rules: &[root, (0x2000, framed()), (0x3000, sp(32)), (0x4000, sp(8))],
            memory: &[(S, 0x3010), (S + 32, 0x2020), (S + 40, 0), (S + 48, 0x1050)],
            frames: &[0x4000, 0x300f, 0x201f, 0x104f],
            end: End::Root,
        },
        Case {
            name: "a return address of nothing is an end",
            at: Registers::new(0x3000, S, 0, 0),
            rules: &[(0x3000, sp(8))],
            memory: &[(S, 0)],
            frames: &[0x3000],
            end: End::Root,
        },
        Case {
            name: "a call that is the last instruction of its function",
            at: Registers::new(0x4000, S, 0, 0),
            rules: &[root, (0x2000, sp(16)), (0x4000, sp(8))],
            memory: &[(S, 0x3000), (S + 16, 0x1008)],
            frames: &[0x4000, 0x2fff, 0x1007],
            end: End::Root,
        },
        Case {
            name: "what can't be an address",
            at: Registers::new(0x3000, S, 0, 0),
            rules: &[(0x3000, sp(8))],
            memory: &[(S, 0x0fff)],
            frames: &[0x3000],
            end: End::Lost,
        },
        Case {
            name: "memory that isn't there",
            at: Registers::new(0x3000, S, 0, 0),
            rules: &[(0x3000, sp(8))],
            memory: &[],
            frames: &[0x3000],
            end: End::Lost,
        },
        Case {
            name: "a frame that doesn't grow",
            at: Registers::new(0x2000, S, S - 32, 0),
            rules: &[(0x2000, framed())],
            memory: &[(S - 32, S - 32), (S - 24, 0x2010)],
            frames: &[0x2000],
            end: End::Lost,
        },
        Case {
            name: "a signal that interrupted a leaf at its first instruction, on a stack of its own",
            at: Registers::new(0x5000, 0x900, 0x33, 0),
            rules: &[
                root,
                (0x2000, framed()),
                (0x5000, sp(8)),
                (0x6000, Rule::SIGNAL),
                (0x7000, sp(8)),
            ],
            memory: &[
                (0x900, 0x6010),
                (0x908 + 168, 0x7000),
                (0x908 + 160, S),
                (0x908 + 120, S + 16),
                (S, 0x2020),
                (S + 16, 0),
                (S + 24, 0x1001),
            ],
            frames: &[0x5000, 0x600f, 0x7000, 0x201f, 0x1000],
            end: End::Root,
        },
        Case {
            name: "a signal's return that no table knows",
            at: Registers::new(0x5000, 0x900, 0, 0),
            rules: &[root, (0x5000, sp(8))],
            memory: &[
                (0x900, 0x8800),
                (0x8800, 0x0f00_0000_0fc0_c748),
                (0x8801, 0x050f_0000_000f_c0c7),
                (0x908 + 168, 0x1000),
                (0x908 + 160, S),
                (0x908 + 120, 0),
            ],
            frames: &[0x5000, 0x87ff, 0x1000],
            end: End::Root,
        },
        Case {
            name: "a register that the signal has saved, and that is not known further out",
            at: Registers { pc: 0x5000, sp: S, fp: 0, lr: 0, context: 0x9000 },
            rules: &[(0x5000, Rule { cfa: Cfa::Register, addend: 11, ..sp(0x100) })],
            memory: &[(0x9000 + 64, S - 0x80), (S + 0x78, 0x5010)],
            frames: &[0x5000, 0x500f],
            end: End::Lost,
        },
        Case {
            name: "a return address in a register",
            at: Registers { pc: 0x5000, sp: S, fp: 0, lr: 0, context: 0x9000 },
            rules: &[root, (0x5000, Rule { ra: Place::Register, ra_offset: 5, ..sp(0) })],
            memory: &[(0x9000 + 104, 0x1010)],
            frames: &[0x5000, 0x100f],
            end: End::Root,
        },
        Case {
            name: "the table of procedures, before and after it pushes",
            at: Registers::new(0x500a, S, 0, 0),
            rules: &[root, (0x5000, Rule { cfa: Cfa::Plt, addend: 11, ..sp(0) })],
            memory: &[(S, 0x1010), (S + 8, 0x2010)],
            frames: &[0x500a, 0x100f],
            end: End::Root,
        },
        Case {
            name: "after",
            at: Registers::new(0x500b, S, 0, 0),
            rules: &[root, (0x5000, Rule { cfa: Cfa::Plt, addend: 11, ..sp(0) })],
            memory: &[(S, 0), (S + 8, 0x1010)],
            frames: &[0x500b, 0x100f],
            end: End::Root,
        },
        Case {
            name: "one that no table knows",
            at: Registers::new(0x5006, S, 0, 0),
            rules: &[root],
            memory: &[(0x5006, 0xe968), (S, 3), (S + 8, 0x1010), (0x1008, CALL)],
            frames: &[0x5006, 0x100f],
            end: End::Root,
        },
        Case {
            name: "a call of an address without code",
            at: Registers::new(0, S, 7, 0),
            rules: &[root],
            memory: &[(S, 0x1010), (0x1008, CALL)],
            frames: &[0, 0x100f],
            end: End::Root,
        },
        Case {
            name: "what programs are linked with, without a table",
            at: Registers::new(0xa004, S, S + 0x100, 0),
            rules: &[root, (0x2000, framed())],
            memory: &[
                (0xa004, 0),
                (S, 5),
                (S + 8, 0x2010),
                (0x2008, CALL),
                // Its caller's frame pointer would have led past the caller.
                (S + 0x100, 0),
                (S + 0x108, 0x1010),
                (0x1008, CALL),
            ],
            frames: &[0xa004, 0x200f, 0x100f],
            end: End::Root,
        },
        Case {
            name: "a C library without tables: a call in it, a call of it, and where it begins a thread",
            at: Registers::new(0xa004, S, 3, 0),
            rules: &[(0x2000, framed())],
            memory: &[
                (0xa004, 0),
                (S, 5),
                (S + 8, 0xa099),
                (0xa091, 0),
                (S + 16, S + 80),
                (S + 24, 7),
                (S + 32, 0x2010),
                (0x2008, CALL),
                (S + 40, 0xa2a2),
                (0xa29a, CALL),
                (S + 48, 0),
                (S + 56, 0xa200),
                (0xa1f8, CALL),
                (0xa200, 0x050f_3cb0_c031_c789),
            ],
            frames: &[0xa004, 0xa2a1, 0xa1ff],
            end: End::Root,
        },
        Case {
            name: "the same in a module that was just loaded",
            at: Registers::new(0xb004, S, 3, 0),
            rules: &[root],
            memory: &[(0xb004, 0), (S, 0x1010), (0x1008, CALL)],
            frames: &[0xb004, 0x100f],
            end: End::Root,
        },
        Case {
            name: "code made at run time, by frame pointers",
            at: Registers::new(0x5000, S, S + 16, 0),
            rules: &[root],
            memory: &[
                (0x5000, 0),
                (S + 16, S + 64),
                (S + 24, 0x6010),
                (0x6008, CALL),
                (S + 64, 0),
                (S + 72, 0x1010),
                (0x1008, CALL),
            ],
            frames: &[0x5000, 0x600f, 0x100f],
            end: End::Root,
        },
        Case {
            name: "frame pointers that lead to no call",
            at: Registers::new(0x5000, S, S + 16, 0),
            rules: &[root],
            memory: &[(0x5000, 0), (S + 16, S + 64), (S + 24, 0x6010), (0x6008, 0)],
            frames: &[0x5000],
            end: End::Lost,
        },
        Case {
            name: "frame pointers cleared where the thread began",
            at: Registers::new(0x5000, S, 0, 0),
            rules: &[],
            memory: &[(0x5000, 0)],
            frames: &[0x5000],
            end: End::Root,
        },
        Case {
            name: "an aligned stack, and one kept on another",
            at: Registers::new(0x5000, S, S + 32, 0),
            rules: &[
                root,
                (0x5000, deref(Cfa::DerefFp, -8, 1)),
                (0x6000, deref(Cfa::DerefSp, 24, 0)),
            ],
            memory: &[(S + 24, S + 64), (S + 64, 0x6010), (S + 96, 0x800), (0x7f8, 0x1010)],
            frames: &[0x5000, 0x600f, 0x100f],
            end: End::Root,
        },
    ]);
}

#[test]
fn walks_of_aarch64() {
    let root = (0x1000, Rule::ROOT);
    let leaf = Rule { ra: Place::Same, ..sp(0) };
    let signed = 0xab12_0000_0000_0000;
    check::<Aarch64>(&[
        Case {
            name: "a leaf, then frames with signed addresses",
            at: Registers::new(0x4000, S, S, 0x3010),
            rules: &[root, (0x2000, record(32)), (0x3000, record(16)), (0x4000, leaf)],
            memory: &[
                (S, S + 16),
                (S + 8, signed | 0x2020),
                (S + 16, 0),
                (S + 24, signed | 0x1004),
            ],
            frames: &[0x4000, 0x300f, 0x201f, 0x1003],
            end: End::Root,
        },
        Case {
            name: "a link that was overwritten",
            at: Registers::new(0x4000, S, S, 0x3010),
            rules: &[root, (0x3000, leaf), (0x4000, leaf)],
            memory: &[],
            frames: &[0x4000, 0x300f],
            end: End::Lost,
        },
        Case {
            name: "a signal that interrupted a leaf; its return is known by its code",
            at: Registers::new(0x5000, 0x900, 0x900, 0x33),
            rules: &[root, (0x5000, record(16)), (0x7000, leaf)],
            memory: &[
                (0x900, 0),
                (0x908, 0x8004),
                (0x8004, 0xd400_0001_d280_1168),
                // 0x910: the siginfo, then the context.
                (0x910 + 128 + 184 + 29 * 8, S + 16),
                (0x910 + 128 + 184 + 30 * 8, 0x1010),
                (0x910 + 128 + 184 + 31 * 8, S),
                (0x910 + 128 + 184 + 32 * 8, 0x7000),
            ],
            frames: &[0x5000, 0x8003, 0x7000, 0x100f],
            end: End::Root,
        },
        Case {
            name: "the table of procedures",
            at: Registers::new(0x5004, S, S, 0x1010),
            rules: &[root],
            memory: &[(0x5004, 0xf940_0211), (0x100c, BL)],
            frames: &[0x5004, 0x100f],
            end: End::Root,
        },
        Case {
            name: "code made at run time",
            at: Registers::new(0x5000, S, S + 16, 0x77),
            rules: &[root],
            memory: &[(0x5000, 0), (S + 16, 0), (S + 24, signed | 0x1010), (0x100c, BL)],
            frames: &[0x5000, 0x100f],
            end: End::Root,
        },
    ]);
}

#[test]
fn stacks_that_lead_in_circles_end() {
    // Two stacks, each saying that it was entered from the other.
    let deref = Rule { cfa: Cfa::DerefSp, cfa_offset: 0, ..sp(0) };
    let signal = [(0x6000, Rule::SIGNAL)];
    let circle = [(S + 168, 0x6000), (S + 160, S), (S + 120, 0)];
    let apart = [(S + 8, S + 0x100), (S + 0x100, S + 8), (S + 0xf8, 0x5010), (S, 0x5010)];
    for (rules, words, pc, sp) in [
        (signal.as_slice(), circle.as_slice(), 0x6000, S),
        (&[(0x5000, deref)], &apart, 0x5000, S + 8),
    ] {
        let book = Book(rules.iter().copied().collect());
        let mut memory = Written { words: words.iter().copied().collect() };
        let mut frames = vec![0; 10_000];
        let walk =
            walk::<X86_64, _, _>(&Registers::new(pc, sp, 0, 0), &book, &mut memory, &mut frames);
        assert_eq!(walk.end, End::Lost);
        assert!((JUMPS..=JUMPS * 2 + 2).contains(&walk.depth), "{walk:?}");
    }
}

#[test]
fn what_follows_a_call() {
    let x86_64: &[(&[u8], bool)] = &[
        (&[0xe8, 1, 2, 3, 4], true),
        (&[0xff, 0xd0], true),                   // call *%rax
        (&[0x41, 0xff, 0xd4], true),             // call *%r12
        (&[0xff, 0x50, 0x18], true),             // call *0x18(%rax)
        (&[0xff, 0x54, 0x24, 0x18], true),       // call *0x18(%rsp)
        (&[0xff, 0x15, 1, 2, 3, 4], true),       // call *0x4030201(%rip)
        (&[0xff, 0x90, 1, 2, 3, 4], true),       // call *0x4030201(%rax)
        (&[0xff, 0x94, 0xc8, 1, 2, 3, 4], true), // call *0x4030201(%rax,%rcx,8)
        (&[0x90, 0x90, 0x90, 0x90, 0x90, 0x90], false),
        (&[0xe9, 1, 2, 3, 4], false), // jmp
        (&[0xff, 0xe0], false),       // jmp *%rax
        (&[0xff, 0x75, 0x08], false), // push 8(%rbp)
    ];
    for (code, expected) in x86_64 {
        let mut before = [0x90; 8];
        before[8 - code.len()..].copy_from_slice(code);
        let mut memory = Written { words: [(0x1000, u64::from_le_bytes(before))].into() };
        assert_eq!(X86_64::follows_call(0x1008, &mut memory), *expected, "{code:x?}");
        assert!(!X86_64::follows_call(0x2000, &mut memory));
        assert!(!X86_64::follows_call(3, &mut memory));
    }
    for (code, expected) in [
        (0x9400_0001, true),  // bl
        (0x97ff_fff0, true),  // bl, backwards
        (0xd63f_0200, true),  // blr x16
        (0xd73f_0a30, true),  // blraa x17, x16
        (0xd63f_0a3f, true),  // blraaz x17
        (0x1400_0001, false), // b
        (0xd65f_03c0, false), // ret
        (0xd61f_0200, false), // br x16
    ] {
        let mut memory = Written { words: [(0x1004, code)].into() };
        assert_eq!(Aarch64::follows_call(0x1008, &mut memory), expected, "{code:x}");
    }
}
