//! Rules on the session as a whole: one machine, one engine an arm, launched in turn and ending well.

use super::super::Rules;
use super::super::view::View;
use super::finding::{Finding, invalid};
use crate::record::{
    Arm, Build, Comparison, Condition, Exit, Facts, Failed, Launch, LostRequest, RuleId, RunRecord,
    Sample, Verdict,
};

/// More launches of one arm in a row than this, and the machine's drift is taken for a change.
const LONGEST_RUN: usize = 2;

/// Over the whole record and not only up to the look: a machine that changed during a session was not
/// the machine that the session says it was.
pub fn fingerprint_changed(record: &RunRecord) -> Option<Finding> {
    let first = record.launches.first()?;
    let mut launches = record.launches.iter();
    let other = launches.find(|l| l.fingerprint != first.fingerprint)?;
    let of = |launch: &Launch| (launch.position, launch.fingerprint.clone());
    let (first, other) = (of(first), of(other));
    let facts = Facts::Fingerprints { first, other };
    invalid(RuleId::FingerprintChanged, facts)
}

/// An engine whose files were written to while the session ran: what was measured of it is nobody's commit.
pub fn altered(record: &RunRecord) -> Option<Finding> {
    let is_altered = |launch: &&Launch| matches!(launch.exit, Exit::Altered { .. });
    let launch = record.launches.iter().find(is_altered)?;
    let (base, head) = match launch.arm {
        Arm::Base => (failed(launch), None),
        Arm::Head => (None, failed(launch)),
    };
    invalid(RuleId::EngineAltered, Facts::Exits { base, head })
}

/// Two commits with one artifact: nothing of the change was measured.
pub fn one_artifact(record: &RunRecord) -> Option<Finding> {
    let base = Build::of(&record.builds, Arm::Base)?;
    let head = Build::of(&record.builds, Arm::Head)?;
    if record.comparison != Comparison::Interleaved || !base.is_same_engine(head) {
        return None;
    }
    invalid(RuleId::OneArtifact, Facts::None)
}

pub fn not_interleaved(rules: &Rules<'_>, view: &View<'_, '_>) -> Option<Finding> {
    // Nothing tells the order in which another tool's launches ran: they are taken as if interleaved.
    if rules.record.is_imported() {
        return None;
    }
    let longest = view.scope.longest;
    let arm = longest.arm?;
    if view.comparison.arms().len() < 2 || longest.launches <= LONGEST_RUN {
        return None;
    }
    let facts = Facts::InARow {
        arm,
        launches: longest.launches,
        from: longest.from,
    };
    invalid(RuleId::NotInterleaved, facts)
}

pub fn launch_failed(view: &View<'_, '_>) -> Option<Finding> {
    let [base, head] = Arm::BOTH.map(|arm| view.of(arm).failed.and_then(failed));
    let (verdict, rule) = match (&base, &head) {
        (None, Some(_)) if !view.lacks_base() => (Verdict::Fail, RuleId::Reliability),
        (_, Some(_)) => (Verdict::Invalid, RuleId::LaunchFailed),
        (Some(_), None) if view.arms().contains(&Arm::Base) => {
            (Verdict::Invalid, RuleId::LaunchFailed)
        }
        _ => return None,
    };
    Some(Finding::new(verdict, rule, Facts::Exits { base, head }))
}

pub fn failed(launch: &Launch) -> Option<Failed> {
    Some(Failed {
        position: launch.position,
        arm: launch.arm,
        exit: launch.exit.clone(),
        request: lost(launch),
    })
}

/// The request that the engine may have ended at: a bad one that it did not answer, or the first of those.
fn lost(launch: &Launch) -> Option<LostRequest> {
    let is_bad = |sample: &Sample| sample.condition() == Some(Condition::Refused);
    let is_lost = |sample: &&Sample| {
        let void = sample.void.as_ref();
        void.is_some_and(|void| void.rule.blames_engine()) || sample.status == Some(0)
    };
    let lost = launch.samples.iter().filter(is_lost);
    let sample = lost.min_by_key(|sample| (!is_bad(sample), sample.stamps.send_ns))?;
    let condition = sample.condition();
    let case = sample.case.as_deref().filter(|_| is_bad(sample));
    let kind = condition.map(|condition| match case {
        Some(case) => [condition.name(), case].join(": "),
        None => condition.name().to_owned(),
    });
    Some(LostRequest {
        index: sample.index,
        workload: sample.workload.clone(),
        kind,
    })
}
