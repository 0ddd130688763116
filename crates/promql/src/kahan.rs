//! Kahan's compensated sum in Neumaier's form.
//!
//! Infinities are kept: once the sum is infinite, the compensation is zero.

/// A sum and what rounding lost of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Kahan {
    pub(crate) sum: f64,
    pub(crate) lost: f64,
}

impl Kahan {
    /// A sum of one number.
    pub(crate) fn new(value: f64) -> Self {
        Kahan { sum: value, lost: 0.0 }
    }

    /// Adds a number. Steady.
    #[inline]
    pub(crate) fn add(&mut self, value: f64) {
        let sum = self.sum + value;
        if sum.is_infinite() {
            self.lost = 0.0;
        } else if self.sum.abs() >= value.abs() {
            self.lost += (self.sum - sum) + value;
        } else {
            self.lost += (value - sum) + self.sum;
        }
        self.sum = sum;
    }

    /// Adds another sum.
    #[inline]
    pub(crate) fn merge(&mut self, other: Kahan) {
        self.add(other.sum);
        if self.sum.is_finite() {
            self.lost += other.lost;
        }
    }

    /// The sum; what was lost is added unless the sum is infinite.
    #[inline]
    pub(crate) fn value(self) -> f64 {
        if self.sum.is_infinite() { self.sum } else { self.sum + self.lost }
    }

    pub(crate) fn scale(&mut self, factor: f64) {
        self.sum *= factor;
        self.lost *= factor;
    }

    pub(crate) fn divide(&mut self, divisor: f64) {
        self.sum /= divisor;
        self.lost /= divisor;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_survive_large_ones() {
        let mut sum = Kahan::default();
        for value in [1e100, 1.0, -1e100] {
            sum.add(value);
        }
        assert_eq!(sum.value(), 1.0);
        sum.add(f64::INFINITY);
        assert_eq!(sum.value(), f64::INFINITY);
    }
}
