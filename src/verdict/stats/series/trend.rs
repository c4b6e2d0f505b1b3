//! A series' slope, with an interval that holds although neighbours resemble one another.
//!
//! Main type: [`Trend`]. The slope is Theil's and Sen's; its interval is Sen's (1968), from Kendall's S, whose
//! variance is multiplied by Hamed's and Rao's factor (1998) for autocorrelated values. Their own
//! estimate of the autocorrelations (of ranks, the significant ones alone) covers 75–93 % where 95 % are
//! promised; here the residuals are taken for an AR(1) process, its coefficient with the correction for a
//! fitted line (Kendall 1954; Marriott and Pope 1954), not below 0, and Student's t stands for the normal
//! quantile. `tests/it/history` measures the coverage.
//!
//! Refuses to know: what the values are and how far apart they were taken.

use super::theil_sen::slopes;
use crate::stats::{mean, median, t_quantile};

/// Fewest values of a trend: the correction for a fitted line has no meaning with fewer.
const FEWEST: usize = 6;

/// The greatest autocorrelation that is believed: beyond it a series has no slope that it could show.
const MOST: f64 = 0.95;

/// Change a step, in the values' unit, with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    pub slope: f64,
    pub low: f64,
    pub high: f64,
}

/// The trend of values at equal steps.
///
/// `None` for fewer than six values and where a value is not finite. Constants have slope 0 and an interval
/// without width. The interval has no bounds where the values resemble one another so much that all of them
/// together say less than four independent ones would.
pub fn trend(values: &[f64]) -> Option<Trend> {
    if values.len() < FEWEST || values.iter().any(|v| !v.is_finite()) {
        return None;
    }
    let steps: Vec<f64> = (0..values.len()).map(|i| i as f64).collect();
    let mut slopes = slopes(&steps, values);
    let slope = median(&slopes)?;
    let n = values.len() as f64;
    let inflation = inflation(autocorrelation(values, slope), values.len());
    let effective = n / inflation;
    let (low, high) = match t_quantile(0.975, effective - 2.0) {
        Some(quantile) if effective >= 4.0 => {
            let variance = n * (n - 1.0) * (2.0 * n + 5.0) / 18.0 * inflation;
            bounds(&mut slopes, quantile * variance.sqrt())
        }
        _ => (f64::NEG_INFINITY, f64::INFINITY),
    };
    Some(Trend { slope, low, high })
}

/// The slopes so many places to either side of the middle one; no bound where there are not so many.
fn bounds(slopes: &mut [f64], half: f64) -> (f64, f64) {
    let rank = (slopes.len() as f64 - half) / 2.0;
    if rank < 0.0 {
        return (f64::NEG_INFINITY, f64::INFINITY);
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at least 0 and below the number of slopes"
    )]
    let rank = (rank.floor() as usize).min(slopes.len() - 1);
    let last = slopes.len() - 1;
    let mut at = |rank: usize| *slopes.select_nth_unstable_by(rank, f64::total_cmp).1;
    (at(rank), at(last - rank))
}

/// First autocorrelation of what the slope leaves, corrected for the line that was fitted.
fn autocorrelation(values: &[f64], slope: f64) -> f64 {
    let left: Vec<f64> = values
        .iter()
        .enumerate()
        .map(|(i, value)| value - slope * i as f64)
        .collect();
    let centre = mean(&left).unwrap_or_default();
    let products = left
        .windows(2)
        .map(|pair| (pair[0] - centre) * (pair[1] - centre));
    let squares: f64 = left.iter().map(|v| (v - centre).powi(2)).sum();
    if squares <= 0.0 {
        return 0.0;
    }
    let n = left.len() as f64;
    let raw = products.sum::<f64>() / squares;
    ((n * raw + 2.0) / (n - 4.0)).clamp(0.0, MOST)
}

/// By how much an AR(1) process of coefficient `rho` widens the variance of S over `n` values (Hamed and
/// Rao 1998, equation 10).
fn inflation(rho: f64, n: usize) -> f64 {
    let all = n as f64;
    let mut sum = 0.0;
    let mut power = 1.0;
    for lag in 1..n {
        let rest = all - lag as f64;
        power *= rho;
        sum += rest * (rest - 1.0) * (rest - 2.0) * power;
    }
    1.0 + 2.0 * sum / (all * (all - 1.0) * (all - 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(values: &[f64], expect: Option<(f64, f64, f64)>) {
        let found = trend(values).map(|t| (t.slope, t.low, t.high));
        assert_eq!(found, expect, "{values:?}");
    }

    #[test]
    fn climbs_from_nothing() {
        check(&[], None);
        check(&[1.0], None);
        check(&[1.0, 2.0], None);
        check(&[1.0, 2.0, 3.0, 4.0, 5.0], None);
        check(&[1.0, 2.0, 3.0, 4.0, 5.0, f64::NAN], None);
        check(&[2.0; 10], Some((0.0, 0.0, 0.0)));
        let line: Vec<f64> = (0..12).map(|i| 3.0 - 0.5 * f64::from(i)).collect();
        check(&line, Some((-0.5, -0.5, -0.5)));
    }

    /// By hand: n = 10 and no autocorrelation, so S varies by 10·9·25/18 = 125; t(.975, 8) = 2.306004, half
    /// the width is 25.782 of 45 slopes, and the bounds are the 10th from either end.
    #[test]
    fn independent_values_have_sens_interval() {
        let values = [3.0, 1.0, 4.0, 1.5, 5.0, 2.6, 5.3, 2.8, 6.0, 3.1];
        let found = trend(&values).unwrap();
        assert!(autocorrelation(&values, found.slope) <= 0.0);
        let steps: Vec<f64> = (0..10).map(f64::from).collect();
        let mut all = slopes(&steps, &values);
        all.sort_by(f64::total_cmp);
        assert_eq!((found.low, found.high), (all[9], all[35]));
    }

    #[test]
    fn values_that_follow_one_another_widen_it() {
        // Of four values lag 1 weighs 3·2·1 of 4·3·2, twice; of three no lag weighs anything.
        for (rho, n, expect) in [(0.0, 20, 1.0), (0.5, 3, 1.0), (0.5, 4, 1.25)] {
            let found = inflation(rho, n);
            assert!((found - expect).abs() < 1e-12, "{rho} {n}: {found}");
        }
        let wave: Vec<f64> = (0..30).map(|i| (f64::from(i) / 5.0).sin()).collect();
        assert!(trend(&wave).unwrap().low.is_infinite());
    }

    proptest! {
        #[test]
        fn shift_and_scale(values in prop::collection::vec(-10.0..10.0_f64, 8..30), shift in -10.0..10.0_f64, scale in 0.5..2.0_f64) {
            let moved: Vec<f64> = values.iter().map(|v| v * scale + shift).collect();
            let (plain, moved) = (trend(&values).unwrap(), trend(&moved).unwrap());
            prop_assert!((moved.slope - plain.slope * scale).abs() < 1e-9);
            prop_assert!(plain.low <= plain.slope && plain.slope <= plain.high);
        }
    }
}
