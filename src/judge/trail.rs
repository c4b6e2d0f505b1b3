//! What the looks of one check leave behind: its least p-values, and the forecast of the first.

use super::Rules;
use super::assessment::Figures;
use super::view::View;
use super::words;
use crate::record::Comparison;
use crate::stats::{self, Estimate};

/// Power at which the smallest effect is given.
const POWER: f64 = 0.95;

/// The least p-values over the looks so far, each times the number of looks, and what the first look
/// foretold.
#[derive(Clone, Debug)]
pub(super) struct Trail {
    p_fail: f64,
    p_pass: f64,
    first_look: bool,
    too_noisy: Option<String>,
}

impl Default for Trail {
    fn default() -> Self {
        Self {
            p_fail: 1.0,
            p_pass: 1.0,
            first_look: true,
            too_noisy: None,
        }
    }
}

impl Trail {
    /// Takes in the p-values of a look; outside a look nothing is tested anew.
    pub(super) fn look(
        &mut self,
        rules: &Rules<'_>,
        view: &View<'_, '_>,
        p_fail: f64,
        p_pass: f64,
    ) {
        if view.scope.is_look {
            self.p_fail = self.p_fail.min(p_fail * rules.looks());
            self.p_pass = self.p_pass.min(p_pass * rules.looks());
        }
    }

    /// At the first look, of `n` launches an arm: could this session find an effect of the ceiling at
    /// its cap? Margin and ceiling are on the scale of the test.
    pub(super) fn foretell(
        &mut self,
        rules: &Rules<'_>,
        view: &View<'_, '_>,
        e: &Estimate,
        (m, c): (f64, f64),
        n: usize,
    ) {
        if !self.first_look || !view.scope.is_look {
            return;
        }
        self.first_look = false;
        let limit = view.case.workload.launches.unwrap_or(u32::MAX);
        let cap = rules.design.looks.last().copied().unwrap_or(0).min(limit);
        let at_cap = f64::from(cap);
        // More launches narrow a launch's mean, and leave the spread between sessions as it is.
        let (se, df) = match view.comparison {
            Comparison::Stored => (e.se, e.df),
            _ => (e.se * (n as f64 / at_cap).sqrt(), 2.0 * (at_cap - 1.0)),
        };
        let Some(effect) = smallest_effect(rules, se, df, m) else {
            return;
        };
        if effect > c.exp_m1() {
            self.too_noisy = Some(format!(
                "this runner is too noisy for this gate: after {cap} launches an arm it could find {}, the ceiling is {}",
                words::percent((effect * 1e3).round() / 1e3),
                words::percent(c.exp_m1())
            ));
        }
    }

    pub(super) fn too_noisy(&self) -> Option<&str> {
        self.too_noisy.as_deref()
    }

    pub(super) fn write(&self, figures: &mut Figures) {
        figures.p_fail = Some(self.p_fail);
        figures.p_pass = Some(self.p_pass);
    }
}

/// exp(ln(1 + m) + (t₁₋α/L + t.₉₅) · se) − 1.
pub(super) fn smallest_effect(rules: &Rules<'_>, se: f64, df: f64, margin: f64) -> Option<f64> {
    let alpha = stats::t_quantile(1.0 - rules.design.alpha / rules.looks(), df)?;
    let power = stats::t_quantile(POWER, df)?;
    Some((margin + (alpha + power) * se).exp_m1())
}
