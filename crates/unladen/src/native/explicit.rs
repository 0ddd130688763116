//! Which bucket a value belongs to where the bounds are given.

/// Up to here looking at every bound is faster than a search, because nothing has to be predicted.
const FEW: usize = 20;

/// The first bucket whose bound, which belongs to it, is not below `value`; `bounds.len()`, the bucket
/// up to +Inf, if there is none, and for NaN. `bounds` rise. *Steady*.
#[inline]
pub(crate) fn bucket(bounds: &[f64], value: f64) -> usize {
    // Not `value > bound`: NaN is to be past every bound.
    #[expect(clippy::neg_cmp_op_on_partial_ord, reason = "NaN is past every bound")]
    let past = |bound: &f64| !(value <= *bound);
    if bounds.len() <= FEW {
        bounds.iter().map(|bound| usize::from(past(bound))).sum()
    } else {
        bounds.partition_point(past)
    }
}
