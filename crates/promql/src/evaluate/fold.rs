//! Sums and extremes of a sliding window, each sample touched a constant number of times.
//!
//! A sum cannot take a sample back without losing digits, so it is kept in two halves: sums of all
//! suffixes of the older half, and one running sum of the newer half. When the window leaves the
//! older half behind, the newer half becomes the older one.

use std::collections::VecDeque;

use super::window::View;
use crate::kahan::Kahan;

/// Sums of a sliding window.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    /// `suffixes[i]` is the sum from place `base + i` up to `middle`.
    suffixes: Vec<Kahan>,
    base: usize,
    middle: usize,
    newer: Kahan,
    /// Up to where `newer` reaches.
    end: usize,
}

impl Sums {
    pub(crate) fn clear(&mut self) {
        *self = Sums { suffixes: std::mem::take(&mut self.suffixes), ..Sums::default() };
        self.suffixes.clear();
    }

    /// The sum of the window. Windows must come in order.
    pub(crate) fn sum(&mut self, view: &View<'_, f64>) -> Kahan {
        let (low, high) = (view.first, view.first + view.len());
        if low >= self.middle || self.end < low {
            self.rebuild(view);
        } else {
            for value in &view.values[self.end - low..] {
                self.newer.add(*value);
            }
            self.end = high;
        }
        match self.suffixes.get(low - self.base) {
            Some(older) if low < self.middle => {
                let mut sum = *older;
                sum.merge(self.newer);
                sum
            }
            _ => self.newer,
        }
    }

    fn rebuild(&mut self, view: &View<'_, f64>) {
        let (low, high) = (view.first, view.first + view.len());
        self.suffixes.clear();
        let mut sum = Kahan::default();
        for value in view.values.iter().rev() {
            sum.add(*value);
            self.suffixes.push(sum);
        }
        self.suffixes.reverse();
        self.base = low;
        self.middle = high;
        self.end = high;
        self.newer = Kahan::default();
    }
}

/// The smallest or largest value of a sliding window: candidates that no later value beats.
#[derive(Debug, Default)]
pub(crate) struct Extremes {
    candidates: VecDeque<(usize, f64)>,
    next: usize,
}

impl Extremes {
    pub(crate) fn clear(&mut self) {
        self.candidates.clear();
        self.next = 0;
    }

    /// The extreme of the window; NaN only if there is nothing else. Windows must come in order, and
    /// all calls between two [`Extremes::clear`] want the same end.
    pub(crate) fn extreme(&mut self, view: &View<'_, f64>, smallest: bool) -> f64 {
        let (low, high) = (view.first, view.first + view.len());
        for place in self.next.max(low)..high {
            let value = view.values[place - low];
            if value.is_nan() {
                continue;
            }
            let beaten = |other: f64| if smallest { other > value } else { other < value };
            while self.candidates.back().is_some_and(|(_, other)| beaten(*other)) {
                self.candidates.pop_back();
            }
            self.candidates.push_back((place, value));
        }
        self.next = high;
        while self.candidates.front().is_some_and(|(place, _)| *place < low) {
            self.candidates.pop_front();
        }
        self.candidates.front().map_or(f64::NAN, |(_, value)| *value)
    }
}
