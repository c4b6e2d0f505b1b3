//! What head's worst launch shows beside its value: a matrix's cells, the first and the last turns of a session, requests
//! within a bound. It is said whatever the verdict is.

use super::assessment::{Assessment, Finding};
use super::view::View;
use crate::metrics::LaunchMeasure;
use crate::plan::Rule;
use crate::plural::count;
use crate::record::{Arm, Direction, Launch};

/// Remarks that a report shows of one launch.
const SHOWN: usize = 12;

/// Adds the worst launch's cells, and those of its remarks that the reason does not hold already.
pub fn describe(view: &View<'_, '_>, assessment: &mut Assessment) {
    let Some((launch, measure)) = worst(view) else {
        return;
    };
    assessment.figures.cells.clone_from(&measure.cells);
    let reason = match &assessment.finding {
        Finding::Settled { reason, .. }
        | Finding::Waiting { reason, .. }
        | Finding::Never { reason } => reason.text.as_str(),
        Finding::Tested(_) => "",
    };
    let new = |remark: &&String| !reason.contains(remark.as_str());
    let mut remarks: Vec<String> = measure.remarks.iter().filter(new).cloned().collect();
    let hidden = remarks.len().saturating_sub(SHOWN);
    if hidden > 0 {
        remarks.truncate(SHOWN);
        remarks.push(format!("and {hidden} more"));
    }
    let launches = view.of(Arm::Head).kept.len();
    if let Some(first) = remarks.first_mut().filter(|_| launches > 1) {
        *first = format!(
            "launch {}, the worst of {}: {first}",
            launch.position,
            count(launches, "launch")
        );
    }
    assessment.figures.notes.extend(remarks);
}

/// Head's launch with the worst value by the check's rule; of equal ones the first.
pub fn worst<'s, 'a>(view: &View<'s, 'a>) -> Option<(&'a Launch, &'s LaunchMeasure)> {
    let check = view.case.check;
    let more_is_worse = match check.rule {
        Rule::Ceiling { .. } => true,
        Rule::Floor { .. } => false,
        Rule::Regression { .. } => check.metric.direction() == Direction::LowerIsBetter,
    };
    let badness = |measure: &LaunchMeasure| match more_is_worse {
        true => measure.value,
        false => -measure.value,
    };
    let kept = view.of(Arm::Head).kept.iter();
    let measured = kept.filter_map(|r| Some((r.launch, r.measure.as_ref().ok()?)));
    measured
        .rev()
        .max_by(|(_, a), (_, b)| badness(a).total_cmp(&badness(b)))
}
