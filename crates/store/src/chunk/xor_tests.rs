//! Checks the XOR encoding against a slow model that writes bits as characters.

use proptest::prelude::*;

use super::*;

const STALE: u64 = 0x7ff0_0000_0000_0002;

/// The chunk as a string of `0` and `1`, straight from the description of the format.
#[derive(Default)]
struct Model {
    text: String,
    samples: Vec<(i64, u64)>,
    delta: i64,
    window: Option<(u32, u32)>,
}

impl Model {
    fn number(&mut self, number: u64, bits: usize) {
        let all = format!("{number:064b}");
        self.text.push_str(&all[64 - bits..]);
    }

    fn varint(&mut self, mut number: u64) {
        loop {
            let more = number > 127;
            self.number(u64::from(more) << 7 | number & 127, 8);
            number >>= 7;
            if !more {
                break;
            }
        }
    }

    fn push(&mut self, timestamp: i64, value: u64) {
        let Some(&(last, old)) = self.samples.last() else {
            let twice = i128::from(timestamp) * 2;
            self.varint(if twice < 0 { -twice - 1 } else { twice } as u64);
            self.number(value, 64);
            self.samples.push((timestamp, value));
            return;
        };
        let delta = timestamp - last;
        if self.samples.len() == 1 {
            self.varint(delta as u64);
        } else {
            match delta - self.delta {
                0 => self.number(0, 1),
                d @ -8191..=8192 => {
                    self.number(0b10, 2);
                    self.number(d as u64, 14);
                }
                d @ -65535..=65536 => {
                    self.number(0b110, 3);
                    self.number(d as u64, 17);
                }
                d @ -524_287..=524_288 => {
                    self.number(0b1110, 4);
                    self.number(d as u64, 20);
                }
                d => {
                    self.number(0b1111, 4);
                    self.number(d as u64, 64);
                }
            }
        }
        self.delta = delta;
        self.value(value ^ old);
        self.samples.push((timestamp, value));
    }

    fn value(&mut self, xor: u64) {
        if xor == 0 {
            return self.number(0, 1);
        }
        let (leading, trailing) = (xor.leading_zeros().min(31), xor.trailing_zeros());
        match self.window {
            Some((l, t)) if l <= leading && t <= trailing => {
                self.number(0b10, 2);
                self.number(xor >> t, (64 - l - t) as usize);
            }
            _ => {
                self.window = Some((leading, trailing));
                self.number(0b11, 2);
                self.number(u64::from(leading), 5);
                self.number(u64::from(64 - leading - trailing) % 64, 6);
                self.number(xor >> trailing, (64 - leading - trailing) as usize);
            }
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = (self.samples.len() as u16).to_be_bytes().to_vec();
        for byte in self.text.as_bytes().chunks(8) {
            let text = format!("{:0<8}", std::str::from_utf8(byte).unwrap());
            bytes.push(u8::from_str_radix(&text, 2).unwrap());
        }
        bytes
    }
}

fn encode(samples: &[(i64, u64)]) -> (Encoder, Vec<u8>) {
    let mut encoder = Encoder::new();
    // Scratch must not shine through.
    let mut buffer = vec![0xee; HEADER + samples.len() * SAMPLE_BYTES_MAX];
    for &(timestamp, value) in samples {
        encoder.append(&mut buffer, timestamp, f64::from_bits(value)).unwrap();
    }
    if samples.is_empty() {
        buffer[..HEADER].fill(0);
    }
    buffer.truncate(encoder.len());
    (encoder, buffer)
}

fn decoded(chunk: &[u8], from: i64, to: i64) -> Result<Vec<(i64, u64)>, Damage> {
    let mut samples = Samples::default();
    decode(chunk, from, to, &mut samples)?;
    assert_eq!(samples.timestamps.len(), samples.values.len());
    let values = samples.values.iter().map(|value| value.to_bits());
    Ok(samples.timestamps.iter().copied().zip(values).collect())
}

fn check(samples: &[(i64, u64)]) {
    let mut model = Model::default();
    for &(timestamp, value) in samples {
        model.push(timestamp, value);
    }
    let (encoder, bytes) = encode(samples);
    assert_eq!(bytes, model.bytes(), "{samples:?}");
    assert_eq!(usize::from(encoder.count()), samples.len());
    assert_eq!(decoded(&bytes, i64::MIN, i64::MAX).unwrap(), samples);
    assert_eq!(Encoder::resume(&bytes).unwrap(), encoder, "{samples:?}");
    let mut growing = Encoder::new();
    let mut grown = vec![0; HEADER];
    for &(timestamp, value) in samples {
        growing.append_growing(&mut grown, timestamp, f64::from_bits(value)).unwrap();
    }
    assert_eq!(grown, bytes);
}

#[test]
fn the_edges_of_every_field_survive() {
    let edges = [
        0,
        1,
        -1,
        8191,
        8192,
        8193,
        -8190,
        -8191,
        -8192,
        65535,
        65536,
        65537,
        -65535,
        -65536,
        524_287,
        524_288,
        524_289,
        -524_287,
        -524_288,
        1 << 31,
        1 << 40,
    ];
    for edge in edges {
        // The third sample's difference of differences is the edge.
        let delta = 1 << 30;
        for next in [0, 1, delta] {
            let third = 2 * delta + edge;
            if third <= delta {
                continue;
            }
            check(&[(0, 1), (delta, 1), (third, 2), (third + delta + edge + next + delta, 3)]);
        }
    }
    let values = [
        0,
        1,
        u64::MAX,
        1 << 63,
        STALE,
        0x7ff8_0000_0000_0001,
        f64::INFINITY.to_bits(),
        f64::NEG_INFINITY.to_bits(),
        f64::MIN_POSITIVE.to_bits(),
        5e-324_f64.to_bits(),
        (-0.0_f64).to_bits(),
        1.5_f64.to_bits(),
    ];
    for a in values {
        for b in values {
            for c in values {
                check(&[(-5, a), (10_000, b), (20_000, c), (30_000, a)]);
            }
        }
    }
    for start in [i64::MIN, i64::MIN / 2, -1, 0, 1, i64::MAX / 2, i64::MAX - 3] {
        check(&[(start, 7), (start + 1, 7), (start + 2, STALE), (start + 3, 7)]);
    }
    check(&[]);
}

#[test]
fn a_buffer_without_room_is_refused_and_left_alone() {
    let samples: Vec<_> = (0..200_i64)
        .map(|i| (i * i * 1_000 + i, (i as f64 * 1.1).to_bits().rotate_left(i as u32 % 3)))
        .collect();
    let (_, whole) = encode(&samples);
    for room in HEADER..whole.len() + 2 {
        let mut buffer = vec![0xee; room];
        let mut encoder = Encoder::new();
        let mut fitted = 0;
        for &(timestamp, value) in &samples {
            let before = (encoder, buffer[..encoder.len()].to_vec());
            if encoder.append(&mut buffer, timestamp, f64::from_bits(value)) == Err(Full) {
                assert_eq!(encoder, before.0);
                if encoder.count() > 0 {
                    assert_eq!(
                        decoded(&buffer[..encoder.len()], i64::MIN, i64::MAX).unwrap(),
                        samples[..fitted]
                    );
                }
                break;
            }
            fitted += 1;
        }
        assert!(room >= whole.len() || fitted < samples.len(), "room {room}");
        assert!(room < whole.len() || fitted == samples.len(), "room {room}");
    }
}

#[test]
fn a_chunk_holds_no_more_than_its_count_can_say() {
    let mut encoder = Encoder::new();
    let mut buffer = vec![0; 40_000];
    for i in 0..65_535 {
        encoder.append(&mut buffer, i * 15_000, 1.0).unwrap();
    }
    assert_eq!(encoder.append(&mut buffer, 65_535 * 15_000, 1.0), Err(Full));
    assert_eq!(decoded(&buffer[..encoder.len()], 0, i64::MAX).unwrap().len(), 65_535);
}

#[test]
fn a_missing_byte_is_noticed() {
    let samples: Vec<_> =
        (0..120_i64).map(|i| (1_000 * i + i % 3, (i as f64).sqrt().to_bits())).collect();
    let (_, bytes) = encode(&samples);
    for end in 0..bytes.len() {
        assert_eq!(decoded(&bytes[..end], i64::MIN, i64::MAX), Err(Damage::Short), "{end}");
    }
}

fn arbitrary_samples() -> impl Strategy<Value = Vec<(i64, u64)>> {
    let step = prop_oneof![Just(15_000_i64), 14_990..15_010_i64, 1..2_000_000_i64, 1..1_i64 << 40];
    let value = prop_oneof![
        any::<u64>(),
        (0..1000_u32).prop_map(|n| f64::from(n).to_bits()),
        any::<f64>().prop_map(f64::to_bits),
        Just(STALE),
    ];
    (-1_i64 << 42..1_i64 << 42, prop::collection::vec((step, value), 0..150)).prop_map(
        |(mut timestamp, steps)| {
            steps
                .into_iter()
                .map(|(step, value)| {
                    timestamp += step;
                    (timestamp, value)
                })
                .collect()
        },
    )
}

proptest! {
    #[test]
    fn bytes_are_those_of_the_model(samples in arbitrary_samples()) {
        check(&samples);
    }

    #[test]
    fn resuming_anywhere_gives_the_same_bytes(samples in arbitrary_samples(), at in 0..150_usize) {
        let at = at.min(samples.len());
        let (_, mut bytes) = encode(&samples[..at]);
        let mut encoder = Encoder::resume(&bytes).unwrap();
        for &(timestamp, value) in &samples[at..] {
            encoder.append_growing(&mut bytes, timestamp, f64::from_bits(value)).unwrap();
        }
        prop_assert_eq!(bytes, encode(&samples).1);
    }

    #[test]
    fn a_range_cuts_both_ends(samples in arbitrary_samples(), a in 0..150_usize, b in 0..150_usize) {
        prop_assume!(!samples.is_empty());
        let (from, to) = (samples[a % samples.len()].0, samples[b % samples.len()].0 - 1);
        let expected: Vec<_> =
            samples.iter().copied().filter(|(t, _)| (from..=to).contains(t)).collect();
        prop_assert_eq!(decoded(&encode(&samples).1, from, to).unwrap(), expected);
    }

    #[test]
    fn damage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(samples) = decoded(&bytes, i64::MIN, i64::MAX) {
            prop_assert!(samples.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
        let _ = Encoder::resume(&bytes);
    }
}
