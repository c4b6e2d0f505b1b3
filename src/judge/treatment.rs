//! How each metric is compared, and when a zero says nothing.

use crate::record::{Metric, MetricKind};

/// What a metric's launch values are to the judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    /// Varies from launch to launch; compared by t on this scale.
    Timed(Scale),
    /// The same in every launch of a build; compared exactly where it is.
    Exact,
    /// Successes out of cases, compared by counts.
    Share,
}

/// On which scale differences are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    /// y = ln(value): differences are relative changes, margins are ln(1 + margin).
    Log,
    /// y = ln(1 + value): the value is a relative change, 0 where nothing changed.
    LogOfChange,
}

impl Treatment {
    pub(super) fn is_timed(self) -> bool {
        matches!(self, Self::Timed(_))
    }
}

impl Scale {
    pub(super) fn forward(self, value: f64) -> f64 {
        match self {
            Self::Log => value.ln(),
            Self::LogOfChange => value.ln_1p(),
        }
    }

    pub(super) fn back(self, y: f64) -> f64 {
        match self {
            Self::Log => y.exp(),
            Self::LogOfChange => y.exp_m1(),
        }
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

pub(super) fn treatment(metric: Metric) -> Treatment {
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

/// Why zero in every launch proves that nothing was measured; `None` where zero is a sound value (no
/// mismatch, no excess). `regression`: whether the check compares arms.
pub(super) fn zero_is_vacuous(metric: Metric, regression: bool) -> Option<&'static str> {
    match metric {
        Metric::KvBytes | Metric::KvUsage => {
            Some("an engine that holds a conversation holds some bytes of it")
        }
        Metric::PrefilledTokens => Some("an answer needs at least one computed prompt token"),
        Metric::Accuracy if regression => Some("where no case is right, none can be lost"),
        Metric::Goodput if regression => {
            Some("where no request is within the SLO, none can be lost")
        }
        _ => None,
    }
}
