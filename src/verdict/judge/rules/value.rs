//! Rules on the value of one launch: it is there, it can be, and it stands on enough requests.

use super::super::Rules;
use super::super::view::View;
use super::client::left_out;
use super::finding::{Finding, invalid, of_launch};
use crate::judge::launch_view::LaunchView;
use crate::metrics::LaunchMeasure;
use crate::plan::{Check, Rule};
use crate::record::{Arm, Facts, LaunchFact, Metric, MetricKind, Reason, RuleId, Statistic};

/// Share of wrong answers that a median can bear.
const WRONG_MEDIAN: f64 = 0.1;
/// Share of them that any other statistic can bear.
const WRONG: f64 = 0.01;
/// Fewer wrong answers may be near-ties that led into a repetition or another prompt's text.
const FEWEST_WRONG: usize = 3;

/// A latency with fewer distinct values is no clock's.
const DISTINCT: usize = 3;

pub fn missing_value(_: &Rules<'_>, launch_view: &LaunchView<'_, '_>) -> Option<Finding> {
    let undefined = launch_view.measure.as_ref().err()?;
    invalid(RuleId::MissingValue, Facts::Said(undefined.to_string()))
}

pub fn impossible_value(_: &Rules<'_>, launch_view: &LaunchView<'_, '_>) -> Option<Finding> {
    let metric = launch_view.check.metric;
    let measure = launch_view.measure.as_ref().ok()?;
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

/// Single gaps of 0 are events that came in one segment, and [`super::client::ambiguous`] tells how many can be borne. In the
/// launch's value they are too many for anyone.
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
    if got >= need {
        return None;
    }
    let workload = launch_view.workload.id.clone();
    let fact = LaunchFact::Samples {
        workload,
        got,
        need,
        left_out: left_out(launch_view),
    };
    of_launch(launch_view, RuleId::TooFewSamples, fact)
}

/// The time of a blank answer, or of another prompt's, is no time of the work that was asked for. A median bears few of
/// them; a mean, a tail and a throughput bear next to none.
pub fn wrong_answers(_: &Rules<'_>, launch_view: &LaunchView<'_, '_>) -> Option<Finding> {
    let found = launch_view.answers.wrong.as_ref()?;
    let is_timed = launch_view.check.metric.kind() == MetricKind::Latency;
    let bearable = match reads_medians(launch_view.check) {
        true => WRONG_MEDIAN,
        false => WRONG,
    };
    let is_borne = found.wrong < FEWEST_WRONG && 2 * found.wrong <= found.all;
    if !is_timed || is_borne || found.wrong as f64 <= bearable * found.all as f64 {
        return None;
    }
    let fact = LaunchFact::WrongAnswers {
        wrong: found.wrong,
        all: found.all,
        first: found.first.clone(),
    };
    of_launch(launch_view, RuleId::WrongAnswers, fact)
}

/// Most of head's answers part from base's at once, so head may have been timed at other work. That is no fault of head
/// where the change is meant, as a new chat template is.
pub fn other_answers(view: &View<'_, '_>) -> Option<Reason> {
    let check = view.case.check;
    let is_timed = check.metric.kind() == MetricKind::Latency;
    if !is_timed || !matches!(check.rule, Rule::Regression { .. }) {
        return None;
    }
    let found = Some(&view.of(Arm::Head).other).filter(|found| found.are_most())?;
    let facts = Facts::OtherAnswers {
        other: found.other,
        all: found.all,
        first: found.first.clone().unwrap_or_default(),
    };
    Some(Reason::new(RuleId::AnswersDiffer, facts))
}

/// True if a few requests hardly move the value: a median, or a line through the medians of cells.
pub fn reads_medians(check: &Check) -> bool {
    let is_of_cells = check.metric.is_fitted() || check.metric == Metric::Contention;
    check.statistic == Statistic::Median || is_of_cells
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
