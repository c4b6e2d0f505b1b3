//! Spending of an error budget over the looks of a sequential test.
//!
//! Main type: [`Spending`]. Looks at growing data share one budget: each has a nominal level, and a p below it
//! at any look rejects. Statistics at two looks are those of a Brownian motion with the share of information as
//! its time, so their correlation is known, and levels that use it are found by recursive integration (Armitage,
//! McPherson and Rowe 1969; Jennison and Turnbull 2000, chapter 19).
//!
//! Refuses to know: what is tested. p-values of a t test may be held against the levels too (Jennison and
//! Turnbull 2000, section 3.8), nearly so for few degrees of freedom.

use crate::stats::distributions::legendre;
use statrs::distribution::{Continuous, ContinuousCDF, Normal};
use std::f64::consts::E;

/// The Brownian motion is followed from so many standard deviations below zero.
const DEPTH: f64 = 7.0;
/// Steps of more standard deviations are left out: their density is e⁻⁷² at most, that at [`DEPTH`] is e⁻²⁴·⁵.
const FAR: f64 = 12.0;
/// Nodes of an integral: so many a standard deviation of the next step, within bounds.
const NODES_A_STEP: f64 = 2.5;
const NODES: (usize, usize) = (24, 256);
/// Steps to a level and to a repeated p-value: more than either takes.
const STEPS: usize = 60;
/// Secants before the bracket is halved in.
const SECANTS: usize = 8;
/// So near to zero is a root, on a logarithmic scale.
const ROOT: f64 = 1e-7;
const HALF: f64 = 0.5;
/// The greatest budget that is looked for: beyond, p is 1.
const GREATEST: f64 = 0.999;
/// Where a step changes nothing any more, relative.
const CONVERGED: f64 = 1e-13;

/// How much of the budget is spent by which share of the information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spending {
    /// α ln(1 + (e − 1) t) of Lan and DeMets (1983): much of it early, like Pocock's equal levels.
    Pocock,
    /// 2 − 2 Φ(z₁₋α/₂ / √t) of Lan and DeMets (1983): nearly all of it late, like O'Brien's and Fleming's.
    ObrienFleming,
}

impl Spending {
    /// What of the budget `alpha` is spent by the share `t` of the information, both in (0, 1).
    fn spent(self, alpha: f64, t: f64, normal: &Normal) -> f64 {
        match self {
            Self::Pocock => alpha * (1.0 + (E - 1.0) * t).ln(),
            Self::ObrienFleming => 2.0 * normal.sf(-normal.inverse_cdf(alpha / 2.0) / t.sqrt()),
        }
    }

    /// The one-sided level of each look for the budget `alpha` in (0, 1). `times`: the shares of the
    /// information, rising, in (0, 1], 1 at the last planned look; those of later looks may be left out.
    ///
    /// `None` outside that domain. One look at time 1 has the whole budget.
    pub fn levels(self, alpha: f64, times: &[f64]) -> Option<Vec<f64>> {
        let is_rising = times.is_sorted_by(|a, b| a < b);
        let within = times.iter().all(|t| *t > 0.0 && *t <= 1.0);
        if !(alpha > 0.0 && alpha < 1.0 && is_rising && within) {
            return None;
        }
        let normal = Normal::new(0.0, 1.0).ok()?;
        let mut path = Path::new(&normal);
        let mut spent = 0.0;
        let mut levels = Vec::new();
        for (i, &t) in times.iter().enumerate() {
            let by_now = self.spent(alpha, t, &normal);
            let z = path.bound(by_now - spent, t);
            levels.push(normal.sf(z));
            if let Some(next) = times.get(i + 1) {
                path.go(z, t, next - t);
            }
            spent = by_now;
        }
        Some(levels)
    }

    /// The least budget with which a p-value of `p` at the look of number `look` (from 0) rejects: the p-value
    /// that the looks have been paid for with, at most 1. Held against a budget, also one that Holm has
    /// divided, it says what the levels say.
    ///
    /// 1 where there is no such look, and for a `p` that is no probability.
    pub fn repeated_p(self, p: f64, look: usize, times: &[f64]) -> f64 {
        let Some(so_far) = times.get(..=look).filter(|_| p >= 0.0) else {
            return 1.0;
        };
        // No budget is below p, and one of a half says nothing.
        if p > HALF {
            return 1.0;
        }
        let target = p.max(f64::MIN_POSITIVE).ln();
        let beyond = |log: f64| {
            let level = *self.levels(log.exp(), so_far)?.last()?;
            Some(level.max(f64::MIN_POSITIVE).ln() - target)
        };
        let found = near_root(beyond, target).or_else(|| root(beyond, target, GREATEST.ln()));
        found.map_or(1.0, f64::exp)
    }
}

/// Where a function is zero whose slope is nearly 1, as that of ln of the level against ln of the budget, by secants from
/// the level itself. `None` where they leave the budgets that there are.
fn near_root(f: impl Fn(f64) -> Option<f64>, start: f64) -> Option<f64> {
    let (mut x, mut slope) = (start, 1.0);
    let mut last: Option<(f64, f64)> = None;
    for _ in 0..SECANTS {
        let value = f(x)?;
        if value.abs() < ROOT {
            return Some(x);
        }
        if let Some((before, was)) = last {
            slope = (value - was) / (x - before);
        }
        last = Some((x, value));
        let step = value / slope;
        if !(step.is_finite() && (start..GREATEST.ln()).contains(&(x - step))) {
            return None;
        }
        x -= step;
    }
    None
}

/// Where a rising function is zero, by the Illinois form of false position (Dowell and Jarratt 1971); the
/// lower bound where it is not below zero there. `None` where it is below zero at the upper bound.
fn root(f: impl Fn(f64) -> Option<f64>, low: f64, high: f64) -> Option<f64> {
    let (mut below, mut above) = ((low, f(low)?), (high, f(high)?));
    if below.1 >= 0.0 {
        return Some(below.0);
    }
    if above.1 <= 0.0 {
        return None;
    }
    let mut was_below = None;
    for _ in 0..STEPS {
        let middle = above.0 - above.1 * (above.0 - below.0) / (above.1 - below.1);
        let value = f(middle)?;
        if value.abs() < ROOT {
            return Some(middle);
        }
        // A bound that stays twice in a row counts half, or it would never move.
        let is_below = value < 0.0;
        let again = was_below == Some(is_below);
        let half = if again { 0.5 } else { 1.0 };
        if is_below {
            below = (middle, value);
            above.1 *= half;
        } else {
            above = (middle, value);
            below.1 *= half;
        }
        was_below = Some(is_below);
    }
    Some(above.0)
}

/// The density of a Brownian motion that has not crossed a bound yet, at nodes of a quadrature.
struct Path<'a> {
    normal: &'a Normal,
    /// Value, and density times weight.
    nodes: Vec<(f64, f64)>,
    /// Time to the next look.
    step: f64,
}

impl<'a> Path<'a> {
    /// At time 0 it is at 0.
    fn new(normal: &'a Normal) -> Self {
        Self {
            normal,
            nodes: vec![(0.0, 1.0)],
            step: 0.0,
        }
    }

    /// ln of the probability to be above z √t at the look, and its derivative by z.
    fn crossing(&self, z: f64, t: f64) -> (f64, f64) {
        let sd = self.sd(t);
        let (mut above, mut density) = (0.0, 0.0);
        for (x, weight) in &self.nodes {
            let at = (z * t.sqrt() - x) / sd;
            above += weight * self.normal.sf(at);
            density += weight * self.normal.pdf(at) * t.sqrt() / sd;
        }
        (above.ln(), -density / above)
    }

    fn sd(&self, t: f64) -> f64 {
        if self.step > 0.0 {
            self.step.sqrt()
        } else {
            t.sqrt()
        }
    }

    /// The z that is crossed with this probability at the look at `t`; infinite for none.
    fn bound(&self, probability: f64, t: f64) -> f64 {
        if probability <= f64::MIN_POSITIVE {
            return f64::INFINITY;
        }
        // Nothing was crossed before: that bound is too high. From there Newton's steps on the logarithm,
        // which is concave, come down to the root and never pass it.
        let mut z = -self.normal.inverse_cdf(probability);
        for _ in 0..STEPS {
            let (log, slope) = self.crossing(z, t);
            let step = (log - probability.ln()) / slope;
            if !step.is_finite() {
                break;
            }
            z -= step;
            if step.abs() < CONVERGED * (1.0 + z.abs()) {
                break;
            }
        }
        z
    }

    /// Past the look at `t`, where what was above z √t has ended.
    fn go(&mut self, z: f64, t: f64, step: f64) {
        let (from, to) = (-DEPTH * t.sqrt(), z.min(DEPTH) * t.sqrt());
        let n = NODES_A_STEP * (to - from) / step.sqrt();
        let by_sd = self.sd(t).recip();
        let scale = self.normal.pdf(0.0) * by_sd;
        let density = |x: f64| -> f64 {
            let near = self
                .nodes
                .iter()
                .map(|(y, weight)| ((x - y) * by_sd, weight));
            let near = near.filter(|(distance, _)| distance.abs() < FAR);
            near.map(|(distance, weight)| weight * (-0.5 * distance * distance).exp())
                .sum::<f64>()
                * scale
        };
        let nodes = legendre::known_nodes((n as usize).clamp(NODES.0, NODES.1));
        let (half, middle) = ((to - from) / 2.0, f64::midpoint(from, to));
        let nodes = nodes.iter().map(|&(x, weight)| {
            let x = middle + half * x;
            (x, weight * half * density(x))
        });
        self.nodes = nodes.collect();
        self.step = step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known bounds for five equal looks: one-sided .025, as the tables for two sides of .05 give them.
    #[test]
    fn published_bounds() {
        let check = |spending: Spending, expect: [f64; 5]| {
            let times = [0.2, 0.4, 0.6, 0.8, 1.0];
            let normal = Normal::new(0.0, 1.0).unwrap();
            let levels = spending.levels(0.025, &times).unwrap();
            for (level, z) in levels.iter().zip(expect) {
                let got = -normal.inverse_cdf(*level);
                assert!((got - z).abs() < 1e-3, "{spending:?}: {got} for {z}");
            }
        };
        check(Spending::Pocock, [2.438, 2.427, 2.410, 2.397, 2.386]);
        check(
            Spending::ObrienFleming,
            [4.8769, 3.3569, 2.6803, 2.2898, 2.0310],
        );
    }

    #[test]
    fn one_look_has_the_whole_budget() {
        for spending in [Spending::Pocock, Spending::ObrienFleming] {
            let levels = spending.levels(0.02, &[1.0]).unwrap();
            assert!((levels[0] - 0.02).abs() < 1e-12, "{spending:?}: {levels:?}");
            assert!((spending.repeated_p(0.3, 0, &[1.0]) - 0.3).abs() < 1e-6);
        }
    }

    #[test]
    fn outside_the_domain_there_is_none() {
        let check = |alpha: f64, times: &[f64]| {
            assert_eq!(
                Spending::Pocock.levels(alpha, times),
                None,
                "{alpha} {times:?}"
            );
        };
        check(0.0, &[1.0]);
        check(1.0, &[1.0]);
        check(f64::NAN, &[1.0]);
        check(0.05, &[0.5, 0.5]);
        check(0.05, &[0.0, 1.0]);
        check(0.05, &[0.5, 1.1]);
        check(0.05, &[f64::NAN]);
        assert_eq!(Spending::Pocock.levels(0.05, &[]), Some(vec![]));
        for (p, look) in [(f64::NAN, 0), (-0.1, 0), (0.5, 7)] {
            assert!((Spending::Pocock.repeated_p(p, look, &[0.5, 1.0]) - 1.0).abs() < 1e-12);
        }
    }

    /// At the level of a budget the repeated p is that budget.
    #[test]
    fn levels_and_repeated_p_are_inverse() {
        let times = [0.25, 0.375, 0.5, 0.75, 1.0];
        for spending in [Spending::Pocock, Spending::ObrienFleming] {
            for alpha in [0.05, 0.001] {
                let levels = spending.levels(alpha, &times).unwrap();
                for (look, level) in levels.into_iter().enumerate() {
                    let got = spending.repeated_p(level, look, &times);
                    assert!(
                        (got / alpha - 1.0).abs() < 1e-5,
                        "{spending:?} {look}: {got} for {alpha}"
                    );
                }
            }
        }
    }
}
