//! A variance that several samples share, and how much they differ in it.

use super::moderated::PriorVariance;
use crate::stats::{mean, variance};
use statrs::function::gamma::digamma;

/// Most and fewest degrees of freedom that are found.
const DF: (f64, f64) = (1.0, 1e6);
/// A sample's variance counts as at least this share of the pooled one: a single constant sample has no logarithm.
const LEAST_SHARE: f64 = 1e-3;
/// From here on the asymptotic series of trigamma has all digits of a double.
const ASYMPTOTIC: f64 = 12.0;

/// The pooled variance of samples, each (variance, its degrees of freedom), and the degrees of freedom that it is worth
/// for a further sample: by how the logarithms of the variances differ beyond chance (Smyth 2004, section 6.2).
///
/// `None` for fewer than two samples, and where they do not vary or a number is not finite.
pub fn prior_variance(samples: &[(f64, f64)]) -> Option<PriorVariance> {
    let sound = |&(variance, df): &(f64, f64)| variance.is_finite() && variance >= 0.0 && df > 0.0;
    if samples.len() < 2 || !samples.iter().all(sound) {
        return None;
    }
    let df: f64 = samples.iter().map(|(_, df)| df).sum();
    let pooled = samples.iter().map(|(v, df)| v * df).sum::<f64>() / df;
    if !pooled.is_finite() || pooled <= 0.0 {
        return None;
    }
    let logs = samples.iter().map(|(v, df)| {
        let half = df / 2.0;
        v.max(pooled * LEAST_SHARE).ln() - digamma(half) + half.ln()
    });
    let logs: Vec<f64> = logs.collect();
    let by_chance: Vec<f64> = samples.iter().map(|(_, df)| trigamma(df / 2.0)).collect();
    let beyond = variance(&logs)? - mean(&by_chance)?;
    Some(PriorVariance {
        variance: pooled,
        df: 2.0 * inverse_trigamma(beyond),
    })
}

/// ψ′(x) for x > 0 (Abramowitz and Stegun 1964, 6.4.6 and 6.4.12).
fn trigamma(x: f64) -> f64 {
    let (mut x, mut below) = (x, 0.0);
    while x < ASYMPTOTIC {
        below += x.powi(-2);
        x += 1.0;
    }
    let y = x.powi(-2);
    let series =
        1.0 / 6.0 - y * (1.0 / 30.0 - y * (1.0 / 42.0 - y * (1.0 / 30.0 - y * 5.0 / 66.0)));
    below + 1.0 / x + y / 2.0 + y / x * series
}

/// The x between the bounds of [`DF`] with this trigamma, which falls in x.
fn inverse_trigamma(wanted: f64) -> f64 {
    let (mut low, mut high) = (DF.0 / 2.0, DF.1 / 2.0);
    // By halving on a logarithmic scale: the bounds are 20 octaves apart.
    for _ in 0..80 {
        let middle = (low * high).sqrt();
        if trigamma(middle) > wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trigamma_held_to_scipy() {
        for (x, expect) in [
            (0.5, 4.934_802_200_544_679),
            (1.0, 1.644_934_066_848_226),
            (2.5, 0.490_357_756_100_234_9),
            (20.0, 0.051_270_822_935_203_2),
        ] {
            let got = trigamma(x);
            assert!((got - expect).abs() < 1e-12, "{x}: {got}");
        }
    }

    #[test]
    fn samples_that_agree_are_worth_much_and_others_little() {
        let same = [(1.0, 6.0), (1.2, 6.0), (0.9, 6.0), (1.1, 6.0)];
        let found = prior_variance(&same).unwrap();
        assert!(
            (found.variance - 1.05).abs() < 1e-12 && found.df > 1e5,
            "{found:?}"
        );
        let apart = [(0.1, 6.0), (10.0, 6.0), (1.0, 6.0), (30.0, 6.0)];
        let found = prior_variance(&apart).unwrap();
        assert!(found.df < 2.0, "{found:?}");
        // Pooled by degrees of freedom: (1 · 1 + 4 · 9) / 10.
        let found = prior_variance(&[(1.0, 1.0), (4.0, 9.0)]).unwrap();
        assert!((found.variance - 3.7).abs() < 1e-12, "{found:?}");
    }

    /// Variances around one are drawn as a scaled inverse χ² of 6 degrees of freedom: its quantiles at the middles of 40
    /// equal parts, each seen without error.
    #[test]
    fn the_degrees_of_freedom_of_a_known_distribution() {
        use statrs::distribution::{ChiSquared, ContinuousCDF};
        let chi = ChiSquared::new(6.0).unwrap();
        let quantile = |i: u32| 6.0 / chi.inverse_cdf((f64::from(i) + 0.5) / 40.0);
        let samples: Vec<(f64, f64)> = (0..40).map(|i| (quantile(i), 1e6)).collect();
        let found = prior_variance(&samples).unwrap();
        assert!((found.df - 6.0).abs() < 0.6, "{found:?}");
    }

    #[test]
    fn what_is_no_sample_gives_nothing() {
        for samples in [
            &[][..],
            &[(1.0, 3.0)],
            &[(0.0, 3.0), (0.0, 3.0)],
            &[(f64::NAN, 3.0), (1.0, 3.0)],
            &[(1.0, 0.0), (1.0, 3.0)],
        ] {
            assert_eq!(prior_variance(samples), None, "{samples:?}");
        }
        assert!(prior_variance(&[(0.0, 3.0), (1.0, 3.0)]).is_some());
    }
}
