//! On which scale a series' values are compared.

use crate::record::{Metric, MetricKind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// y = ln(value): differences are relative changes.
    Log,
    /// y = ln(1 + value): the value is a relative change already.
    LogOfChange,
    /// y = value, in the metric's unit: a count or a score that is nought somewhere.
    Plain,
}

impl Scale {
    /// The scale of a metric with these values: relative where it can be.
    pub(super) fn of(metric: Metric, mut values: impl Iterator<Item = f64>) -> Self {
        match (metric, metric.kind()) {
            (Metric::PrefillDrift, _) => Self::LogOfChange,
            (_, MetricKind::Latency) => Self::Log,
            _ if values.all(|value| value > 0.0) => Self::Log,
            _ => Self::Plain,
        }
    }

    /// NaN or infinite for a value that the scale cannot hold.
    pub(super) fn forward(self, value: f64) -> f64 {
        match self {
            Self::Log => value.ln(),
            Self::LogOfChange => value.ln_1p(),
            Self::Plain => value,
        }
    }

    /// Whether a difference on this scale is a relative change, shown in percent as exp(y) − 1.
    pub fn is_relative(self) -> bool {
        self != Self::Plain
    }

    /// A series' own value, not a difference, in the metric's unit.
    pub fn back(self, y: f64) -> f64 {
        match self {
            Self::Log => y.exp(),
            Self::LogOfChange => y.exp_m1(),
            Self::Plain => y,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_touches_nought_is_compared_as_it_is() {
        let check = |metric, values: &[f64], expect| {
            assert_eq!(Scale::of(metric, values.iter().copied()), expect);
        };
        check(Metric::Tpot, &[20.0], Scale::Log);
        check(Metric::PrefilledTokens, &[13.0, 14.0], Scale::Log);
        check(Metric::GoldenMismatches, &[0.0, 1.0], Scale::Plain);
        check(Metric::KvGrowth, &[-0.1, 0.1], Scale::Plain);
        check(Metric::PrefillDrift, &[-0.1, 1.9], Scale::LogOfChange);
        for (scale, value) in [(Scale::Log, 20.0), (Scale::LogOfChange, 1.9)] {
            assert!((scale.back(scale.forward(value)) - value).abs() < 1e-12);
        }
    }
}
