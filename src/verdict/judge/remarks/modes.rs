//! Launches in two modes: how the arms share them, how far the arms are apart within them, and whether the mode changes
//! while a launch is measured.
//!
//! Main function: [`modes`]. Refuses to know: the verdict's words.

use super::super::test_kind::TestKind;
use super::super::view::{View, values};
use crate::plan::WorkloadKind;
use crate::record::{Arm, CheckVerdict, Remark, TwoModes, Verdict};
use crate::stats::{self, Modes, Scale};

/// Share of the gap between the modes that requests of one launch move from its first third to its last where the mode
/// changes within it.
const CHANGE: f64 = 0.5;
/// Launches of base in which the mode changes before the machine is named.
const LEAST: usize = 2;

/// Whether the launches of a comparison that was not passed fall into two modes.
pub fn modes(view: &View<'_, '_>, check: &CheckVerdict) -> Option<Remark> {
    let TestKind::Timed(scale) = view.case.test_kind else {
        return None;
    };
    if !view.is_regression() || check.verdict == Verdict::Pass {
        return None;
    }
    let of = |arm| -> Vec<f64> {
        let values = values(view.of(arm).kept.iter());
        values.iter().map(|v| scale.forward(*v)).collect()
    };
    let (base, head) = (of(Arm::Base), of(Arm::Head));
    let modes = stats::two_modes(&[base.as_slice(), head.as_slice()].concat())?;
    let upper = |values: &[f64]| {
        let upper = values.iter().filter(|v| **v > modes.last_low);
        (upper.count(), values.len())
    };
    // What parts the arms, and nothing else, is a change of the engine.
    let is_mixed = |(upper, all): (usize, usize)| upper > 0 && upper < all;
    let (of_base, of_head) = (upper(&base), upper(&head));
    if !is_mixed(of_base) && !is_mixed(of_head) {
        return None;
    }
    let within = within(&modes, &base, &head).map(|(change, (low, high))| {
        let change_of = |y: f64| if scale.is_relative() { y.exp_m1() } else { y };
        (change_of(change), (change_of(low), change_of(high)))
    });
    let mut found = TwoModes {
        values: (scale.back(modes.means.0), scale.back(modes.means.1)),
        base: of_base,
        head: of_head,
        share_p: stats::fisher_p(counts(of_base), counts(of_head)),
        within,
        by_machine: false,
    };
    found.by_machine = is_machine(view, check, (&modes, scale), &found);
    Some(Remark::Modes(found))
}

fn counts((part, all): (usize, usize)) -> (u64, u64) {
    (part as u64, all as u64)
}

/// Head's change with both modes held apart, and its 95 % interval: the differences of means within each mode, weighted by
/// the launches behind them, with one variance of all. `None` below two degrees of freedom, and where no mode has both
/// arms.
fn within(modes: &Modes, base: &[f64], head: &[f64]) -> Option<(f64, (f64, f64))> {
    let of = |values: &[f64], is_upper: bool| -> Vec<f64> {
        let mine = values.iter().copied();
        mine.filter(|v| (*v > modes.last_low) == is_upper).collect()
    };
    let (mut squares, mut df, mut change, mut weights) = (0.0, 0.0, 0.0, 0.0);
    for is_upper in [false, true] {
        let (base, head) = (of(base, is_upper), of(head, is_upper));
        for cell in [&base, &head] {
            if let Some(variance) = stats::variance(cell) {
                squares += variance * (cell.len() - 1) as f64;
                df += (cell.len() - 1) as f64;
            }
        }
        if let Some((base_mean, head_mean)) = stats::mean(&base).zip(stats::mean(&head)) {
            let (n, m) = (base.len() as f64, head.len() as f64);
            let weight = n * m / (n + m);
            change += weight * (head_mean - base_mean);
            weights += weight;
        }
    }
    if df < 2.0 || weights <= 0.0 {
        return None;
    }
    let change = change / weights;
    let half = stats::t_quantile(0.975, df)? * (squares / df / weights).sqrt();
    Some((change, (change - half, change + half)))
}

/// The mode changes while launches are measured, of base too and as often, and head is no slower within the modes: then
/// the machine has the modes, not what an engine draws at its start.
fn is_machine(
    view: &View<'_, '_>,
    check: &CheckVerdict,
    (modes, scale): (&Modes, Scale),
    found: &TwoModes,
) -> bool {
    let is_steady = matches!(view.case.workload.kind, WorkloadKind::Steady(_));
    let holds_zero = |(_, (low, high)): (f64, (f64, f64))| low <= 0.0 && high >= 0.0;
    let is_level = found.within.is_some_and(holds_zero);
    if !is_steady || !scale.is_relative() || check.verdict == Verdict::Fail || !is_level {
        return false;
    }
    let gap = modes.means.1 - modes.means.0;
    let changing = |arm| {
        let drifts = view.of(arm).kept.iter().filter_map(|reading| reading.drift);
        drifts.filter(|drift| drift.abs() > CHANGE * gap).count()
    };
    let (base, head) = (changing(Arm::Base), changing(Arm::Head));
    let is_shared = base * found.head.1 >= head * found.base.1;
    base >= LEAST && is_shared && 2 * (base + head) >= found.base.0 + found.head.0
}
