//! Input of the rules, and their findings.

use crate::judge::launch_view::LaunchView;
use crate::judge::test_kind::family;
use crate::plan::{Design, Plan};
use crate::record::{Extent, Facts, Launch, LaunchFact, Reason, RuleId, RunRecord, Verdict};

/// A rule's finding.
#[derive(Clone)]
pub struct Finding {
    pub verdict: Verdict,
    pub reason: Reason,
}

impl Finding {
    pub fn new(verdict: Verdict, rule: RuleId, facts: Facts) -> Self {
        let reason = Reason::new(rule, facts);
        Self { verdict, reason }
    }
}

pub fn invalid(rule: RuleId, facts: Facts) -> Option<Finding> {
    Some(Finding::new(Verdict::Invalid, rule, facts))
}

/// The launch is no measurement, by what it shows by itself.
pub fn of_launch(
    launch_view: &LaunchView<'_, '_>,
    rule: RuleId,
    fact: LaunchFact,
) -> Option<Finding> {
    invalid(rule, facts(launch_view, fact))
}

/// The launch's value may not be what it seems, so that the check does not pass by it.
pub fn doubt(launch_view: &LaunchView<'_, '_>, rule: RuleId, fact: LaunchFact) -> Option<Finding> {
    let facts = facts(launch_view, fact);
    Some(Finding::new(Verdict::Inconclusive, rule, facts))
}

fn facts(launch_view: &LaunchView<'_, '_>, fact: LaunchFact) -> Facts {
    let Launch { position, arm, .. } = *launch_view.launch;
    Facts::Launch {
        position,
        arm,
        fact,
    }
}

/// A rule that one launch keeps or breaks by itself.
pub type LaunchRule = fn(&Rules<'_>, &LaunchView<'_, '_>) -> Option<Finding>;

/// Plan and record, for every part of the judge.
pub struct Rules<'a> {
    pub plan: &'a Plan,
    pub record: &'a RunRecord,
    pub design: &'a Design,
    /// Why nothing of the session is a measurement.
    pub session: Option<Finding>,
}

impl Rules<'_> {
    /// How many checks share the error budget: those of this session, or of the whole run that it is a shard of.
    pub fn family(&self) -> usize {
        let own = family(self.plan) as usize;
        match self.record.extent {
            Extent::Shard { checks, .. } => own.max(checks as usize),
            Extent::Whole | Extent::Merged { .. } => own,
        }
    }
}
