//! The kind of test for each metric, and metrics whose zero means nothing.

use crate::plan::{Check, Plan, Rule};
use crate::record::{Metric, MetricKind};
use crate::stats::Scale;

/// What a metric's launch values are to the judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestKind {
    /// Varies from launch to launch; compared by t on this scale.
    Timed(Scale),
    /// The same in every launch of a build; compared exactly where it is.
    Exact,
    /// Successes out of cases, compared by counts.
    Share,
}

impl TestKind {
    pub fn is_timed(self) -> bool {
        matches!(self, Self::Timed(_))
    }
}

/// The value on the scale on which launches are compared by t (a logarithm); `None` for a metric that is not
/// compared so.
pub fn on_test_scale(metric: Metric, value: f64) -> Option<f64> {
    match test_kind(metric) {
        TestKind::Timed(scale) => Some(scale.forward(value)),
        TestKind::Exact | TestKind::Share => None,
    }
}

/// The test for a check. A limit needs no relative scale, and a value at or below 0 has none.
pub fn test_kind_of(check: &Check) -> TestKind {
    match check.rule {
        Rule::Ceiling { .. } | Rule::Floor { .. } if check.metric.is_fitted() => {
            TestKind::Timed(Scale::Plain)
        }
        _ => test_kind(check.metric),
    }
}

/// The number of checks that have a test. They share the error budget, and Holm's correction counts them.
pub fn family(plan: &Plan) -> u32 {
    let checks = plan.gates.iter().flat_map(|gate| &gate.checks);
    let tested = checks.filter(|check| has_test(check)).count();
    u32::try_from(tested).unwrap_or(u32::MAX)
}

/// False for a limit of an exact metric: its worst launch is compared. A change of such a metric has a test, by t, where
/// launches differ after all.
pub fn has_test(check: &Check) -> bool {
    let is_limit = matches!(check.rule, Rule::Ceiling { .. } | Rule::Floor { .. });
    !(is_limit && test_kind_of(check) == TestKind::Exact)
}

/// The test for a change of a metric.
pub fn test_kind(metric: Metric) -> TestKind {
    match metric.kind() {
        MetricKind::Latency => TestKind::Timed(Scale::Log),
        MetricKind::Counter => TestKind::Exact,
        MetricKind::Share => TestKind::Share,
        // Log-probabilities come from arithmetic, drift from a clock.
        MetricKind::Score => match metric {
            Metric::PrefillDrift => TestKind::Timed(Scale::LogOfChange),
            _ => TestKind::Exact,
        },
    }
}

/// True if zero in every launch proves that nothing was measured; false where zero is a sound value (no mismatch, no
/// excess). `regression`: whether the check compares arms.
pub fn zero_is_vacuous(metric: Metric, regression: bool) -> bool {
    match metric {
        Metric::Accuracy | Metric::GreedyAgreement | Metric::Goodput => regression,
        _ => is_never_zero(metric),
    }
}

/// True if an engine that answers uses some: zero is a gauge that does not work, in whichever arm.
pub fn is_never_zero(metric: Metric) -> bool {
    use Metric::{GpuMemory, KvBytes, KvUsage, PrefilledTokens};
    matches!(metric, KvBytes | KvUsage | PrefilledTokens | GpuMemory)
}
