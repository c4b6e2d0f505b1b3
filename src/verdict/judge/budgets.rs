//! What a check may spend on errors, and what calibration knows of its launches: fixed before anything is measured.

use super::Rules;
use super::error_budget::{ErrorBudget, least_p};
use crate::plan::{CALIBRATED_LAUNCHES, Check, Design, Gate, LAUNCHES, Rule};
use crate::record::{Arm, Comparison, LaunchNoise, RunRecord, Standing};

/// More than this many degrees of freedom no certificate is trusted with: machines change.
pub const MOST_DF: f64 = 6.0;

/// Launches of one build that nobody calibrated may come in modes, such as kernels that are chosen at the start by
/// timing. Modes are taken to be closer than this: a change beyond it needs no more launches than a test does.
const MODES: f64 = 0.5;
/// The share of the budget for false alarms that is kept for such a change.
const OF_MODES: f64 = 0.1;

/// The looks of one check, and what each may spend.
#[derive(Clone, Debug)]
pub struct Budgets {
    /// Fewer launches an arm carry no test.
    pub least: u32,
    /// Blocks at the last look.
    pub cap: u32,
    /// Budget of the looks for false alarms, all checks together.
    pub alpha: f64,
    pub fail: ErrorBudget,
    pub pass: ErrorBudget,
    /// Head is compared with base, and nothing is known of how launches vary.
    may_have_modes: bool,
}

impl Budgets {
    pub fn of(rules: &Rules<'_>, check: &Check, is_calibrated: bool) -> Self {
        let compares = matches!(check.rule, Rule::Regression { .. })
            && rules.record.comparison.arms().contains(&Arm::Base);
        let own = rules.plan.gates.iter().map(|gate| gate.checks.len()).sum();
        Self::new(rules.design, rules.family(own), compares, is_calibrated)
    }

    /// Of a check in a run of so many. `compares`: head's launches with base's.
    pub fn new(design: &Design, family: usize, compares: bool, is_calibrated: bool) -> Self {
        let least = match is_calibrated {
            true => CALIBRATED_LAUNCHES,
            false => LAUNCHES,
        };
        let may_have_modes = compares && !is_calibrated;
        let pass = ErrorBudget::of(design, least);
        let (alpha, fail) = match may_have_modes {
            true => {
                let alpha = design.alpha * (1.0 - OF_MODES);
                let shown = pass.clone().from_shown(alpha / family.max(1) as f64);
                (alpha, shown)
            }
            false => (design.alpha, pass.clone()),
        };
        Self {
            least,
            cap: design.looks.last().copied().unwrap_or_default(),
            alpha,
            fail,
            pass,
            may_have_modes,
        }
    }

    /// The p of a failure at the look of so many blocks, all looks paid for. `p`: of the test; `loss`: by how much head is
    /// worse, on the scale of logarithms; `launches`: of the arm that has fewer.
    pub fn paid_failure(&self, p: f64, loss: f64, launches: usize, blocks: u32) -> f64 {
        if !self.may_have_modes {
            return self.fail.paid(p, blocks);
        }
        let launches = u32::try_from(launches).unwrap_or(u32::MAX);
        let shown = self.fail.paid(p.max(least_p(launches)), blocks) / (1.0 - OF_MODES);
        match loss > MODES.ln_1p() {
            true => shown.min(self.pass.paid(p, blocks) / OF_MODES),
            false => shown,
        }
    }
}

/// What the certificate that holds here says of a check that compares head's launches with base's.
pub fn noise(record: &RunRecord, gate: &Gate, check: &Check) -> Option<LaunchNoise> {
    if record.comparison == Comparison::Stored || !matches!(check.rule, Rule::Regression { .. }) {
        return None;
    }
    let mut cited = record.calibration.iter().filter(|c| c.gate == gate.name);
    let noise = cited.find_map(|citation| match &citation.standing {
        Standing::Valid(certified) => certified.noise.get(&check.id),
        Standing::Void { .. } | Standing::Missing => None,
    })?;
    let is_sound = noise.sd.is_finite() && noise.sd > 0.0 && noise.df > 0.0;
    is_sound.then(|| LaunchNoise {
        df: noise.df.min(MOST_DF),
        ..*noise
    })
}
