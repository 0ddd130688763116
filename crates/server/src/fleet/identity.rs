//! What tells one pod, queue or device from another: text of a fixed width, drawn from the seed.
//!
//! A *unit* is what comes and goes as a whole: a pod with all its series. A churned unit is the next
//! *generation* of it, with another identity and other values. When units change is spread evenly: over
//! units by the golden ratio, over targets by their seeds.

use super::value::mix;

/// Bytes of an identity: replica set, pod suffix, uid, container id, each at its place.
pub(super) const WIDTH: usize = 128;

/// A part of an identity that labels name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) from: u8,
    pub(super) len: u8,
}

/// The words for parts, as the shapes' labels have them between braces.
const PIECES: [(&str, Piece); 6] = [
    // As Kubernetes writes hashes of pod templates and suffixes of pods.
    ("hash", Piece { from: 0, len: 10 }),
    ("suffix", Piece { from: 10, len: 5 }),
    ("uid", Piece { from: 16, len: 36 }),
    ("id", Piece { from: 64, len: 64 }),
    ("port", Piece { from: 64, len: 12 }),
    ("short", Piece { from: 64, len: 8 }),
];

impl Piece {
    pub(super) fn named(name: &str) -> Option<Self> {
        PIECES.iter().find(|(known, _)| *known == name).map(|(_, piece)| *piece)
    }
}

/// Kubernetes' alphabet for names: no vowels, nothing that looks like another.
const LETTERS: &[u8; 32] = b"bcdfghjklmnpqrstvwxz2456789bcdfg";
const HEX: &[u8; 16] = b"0123456789abcdef";

/// Writes the identity that belongs to `seed`. *Steady.*
pub(super) fn write(out: &mut [u8; WIDTH], seed: u64) {
    let mut bits = mix(seed);
    for letter in &mut out[..10] {
        *letter = LETTERS[(bits & 31) as usize];
        bits >>= 5;
    }
    bits = mix(seed ^ 1);
    for letter in &mut out[10..15] {
        *letter = LETTERS[(bits & 31) as usize];
        bits >>= 5;
    }
    for (number, part) in out[64..].chunks_exact_mut(16).enumerate() {
        let mut bits = mix(seed ^ (2 + number as u64));
        for digit in part {
            *digit = HEX[(bits & 15) as usize];
            bits >>= 4;
        }
    }
    // A uid of version 4 out of the same digits.
    let (uid, id) = out.split_at_mut(64);
    let uid = &mut uid[16..52];
    let mut digits = id.iter();
    for (place, letter) in uid.iter_mut().enumerate() {
        *letter = match place {
            8 | 13 | 18 | 23 => b'-',
            14 => b'4',
            19 => b'a',
            _ => *digits.next().unwrap_or(&b'0'),
        };
    }
}

/// How long a unit lives, in ticks: never ending, where nothing churns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Churn {
    pub(super) life_ticks: f64,
}

impl Churn {
    /// Which generation of the unit is there at `tick`.
    pub(super) fn generation(self, unit: usize, target_seed: u64, tick: u64) -> u64 {
        if !self.life_ticks.is_finite() {
            return 0;
        }
        const GOLDEN: f64 = 0.618_033_988_749_894_9;
        let of_target = (target_seed >> 11) as f64 / (1u64 << 53) as f64;
        let phase = (unit as f64 * GOLDEN + of_target).fract();
        (tick as f64 / self.life_ticks + phase) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_looks_like_one() {
        let mut out = [b'?'; WIDTH];
        write(&mut out, 7);
        let part = |name| {
            let piece = Piece::named(name).unwrap();
            let from = usize::from(piece.from);
            std::str::from_utf8(&out[from..from + usize::from(piece.len)]).unwrap()
        };
        let is_hex = |text: &str| text.bytes().all(|byte| HEX.contains(&byte));
        assert!(part("hash").bytes().all(|byte| LETTERS.contains(&byte)));
        assert!(part("suffix").bytes().all(|byte| LETTERS.contains(&byte)));
        assert!(is_hex(part("id")) && is_hex(part("short")));
        let uid: Vec<_> = part("uid").split('-').collect();
        assert_eq!(uid.iter().map(|part| part.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert!(uid.iter().all(|part| is_hex(part)) && uid[2].starts_with('4'));
        let mut other = [b'?'; WIDTH];
        write(&mut other, 8);
        assert_ne!(out, other);
    }

    #[test]
    fn generations_are_spread_evenly() {
        let churn = Churn { life_ticks: 1000.0 };
        for target in (0..20).map(mix) {
            let changed = |from: u64, to: u64| {
                let moved = |unit: &usize| {
                    churn.generation(*unit, target, from) != churn.generation(*unit, target, to)
                };
                (0..100).filter(moved).count()
            };
            assert_eq!(changed(0, 1000), 100);
            for tenth in 0..10 {
                let count = changed(tenth * 100, tenth * 100 + 100);
                assert!((8..=12).contains(&count), "{count} in a tenth");
            }
        }
        let never = Churn { life_ticks: f64::INFINITY };
        assert_eq!(never.generation(3, 77, u64::MAX), 0);
    }
}
