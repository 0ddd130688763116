//! A native histogram for formats that have none: a classic one with few bounds.
//!
//! 1. See which indices hold anything.
//! 2. Halve the schema (two buckets become one, so that the bounds that stay are among the ones before)
//!    until there are at most [`BOUNDS`] bounds between the lowest and the highest.
//! 3. Add the buckets up from the most negative to the highest, and write one at each bound.
//!
//! The bounds are `2^(i·2^-schema)`, those below zero negative, and the zero threshold where something is
//! below or at zero. They depend on what was observed: a histogram that sees a new order of magnitude gets
//! further bounds, or every second one goes. Who needs bounds that stay has the histogram keep explicit
//! ones beside, or asks for protobuf.

/// The most bounds that are made of a native histogram's buckets, `+Inf` and the zero bucket's not
/// counted.
pub(super) const BOUNDS: usize = 20;

/// The most bounds altogether.
const MOST: usize = BOUNDS + 1;

/// Bounds and what is between them, not cumulative.
#[derive(Default)]
pub(super) struct Fewer {
    bounds: [f64; MOST],
    counts: [u64; MOST + 1],
    length: usize,
}

/// Lowest and highest index that hold something.
fn range(buckets: impl Iterator<Item = (i32, u64)>) -> Option<(i32, i32)> {
    let mut range = None;
    for (index, _) in buckets.filter(|(_, count)| *count > 0) {
        let (lowest, highest) = range.unwrap_or((index, index));
        range = Some((index.min(lowest), index.max(highest)));
    }
    range
}

/// The index, at a schema lower by `shift`, of the bucket that holds the one of `index`.
fn coarser(index: i32, shift: u32) -> i32 {
    // Bucket i holds up to base^i: the upper bound goes up.
    (((i64::from(index) - 1) >> shift.min(63)) + 1) as i32
}

/// `2^(index·2^-schema)`.
fn bound(index: i32, schema: i32) -> f64 {
    (f64::from(index) * f64::from(-schema).exp2()).exp2()
}

impl Fewer {
    pub(super) fn new(
        schema: i8,
        (zero_threshold, zero_count): (f64, u64),
        positive: impl Iterator<Item = (i32, u64)> + Clone,
        negative: impl DoubleEndedIterator<Item = (i32, u64)> + Clone,
    ) -> Fewer {
        let (above, below) = (range(positive.clone()), range(negative.clone()));
        let width = |range: Option<(i32, i32)>, shift| {
            range.map_or(0, |(low, high)| {
                i64::from(coarser(high, shift)) - i64::from(coarser(low, shift)) + 1
            })
        };
        let shift = (0..32)
            .find(|shift| width(above, *shift) + width(below, *shift) <= BOUNDS as i64)
            .unwrap_or(32);
        let schema = i32::from(schema) - shift as i32;
        let mut fewer = Fewer::default();
        if let Some((low, high)) = below {
            for index in (coarser(low, shift)..=coarser(high, shift)).rev() {
                fewer.push(-bound(index - 1, schema));
            }
        }
        if below.is_some() || zero_count > 0 {
            fewer.push(zero_threshold);
        }
        if let Some((low, high)) = above {
            for index in coarser(low, shift)..=coarser(high, shift) {
                fewer.push(bound(index, schema));
            }
        }
        for (index, count) in negative.rev() {
            fewer.add(-bound(coarser(index, shift) - 1, schema), count);
        }
        fewer.add(zero_threshold, zero_count);
        for (index, count) in positive {
            fewer.add(bound(coarser(index, shift), schema), count);
        }
        fewer
    }

    /// Bounds have to rise and to be finite; what is not is left out, and its bucket falls to the next.
    fn push(&mut self, bound: f64) {
        let rises = self.bounds().last().is_none_or(|last| bound > *last);
        if rises && bound.is_finite() && self.length < MOST {
            self.bounds[self.length] = bound;
            self.length += 1;
        }
    }

    fn add(&mut self, bound: f64, count: u64) {
        let at = self.bounds().partition_point(|other| *other < bound);
        self.counts[at] = self.counts[at].saturating_add(count);
    }

    pub(super) fn bounds(&self) -> &[f64] {
        &self.bounds[..self.length]
    }

    /// One more than bounds.
    pub(super) fn counts(&self) -> impl Iterator<Item = u64> {
        self.counts[..=self.length].iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::super::metric::dense;
    use super::*;

    #[test]
    fn bounds_are_few_and_hold_what_was_seen() {
        let none = || dense(0, &[]);
        let few = Fewer::new(0, (0.5, 3), dense(1, &[1, 0, 2]), dense(0, &[4, 5]));
        assert_eq!(few.bounds(), [-1.0, -0.5, 0.5, 2.0, 4.0, 8.0]);
        assert_eq!(few.counts().collect::<Vec<_>>(), [5, 4, 3, 1, 0, 2, 0]);
        // 160 buckets of schema 3 over 20 powers of two.
        let few = Fewer::new(3, (0.0, 0), dense(1, &[1; 160]), none());
        assert_eq!(few.bounds().len(), BOUNDS);
        assert_eq!((few.bounds()[0], few.bounds()[19]), (2.0, f64::from(1 << 20)));
        assert_eq!(few.counts().collect::<Vec<_>>()[..20], [8; 20]);
        assert_eq!(few.counts().last(), Some(0));
        let few = Fewer::new(0, (0.0, 0), none(), none());
        assert_eq!((few.bounds().len(), few.counts().count()), (0, 1));
        // Whatever the indices and schemas, nothing is lost and bounds rise.
        for (schema, low, high) in
            [(20, i32::MIN, i32::MAX), (-10, -1000, 1000), (8, -262_144, 262_144), (0, 5, 5)]
        {
            let ends = [(low, 3), (0, 1), (high, 2)];
            let few = Fewer::new(schema, (1e-9, 4), ends.into_iter(), ends.into_iter());
            assert_eq!(few.counts().sum::<u64>(), 16);
            assert!(few.bounds().is_sorted_by(|a, b| a < b));
            assert!(few.bounds().iter().all(|bound| bound.is_finite()));
        }
    }
}
