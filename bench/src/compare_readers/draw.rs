//! What names, texts and numbers are drawn from: what once broke a writer or a reader comes often.

use testkit::random::Random;

/// Names and values of labels.
pub type Pairs = Vec<(String, String)>;

/// What every reader takes as it is.
const PLAIN: [&str; 8] = ["a", "b_", "c1", "_", "__", "x_total", "_bucket", "sum_"];

/// What a name may hold since Prometheus 3.
const ODD: [&str; 22] = [
    ".",
    ":",
    "é",
    "\"",
    "\\",
    " ",
    "-",
    "/",
    "😀",
    "0",
    "\n",
    "\t",
    "{",
    "}",
    "=",
    ",",
    "#",
    "\\n",
    "\u{10ffff}",
    "\0",
    "\r",
    "\u{2028}",
];

/// What a label's value or a HELP may hold.
const TEXTS: [&str; 30] = [
    "",
    "a",
    " ",
    "\"",
    "\\",
    "\n",
    "\r",
    "\t",
    "{",
    "}",
    ",",
    "=",
    "#",
    "# EOF\n",
    "\\n",
    "\\\"",
    "é",
    "😀",
    "\u{2028}",
    "\u{feff}",
    "\0",
    "\u{7f}",
    "\u{fffd}",
    "\u{1}",
    "NaN",
    "__name__",
    "le=\"1\"",
    "\"} 1\nx 2",
    "# TYPE x gauge\n",
    "a text that is longer than the sixteen and the sixty-four bytes that are copied at once, by far",
];

/// Names of labels that mean something elsewhere.
const MEANING: [&str; 9] = [
    "le",
    "quantile",
    "..name..",
    "job",
    "instance",
    "otel_scope_name",
    "scope",
    "exported.job",
    "_le",
];

/// Values where formats and parsers part.
const NUMBERS: [u64; 24] = [
    0,
    1 << 63,
    0x7ff8_0000_0000_0001,
    0x7ff0_0000_0000_0002,
    0xfff8_0000_0000_0000,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x0010_0000_0000_0000,
    1,
    0x8000_0000_0000_0001,
    0x000f_ffff_ffff_ffff,
    0x7fef_ffff_ffff_ffff,
    0x433f_ffff_ffff_ffff,
    0x4340_0000_0000_0000,
    0x4340_0000_0000_0001,
    0x43e0_0000_0000_0000,
    0x43f0_0000_0000_0000,
    0x3fb9_9999_9999_999a,
    0x412e_8480_0000_0000,
    0x412e_847f_ffff_ffff,
    0x3f1a_36e2_eb1c_432d,
    0x3eb0_c6f7_a0b5_ed8d,
    0x444b_1ae4_d6e2_ef50,
    0x3ff0_0000_0000_0000,
];

/// Milliseconds since 1970. The largest that a date of four digits has, and what no clock says.
const TIMES: [i64; 12] = [
    0,
    1,
    999,
    1001,
    1_700_000_000_123,
    1_763_753_417_009,
    253_402_300_799_999,
    -1,
    -1_500,
    i64::MAX / 1_000,
    i64::MAX,
    i64::MIN,
];

/// One of them.
pub fn one<'a, T>(random: &mut Random, of: &'a [T]) -> &'a T {
    &of[random.below(of.len() as u64) as usize]
}

/// Yes once in `times`.
pub fn once_in(random: &mut Random, times: u64) -> bool {
    random.below(times) == 0
}

/// A text for a HELP or a label's value.
pub fn text(random: &mut Random) -> String {
    let pieces = random.below(5);
    (0..pieces).map(|_| *one(random, &TEXTS)).collect()
}

/// A name's beginning, in the legacy alphabet or not.
pub fn name(random: &mut Random) -> String {
    let is_odd = once_in(random, 2);
    let pieces = 1 + random.below(3);
    let mut name = String::new();
    for _ in 0..pieces {
        let of = if is_odd && once_in(random, 2) { &ODD[..] } else { &PLAIN };
        name += *one(random, of);
    }
    name
}

/// Labels whose names differ. `le` and `quantile` are left to the kinds that have a meaning for them.
pub fn pairs(random: &mut Random, most: u64, prefix: &str) -> Pairs {
    let mut pairs = Pairs::new();
    for _ in 0..random.below(most + 1) {
        let name = match random.below(5) {
            0 => (*one(random, &MEANING)).to_owned(),
            _ => format!("{prefix}{}", name(random)),
        };
        if !pairs.iter().any(|(known, _)| *known == name) {
            pairs.push((name, text(random)));
        }
    }
    pairs
}

/// Any number, the odd ones often.
pub fn number(random: &mut Random) -> f64 {
    match random.below(6) {
        0 => f64::from_bits(random.next_u64()),
        1 => random.below(3_000_000) as f64 - 1_000_000.0,
        2 => random.unit() * 1_000.0,
        _ => f64::from_bits(*one(random, &NUMBERS)),
    }
}

/// A number of observations.
pub fn count(random: &mut Random) -> u64 {
    match random.below(5) {
        0 => 0,
        1 => random.below(1 << 54),
        _ => random.below(5),
    }
}

/// A time, or none.
pub fn time(random: &mut Random) -> Option<i64> {
    match random.below(6) {
        0 => Some(*one(random, &TIMES)),
        1 => Some(random.below(4_000_000_000_000) as i64),
        _ => None,
    }
}

/// Bounds that rise, `+Inf` at their end or not.
pub fn bounds(random: &mut Random) -> Vec<f64> {
    let mut bounds: Vec<f64> = (0..random.below(7)).map(|_| number(random)).collect();
    bounds.retain(|bound| bound.is_finite());
    // A bound of -0 would be one of 0.
    bounds.iter_mut().for_each(|bound| *bound += 0.0);
    bounds.sort_by(f64::total_cmp);
    bounds.dedup();
    if once_in(random, 4) {
        bounds.push(f64::INFINITY);
    }
    bounds
}
