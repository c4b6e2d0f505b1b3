//! State of one check over its looks: least p-values, and the forecast of the first look.

use super::assessment::Figures;
use super::error_budget::Budgets;
use super::session::Scope;
use super::view::View;
use crate::record::{Advice, Direction};
use crate::stats::{self, Degenerate, Estimate};

/// Error of the repeated interval over all looks.
pub const INTERVAL_ALPHA: f64 = 0.05;
/// Power at which the smallest effect is given.
const POWER: f64 = 0.95;

/// The least p-values over the looks so far, with all looks paid for, and what the first look foretold.
#[derive(Clone, Debug)]
pub struct PastLooks {
    p_fail: f64,
    p_pass: f64,
    /// Blocks of the look that was taken in last.
    taken: u32,
    first_look: bool,
    too_noisy: Option<Advice>,
    /// The numbers of the first look that passed, and that no later one contradicts.
    passed: Option<Figures>,
    /// What the latest tested look (by its blocks) read.
    latest: Option<(u32, Look)>,
}

/// The launches of a look, as one estimate and its numbers.
#[derive(Clone, Debug)]
pub struct Look {
    pub estimate: Result<Estimate, Degenerate>,
    pub figures: Figures,
}

impl Default for PastLooks {
    fn default() -> Self {
        Self {
            p_fail: 1.0,
            p_pass: 1.0,
            taken: 0,
            first_look: true,
            too_noisy: None,
            passed: None,
            latest: None,
        }
    }
}

impl PastLooks {
    /// What the latest look read: made once a look, since no launch joins it later.
    pub fn latest(&mut self, scope: &Scope<'_>, make: impl FnOnce() -> Look) -> Look {
        match &self.latest {
            Some((looked, look)) if *looked == scope.looked => look.clone(),
            _ => {
                let look = make();
                self.latest = Some((scope.looked, look.clone()));
                look
            }
        }
    }

    /// Takes in the numbers and p-values (to fail, to pass) of a look, once; all looks are paid for.
    pub fn look(&mut self, view: &View<'_, '_>, (p_fail, p_pass): (f64, f64), figures: &Figures) {
        let looked = view.scope.looked;
        if self.taken == looked {
            return;
        }
        self.taken = looked;
        if p_pass <= view.case.budgets.beta && self.passed.is_none() {
            self.passed = Some(figures.clone());
        }
        self.p_fail = self.p_fail.min(p_fail);
        self.p_pass = self.p_pass.min(p_pass);
    }

    /// At the first look, of `n` launches an arm: could this session find an effect of the ceiling at
    /// its cap? Margin and ceiling are on the scale of the test.
    pub fn foretell(&mut self, view: &View<'_, '_>, e: &Estimate, (m, c): (f64, f64), n: usize) {
        if !self.first_look {
            return;
        }
        self.first_look = false;
        let limit = view.case.workload.launches.unwrap_or(u32::MAX);
        let budgets = &view.case.budgets;
        let last = budgets.cap;
        let cap = last.min(limit);
        let at_cap = f64::from(cap);
        let prior = view.case.noise.as_ref();
        let arms = if view.case.is_paired() { 1.0 } else { 2.0 };
        let known = prior.map_or(0.0, |noise| noise.df);
        let (se, df) = (
            e.se * (n as f64 / at_cap).sqrt(),
            known + arms * (at_cap - 1.0),
        );
        let direction = view.case.check.metric.direction();
        let Some(effect) = smallest_effect(budgets, last, (se, df), (m, direction)) else {
            return;
        };
        self.too_noisy = too_noisy(Some(cap), effect, direction.change(c));
    }

    /// What the first look foretold, where that is no good.
    pub fn too_noisy(&self) -> Option<Advice> {
        self.too_noisy
    }

    /// Takes back that an earlier look passed: a later one contradicts it.
    pub fn withdraw_pass(&mut self) {
        self.p_pass = 1.0;
        self.passed = None;
    }

    /// The numbers of the first look that passed: what comes after it decides nothing, unless it says the opposite.
    pub fn passed(&self) -> Option<Figures> {
        self.passed.clone()
    }

    pub fn write(&self, figures: &mut Figures) {
        figures.p_fail = Some(self.p_fail);
        figures.p_pass = Some(self.p_pass);
    }
}

/// Whether what the launches can find is more than the ceiling; `cap`: so many an arm, by a forecast.
pub fn too_noisy(cap: Option<u32>, effect: f64, ceiling: f64) -> Option<Advice> {
    (effect > ceiling).then_some(Advice::TooNoisy {
        cap,
        effect,
        ceiling,
    })
}

/// exp(ln(1 + m) + (t₁₋a + t.₉₅) · se) − 1, with a the level of the look of so many blocks: alpha / L.
pub fn smallest_effect(
    budgets: &Budgets,
    blocks: u32,
    (se, df): (f64, f64),
    (margin, direction): (f64, Direction),
) -> Option<f64> {
    let level = budgets.fail.level(budgets.alpha, blocks);
    let alpha = stats::t_quantile(1.0 - level, df)?;
    let power = stats::t_quantile(POWER, df)?;
    Some(direction.change(margin + (alpha + power) * se))
}
