use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use proptest::prelude::*;
use testkit::allocations::{Count, count};
use testkit::random::Random;

use super::cell::SEQUENCE;
use super::index::{BOUNDS, MAGNITUDE, index, index_of_normal};
use super::*;

fn shape(schema: i8, zero_threshold: f64, limit: u16) -> Shape {
    Shape::new(schema, zero_threshold, limit).unwrap()
}

fn cell(shape: &Shape) -> Vec<AtomicU64> {
    (0..shape.width()).map(|_| AtomicU64::new(0)).collect()
}

fn recorded(shape: &Shape, values: &[f64]) -> Snapshot {
    let cell = cell(shape);
    for value in values {
        record(shape, &cell, *value);
    }
    read(shape, &cell)
}

fn read(shape: &Shape, cell: &[AtomicU64]) -> Snapshot {
    let mut snapshot = Snapshot::new();
    snapshot.read(shape, cell).unwrap();
    snapshot
}

/// Whole numbers of any size, lowest digits first.
fn square(number: &[u32]) -> Vec<u32> {
    let mut result = vec![0u32; number.len() * 2];
    for (i, a) in number.iter().enumerate() {
        let mut carry = 0u64;
        for (j, b) in number.iter().enumerate() {
            let digit = u64::from(result[i + j]) + u64::from(*a) * u64::from(*b) + carry;
            result[i + j] = digit as u32;
            carry = digit >> 32;
        }
        result[i + number.len()] = carry as u32;
    }
    result
}

/// Whether `number`^256 is below 2^`power`.
fn is_root_below(number: u64, power: u32) -> bool {
    let mut raised = vec![number as u32, (number >> 32) as u32];
    for _ in 0..8 {
        raised = square(&raised);
    }
    let bits = raised
        .iter()
        .rposition(|digit| *digit != 0)
        .map_or(0, |last| (last as u32 + 1) * u32::BITS - raised[last].leading_zeros());
    bits <= power
}

#[test]
fn bounds_are_the_nearest_numbers_to_the_roots() {
    for (k, mantissa) in (0u32..).zip(BOUNDS) {
        // In units of half the last place, so that the ends of what rounds to a number are whole.
        let number = 2 * (1u64 << 52 | mantissa);
        let power = 256 * 53 + k;
        assert!(is_root_below(number - 1, power), "2^({k}/256) is less");
        assert!(!is_root_below(number + 1, power), "2^({k}/256) is more");
    }
}

#[test]
fn indices_are_exact_at_every_bound_and_next_to_it() {
    for exponent in -1022i32..=1023 {
        for (k, mantissa) in (0i32..).zip(BOUNDS) {
            let bits = ((exponent + 1023) as u64) << 52 | mantissa;
            let bound = exponent * 256 + k;
            assert_eq!(index_of_normal(bits), bound - 1, "at 2^({exponent} + {k}/256)");
            assert_eq!(index_of_normal(bits + 1), bound, "above 2^({exponent} + {k}/256)");
            if bits > 1 << 52 {
                assert_eq!(index_of_normal(bits - 1), bound - 1, "below 2^({exponent} + {k}/256)");
            }
        }
    }
}

#[test]
fn every_schema_has_its_bounds_in_a_cell() {
    for schema in COARSEST..=FINEST {
        let shape = shape(schema, 0.0, 400);
        let step = f64::from(-schema).exp2();
        for bound in -3i32..=(3 << schema.max(0)) {
            // Exact below schema 1, and from the table above.
            let power = f64::from(bound) * step;
            let (whole, part) = (power.floor(), ((power - power.floor()) * 256.0) as usize);
            let upper = f64::from_bits(((whole + 1023.0) as u64) << 52 | BOUNDS[part]);
            for (value, first) in [
                (upper.next_down(), bound - 1),
                (upper, bound - 1),
                (upper.next_up(), bound),
                (-upper, bound - 1),
            ] {
                let snapshot = recorded(&shape, &[value]);
                let (side, other) = if value > 0.0 {
                    (snapshot.positive(), snapshot.negative())
                } else {
                    (snapshot.negative(), snapshot.positive())
                };
                assert_eq!((side.first(), side.counts()), (first, &[1][..]), "{schema} {value}");
                assert!(other.counts().is_empty());
                assert_eq!(snapshot.schema(), schema);
            }
        }
    }
}

#[test]
fn subnormal_numbers_have_the_index_of_their_scaled_self() {
    let mut random = Random::new(1);
    let scale = 600f64.exp2();
    for bits in (0..52).map(|bit| 1u64 << bit).chain((0..2_000).map(|_| random.next_u64() >> 12)) {
        for bits in [bits.max(2) - 1, bits.max(1), bits + 1] {
            let scaled = (f64::from_bits(bits) * scale).to_bits();
            assert_eq!(index(bits), index_of_normal(scaled) - 600 * 256, "{bits:#x}");
        }
    }
}

/// The index in schema 8, by looking at every bound.
fn slow_index(value: f64) -> i32 {
    let value = value.abs();
    let (value, scaled_by) =
        if value < f64::MIN_POSITIVE { (value * 600f64.exp2(), 600) } else { (value, 0) };
    let bits = value.to_bits();
    let fraction = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    let below =
        BOUNDS.iter().filter(|bound| f64::from_bits(**bound | 1023 << 52) < fraction).count();
    ((bits >> 52) as i32 - 1023 - scaled_by) * 256 + below as i32 - 1
}

/// Those that belong to a bucket, with the index in schema 8, which is 0 for zeros too.
fn indexed(values: &[f64]) -> Vec<(f64, i32)> {
    let finite = values.iter().filter(|value| value.is_finite());
    finite.map(|value| (*value, if *value == 0.0 { 0 } else { slow_index(*value) })).collect()
}

/// What a histogram of these values is, from all of them at once.
#[derive(Debug, PartialEq)]
struct Model {
    schema: i8,
    zero_threshold: f64,
    zero_count: u64,
    sides: [BTreeMap<i32, u64>; 2],
}

impl Model {
    fn of(schema: i8, zero_threshold: f64, indexed: &[(f64, i32)]) -> Model {
        let mut model = Model { schema, zero_threshold, zero_count: 0, sides: Default::default() };
        for (value, index) in indexed {
            if value.abs() <= zero_threshold {
                model.zero_count += 1;
            } else {
                let at = index.div_euclid(1 << (8 - schema));
                *model.sides[usize::from(*value < 0.0)].entry(at).or_default() += 1;
            }
        }
        model
    }

    fn range(&self) -> i32 {
        let ends = |side: &BTreeMap<i32, u64>| Some((*side.keys().next()?, *side.keys().last()?));
        self.sides.iter().filter_map(ends).map(|(first, last)| last - first + 1).sum()
    }

    fn fitting(shape: &Shape, values: &[f64]) -> Model {
        let values = indexed(values);
        for schema in (COARSEST..=shape.schema).rev() {
            let model = Model::of(schema, shape.zero_threshold, &values);
            if model.range() <= i32::from(shape.limit) {
                return model;
            }
        }
        (-67..64)
            .map(|bound| Model::of(COARSEST, f64::from(bound * 16).exp2(), &values))
            .find(|model| {
                model.zero_threshold >= shape.zero_threshold
                    && model.range() <= i32::from(shape.limit)
            })
            .unwrap()
    }

    fn from(snapshot: &Snapshot) -> Model {
        let side = |buckets: &Buckets| {
            (buckets.first()..)
                .zip(buckets.counts().iter().copied())
                .filter(|(_, count)| *count > 0)
                .collect()
        };
        Model {
            schema: snapshot.schema(),
            zero_threshold: snapshot.zero_threshold(),
            zero_count: snapshot.zero_count(),
            sides: [side(snapshot.positive()), side(snapshot.negative())],
        }
    }
}

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => (-3.0..3.0f64).prop_map(f64::exp2),
        4 => (-60.0..40.0f64).prop_map(f64::exp2),
        2 => (-30.0..30.0f64).prop_map(|power| -power.exp2()),
        2 => any::<u64>().prop_map(f64::from_bits),
        1 => (-40i32..40).prop_map(|power| f64::from(power).exp2()),
        1 => prop::sample::select(vec![
            0.0, -0.0, f64::MAX, f64::MIN, f64::MIN_POSITIVE, 5e-324, -5e-324, 1e-310,
            f64::INFINITY, f64::NEG_INFINITY, f64::NAN,
        ]),
    ]
}

fn any_shape() -> impl Strategy<Value = Shape> {
    let limit = prop_oneof![2u16..12, 12u16..300];
    let threshold = prop_oneof![
        Just(0.0),
        Just(DEFAULT_ZERO_THRESHOLD),
        Just(0.3),
        (-70.0..1.0f64).prop_map(f64::exp2)
    ];
    (COARSEST..=FINEST, threshold, limit)
        .prop_map(|(schema, threshold, limit)| Shape::new(schema, threshold, limit).unwrap())
}

/// Equal, or both NaN.
fn same(a: f64, b: f64) -> bool {
    a == b || a.is_nan() && b.is_nan()
}

proptest! {
    #[test]
    fn a_cell_is_what_all_values_at_once_give(
        shape in any_shape(),
        values in prop::collection::vec(value(), 0..120),
    ) {
        let snapshot = recorded(&shape, &values);
        let finite = || values.iter().filter(|value| value.is_finite());
        prop_assert_eq!(Model::from(&snapshot), Model::fitting(&shape, &values));
        prop_assert_eq!(snapshot.count(), values.len() as u64);
        prop_assert_eq!(snapshot.finite_count(), finite().count() as u64);
        prop_assert!(same(snapshot.finite_sum(), finite().fold(0.0, |sum, value| sum + value)));
        let buckets = snapshot.positive().counts().len() + snapshot.negative().counts().len();
        prop_assert!(buckets <= usize::from(shape.limit));
        if snapshot.finite_sum().is_finite() {
            prop_assert!(same(snapshot.sum(), values.iter().fold(0.0, |sum, value| sum + value)));
        }
    }

    #[test]
    fn merged_cells_are_what_all_values_at_once_give(
        shape in any_shape(),
        parts in prop::collection::vec(prop::collection::vec(value(), 0..60), 1..4),
    ) {
        let mut merged = Snapshot::new();
        for part in &parts {
            merged.merge(&recorded(&shape, part));
        }
        let values = parts.concat();
        prop_assert_eq!(Model::from(&merged), Model::fitting(&shape, &values));
        prop_assert_eq!(merged.count(), values.len() as u64);
    }

    #[test]
    fn a_difference_is_what_came_in_between(
        shape in any_shape(),
        before in prop::collection::vec(value(), 0..60),
        after in prop::collection::vec(value(), 0..60),
    ) {
        let cell = cell(&shape);
        before.iter().for_each(|value| record(&shape, &cell, *value));
        let mut previous = Snapshot::new();
        previous.assign(&read(&shape, &cell));
        after.iter().for_each(|value| record(&shape, &cell, *value));
        let mut delta = read(&shape, &cell);
        delta.subtract(&previous);
        let expected = Model::of(delta.schema(), delta.zero_threshold(), &indexed(&after));
        prop_assert_eq!(Model::from(&delta), expected);
        prop_assert_eq!(delta.count(), after.len() as u64);
        for side in [delta.positive(), delta.negative()] {
            prop_assert_ne!(side.counts().first(), Some(&0));
            prop_assert_ne!(side.counts().last(), Some(&0));
        }
    }

    #[test]
    fn a_quantile_is_off_by_a_bucket_at_most(
        shape in (0i8..=8, 40u16..200).prop_map(|(schema, limit)| shape(schema, 0.0, limit)),
        values in prop::collection::vec((-8.0..8.0f64).prop_map(f64::exp2), 1..200),
        rank in 0.0..1.0f64,
    ) {
        let snapshot = recorded(&shape, &values);
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (rank * values.len() as f64) as usize;
        let (mut below, mut index) = (0, snapshot.positive().first());
        for count in snapshot.positive().counts() {
            below += *count as usize;
            if below > rank {
                break;
            }
            index += 1;
        }
        let width = f64::from(-snapshot.schema()).exp2();
        let middle = ((f64::from(index) + 0.5) * width).exp2();
        let error = (middle / sorted[rank]).log2().abs();
        prop_assert!(error <= width / 2.0 + 1e-12, "{error} {width}");
        // The next schema has no room for the sixteen powers of two that the values may be from.
        let is_finest = snapshot.schema() == shape.schema;
        prop_assert!(is_finest || (32 << snapshot.schema()) + 1 > i32::from(shape.limit));
    }

    #[test]
    fn an_explicit_bucket_is_the_first_with_room(
        bounds in prop::collection::btree_set(-50i32..50, 0..40),
        value in prop_oneof![(-60i32..60).prop_map(f64::from), any::<f64>()],
    ) {
        let bounds: Vec<f64> = bounds.into_iter().map(f64::from).collect();
        let expected = bounds.iter().position(|bound| value <= *bound).unwrap_or(bounds.len());
        prop_assert_eq!(bucket(&bounds, value), expected);
        prop_assert_eq!(bucket(&bounds, f64::NAN), bounds.len());
    }
}

#[test]
fn what_is_not_finite_is_counted_apart() {
    let shape = shape(3, DEFAULT_ZERO_THRESHOLD, DEFAULT_LIMIT);
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    for (values, sum) in [
        (&[1.0, 2.0][..], 3.0),
        (&[1.0, inf, inf], inf),
        (&[1.0, -inf], -inf),
        (&[1.0, inf, -inf], nan),
        (&[1.0, nan], nan),
        (&[f64::MAX, f64::MAX], inf),
    ] {
        let snapshot = recorded(&shape, values);
        assert!(same(snapshot.sum(), sum), "{values:?}");
        assert_eq!(snapshot.count(), values.len() as u64, "{values:?}");
        assert_eq!(snapshot.schema(), 3, "{values:?}");
        let of = |wanted: f64| values.iter().filter(|value| **value == wanted).count() as u64;
        assert_eq!(snapshot.infinite(), [of(inf), of(-inf)], "{values:?}");
        assert_eq!(snapshot.nan(), values.iter().filter(|value| value.is_nan()).count() as u64);
    }
    // Where Prometheus' own client has them: above the bucket of the greatest number.
    let snapshot = recorded(&shape, &[f64::MAX]);
    assert_eq!(snapshot.overflow_index(), snapshot.positive().first() + 1);
    assert_eq!(snapshot.overflow_index() + 1, 8_193);
}

#[test]
fn shapes_are_refused_with_a_reason() {
    for (schema, threshold, limit, reason) in [
        (9, 0.0, 160, "not 9"),
        (-5, 0.0, 160, "not -5"),
        (3, -1.0, 160, "which -1 isn't"),
        (3, f64::NAN, 160, "which NaN isn't"),
        (3, f64::INFINITY, 160, "which inf isn't"),
        (3, 0.0, 1, "not 1"),
    ] {
        let message = Shape::new(schema, threshold, limit).unwrap_err().to_string();
        assert!(message.ends_with(reason), "{message}");
    }
    assert_eq!(shape(3, -0.0, 2).zero_threshold.to_bits() & !MAGNITUDE, 0);
}

#[test]
fn a_suspended_writer_is_waited_for_so_long_and_no_longer() {
    let shape = shape(3, 0.0, 20);
    let cell = cell(&shape);
    record(&shape, &cell, 1.0);
    let even = cell[SEQUENCE].load(Relaxed);
    let mut snapshot = Snapshot::new();
    // Within a change of layout there is nothing to be had.
    cell[SEQUENCE].store(even + 1, Relaxed);
    assert_eq!(snapshot.read(&shape, &cell), Err(super::snapshot::Busy));
    // Within an observation there is.
    cell[SEQUENCE].store(even + (1 << 24), Relaxed);
    assert_eq!(snapshot.read(&shape, &cell), Ok(()));
    assert_eq!(snapshot.count(), 1);
    // Counts that are full do not run into each other.
    cell[SEQUENCE].store(u64::MAX << 25 | 0xff_fffe, Relaxed);
    for value in [1.0, 1e9, 1e-9, 1e30, 1.0] {
        record(&shape, &cell, value);
        assert_eq!(cell[SEQUENCE].load(Relaxed) & (1 | 1 << 24), 0, "nothing is under way");
        assert_eq!(snapshot.read(&shape, &cell), Ok(()));
    }
    assert_eq!(snapshot.count(), 6);
}

#[test]
fn readers_see_every_finished_observation_once() {
    const EACH: u64 = 300;
    let shape = shape(8, 1e-12, 24);
    let cells: Vec<_> = (0..400).map(|_| cell(&shape)).collect();
    let progress: Vec<_> = cells.iter().map(|_| [AtomicU64::new(0), AtomicU64::new(0)]).collect();
    let write = || {
        let mut random = Random::new(7);
        for (cell, [begun, ended]) in cells.iter().zip(&progress) {
            for n in 1..=EACH {
                // Ever wider, of both signs, so that the layout changes all the time.
                let value = ((random.unit() - 0.5) * 0.5 * n as f64).exp2();
                begun.store(n, Release);
                record(&shape, cell, if random.below(4) == 0 { -value } else { value });
                ended.store(n, Release);
            }
        }
    };
    std::thread::scope(|scope| {
        let writer = scope.spawn(write);
        let mut snapshot = Snapshot::new();
        for (cell, [begun, ended]) in cells.iter().zip(&progress) {
            let mut last = 0;
            while last < EACH {
                // A writer that panicked would never get there.
                let is_last = writer.is_finished();
                let least = ended.load(Acquire).max(last);
                if snapshot.read(&shape, cell).is_ok() {
                    let count = snapshot.count();
                    let most = begun.load(Acquire);
                    assert!((least..=most).contains(&count), "{least} {count} {most}");
                    last = count;
                }
                assert!(last == EACH || !is_last, "{last} of {EACH}");
            }
        }
    });
}

#[test]
fn nothing_is_allocated_in_steady_state() {
    let shape = shape(5, DEFAULT_ZERO_THRESHOLD, DEFAULT_LIMIT);
    let cells = [cell(&shape), cell(&shape)];
    let (mut one, mut total, mut previous) = (Snapshot::new(), Snapshot::new(), Snapshot::new());
    previous.clear(&shape);
    let mut round = |wide: f64| {
        for (cell, factor) in cells.iter().zip([1.0, 8.0]) {
            for n in 1..100 {
                record(&shape, cell, factor * wide * f64::from(n));
                record(&shape, cell, -f64::from(n));
            }
        }
        total.clear(&shape);
        for cell in &cells {
            one.read(&shape, cell).unwrap();
            total.merge(&one);
        }
        one.assign(&total);
        total.subtract(&previous);
        previous.assign(&one);
        total.count()
    };
    round(1.0);
    // The second has to scale down too.
    let during = count(|| {
        for wide in [1.0, 1e10, 1e-10] {
            assert_eq!(round(wide), 4 * 99);
        }
    });
    assert_eq!(during, Count::ZERO);
    assert_eq!(one.memory_usage(), 2 * 8 * usize::from(DEFAULT_LIMIT));
}
