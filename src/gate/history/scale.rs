//! On which scale a series' values are compared.

use verdict::record::{Metric, MetricKind};
use verdict::stats::Scale;

/// The scale of a metric with these values: relative where it can be.
pub fn scale_of(metric: Metric, mut values: impl Iterator<Item = f64>) -> Scale {
    match (metric, metric.kind()) {
        (Metric::PrefillDrift, _) => Scale::LogOfChange,
        (_, MetricKind::Latency) if !metric.is_fitted() => Scale::Log,
        _ if values.all(|value| value > 0.0) => Scale::Log,
        _ => Scale::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_touches_nought_is_compared_as_it_is() {
        let check = |metric, values: &[f64], expect| {
            assert_eq!(scale_of(metric, values.iter().copied()), expect);
        };
        check(Metric::Tpot, &[20.0], Scale::Log);
        check(Metric::PrefilledTokens, &[13.0, 14.0], Scale::Log);
        check(Metric::GoldenMismatches, &[0.0, 1.0], Scale::Plain);
        check(Metric::KvGrowth, &[-0.1, 0.1], Scale::Plain);
        check(Metric::PrefillDrift, &[-0.1, 1.9], Scale::LogOfChange);
        check(Metric::TpotSlope, &[2.0, 3.0], Scale::Log);
        check(Metric::TpotSlope, &[-0.1, 0.1], Scale::Plain);
    }
}
