//! A slope that a few wild points do not move.

use statrs::distribution::{ContinuousCDF, Normal};

use crate::stats::median;

/// Theil–Sen slope (Sen 1968): the median of the slopes of all pairs with different x, in units of y
/// per unit of x. Up to 29 % of the points may be wild.
///
/// `None` for fewer than two different x, for slices of unequal length and where a value is not finite.
/// A constant y has slope 0.
pub fn theil_sen_slope(x: &[f64], y: &[f64]) -> Option<f64> {
    if x.len() != y.len() || x.iter().chain(y).any(|v| !v.is_finite()) {
        return None;
    }
    median(&slopes(x, y))
}

/// The least slope that the points show: Sen's one-sided bound (1968), which lies above the true slope with
/// probability `chance`, for points whose deviations from a line are independent. With Kendall's S of n points,
/// whose variance without a slope is V = n (n − 1) (2n + 5) / 18, it is the slope above which all but
/// (pairs − z √V) / 2 of the pairs' slopes lie, z the normal quantile of 1 − `chance`. Equal y make it smaller.
///
/// `None` where so few points bound nothing, and as for [`theil_sen_slope`].
pub fn theil_sen_least(x: &[f64], y: &[f64], chance: f64) -> Option<f64> {
    theil_sen_slope(x, y)?;
    let mut slopes = slopes(x, y);
    let n = x.len() as f64;
    let variance = n * (n - 1.0) * (2.0 * n + 5.0) / 18.0;
    let z = Normal::standard().inverse_cdf(1.0 - chance);
    let below = (slopes.len() as f64 - z * variance.sqrt()) / 2.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "above 0 and at most the number of slopes"
    )]
    let rank = (below > 0.0).then(|| below.ceil() as usize - 1);
    let rank = rank.filter(|&rank| rank < slopes.len())?;
    Some(*slopes.select_nth_unstable_by(rank, f64::total_cmp).1)
}

/// The slopes of all pairs with different x, in no order.
pub fn slopes(x: &[f64], y: &[f64]) -> Vec<f64> {
    let mut slopes = Vec::with_capacity(x.len() * x.len().saturating_sub(1) / 2);
    for (i, (xi, yi)) in x.iter().zip(y).enumerate() {
        for (xj, yj) in x[i + 1..].iter().zip(&y[i + 1..]) {
            let run = xj - xi;
            if run.abs() > 0.0 {
                slopes.push((yj - yi) / run);
            }
        }
    }
    slopes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(x: &[f64], y: &[f64], expect: Option<f64>) {
        assert_eq!(theil_sen_slope(x, y), expect, "{x:?} {y:?}");
    }

    #[test]
    fn climbs_from_nothing() {
        check(&[], &[], None);
        check(&[1.0], &[1.0], None);
        check(&[1.0, 1.0], &[1.0, 2.0], None);
        check(&[0.0, 1.0], &[1.0, 3.0], Some(2.0));
        check(&[1.0, 0.0], &[3.0, 1.0], Some(2.0));
        check(&[0.0, 1.0, 2.0], &[5.0, 5.0, 5.0], Some(0.0));
        check(&[0.0, 1.0, 2.0], &[5.0, 4.0, 3.0], Some(-1.0));
        check(&[0.0, 1.0], &[1.0], None);
        check(&[0.0, 1.0], &[1.0, f64::NAN], None);
    }

    #[test]
    fn one_wild_point_does_not_move_it() {
        let x: Vec<f64> = (0..9).map(f64::from).collect();
        let mut y: Vec<f64> = x.iter().map(|v| 3.0 * v).collect();
        y[4] = 1e6;
        check(&x, &y, Some(3.0));
    }

    /// By hand: 9 points vary S by 9·8·23/18 = 92; z(.999) = 3.0902, and (36 − 29.64) / 2 = 3.18 of 36 slopes lie
    /// below, so it is the 4th. Of 6 points, (15 − 3.0902·√(6·5·17/18)) / 2 is below 0.
    #[test]
    fn the_least_slope_has_the_rank_that_sen_gives() {
        let y = [3.0, 1.0, 4.0, 1.5, 5.0, 9.0, 2.6, 5.3, 5.8];
        let x: Vec<f64> = (0..9).map(f64::from).collect();
        let mut all = slopes(&x, &y);
        all.sort_by(f64::total_cmp);
        assert_eq!(theil_sen_least(&x, &y, 0.001), Some(all[3]));
        assert_eq!(theil_sen_least(&x[..6], &y[..6], 0.001), None);
        assert_eq!(theil_sen_least(&[], &[], 0.001), None);
    }

    /// All orders of seven values are as likely where there is no slope. Three pairs' slopes may be the least that
    /// counts, and 1 + 6 + 20 orders have at most two pairs that fall: 27 of 5,040, not above 1 in 100.
    #[test]
    fn chance_shows_a_slope_no_more_often_than_it_may() {
        let x: Vec<f64> = (0..7).map(f64::from).collect();
        let orders = orders(&x);
        let shows = |y: &&Vec<f64>| theil_sen_least(&x, y, 0.01).unwrap() > 0.0;
        assert_eq!(
            (orders.iter().filter(shows).count(), orders.len()),
            (27, 5_040)
        );
    }

    fn orders(values: &[f64]) -> Vec<Vec<f64>> {
        if values.is_empty() {
            return vec![vec![]];
        }
        let with_first = |at: usize| {
            let mut rest = values.to_vec();
            let first = rest.remove(at);
            let rest = orders(&rest).into_iter();
            rest.map(move |rest| [vec![first], rest].concat())
        };
        (0..values.len()).flat_map(with_first).collect()
    }

    proptest! {
        #[test]
        fn shift_scale_and_order(y in prop::collection::vec(-100.0..100.0_f64, 3..20), shift in -10.0..10.0_f64, scale in 0.5..2.0_f64) {
            let x: Vec<f64> = (0..y.len()).map(|i| i as f64).collect();
            let slope = theil_sen_slope(&x, &y).unwrap();
            let moved: Vec<f64> = y.iter().rev().map(|v| v * scale + shift).collect();
            let back: Vec<f64> = x.iter().rev().copied().collect();
            prop_assert!((theil_sen_slope(&back, &moved).unwrap() - slope * scale).abs() < 1e-9);
        }
    }
}
