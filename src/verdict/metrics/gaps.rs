//! Times between events, of which a run can have hundreds of millions.
//!
//! Main type: [`Gaps`].

use crate::stats;

/// Values that are all kept. Of more, only their numbers by bucket are.
const MOST_KEPT: usize = 1 << 22;

/// Bits of a value's fraction by which buckets differ: a bucket is a 8,192nd of its octave wide.
const BITS: u32 = 13;
const SHIFT: u32 = f64::MANTISSA_DIGITS - 1 - BITS;

/// Values in milliseconds. Up to four million are kept, and quantiles are exact. Of more, a quantile is the middle of a
/// bucket, right to 0.0062 %, and values of 0 or below count as 0. Number, least, greatest and mean are exact always.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gaps {
    kept: Vec<f64>,
    counted: Option<Buckets>,
}

#[derive(Clone, Debug, PartialEq)]
struct Buckets {
    n: usize,
    sum: f64,
    least: f64,
    greatest: f64,
    zeros: usize,
    /// By the leading bits of the value, from those of [`Self::first`] on.
    counts: Vec<usize>,
    first: u64,
}

impl Gaps {
    /// All values, in order; empty where they are too many to be kept.
    pub fn kept(&self) -> &[f64] {
        &self.kept
    }

    pub fn len(&self) -> usize {
        self.counted.as_ref().map_or(self.kept.len(), |of| of.n)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn mean(&self) -> Option<f64> {
        match &self.counted {
            None => stats::mean(&self.kept),
            Some(of) => Some(of.sum / of.n as f64),
        }
    }

    /// As [`stats::quantile`].
    pub fn quantile(&self, p: f64) -> Option<f64> {
        match &self.counted {
            None => stats::quantile(&self.kept, p).map(|of| of.value),
            Some(of) => Some(of.quantile(p)),
        }
    }

    fn push(&mut self, value: f64) {
        match &mut self.counted {
            Some(of) => of.count(value),
            None if self.kept.len() < MOST_KEPT => self.kept.push(value),
            None => {
                let mut of = Buckets::of(std::mem::take(&mut self.kept));
                of.count(value);
                self.counted = Some(of);
            }
        }
    }
}

impl Extend<f64> for Gaps {
    fn extend<I: IntoIterator<Item = f64>>(&mut self, values: I) {
        for value in values {
            self.push(value);
        }
    }
}

impl FromIterator<f64> for Gaps {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut gaps = Self::default();
        gaps.extend(values);
        gaps
    }
}

impl Buckets {
    fn of(values: Vec<f64>) -> Self {
        let mut buckets = Self {
            n: 0,
            sum: 0.0,
            least: f64::INFINITY,
            greatest: f64::NEG_INFINITY,
            zeros: 0,
            counts: Vec::new(),
            first: 0,
        };
        for value in values {
            buckets.count(value);
        }
        buckets
    }

    fn count(&mut self, value: f64) {
        self.n += 1;
        self.sum += value;
        self.least = self.least.min(value);
        self.greatest = self.greatest.max(value);
        if value > 0.0 {
            *self.at(value.to_bits() >> SHIFT) += 1;
        } else {
            self.zeros += 1;
        }
    }

    /// The count of a bucket. Buckets of positive values are in their order.
    fn at(&mut self, bucket: u64) -> &mut usize {
        if self.counts.is_empty() {
            self.first = bucket;
        }
        if bucket < self.first {
            let more = (self.first - bucket) as usize;
            self.counts.splice(..0, std::iter::repeat_n(0, more));
            self.first = bucket;
        }
        let place = (bucket - self.first) as usize;
        if place >= self.counts.len() {
            self.counts.resize(place + 1, 0);
        }
        &mut self.counts[place]
    }

    fn quantile(&self, p: f64) -> f64 {
        let h = (self.n - 1) as f64 * p;
        let (below, share) = (h.floor() as usize, h - h.floor());
        let low = self.ordered(below);
        match share > 0.0 {
            true => low + (self.ordered(below + 1) - low) * share,
            false => low,
        }
    }

    /// The order statistic of this rank, from 0.
    fn ordered(&self, rank: usize) -> f64 {
        if rank == 0 {
            return self.least;
        }
        if rank + 1 >= self.n {
            return self.greatest;
        }
        let mut seen = self.zeros;
        if rank < seen {
            return 0.0;
        }
        let found = self.counts.iter().position(|count| {
            seen += count;
            rank < seen
        });
        let bucket = self.first + found.unwrap_or(0) as u64;
        let middle = f64::from_bits((bucket << SHIFT) + (1 << (SHIFT - 1)));
        middle.clamp(self.least, self.greatest)
    }
}

#[cfg(test)]
mod tests {
    use super::{Buckets, Gaps};
    use crate::stats;
    use proptest::prelude::*;

    fn counted(values: &[f64]) -> Gaps {
        Gaps {
            kept: Vec::new(),
            counted: Some(Buckets::of(values.to_vec())),
        }
    }

    proptest! {
        #[test]
        fn counts_give_quantiles_as_close_as_is_said(
            values in prop::collection::vec(prop_oneof![3 => 1e-6..1e5_f64, 1 => 1e-6..1e-3_f64, 1 => Just(0.0)], 1..300),
            p in 0.0..=1.0_f64,
        ) {
            let (kept, counted): (Gaps, Gaps) = (values.iter().copied().collect(), counted(&values));
            prop_assert_eq!(kept.quantile(p), stats::quantile(&values, p).map(|of| of.value));
            let (exact, close) = (kept.quantile(p).unwrap(), counted.quantile(p).unwrap());
            prop_assert!((exact - close).abs() <= 0.62e-4 * exact, "{} {}", exact, close);
            for p in [0.0, 1.0] {
                prop_assert_eq!(kept.quantile(p), counted.quantile(p));
            }
            prop_assert_eq!(kept.len(), counted.len());
            prop_assert!((kept.mean().unwrap() - counted.mean().unwrap()).abs() < 1e-9);
        }
    }

    #[test]
    fn more_values_than_are_kept_are_counted() {
        let all = super::MOST_KEPT + 1;
        let gaps: Gaps = (0..all).map(|number| number as f64).collect();
        assert_eq!((gaps.len(), gaps.kept().len()), (all, 0));
        let middle = gaps.quantile(0.5).unwrap();
        assert!((middle / (all as f64 / 2.0) - 1.0).abs() < 1e-4, "{middle}");
        assert_eq!(gaps.quantile(1.0), Some(all as f64 - 1.0));
    }

    #[test]
    fn nothing_has_no_quantile() {
        let none = Gaps::default();
        assert!(none.is_empty() && none.mean().is_none() && none.quantile(0.5).is_none());
    }
}
