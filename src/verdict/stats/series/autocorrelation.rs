//! Autocorrelation: how much a value resembles the one before it.

use crate::stats::mean;

/// Shortest series that tells anything.
const LEAST: usize = 8;
/// Further from 0 than this, effective numbers of values mean nothing.
const MOST: f64 = 0.99;

/// Lag-1 autocorrelation of several series of one process, each about its own mean, pooled: Σ r₍ᵢ₎r₍ᵢ₊₁₎ /
/// Σ r². The bias −(1 + 3ρ)/n of Marriott and Pope (1954), n the series' mean length, is taken out; the
/// result is kept within ±0.99.
///
/// `None` without a series of eight values, for constants, and where a value is not finite. Shorter series
/// are left out.
pub fn lag_one(series: &[Vec<f64>]) -> Option<f64> {
    let long: Vec<&Vec<f64>> = series.iter().filter(|s| s.len() >= LEAST).collect();
    let (mut products, mut squares, mut values) = (0.0, 0.0, 0);
    for series in &long {
        let centre = mean(series)?;
        let residuals: Vec<f64> = series.iter().map(|v| v - centre).collect();
        products += residuals.windows(2).map(|w| w[0] * w[1]).sum::<f64>();
        squares += residuals.iter().map(|r| r * r).sum::<f64>();
        values += series.len();
    }
    let length = values as f64 / long.len() as f64;
    let raw = products / squares;
    let unbiased = (length * raw + 1.0) / (length - 3.0);
    unbiased.is_finite().then(|| unbiased.clamp(-MOST, MOST))
}

/// The autocorrelation that series show beyond its standard error: [`lag_one`] less 1/√n, n the values of the series
/// that it reads. Between 0 and 0.99; 0 where none is known. Independent values would otherwise show some by chance in
/// half of all cases.
pub fn shown_dependence(series: &[Vec<f64>]) -> f64 {
    let long = series.iter().filter(|s| s.len() >= LEAST);
    let values = long.map(Vec::len).sum::<usize>() as f64;
    lag_one(series).map_or(0.0, |rho| (rho - values.sqrt().recip()).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(series: &[&[f64]], expect: Option<f64>) {
        let series: Vec<Vec<f64>> = series.iter().map(|s| s.to_vec()).collect();
        let got = lag_one(&series);
        match (got, expect) {
            (Some(got), Some(expect)) => assert!((got - expect).abs() < 1e-12, "{got}"),
            _ => assert_eq!(got, expect),
        }
    }

    #[test]
    fn climbs_from_nothing() {
        check(&[], None);
        check(&[&[]], None);
        check(&[&[1.0]], None);
        check(&[&[1.0, 2.0]], None);
        check(&[&[3.0; 8]], None);
        check(&[&[1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, f64::NAN]], None);
    }

    #[test]
    fn what_alternates_is_negative_and_what_drifts_is_positive() {
        let swings: [f64; 8] = [1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0];
        // −7/8 before the bias: (8 · −7/8 + 1) / 5 = −1.2
        check(&[&swings], Some(-0.99));
        let steps: [f64; 8] = [-1.0, -1.0, -1.0, -1.0, 1.0, 1.0, 1.0, 1.0];
        // (6 − 1)/8 before the bias: (5 + 1) / 5
        check(&[&steps], Some(0.99));
        // Both together: −2/16, (8 · −1/8 + 1) / 5
        check(&[&swings, &steps], Some(0.0));
        check(&[&swings, &steps, &[5.0, 6.0]], Some(0.0));
    }

    /// (5 + 1) / 5 is kept at .99, less 1/√8; what alternates, and seven values, show none.
    #[test]
    fn dependence_is_what_is_beyond_its_standard_error() {
        let steps = vec![-1.0, -1.0, -1.0, -1.0, 1.0, 1.0, 1.0, 1.0];
        let swings = vec![1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0];
        let shown = shown_dependence(&[steps.clone(), vec![5.0; 7]]);
        assert!(
            (shown - (0.99 - 8.0_f64.sqrt().recip())).abs() < 1e-12,
            "{shown}"
        );
        for none in [vec![swings], vec![steps[..7].to_vec()], vec![]] {
            assert!(shown_dependence(&none) <= 0.0, "{none:?}");
        }
    }

    #[test]
    fn a_level_of_its_own_is_no_resemblance() {
        let one: [f64; 8] = [1.0, -1.0, -1.0, 1.0, 1.0, -1.0, -1.0, 1.0];
        let other: Vec<f64> = one.iter().map(|v| v + 100.0).collect();
        // −1/8 · 8 = −1 each: (8 · −1/8 + 1) / 5 = 0
        check(&[&one, &other], Some(0.0));
    }
}
