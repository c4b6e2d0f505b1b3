//! Hodges and Lehmann's shift between two samples, with the interval that belongs to Mann and Whitney's test.

use super::estimate::{Degenerate, all_finite};
use super::mann_whitney::exact;
use crate::stats::{median, t_quantile};

/// Up to so many pairs of values the interval's rank is exact; beyond it is the normal one.
const EXACT_PAIRS: usize = 400;

/// A shift and its interval, in the values' unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    pub est: f64,
    /// Infinite where so few values carry no interval of the confidence.
    pub interval: (f64, f64),
}

/// By how much `a` lies above `b`: the median of all differences a − b (Hodges and Lehmann 1963). The interval
/// of confidence `conf` in (0, 1) is that of Moses (Hollander and Wolfe 1999, section 4.3): from the k-th least
/// difference to the k-th greatest, k the greatest with P(U < k) ≤ (1 − conf) / 2; it holds at least `conf`.
/// Memory and time grow with the product of the lengths.
///
/// Errors: an empty sample, a value that is not finite. One value each has an infinite interval; constants
/// have one of no width, if there are enough of them.
pub fn hodges_lehmann(a: &[f64], b: &[f64], conf: f64) -> Result<Shift, Degenerate> {
    if a.is_empty() || b.is_empty() {
        return Err(Degenerate::TooFew { n: 0 });
    }
    all_finite(a)?;
    all_finite(b)?;
    let mut differences: Vec<f64> = a
        .iter()
        .flat_map(|x| b.iter().map(move |y| x - y))
        .collect();
    differences.sort_unstable_by(f64::total_cmp);
    let est = median(&differences).ok_or(Degenerate::NotFinite)?;
    let k = rank(a.len(), b.len(), (1.0 - conf) / 2.0);
    let interval = match k.checked_sub(1).and_then(|i| differences.get(i)) {
        Some(low) => (*low, differences[differences.len() - k]),
        None => (f64::NEG_INFINITY, f64::INFINITY),
    };
    Ok(Shift { est, interval })
}

/// k: how many of the differences lie outside the interval, and one more; 0 where none can.
fn rank(n: usize, m: usize, tail: f64) -> usize {
    if !(tail > 0.0 && tail < 0.5) {
        return 0;
    }
    if n * m <= EXACT_PAIRS {
        let distribution = exact(n, m);
        let below = distribution.iter().scan(0.0, |sum, p| {
            *sum += p;
            Some(*sum)
        });
        return below.take_while(|p| *p <= tail).count();
    }
    let (n, m) = (n as f64, m as f64);
    let z = t_quantile(1.0 - tail, f64::INFINITY).unwrap_or(f64::INFINITY);
    let at = n * m / 2.0 - z * (n * m * (n + m + 1.0) / 12.0).sqrt();
    at.floor().max(0.0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn climbs_from_nothing() {
        let all = (f64::NEG_INFINITY, f64::INFINITY);
        let check = |a: &[f64], b: &[f64], conf: f64, est: f64, interval: (f64, f64)| {
            let got = hodges_lehmann(a, b, conf).unwrap();
            assert_eq!((got.est, got.interval), (est, interval), "{a:?} {b:?}");
        };
        check(&[3.0], &[1.0], 0.95, 2.0, all);
        check(&[3.0, 4.0], &[1.0, 2.0], 0.95, 2.0, all);
        check(&[3.0, 4.0], &[1.0, 2.0], 0.6, 2.0, (1.0, 3.0));
        check(&[5.0; 8], &[4.0; 8], 0.95, 1.0, (1.0, 1.0));
        check(&[5.0; 30], &[4.0; 30], 0.95, 1.0, (1.0, 1.0));
        for conf in [0.0, 1.0, f64::NAN] {
            check(&[5.0; 8], &[4.0; 8], conf, 1.0, all);
        }
        assert_eq!(
            hodges_lehmann(&[], &[1.0], 0.95),
            Err(Degenerate::TooFew { n: 0 })
        );
        assert_eq!(
            hodges_lehmann(&[f64::NAN], &[1.0], 0.95),
            Err(Degenerate::NotFinite)
        );
    }

    proptest! {
        #[test]
        fn shift_and_turn(a in prop::collection::vec(-1e3..1e3_f64, 1..12), b in prop::collection::vec(-1e3..1e3_f64, 1..12), by in -1e3..1e3_f64) {
            let there = hodges_lehmann(&a, &b, 0.9).unwrap();
            let moved: Vec<f64> = a.iter().map(|v| v + by).collect();
            let shifted = hodges_lehmann(&moved, &b, 0.9).unwrap();
            prop_assert!((shifted.est - there.est - by).abs() < 1e-9);
            let back = hodges_lehmann(&b, &a, 0.9).unwrap();
            prop_assert!((there.est + back.est).abs() < 1e-9);
            let (low, high) = there.interval;
            prop_assert!(low <= there.est && there.est <= high);
            prop_assert!((low + back.interval.1).abs() < 1e-9 || low.is_infinite());
        }
    }
}
