//! Assessment of one check at one look, before the checks are corrected together.

use super::view::View;
use crate::plan::Check;
use crate::record::{
    Advice, Arm, CheckVerdict, Facts, Hypothesis, Reason, Remark, RuleId, TooFew, Verdict,
};
use crate::stats::Degenerate;

/// Numbers and finding of one check.
pub struct Assessment {
    pub figures: Figures,
    pub finding: Finding,
    /// Why it does not pass, where the test says that it does.
    pub doubt: Option<Reason>,
    /// Why it does not fail, whatever the test says.
    pub doubt_of_failure: Option<Reason>,
}

/// The numbers of a [`CheckVerdict`], in its units.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    pub base: Option<f64>,
    pub head: Option<f64>,
    pub change: Option<f64>,
    pub interval: Option<(f64, f64)>,
    pub p_fail: Option<f64>,
    pub p_pass: Option<f64>,
    pub launches: (u32, u32),
    pub smallest_effect: Option<f64>,
    pub remarks: Vec<Remark>,
}

pub enum Finding {
    /// Decided without a test: invalid, reliability, exact comparisons.
    Settled { verdict: Verdict, reason: Reason },
    /// p-values decide, once they are corrected for the other checks.
    Tested(Tested),
    /// Inconclusive so far; after `wants` sound blocks there is more to see.
    Waiting { reason: Reason, wants: u32 },
    /// Inconclusive, and more launches of this session would not help.
    Never { reason: Reason },
}

/// A test whose p-values stand in the figures.
pub struct Tested {
    /// The rule that fails, and passes.
    pub rule: RuleId,
    pub hypothesis: Hypothesis,
    /// `p_fail` is the smallest that this number of launches can reach.
    pub is_smallest: bool,
    /// For a test that stays inconclusive.
    pub advice: Option<Advice>,
    /// Blocks after which it is tested again; `None`: never.
    pub wants: Option<u32>,
    /// The numbers of the look that passed, where a look did.
    pub passed: Option<Figures>,
}

impl Assessment {
    pub fn new(figures: Figures, finding: Finding) -> Self {
        Self {
            figures,
            finding,
            doubt: None,
            doubt_of_failure: None,
        }
    }

    /// True unless the check cannot pass, whatever other checks show: by its own p or without a test.
    pub fn may_pass(&self, beta: f64) -> bool {
        match &self.finding {
            Finding::Settled { verdict, .. } => *verdict == Verdict::Pass,
            Finding::Tested(_) => self.figures.p_pass.is_some_and(|p| p <= beta),
            Finding::Waiting { .. } | Finding::Never { .. } => false,
        }
    }

    pub fn settled(figures: Figures, verdict: Verdict, reason: Reason) -> Self {
        Self::new(figures, Finding::Settled { verdict, reason })
    }

    pub fn never(figures: Figures, rule: RuleId, facts: Facts) -> Self {
        let reason = Reason::new(rule, facts);
        Self::new(figures, Finding::Never { reason })
    }

    pub fn waiting(figures: Figures, facts: Facts, wants: u32) -> Self {
        let reason = Reason::new(RuleId::TooFewLaunches, facts);
        Self::new(figures, Finding::Waiting { reason, wants })
    }
}

/// The assessment of fewer launches an arm than a t-test needs.
pub fn too_few(view: &View<'_, '_>, n: usize) -> Option<Assessment> {
    let an_arm = view.case.budgets.least as usize;
    if n >= an_arm {
        return None;
    }
    let figures = Figures::of(view);
    if view.is_exhausted() {
        let facts = Facts::TooFew(TooFew::Needed { an_arm });
        return Some(Assessment::never(figures, RuleId::TooFewLaunches, facts));
    }
    let blocks = view.wants();
    let facts = Facts::TooFew(TooFew::NextLook {
        blocks: blocks.max(view.case.budgets.least),
    });
    Some(Assessment::waiting(figures, facts, blocks))
}

/// The assessment of values that carry no t-test.
pub fn no_t(figures: Figures, degenerate: Degenerate) -> Assessment {
    let facts = Facts::Said(degenerate.to_string());
    let reason = Reason::new(RuleId::NoVariance, facts);
    Assessment::settled(figures, Verdict::Invalid, reason)
}

impl Figures {
    /// Figures that hold the number of launches that count, and nothing else yet.
    pub fn of(view: &View<'_, '_>) -> Self {
        let n = |arm| u32::try_from(view.of(arm).kept.len()).unwrap_or(u32::MAX);
        Self {
            launches: (n(Arm::Base), n(Arm::Head)),
            ..Self::default()
        }
    }

    pub fn with_launches(mut self, base: usize, head: usize) -> Self {
        let n = |n| u32::try_from(n).unwrap_or(u32::MAX);
        self.launches = (n(base), n(head));
        self
    }

    /// Takes the numbers of the look that decided; p-values and remarks stay, but for what the numbers say themselves. Where
    /// the launches since then say otherwise, a remark tells it.
    pub fn take_numbers(&mut self, mut decided: Self) {
        let mut remarks = std::mem::take(&mut self.remarks);
        remarks.retain(|remark| !matches!(remark, Remark::Better { .. }));
        remarks.append(&mut decided.remarks);
        if let (Some(change), Some(interval), Some((low, high))) =
            (self.change, self.interval, decided.interval)
            && !(low..=high).contains(&change)
        {
            remarks.push(Remark::Later {
                change,
                interval,
                launches: self.launches,
            });
        }
        *self = Self {
            p_fail: self.p_fail,
            p_pass: self.p_pass,
            remarks,
            ..decided
        };
    }

    /// The check's verdict by these numbers.
    pub fn verdict(self, check: &Check, verdict: Verdict, reason: Reason) -> CheckVerdict {
        let named = check.part.named.as_ref();
        let over = named.and_then(|named| named.over.as_ref());
        CheckVerdict {
            id: check.id.clone(),
            metric: check.metric,
            statistic: check.statistic,
            rule: check.rule,
            series: named.map(|named| named.series.to_string()),
            over: over.map(ToString::to_string),
            verdict,
            reason,
            base: self.base,
            head: self.head,
            change: self.change.map(positive_zero),
            interval: self.interval,
            p_fail: self.p_fail.map(|p| p.min(1.0)),
            p_pass: self.p_pass.map(|p| p.min(1.0)),
            launches: self.launches,
            smallest_effect: self.smallest_effect,
            remarks: self.remarks,
            cells: Vec::new(),
            waiver: None,
        }
    }
}

/// No change has no direction: a loss of nothing, negated, would be written as `-0.0`.
fn positive_zero(change: f64) -> f64 {
    // IEEE 754: −0 + 0 is +0, and any other number stays itself.
    change + 0.0
}

#[cfg(test)]
mod tests {
    use super::positive_zero;

    #[test]
    fn no_change_has_no_minus() {
        for (change, expect) in [(-0.0, "+0.0"), (0.0, "+0.0"), (-0.5, "-0.5"), (0.5, "+0.5")] {
            assert_eq!(format!("{:+.1}", positive_zero(change)), expect);
        }
    }
}
