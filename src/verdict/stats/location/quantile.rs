//! Quantiles by linear interpolation of order statistics.

use std::num::NonZeroUsize;

/// A quantile together with the number of values that it stands on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantile {
    pub value: f64,
    pub n: NonZeroUsize,
}

/// Quantile `p` in [0, 1], type 7 of Hyndman and Fan (1996): h = (n − 1)p, interpolated between the
/// order statistics around h. The unit is that of the values.
///
/// `None` for no values, for `p` outside [0, 1] and where any value is NaN. One value is its own
/// quantile for every `p`; a constant is itself.
pub fn quantile(values: &[f64], p: f64) -> Option<Quantile> {
    let n = NonZeroUsize::new(values.len())?;
    if !(0.0..=1.0).contains(&p) || values.iter().any(|v| v.is_nan()) {
        return None;
    }
    let h = (values.len() - 1) as f64 * p;
    let (below, share) = (h.floor() as usize, h - h.floor());
    if below + 1 == values.len() {
        let value = values.iter().copied().max_by(f64::total_cmp)?;
        return Some(Quantile { value, n });
    }
    // Two order statistics are needed, and no order of the rest: selecting takes a time linear in their number.
    let mut parted = values.to_vec();
    let (_, low, rest) = parted.select_nth_unstable_by(below, f64::total_cmp);
    let (low, above) = (*low, rest.iter().copied().min_by(f64::total_cmp));
    // An exact order statistic is given as it is: interpolating would make NaN of an infinite neighbour.
    let value = match above {
        Some(high) if share > 0.0 => low + (high - low) * share,
        _ => low,
    };
    Some(Quantile { value, n })
}

/// Median: [`quantile`] at one half.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5).map(|q| q.value)
}

/// Medians of the first and of the last fifth of a series, at least one value each. `None` for no
/// values and where any of those is NaN.
pub fn head_tail_medians(series: &[f64]) -> Option<(f64, f64)> {
    let fifth = (series.len() / 5).max(1).min(series.len());
    let head = median(&series[..fifth])?;
    let tail = median(&series[series.len() - fifth..])?;
    Some((head, tail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(values: &[f64], p: f64, expect: Option<f64>) {
        let got = quantile(values, p);
        assert_eq!(got.map(|q| q.value), expect, "quantile {p} of {values:?}");
        if let Some(q) = got {
            assert_eq!(q.n.get(), values.len());
        }
    }

    #[test]
    fn climbs_from_nothing() {
        check(&[], 0.5, None);
        check(&[7.0], 0.0, Some(7.0));
        check(&[7.0], 0.999_999, Some(7.0));
        check(&[1.0, 3.0], 0.5, Some(2.0));
        check(&[3.0, 1.0], 0.25, Some(1.5));
        check(&[2.0, 2.0, 2.0], 0.9, Some(2.0));
        check(&[-1.0, -3.0, -2.0], 0.5, Some(-2.0));
        check(&[5.0, 4.0, 3.0, 2.0, 1.0], 1.0, Some(5.0));
        check(&[5.0, 4.0, 3.0, 2.0, 1.0], 0.1, Some(1.4));
    }

    #[test]
    fn refuses_what_has_no_order() {
        check(&[1.0, f64::NAN], 0.5, None);
        check(&[1.0], 1.01, None);
        check(&[1.0], -0.1, None);
        check(&[1.0], f64::NAN, None);
        check(&[1.0, 2.0, f64::INFINITY], 0.5, Some(2.0));
    }

    #[test]
    fn head_and_tail_are_fifths() {
        assert_eq!(head_tail_medians(&[]), None);
        assert_eq!(head_tail_medians(&[4.0]), Some((4.0, 4.0)));
        assert_eq!(head_tail_medians(&[4.0, 9.0]), Some((4.0, 9.0)));
        let rising: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!(head_tail_medians(&rising), Some((1.5, 9.5)));
    }

    proptest! {
        #[test]
        fn shift_scale_and_order(values in prop::collection::vec(-1e6..1e6_f64, 1..40), p in 0.0..=1.0_f64, shift in -1e3..1e3_f64, scale in 0.1..10.0_f64) {
            let q = quantile(&values, p).unwrap().value;
            let moved: Vec<f64> = values.iter().rev().map(|v| v * scale + shift).collect();
            let w = quantile(&moved, p).unwrap().value;
            prop_assert!((w - (q * scale + shift)).abs() <= 1e-6);
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            prop_assert!(least <= q && q <= greatest);
        }
    }
}
