//! What a rule finds.

use super::super::Rules;
use super::super::sight::Sight;
use crate::record::{Facts, Launch, LaunchFact, Reason, RuleId, Verdict};

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
pub fn of_launch(sight: &Sight<'_, '_>, rule: RuleId, fact: LaunchFact) -> Option<Finding> {
    let Launch { position, arm, .. } = *sight.launch;
    let facts = Facts::Launch {
        position,
        arm,
        fact,
    };
    invalid(rule, facts)
}

/// A rule that one launch keeps or breaks by itself.
pub type LaunchRule = fn(&Rules<'_>, &Sight<'_, '_>) -> Option<Finding>;
