//! A slope that a few wild points do not move.

use super::median;

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

/// The slopes of all pairs with different x, in no order.
pub(super) fn slopes(x: &[f64], y: &[f64]) -> Vec<f64> {
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
