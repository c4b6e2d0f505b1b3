//! What a check may spend on errors, and what calibration knows of its launches: fixed before anything is measured.
//!
//! Main types: [`ErrorBudget`], one budget shared by the looks; [`Budgets`], those of a check. Refuses to know: values.

use super::Rules;
use crate::plan::{CALIBRATED_LAUNCHES, Check, Design, Gate, LAUNCHES, Rule, Spending, Workload};
use crate::record::{Arm, LaunchNoise, RunRecord};
use crate::stats;

/// The looks at which a test is made, in order.
#[derive(Clone, Debug)]
pub struct ErrorBudget {
    blocks: Vec<u32>,
    spending: Spending,
}

impl ErrorBudget {
    /// Those of the session that is designed so, from `least` blocks on and up to `most`: elsewhere there is no test to be
    /// paid for.
    pub fn of(design: &Design, least: u32, most: u32) -> Self {
        let looks = design.looks.iter().copied();
        Self {
            blocks: looks
                .filter(|blocks| (least..=most).contains(blocks))
                .collect(),
            spending: design.spending,
        }
    }

    /// From the first look on that has launches enough to reject by `budget`, whatever distribution launches have: of
    /// n launches an arm all orders are equally likely, and 1 / C(2n, n) is the chance of the most extreme one.
    pub fn from_shown(mut self, budget: f64) -> Self {
        let shows = |from: usize| {
            let rest = Self {
                blocks: self.blocks[from..].to_vec(),
                spending: self.spending,
            };
            let level = rest.levels(budget).first().copied();
            level.is_some_and(|level| least_p(rest.blocks[0]) <= level)
        };
        let from = (0..self.blocks.len()).find(|&from| shows(from));
        self.blocks.drain(..from.unwrap_or(self.blocks.len()));
        self
    }

    /// The fewest blocks of a test; `None`: there is none.
    pub fn first(&self) -> Option<u32> {
        self.blocks.first().copied()
    }

    /// The p-value of a test at the look of so many blocks, with all looks paid for: it may be held against
    /// the whole budget. 1 where no test is made; above 1 it says no more than 1.
    pub fn paid(&self, p: f64, blocks: u32) -> f64 {
        if self.first().is_none_or(|first| blocks < first) {
            return 1.0;
        }
        // One look has the whole budget, however it is spent.
        match self.spending().filter(|_| self.blocks.len() > 1) {
            None => p * self.count(),
            Some(spending) => spending.repeated_p(p, self.number(blocks), &self.times()),
        }
    }

    /// The blocks of each look, with its level for this budget.
    pub fn looks(&self, budget: f64) -> impl Iterator<Item = (u32, f64)> {
        self.blocks.iter().copied().zip(self.levels(budget))
    }

    fn levels(&self, budget: f64) -> Vec<f64> {
        let levels = self
            .spending()
            .and_then(|spending| spending.levels(budget, &self.times()));
        levels.unwrap_or_else(|| vec![budget / self.count(); self.blocks.len()])
    }

    /// The level of the look of so many blocks for this budget. Between two looks it is that of the next one; beyond
    /// the last, that of the last.
    pub fn level(&self, budget: f64, blocks: u32) -> f64 {
        let levels = self.levels(budget);
        let last = levels.len().saturating_sub(1);
        let level = levels.get(self.number(blocks).min(last)).copied();
        level.unwrap_or(budget / self.count())
    }

    fn spending(&self) -> Option<stats::Spending> {
        match self.spending {
            Spending::Bonferroni => None,
            Spending::Pocock => Some(stats::Spending::Pocock),
            Spending::ObrienFleming => Some(stats::Spending::ObrienFleming),
        }
    }

    /// L: the number of looks.
    fn count(&self) -> f64 {
        self.blocks.len().max(1) as f64
    }

    fn number(&self, blocks: u32) -> usize {
        self.blocks.iter().filter(|look| **look < blocks).count()
    }

    /// The looks' shares of the information: of the launches at the last one.
    fn times(&self) -> Vec<f64> {
        let last = self.blocks.last().copied().unwrap_or(1);
        let share = |look: &u32| f64::from(*look) / f64::from(last);
        self.blocks.iter().map(share).collect()
    }
}

/// 1 / C(2n, n): the chance that of n launches an arm, which differ by chance alone, all of one arm are above all of the
/// other.
pub fn least_p(launches: u32) -> f64 {
    let n = f64::from(launches);
    (1..=launches)
        .map(|i| f64::from(i) / (n + f64::from(i)))
        .product()
}

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
    /// The check's budget for passing falsely.
    pub beta: f64,
    pub fail: ErrorBudget,
    pub pass: ErrorBudget,
    /// Head is compared with base, and nothing is known of how launches vary.
    may_have_modes: bool,
}

impl Budgets {
    pub fn of(rules: &Rules<'_>, check: &Check, workload: &Workload, is_calibrated: bool) -> Self {
        let compares = matches!(check.rule, Rule::Regression { .. })
            && rules.record.comparison.arms().contains(&Arm::Base);
        let of = (rules.family(), workload.launches.unwrap_or(u32::MAX));
        Self::new(rules.design, of, compares, is_calibrated)
    }

    /// Budgets of one check. `family`: how many checks share the error budget; `launches`: the most launches an arm of its
    /// workload; `compares`: the check compares head's launches with base's.
    pub fn new(
        design: &Design,
        (family, launches): (usize, u32),
        compares: bool,
        is_calibrated: bool,
    ) -> Self {
        let least = match is_calibrated {
            true => CALIBRATED_LAUNCHES,
            false => LAUNCHES,
        };
        let may_have_modes = compares && !is_calibrated;
        let pass = ErrorBudget::of(design, least, launches);
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
            beta: design.beta,
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
        let shown = self.shown(p, launches, blocks);
        match loss > MODES.ln_1p() {
            true => shown.min(self.pass.paid(p, blocks) / OF_MODES),
            false => shown,
        }
    }

    /// True if `paid` is the smallest p that this number of launches can reach.
    pub fn is_smallest(&self, paid: f64, launches: usize, blocks: u32) -> bool {
        self.may_have_modes && (paid / self.shown(0.0, launches, blocks) - 1.0).abs() < 1e-9
    }

    fn shown(&self, p: f64, launches: usize, blocks: u32) -> f64 {
        let launches = u32::try_from(launches).unwrap_or(u32::MAX);
        self.fail.paid(p.max(least_p(launches)), blocks) / (1.0 - OF_MODES)
    }
}

/// What the certificate that holds here, or earlier sessions, say of a check that compares head's launches with base's.
pub fn noise(record: &RunRecord, gate: &Gate, check: &Check) -> Option<LaunchNoise> {
    if !matches!(check.rule, Rule::Regression { .. }) {
        return None;
    }
    let mut cited = record.calibration.iter().filter(|c| c.gate == gate.name);
    let noise = cited.find_map(|citation| citation.noise(&check.id))?;
    noise.counted()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_of_two_arms() {
        for (n, orders) in [(1, 2.0), (3, 20.0), (4, 70.0), (8, 12_870.0)] {
            assert!((least_p(n) * orders - 1.0).abs() < 1e-12, "{n}");
        }
    }

    #[test]
    fn a_look_that_cannot_reject_is_not_paid_for() {
        let budget = |looks: &[u32]| ErrorBudget {
            blocks: looks.to_vec(),
            spending: Spending::Bonferroni,
        };
        let first = |looks: &[u32], alpha: f64| budget(looks).from_shown(alpha).first();
        assert_eq!(first(&[4], 0.02), Some(4));
        // A half of 2 % is below 1/70, and a third of it is not below 1/924.
        assert_eq!(first(&[4, 6], 0.02), Some(6));
        assert_eq!(first(&[4, 6, 8], 0.02), Some(6));
        assert_eq!(first(&[4, 6, 8], 0.02 / 30.0), Some(8));
        assert_eq!(first(&[4, 6], 1e-6), None);
        assert!((budget(&[4, 6]).from_shown(1e-6).paid(0.0, 6) - 1.0).abs() < 1e-12);
    }
}
