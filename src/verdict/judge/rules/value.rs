//! Rules on the value of one launch: it is there, it can be, and it stands on enough requests.

use super::super::Rules;
use super::client::{left_out, reads_medians};
use super::finding::{Finding, invalid, of_launch};
use crate::judge::launch_view::LaunchView;
use crate::metrics::LaunchMeasure;
use crate::record::{Facts, LaunchFact, Metric, MetricKind, RuleId};

/// A latency with fewer distinct values is no clock's.
const DISTINCT: usize = 3;

pub fn missing_value(_: &Rules<'_>, launch_view: &LaunchView<'_, '_>) -> Option<Finding> {
    let undefined = launch_view.measure.as_ref().err()?;
    invalid(RuleId::MissingValue, Facts::Said(undefined.to_string()))
}

pub fn impossible_value(_: &Rules<'_>, launch_view: &LaunchView<'_, '_>) -> Option<Finding> {
    let metric = launch_view.check.metric;
    let measure = launch_view.measure.as_ref().ok()?;
    if measure.series.is_positive() && measure.value.is_finite() && measure.value > 0.0 {
        return None;
    }
    let mut all = measure.series.iter().chain([&measure.value]);
    if let Some(v) = all.clone().find(|v| !v.is_finite()) {
        return of_launch(launch_view, RuleId::NotFinite, LaunchFact::Value(*v));
    }
    let wrong = match metric.kind() {
        MetricKind::Latency if is_gap(metric) => return no_gap(launch_view, measure),
        // Noise tilts a line that is flat, and a flat one has a slope of 0.
        MetricKind::Latency if metric.is_fitted() => None,
        MetricKind::Latency => all.find(|&&v| v <= 0.0),
        MetricKind::Counter | MetricKind::Share => all.find(|&&v| v < 0.0),
        MetricKind::Score => None,
    };
    of_launch(launch_view, RuleId::NotPositive, LaunchFact::Value(*wrong?))
}

/// Single gaps of 0 are events that came in one segment; [`super::client::ambiguous`] limits their share. A launch whose
/// own value is 0 has too many of them for any statistic.
fn no_gap(launch_view: &LaunchView<'_, '_>, measure: &LaunchMeasure) -> Option<Finding> {
    let fact = match measure.series.iter().find(|&&v| v < 0.0) {
        Some(v) => LaunchFact::Value(*v),
        None if measure.value > 0.0 => return None,
        None => LaunchFact::NoGap(measure.value),
    };
    of_launch(launch_view, RuleId::NotPositive, fact)
}

fn is_gap(metric: Metric) -> bool {
    matches!(metric, Metric::Icl | Metric::Itl)
}

pub fn too_few_samples(_: &Rules<'_>, launch_view: &LaunchView<'_, '_>) -> Option<Finding> {
    let need = launch_view.check.min_samples;
    let got = launch_view.measure.as_ref().ok()?.samples;
    // Answers without a time of their own, which a median bears.
    let least = match reads_medians(launch_view.check) {
        true => need.saturating_sub(need / 10),
        false => need,
    };
    if got >= least {
        return None;
    }
    let workload = launch_view.workload.id.clone();
    let fact = LaunchFact::Samples {
        workload,
        got,
        need: least,
        left_out: left_out(launch_view),
    };
    of_launch(launch_view, RuleId::TooFewSamples, fact)
}

pub fn constant_latency(_: &Rules<'_>, launch_view: &LaunchView<'_, '_>) -> Option<Finding> {
    let metric = launch_view.check.metric;
    let measure = launch_view.measure.as_ref().ok()?;
    if metric.kind() != MetricKind::Latency || !is_stuck(measure) {
        return None;
    }
    let fact = LaunchFact::Constant {
        values: measure.series.len(),
        distinct: DISTINCT,
    };
    of_launch(launch_view, RuleId::ConstantLatency, fact)
}

fn is_stuck(measure: &LaunchMeasure) -> bool {
    let mut seen: Vec<u64> = Vec::with_capacity(DISTINCT);
    for bits in measure.series.iter().map(|v| v.to_bits()) {
        if !seen.contains(&bits) {
            seen.push(bits);
        }
        if seen.len() == DISTINCT {
            return false;
        }
    }
    measure.series.len() >= DISTINCT
}
