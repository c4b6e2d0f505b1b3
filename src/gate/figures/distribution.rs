//! Many values in short: mean, quantiles, extremes.

use serde::{Deserialize, Serialize};
use verdict::stats;

/// Fewest values of which a quantile is told: of fewer, it would be the greatest.
const LEAST_FOR_P90: usize = 10;
pub const LEAST_FOR_P99: usize = 100;
const LEAST_FOR_P999: usize = 1_000;

/// Bounds that differ by less than this share say nothing that a number's digits do not.
pub const CLOSE: f64 = 0.01;

/// In the values' own unit; `None` for what is not known or has too few values behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    pub mean: Option<f64>,
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub p99: Option<f64>,
    /// The 99.9th percentile.
    #[serde(default)]
    pub p999: Option<f64>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    /// Values behind it; 0 where there are none or their number is not told.
    pub n: u64,
}

impl Distribution {
    /// Quantiles are those of [`stats::quantile`].
    pub fn of(values: &[f64]) -> Self {
        let quantile = |p| stats::quantile(values, p).map(|of| of.value);
        Self::with(values.len(), stats::mean(values), quantile)
    }

    /// Describes `values`, beside which others could not be measured: each lies between 0 and its entry of `at_most`. A
    /// number is `None` if they can move it by more than [`CLOSE`].
    pub fn of_known(values: &[f64], at_most: &[f64]) -> Self {
        let known = Self::of(values);
        let least = Self::of(&[values, &vec![0.0; at_most.len()]].concat());
        let greatest = Self::of(&[values, at_most].concat());
        let told = |of: fn(&Self) -> Option<f64>| {
            let is_close = of(&greatest)? <= of(&least)? * (1.0 + CLOSE);
            of(&known).filter(|_| is_close)
        };
        Self {
            mean: told(|of| of.mean),
            p50: told(|of| of.p50),
            p90: told(|of| of.p90),
            p99: told(|of| of.p99),
            p999: told(|of| of.p999),
            min: told(|of| of.min),
            max: told(|of| of.max),
            n: known.n,
        }
    }

    /// Each number with its name, in the order of tables.
    pub fn numbers(&self) -> [(&'static str, Option<f64>); 7] {
        [
            ("mean", self.mean),
            ("p50", self.p50),
            ("p90", self.p90),
            ("p99", self.p99),
            ("p999", self.p999),
            ("min", self.min),
            ("max", self.max),
        ]
    }

    /// Of `n` values that are kept elsewhere.
    pub fn with(n: usize, mean: Option<f64>, quantile: impl Fn(f64) -> Option<f64>) -> Self {
        let at = |p: f64, least: usize| quantile(p).filter(|_| n >= least);
        Self {
            mean,
            p50: at(0.5, 1),
            p90: at(0.9, LEAST_FOR_P90),
            p99: at(0.99, LEAST_FOR_P99),
            p999: at(0.999, LEAST_FOR_P999),
            min: at(0.0, 1),
            max: at(1.0, 1),
            n: n as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1,000 answers of 49 to 51 ms. The left-out values may make up the whole tail, but not the middle.
    #[test]
    fn numbers_that_left_out_values_can_move_are_not_told() {
        let values: Vec<f64> = (0..1000).map(|n| 49.0 + f64::from(n) * 0.002).collect();
        let all = Distribution::of(&values);
        let known =
            |at_most: f64, left_out| Distribution::of_known(&values, &vec![at_most; left_out]);
        assert_eq!(known(60.0, 0), all);
        let (mean, p99, p999, min, max) = (None, None, None, None, None);
        assert_eq!(known(50.0, 5), Distribution { min, ..all });
        let tail = Distribution {
            p999,
            min,
            max,
            ..all
        };
        assert_eq!(known(60.0, 5), tail);
        let middle = Distribution { mean, ..tail };
        assert_eq!(known(60.0, 15).mean, None);
        assert_eq!(known(30_000.0, 5), middle);
        assert_eq!(known(f64::INFINITY, 54), Distribution { p99, ..middle });
        // The middle of values that lie far apart.
        let apart: Vec<f64> = (1..=1000).map(f64::from).collect();
        assert_eq!(Distribution::of_known(&apart, &[5000.0; 54]).p50, None);
        assert_eq!(
            Distribution::of_known(&[], &[60.0; 3]),
            Distribution::default()
        );
    }

    #[test]
    fn quantiles_of_too_few_values_are_not_told() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        let all = Distribution::of(&values);
        assert_eq!((all.min, all.max, all.n), (Some(1.0), Some(100.0), 100));
        assert!(all.p99.is_some_and(|p99| (p99 - 99.01).abs() < 1e-9));
        let fewer = Distribution::of(&values[..99]);
        assert_eq!(fewer.p99, None);
        assert!(fewer.p90.is_some());
        assert_eq!(Distribution::of(&values[..9]).p90, None);
        assert_eq!(Distribution::of(&[]), Distribution::default());
    }
}
