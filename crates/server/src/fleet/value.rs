//! How a series moves: its value at a tick, as digits of a width that never changes.
//!
//! A value is a function of the seed and the tick and of nothing else, so that nobody has to remember it:
//! a body can be written from any place on, by any thread, as often as the socket asks for it.
//!
//! Counters grow by their rate and a noise that is smaller than the rate, so that they never fall:
//! `x(n) = start + rate × n + noise(n)`, `noise < rate`. Where a counter would need another digit it
//! begins again, as after a restart; [`Motion::fit`] sees to it that this takes days.
//!
//! Gauges walk between points that are drawn at random every [`STRIDE`] ticks.

/// How many ticks lie between two points that a gauge walks to.
const STRIDE: u64 = 16;

/// How many ticks a counter grows before it needs another digit: six days at two ticks in ten seconds.
const LASTS: u64 = 100_000;

/// Where the digits of a value stand in the body, and what moves them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// The first digit's place in the body.
    pub(super) at: u32,
    /// Whose identity, and so whose seed, it has.
    pub(super) unit: u32,
    /// What is drawn for one group is the same for all of it: the lines of a histogram move together.
    pub(super) group: u32,
    /// Digits, the point not counted.
    pub(super) digits: u8,
    /// Digits before the point; 0: there is none.
    pub(super) point: u8,
    pub(super) motion: Motion,
}

/// What moves a value, in units of its last digit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Motion {
    /// Grows at every tick.
    Counter { base: u64, span: u64, rate: u64 },
    /// Grows once in `2^shift` ticks, at another tick than its neighbours.
    Idle { base: u64, span: u64, rate: u64, shift: u8 },
    /// The counter of the group, scaled by `share / 2^16`: a bucket, a sum, a count.
    Part { base: u64, span: u64, rate: u64, share: u64 },
    /// Walks within `span`, in steps of `quantum`.
    Gauge { base: u64, span: u64, quantum: u64 },
    /// Anywhere within `span`.
    Random { base: u64, span: u64 },
    /// Milliseconds since 1970.
    Clock,
}

impl Motion {
    /// The range of numbers with so many digits that a counter may use, and a rate that it bears for
    /// days.
    pub(super) fn fit(digits: u8, rate: u64) -> (u64, u64, u64) {
        let base = 10u64.pow(u32::from(digits) - 1);
        // Half of it is for where it starts.
        let span = base * 8;
        (base, span, rate.clamp(1, (span / 2 / LASTS).max(1)))
    }

    /// The value. *Steady.*
    #[inline]
    pub(super) fn at(&self, seed: u64, moment: Moment) -> u64 {
        match *self {
            Motion::Counter { base, span, rate } => base + grown(seed, moment.tick, span, rate),
            Motion::Idle { base, span, rate, shift } => {
                let tick = (moment.tick + (seed & ((1 << shift) - 1))) >> shift;
                base + grown(seed, tick, span, rate)
            }
            Motion::Part { base, span, rate, share } => {
                base + ((grown(seed, moment.tick, span, rate) * share) >> 16)
            }
            Motion::Gauge { base, span, quantum } => {
                let steps = span / quantum;
                let (from, along) = (moment.tick / STRIDE, moment.tick % STRIDE);
                let point = |number: u64| below(mix(seed ^ number), steps);
                let (a, b) = (point(from), point(from + 1));
                base + (a * (STRIDE - along) + b * along) / STRIDE * quantum
            }
            Motion::Random { base, span } => base + below(mix(seed ^ moment.tick), span),
            Motion::Clock => moment.unix_ms,
        }
    }
}

/// When a body is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// Counted from the start.
    pub(super) tick: u64,
    /// For what tells the time.
    pub(super) unix_ms: u64,
}

#[inline]
fn grown(seed: u64, tick: u64, span: u64, rate: u64) -> u64 {
    let noise = below(mix(seed ^ tick), rate);
    let x = below(seed, span / 2) + rate * tick + noise;
    // The division is for the few that are through.
    if x < span { x } else { x % span }
}

/// A number below `bound`, out of 64 random bits, without a division (Lemire 2019).
#[inline]
pub(super) fn below(random: u64, bound: u64) -> u64 {
    ((u128::from(random) * u128::from(bound)) >> 64) as u64
}

/// Makes of any number one that looks random: the finish of SplitMix64 (Steele, Lea and Flood 2014),
/// shortened by a round, which is enough where nothing but unevenness is at stake.
#[inline]
pub(super) fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    z = (z ^ (z >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    z ^ (z >> 32)
}

const PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819\
    2021222324252627282930313233343536373839\
    4041424344454647484950515253545556575859\
    6061626364656667686970717273747576777879\
    8081828384858687888990919293949596979899";

/// Writes the last `digits` digits of `value` to `out`, leaving out the place after the first `point`
/// ones. *Steady.*
#[inline]
pub(super) fn write_digits(out: &mut [u8], value: u64, digits: u8, point: u8) {
    if point == 0 {
        write_run(&mut out[..usize::from(digits)], value);
        return;
    }
    let after = usize::from(digits - point);
    let point = usize::from(point);
    let scale = POWERS[after];
    let (whole, rest) = (value / scale, value % scale);
    write_run(&mut out[..point], whole);
    write_run(&mut out[point + 1..point + 1 + after], rest);
}

/// 10^0 to 10^19.
const POWERS: [u64; 20] = {
    let mut powers = [1u64; 20];
    let mut at = 1;
    while at < 20 {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

#[inline]
fn write_run(out: &mut [u8], mut value: u64) {
    let mut pairs = out.rchunks_exact_mut(2);
    for pair in &mut pairs {
        let at = (value % 100) as usize * 2;
        pair.copy_from_slice(&PAIRS[at..at + 2]);
        value /= 100;
    }
    if let [first] = pairs.into_remainder() {
        *first = b'0' + (value % 10) as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_stand_where_they_belong() {
        for (value, digits, point, expected) in [
            (7, 1, 0, "7"),
            (123, 3, 0, "123"),
            (1234, 4, 0, "1234"),
            (12345, 5, 3, "123.45"),
            (1_234_567, 7, 1, "1.234567"),
            (10_000_000_000_000_001, 17, 6, "100000.00000000001"),
            (123_456, 3, 0, "456"),
        ] {
            let mut out = vec![b'.'; expected.len()];
            write_digits(&mut out, value, digits, point);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    /// Every motion keeps its width, counters grow, gauges move and stay in their range.
    #[test]
    fn motions_keep_their_promises() {
        for digits in 4..=15u8 {
            let (base, span, rate) = Motion::fit(digits, 10u64.pow(u32::from(digits) / 2));
            let motions = [
                (Motion::Counter { base, span, rate }, true),
                (Motion::Idle { base, span, rate, shift: 4 }, true),
                (Motion::Part { base, span, rate, share: 30_000 }, true),
                (Motion::Gauge { base, span, quantum: 1 }, false),
                (Motion::Random { base, span }, false),
            ];
            for (motion, grows) in motions {
                for seed in (0..50).map(mix) {
                    let mut last = 0;
                    let mut moved = 0;
                    for tick in 0..1000 {
                        let value = motion.at(seed, Moment { tick, unix_ms: 0 });
                        assert!(value >= base && value < base * 10, "{motion:?}: {value}");
                        // Small numbers have no room to grow for long.
                        assert!(!grows || digits < 8 || value >= last, "{motion:?} {tick}");
                        moved += usize::from(value != last);
                        last = value;
                    }
                    assert!(moved > 20, "{motion:?} moved {moved} times");
                }
            }
        }
    }
}
