//! Quantiles of the gamma distribution, for arrivals that are more or less regular than a Poisson process.

use statrs::distribution::{ContinuousCDF, Gamma};

/// The quantile at `p` of a gamma distribution of this shape whose mean is 1; `None`: no such shape, or `p` outside [0, 1).
pub fn gamma_quantile(p: f64, shape: f64) -> Option<f64> {
    let gamma = Gamma::new(shape, shape).ok()?;
    (0.0..1.0).contains(&p).then(|| gamma.inverse_cdf(p))
}

#[cfg(test)]
mod tests {
    use super::gamma_quantile;

    #[test]
    fn quantiles_are_those_of_known_distributions() {
        // Shape 1 is the exponential: −ln(1 − p). Shape 0.5 is half a squared normal number: χ² with one degree of
        // freedom at 0.95 is 3.841459.
        for (p, shape, expect) in [
            (0.5, 1.0, 2_f64.ln()),
            (0.99, 1.0, 100_f64.ln()),
            (0.95, 0.5, 3.841_459),
            (0.0, 2.0, 0.0),
        ] {
            let quantile = gamma_quantile(p, shape).unwrap();
            assert!((quantile - expect).abs() < 1e-5, "{p} {shape}: {quantile}");
        }
        for (p, shape) in [(1.0, 1.0), (f64::NAN, 1.0), (0.5, 0.0), (0.5, f64::NAN)] {
            assert_eq!(gamma_quantile(p, shape), None, "{p} {shape}");
        }
    }
}
