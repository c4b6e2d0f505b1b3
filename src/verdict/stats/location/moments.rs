//! Mean and two-pass variance.

/// Arithmetic mean. `None` for no values; NaN in gives NaN out.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Sample variance (divisor n − 1), in two passes with the residual's correction, so that a large
/// offset costs no digits (Chan, Golub and LeVeque 1983, formula 1.7).
///
/// `None` for fewer than two values; exactly 0 for constants; NaN in gives NaN out.
pub fn variance(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let first = values[0];
    if values.iter().all(|&v| v.to_bits() == first.to_bits()) && first.is_finite() {
        return Some(0.0);
    }
    let n = values.len() as f64;
    let centre = mean(values)?;
    let squares: f64 = values.iter().map(|v| (v - centre).powi(2)).sum();
    let residual: f64 = values.iter().map(|v| v - centre).sum();
    Some((squares - residual * residual / n) / (n - 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(values: &[f64], expect_mean: Option<f64>, expect_variance: Option<f64>) {
        assert_eq!(mean(values), expect_mean, "mean of {values:?}");
        assert_eq!(variance(values), expect_variance, "variance of {values:?}");
    }

    #[test]
    fn climbs_from_nothing() {
        check(&[], None, None);
        check(&[4.0], Some(4.0), None);
        check(&[4.0, 6.0], Some(5.0), Some(2.0));
        check(&[6.0, 4.0], Some(5.0), Some(2.0));
        check(&[-4.0, -6.0], Some(-5.0), Some(2.0));
        check(&[3.0, 3.0, 3.0], Some(3.0), Some(0.0));
    }

    #[test]
    fn a_constant_that_binary_cannot_hold_has_no_variance() {
        assert_eq!(variance(&[0.1; 7]), Some(0.0));
    }

    #[test]
    fn a_large_offset_costs_no_digits() {
        let offset: Vec<f64> = [4.0, 7.0, 13.0, 16.0].iter().map(|v| v + 1e9).collect();
        assert_eq!(variance(&offset), Some(30.0));
    }

    #[test]
    fn nan_comes_out() {
        assert!(mean(&[1.0, f64::NAN]).unwrap().is_nan());
        assert!(variance(&[1.0, f64::NAN]).unwrap().is_nan());
        assert!(variance(&[f64::NAN, f64::NAN]).unwrap().is_nan());
    }

    proptest! {
        #[test]
        fn shift_scale_and_order(values in prop::collection::vec(-1e3..1e3_f64, 2..30), shift in -1e3..1e3_f64, scale in 0.1..10.0_f64) {
            let v = variance(&values).unwrap();
            let moved: Vec<f64> = values.iter().rev().map(|x| x * scale + shift).collect();
            let w = variance(&moved).unwrap();
            prop_assert!((w - v * scale * scale).abs() <= 1e-7 * (1.0 + v * scale * scale));
        }
    }
}
