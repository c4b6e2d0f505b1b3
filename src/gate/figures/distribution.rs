//! Many values in short: mean, quantiles, extremes.

use serde::{Deserialize, Serialize};
use verdict::stats;

/// Fewest values of which a quantile is told: of fewer, it would be the greatest.
const LEAST_FOR_P90: usize = 10;
const LEAST_FOR_P99: usize = 100;

/// Bounds that differ by less than this share say nothing that a number's digits do not.
pub const CLOSE: f64 = 0.01;

/// In the values' own unit; `None` for what is not known or has too few values behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    pub mean: Option<f64>,
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub p99: Option<f64>,
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

    /// Describes `values`, none of them negative, where `left_out` more could not be measured. Those may be the slowest,
    /// so a number is `None` if they can move it by more than [`CLOSE`]. A quantile allows them any value; the mean, any
    /// value up to twice the mean. Both extremes are `None` if anything was left out.
    pub fn of_known(values: &[f64], left_out: usize) -> Self {
        let mut known = Self::of(values);
        if left_out == 0 {
            return known;
        }
        let padded = |with: f64| [values, &vec![with; left_out]].concat();
        let (least, greatest) = (padded(0.0), padded(f64::INFINITY));
        let is_known = |p: f64| {
            let [least, greatest] = [&least, &greatest].map(|all| stats::quantile(all, p));
            let bounds = least.zip(greatest);
            bounds.is_some_and(|(least, greatest)| greatest.value <= least.value * (1.0 + CLOSE))
        };
        known.p50 = known.p50.filter(|_| is_known(0.5));
        known.p90 = known.p90.filter(|_| is_known(0.9));
        known.p99 = known.p99.filter(|_| is_known(0.99));
        let share = left_out as f64 / least.len() as f64;
        known.mean = known.mean.filter(|_| share <= CLOSE);
        (known.min, known.max) = (None, None);
        known
    }

    /// Each number with its name, in the order of tables.
    pub fn numbers(&self) -> [(&'static str, Option<f64>); 6] {
        [
            ("mean", self.mean),
            ("p50", self.p50),
            ("p90", self.p90),
            ("p99", self.p99),
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
        assert_eq!(Distribution::of_known(&values, 0), all);
        let few = Distribution::of_known(&values, 5);
        let (min, max) = (None, None);
        assert_eq!(few, Distribution { min, max, ..all });
        let more = Distribution::of_known(&values, 54);
        let (mean, p99) = (None, None);
        assert_eq!(more, Distribution { mean, p99, ..few });
        // One per cent, and a little more.
        assert!(Distribution::of_known(&values, 10).mean.is_some());
        assert_eq!(Distribution::of_known(&values, 11).mean, None);
        // The middle of values that lie far apart.
        let apart: Vec<f64> = (1..=1000).map(f64::from).collect();
        assert_eq!(Distribution::of_known(&apart, 54).p50, None);
        assert_eq!(Distribution::of_known(&[], 3), Distribution::default());
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
