//! How a histogram is written as a label value.

use std::fmt::Write;

use store::FloatHistogram;

use super::buckets;
use crate::number::general;

/// `{count:…, sum:…, [lower,upper]:count, …}` with the populated buckets from low to high.
pub(crate) fn text(histogram: &FloatHistogram) -> String {
    let mut text = format!("{{count:{}, sum:{}", general(histogram.count), general(histogram.sum));
    for bucket in buckets(histogram).iter().filter(|bucket| bucket.count != 0.0) {
        let open = if bucket.lower_inclusive { '[' } else { '(' };
        let close = if bucket.upper_inclusive { ']' } else { ')' };
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            ", {open}{},{}{close}:{}",
            general(bucket.lower),
            general(bucket.upper),
            general(bucket.count)
        );
    }
    text.push('}');
    text
}
