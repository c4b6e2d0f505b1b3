//! How each metric is compared, and when a zero says nothing.

use crate::plan::{Check, Rule};
use crate::record::{Metric, MetricKind};
use crate::stats::Scale;

/// What a metric's launch values are to the judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Varies from launch to launch; compared by t on this scale.
    Timed(Scale),
    /// The same in every launch of a build; compared exactly where it is.
    Exact,
    /// Successes out of cases, compared by counts.
    Share,
}

impl Treatment {
    pub fn is_timed(self) -> bool {
        matches!(self, Self::Timed(_))
    }
}

/// The value on the scale on which launches are compared by t (a logarithm); `None` for a metric that is not
/// compared so.
pub fn on_test_scale(metric: Metric, value: f64) -> Option<f64> {
    match treatment(metric) {
        Treatment::Timed(scale) => Some(scale.forward(value)),
        Treatment::Exact | Treatment::Share => None,
    }
}

/// The treatment of a check. A limit needs no relative scale, and a value at or below 0 has none.
pub fn treatment_of(check: &Check) -> Treatment {
    match check.rule {
        Rule::Ceiling { .. } | Rule::Floor { .. } if check.metric.is_fitted() => {
            Treatment::Timed(Scale::Plain)
        }
        _ => treatment(check.metric),
    }
}

/// The treatment of a metric whose changes are asked for.
pub fn treatment(metric: Metric) -> Treatment {
    match metric.kind() {
        MetricKind::Latency => Treatment::Timed(Scale::Log),
        MetricKind::Counter => Treatment::Exact,
        MetricKind::Share => Treatment::Share,
        // Log-probabilities come from arithmetic, drift from a clock.
        MetricKind::Score => match metric {
            Metric::PrefillDrift => Treatment::Timed(Scale::LogOfChange),
            _ => Treatment::Exact,
        },
    }
}

/// Said of launches of which one has no logarithm, where a change is asked for: (rule, text).
pub fn no_relative_scale(metric: Metric) -> (&'static str, String) {
    let text = format!(
        "{metric} is 0 or below in some launch, and no change is a share of that: ask for longer contexts, or give it a ceiling"
    );
    ("no-relative-scale", text)
}

/// Why zero in every launch proves that nothing was measured; `None` where zero is a sound value (no
/// mismatch, no excess). `regression`: whether the check compares arms.
pub fn zero_is_vacuous(metric: Metric, regression: bool) -> Option<&'static str> {
    match metric {
        Metric::KvBytes | Metric::KvUsage => {
            Some("an engine that holds a conversation holds some bytes of it")
        }
        Metric::PrefilledTokens => Some("an answer needs at least one computed prompt token"),
        Metric::GpuMemory => Some("a model that is loaded takes some memory"),
        Metric::Accuracy | Metric::GreedyAgreement if regression => {
            Some("where no case is right, none can be lost")
        }
        Metric::Goodput if regression => {
            Some("where no request is within the SLO, none can be lost")
        }
        _ => None,
    }
}
