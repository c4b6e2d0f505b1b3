//! The least time of a session: the waits that its workloads ask for, whatever the engine.
//!
//! An engine that answers at once still waits for the next arrival or turn. Where these waits alone are longer than the
//! profile's budget, no verdict can come, and [`refuse_too_long`] says so before anything is built.

use crate::plan::model::{Arrivals, Gate, LAUNCHES, Plan, Trace, Workload, WorkloadKind};
use crate::record::Comparison;
use std::fmt;

/// Blocks of a recording of main, which has no base to be judged against.
pub const RECORDED_BLOCKS: u32 = 4;

/// The least seconds of one launch that runs all of the gate's workloads.
pub fn least_s(gate: &Gate) -> f64 {
    gate.workloads.iter().map(|work| waits_s(&work.kind)).sum()
}

/// The least seconds of a session of all gates, up to its first look.
pub fn least_session_s(plan: &Plan, comparison: Comparison) -> f64 {
    let gates = plan.gates.iter();
    let of_gates: f64 = gates.map(|gate| of_gate_s(plan, comparison, gate)).sum();
    of_gates + bursts_s(plan, comparison)
}

/// # Errors
/// The least time of the session is longer than the profile's budget.
pub fn refuse_too_long(plan: &Plan, comparison: Comparison) -> Result<(), Box<TooLong>> {
    let budget_s = plan.design.budget.as_secs_f64();
    let session_s = least_session_s(plan, comparison);
    if session_s <= budget_s {
        return Ok(());
    }
    let mut gates: Vec<TooLongGate> = plan
        .gates
        .iter()
        .map(|gate| TooLongGate {
            gate: gate.name.clone(),
            file: gate.file.clone(),
            launch_s: least_s(gate),
            session_s: of_gate_s(plan, comparison, gate),
        })
        .filter(|gate| gate.session_s > 0.0)
        .collect();
    gates.sort_by(|a, b| b.session_s.total_cmp(&a.session_s));
    Err(Box::new(TooLong {
        profile: plan.design.profile.clone(),
        budget_s,
        session_s,
        arms: comparison.arms().len(),
        blocks: fewest_blocks(plan, comparison),
        setting: nearest_setting(plan, comparison),
        gates,
    }))
}

/// A session whose least time is longer than its budget.
#[derive(Clone, Debug, PartialEq)]
pub struct TooLong {
    profile: String,
    budget_s: f64,
    session_s: f64,
    arms: usize,
    /// The fewest after which a verdict can come.
    blocks: u32,
    /// Those that wait, the longest first.
    gates: Vec<TooLongGate>,
    /// What would make the longest gate short enough: workload, key and value.
    setting: Option<(String, Setting)>,
}

#[derive(Clone, Debug, PartialEq)]
struct TooLongGate {
    gate: String,
    file: String,
    launch_s: f64,
    session_s: f64,
}

/// A key of a workload, and the value nearest to the given one that fits.
#[derive(Clone, Debug, PartialEq)]
struct Setting {
    key: &'static str,
    value: String,
}

impl std::error::Error for TooLong {}

impl fmt::Display for TooLong {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            profile,
            arms,
            blocks,
            ..
        } = self;
        let launches = match arms {
            1 => "launches of one arm",
            _ => "launches of each arm",
        };
        writeln!(
            out,
            "the profile `{profile}` cannot be decided in its budget of {}: a verdict needs {blocks} {launches}, \
             and these take at least {}, however fast the engine is",
            shown(self.budget_s),
            shown(self.session_s),
        )?;
        for gate in &self.gates {
            writeln!(
                out,
                "  {}: at least {} a launch, {} in all ({})",
                gate.gate,
                shown(gate.launch_s),
                shown(gate.session_s),
                gate.file,
            )?;
        }
        if let (Some((workload, Setting { key, value })), Some(gate)) =
            (&self.setting, self.gates.first())
        {
            writeln!(
                out,
                "  set `{key}` to {value} or less in [workload.{workload}] of {}, or",
                gate.file
            )?;
        }
        write!(
            out,
            "  set `profile.{profile}.budget` to \"{}\" or more in gates/gate.toml",
            quantity(self.session_s, f64::ceil)
        )
    }
}

/// The fewest blocks after which a verdict can come.
fn fewest_blocks(plan: &Plan, comparison: Comparison) -> u32 {
    match comparison.is_recording() {
        true => RECORDED_BLOCKS,
        false => {
            let first = plan.design.looks.first().copied();
            first.unwrap_or_default().max(LAUNCHES)
        }
    }
}

/// Launches in which the workload runs until a verdict can come.
fn launches(plan: &Plan, comparison: Comparison, workload: &Workload) -> f64 {
    let blocks = fewest_blocks(plan, comparison);
    let of_each_arm = workload
        .launches
        .map_or(blocks, |launches| launches.min(blocks));
    f64::from(of_each_arm) * comparison.arms().len() as f64
}

fn of_gate_s(plan: &Plan, comparison: Comparison, gate: &Gate) -> f64 {
    let workloads = gate.workloads.iter();
    workloads
        .map(|work| of_workload_s(plan, comparison, work))
        .sum()
}

fn of_workload_s(plan: &Plan, comparison: Comparison, workload: &Workload) -> f64 {
    launches(plan, comparison, workload) * waits_s(&workload.kind)
}

/// The bursts of `cooldown`: one an arm and engine.
fn bursts_s(plan: &Plan, comparison: Comparison) -> f64 {
    let Some(cooldown) = &plan.design.cooldown else {
        return 0.0;
    };
    let mut engines: Vec<&[String]> = plan.gates.iter().map(|g| &*g.engine_args).collect();
    engines.sort();
    engines.dedup();
    cooldown.burst.as_secs_f64() * (engines.len() * comparison.arms().len()) as f64
}

/// Seconds from the first request's intended moment to the last one's, as far as the workload sets them. Of Poisson
/// arrivals the mean.
fn waits_s(kind: &WorkloadKind) -> f64 {
    match kind {
        WorkloadKind::Steady(w) => arrivals_s(&w.arrivals, w.warmup + w.requests),
        WorkloadKind::Mixed(w) => {
            let until_s = w.duration.map_or(f64::INFINITY, |d| d.as_secs_f64());
            arrivals_s(&w.arrivals, w.warmup + w.requests).min(until_s)
        }
        WorkloadKind::Trace(w) => arrivals_s(
            &w.arrivals,
            u32::try_from(w.entries.len()).unwrap_or(u32::MAX),
        ),
        WorkloadKind::Staggered(w) => {
            // One after another, and together.
            let waits = 2 * w.passes * (w.users - 1);
            f64::from(waits) * w.offset.as_secs_f64()
        }
        WorkloadKind::Session(w) => {
            let spacing_s = w.spacing.map_or(0.0, |spacing| spacing.as_secs_f64());
            let until_s = w.duration.map_or(f64::INFINITY, |d| d.as_secs_f64());
            (f64::from(w.turns - 1) * spacing_s).min(until_s)
        }
        WorkloadKind::FirstRequest(_)
        | WorkloadKind::Matrix(_)
        | WorkloadKind::Answers(_)
        | WorkloadKind::Goldens(_)
        | WorkloadKind::Texts(_)
        | WorkloadKind::Tasks(_)
        | WorkloadKind::Suite(_) => 0.0,
    }
}

fn arrivals_s(arrivals: &Arrivals, requests: u32) -> f64 {
    let gaps = requests.saturating_sub(1);
    match arrivals {
        Arrivals::Closed { .. } => 0.0,
        Arrivals::Poisson { rate } | Arrivals::Gamma { rate, .. } | Arrivals::Constant { rate } => {
            f64::from(gaps) / rate
        }
        Arrivals::Burst { size, every } => f64::from(gaps / size) * every.as_secs_f64(),
        Arrivals::Recorded { at } => at.last().map_or(0.0, |at| at.as_secs_f64()),
    }
}

/// Of the gate that takes longest, the workload that does, and what would make the session fit; `None` where nothing
/// of this workload could.
fn nearest_setting(plan: &Plan, comparison: Comparison) -> Option<(String, Setting)> {
    let longest = |a: &&Gate, b: &&Gate| {
        of_gate_s(plan, comparison, a).total_cmp(&of_gate_s(plan, comparison, b))
    };
    let gate = plan.gates.iter().max_by(longest)?;
    let of = |workload: &Workload| of_workload_s(plan, comparison, workload);
    let workload = gate
        .workloads
        .iter()
        .max_by(|a, b| of(a).total_cmp(&of(b)))?;
    let others_s = least_session_s(plan, comparison) - of(workload);
    let left_s = plan.design.budget.as_secs_f64() - others_s;
    let each_s = left_s / launches(plan, comparison, workload);
    let setting = within(&workload.kind, each_s)?;
    let (_, name) = workload.id.split_once('/')?;
    Some((name.to_owned(), setting))
}

/// The value of a workload's key with which its waits are at most so long.
fn within(kind: &WorkloadKind, seconds: f64) -> Option<Setting> {
    if seconds <= 0.0 {
        return None;
    }
    let time = |key, seconds| Setting {
        key,
        value: format!("\"{}\"", quantity(seconds, f64::floor)),
    };
    match kind {
        WorkloadKind::Steady(w) => requests(&w.arrivals, w.warmup, seconds),
        WorkloadKind::Mixed(w) => requests(&w.arrivals, w.warmup, seconds),
        WorkloadKind::Trace(w) => requests_of_trace(w, seconds),
        WorkloadKind::Staggered(w) => {
            let waits = 2 * w.passes * (w.users - 1);
            Some(time("offset", seconds / f64::from(waits)))
        }
        WorkloadKind::Session(w) => Some(time("spacing", seconds / f64::from(w.turns - 1))),
        _ => None,
    }
}

fn requests(arrivals: &Arrivals, warmup: u32, seconds: f64) -> Option<Setting> {
    let sent = match arrivals {
        Arrivals::Poisson { rate } | Arrivals::Gamma { rate, .. } | Arrivals::Constant { rate } => {
            (seconds * rate).floor() + 1.0
        }
        Arrivals::Burst { size, every } => {
            ((seconds / every.as_secs_f64()).floor() + 1.0) * f64::from(*size)
        }
        Arrivals::Closed { .. } | Arrivals::Recorded { .. } => return None,
    };
    let measured = sent - f64::from(warmup);
    (measured >= 1.0).then(|| Setting {
        key: "requests",
        value: measured.to_string(),
    })
}

fn requests_of_trace(trace: &Trace, seconds: f64) -> Option<Setting> {
    let Arrivals::Recorded { at } = &trace.arrivals else {
        return requests(&trace.arrivals, 0, seconds);
    };
    let sent = at.iter().filter(|at| at.as_secs_f64() <= seconds).count();
    (sent > trace.warmup as usize).then(|| Setting {
        key: "requests",
        value: sent.to_string(),
    })
}

/// Three digits, as in `29.5 min`.
fn shown(seconds: f64) -> String {
    let (value, unit) = in_unit(seconds);
    let digits = (value * 1e3).log10().floor().clamp(0.0, 5.0);
    let decimals = (5.0 - digits) as usize;
    format!("{} {unit}", trimmed(format!("{value:.decimals$}")))
}

/// Two digits or more, rounded so that the value still fits, as gate files write it.
fn quantity(seconds: f64, round: fn(f64) -> f64) -> String {
    let (value, unit) = in_unit(seconds);
    let decimals = (1.0 - value.log10().floor()).max(0.0);
    let scale = 10_f64.powf(decimals);
    let value = round(value * scale) / scale;
    let decimals = decimals as usize;
    format!("{} {unit}", trimmed(format!("{value:.decimals$}")))
}

fn in_unit(seconds: f64) -> (f64, &'static str) {
    match seconds {
        ..1.0 => (seconds * 1e3, "ms"),
        ..120.0 => (seconds, "s"),
        ..7200.0 => (seconds / 60.0, "min"),
        _ => (seconds / 3600.0, "h"),
    }
}

fn trimmed(number: String) -> String {
    match number.contains('.') {
        true => number
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned(),
        false => number,
    }
}
