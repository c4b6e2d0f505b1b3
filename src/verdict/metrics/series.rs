//! Single values of a metric in one launch, of which several checks may take a statistic.
//!
//! Main types: [`Series`]; [`SeriesCache`], those of one launch that were read before.

use super::Undefined;
use crate::record::Metric;
use crate::stats;
use std::cell::RefCell;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// Values that must remain after the lead for a drift to be read.
const LEAST_LATER: usize = 12;

/// A longer third is reduced to this many quantiles, which bounds the number of pairs.
const OF_A_THIRD: usize = 32;

/// Values in order of sending, in the metric's unit.
#[derive(Clone, Debug, Default)]
pub struct Series {
    values: Vec<f64>,
    drift: OnceLock<Option<f64>>,
    positive: OnceLock<bool>,
}

impl Series {
    /// Whether each value is a number above 0.
    pub fn is_positive(&self) -> bool {
        let is_time = |value: &f64| value.is_finite() && *value > 0.0;
        *self
            .positive
            .get_or_init(|| self.values.iter().all(is_time))
    }

    /// By how much the last third lies above the first: the median of ln(last / first) over all pairs. Without the `drain`, a
    /// share at the end, of which at most half are left out. `None` for fewer than three values and where it is no number.
    pub fn drift(&self, drain: f64) -> Option<f64> {
        *self.drift.get_or_init(|| drift(self.kept(0.0, drain)?))
    }

    /// The same without the first `lead` of them, two fifths at most: a median bears as many others. `None` too where fewer
    /// than twelve remain: a third of those says little.
    pub fn drift_after(&self, lead: f64, drain: f64) -> Option<f64> {
        let kept = self.kept(lead.min(0.4), drain)?;
        (kept.len() >= LEAST_LATER).then(|| drift(kept))?
    }

    fn kept(&self, lead: f64, drain: f64) -> Option<&[f64]> {
        let all = self.values.len() as f64;
        let (first, last) = (all * lead, all * (1.0 - drain.min(0.5)));
        self.values
            .get(first.floor() as usize..last.ceil() as usize)
    }
}

/// Hodges' and Lehmann's shift: where values take turns in groups, as users of a loop may, medians of two thirds may lie in
/// two of them.
fn drift(values: &[f64]) -> Option<f64> {
    let third = values.len() / 3;
    let first = logarithms(values.get(..third)?);
    let last = logarithms(&values[values.len() - third..]);
    let pairs = last.iter().flat_map(|x| first.iter().map(move |y| x - y));
    let drift = stats::median(&pairs.collect::<Vec<f64>>());
    drift.filter(|drift| drift.is_finite())
}

/// Sorted logarithms of the values above 0; of a long third, evenly spaced quantiles.
fn logarithms(values: &[f64]) -> Vec<f64> {
    let positive = values.iter().filter(|value| **value > 0.0);
    let mut sorted: Vec<f64> = positive.map(|value| value.ln()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let n = sorted.len();
    let kept = n.min(OF_A_THIRD);
    (0..kept)
        .map(|i| sorted[(2 * i + 1) * n / (2 * kept)])
        .collect()
}

impl From<Vec<f64>> for Series {
    fn from(values: Vec<f64>) -> Self {
        Self {
            values,
            ..Self::default()
        }
    }
}

impl Deref for Series {
    type Target = [f64];

    fn deref(&self) -> &[f64] {
        &self.values
    }
}

impl PartialEq for Series {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
    }
}

/// What a metric reads of a launch's requests.
#[derive(Clone)]
pub struct Read {
    pub series: Arc<Series>,
    /// Requests that it stands on.
    pub samples: usize,
    pub remarks: Vec<String>,
}

/// What was read of the same requests before, by metric.
#[derive(Default)]
pub struct SeriesCache(RefCell<Vec<(Metric, Result<Read, Undefined>)>>);

impl SeriesCache {
    /// What `metric` reads: by `read` where it was not read before.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn get(
        &self,
        metric: Metric,
        read: impl FnOnce() -> Result<Read, Undefined>,
    ) -> Result<Read, Undefined> {
        let known = self
            .0
            .borrow()
            .iter()
            .find_map(|(of, read)| (*of == metric).then(|| read.clone()));
        known.unwrap_or_else(|| {
            let read = read();
            self.0.borrow_mut().push((metric, read.clone()));
            read
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Series;

    /// Sixty-four requests of sixteen users: the last fifteen have ever fewer beside them.
    #[test]
    fn a_loop_that_runs_empty_is_no_drift() {
        let falls = (0..15).map(|i| 340.0 - 12.0 * f64::from(i));
        let values: Vec<f64> = std::iter::repeat_n(350.0, 49).chain(falls).collect();
        let drift = |drain| Series::from(values.clone()).drift(drain).unwrap();
        assert!(drift(0.0) < -0.1, "{}", drift(0.0));
        assert!(drift(15.0 / 64.0).abs() < 1e-9);
        // Those that began at once took longer.
        let series = Series::from([vec![500.0; 20], values].concat());
        let (lead, drain) = (20.0 / 84.0, 15.0 / 84.0);
        assert!(series.drift(drain).unwrap() < -0.3);
        assert!(series.drift_after(lead, drain).unwrap().abs() < 1e-9);
        assert!(series.drift_after(1.0, 0.0).is_some());
    }

    /// Four users of a closed loop whose requests come in waves: a third more or less of a wave moves its median to the next
    /// group.
    #[test]
    fn values_in_turn_are_no_drift() {
        let wave = [28.0, 43.0, 59.0, 59.0];
        for n in 25..70 {
            let values: Vec<f64> = wave.iter().copied().cycle().take(n).collect();
            let drift = |values: &[f64]| Series::from(values.to_vec()).drift(0.0).unwrap();
            assert!(drift(&values).abs() < 0.02, "{n}: {}", drift(&values));
            // One that all values share is seen.
            let faster = |(i, value): (usize, &f64)| if 3 * i < n { 1.1 * value } else { *value };
            let faster: Vec<f64> = values.iter().enumerate().map(faster).collect();
            assert!(drift(&faster) < -0.05, "{n}: {}", drift(&faster));
            // A gap of no length, as between tokens that arrive together, hides it not.
            let gaps = |i: usize| i == 0 || i + 1 == n;
            let gaps = (0..n).map(|i| if gaps(i) { 0.0 } else { faster[i] });
            let gaps: Vec<f64> = gaps.collect();
            assert!(drift(&gaps) < -0.05, "{n}: {}", drift(&gaps));
        }
    }

    /// Twelve are enough to tell a drift; what a third of fewer than twelve says is not asked.
    #[test]
    fn a_few_values_after_the_lead_are_no_drift() {
        let falls = |n: i32| Series::from((0..n).map(|i| 0.9_f64.powi(i)).collect::<Vec<_>>());
        assert!(falls(19).drift_after(0.4, 0.0).unwrap() < -0.5);
        assert_eq!(falls(18).drift_after(0.4, 0.0), None);
        assert!(falls(18).drift(0.0).unwrap() < -0.5);
    }
}
