//! Rules on what the machine did beside the engine: other tenants, other work, the page cache.
//!
//! They read what telemetry recorded; where nothing was recorded there is nothing to say. Only what a clock
//! has a say in is disturbed by them.

use super::super::Rules;
use super::finding::{Finding, of_launch};
use crate::judge::launch_view::LaunchView;
use crate::plan::Rule;
use crate::record::{
    Beside, Interleave, Launch, LaunchFact, PageCache, Reading as Telemetered, RuleId,
};

/// A cold start may find so much of the engine's files in memory; a warm one may miss so much.
const STRAY_PAGES: f64 = 0.05;

/// The page cache was not as the gate asked.
pub fn page_cache(_: &Rules<'_>, launch_view: &LaunchView<'_, '_>) -> Option<Finding> {
    let launch = launch_view.launch;
    let wanted = launch
        .page_cache
        .filter(|_| launch_view.check.metric.is_by_clock())?;
    let resident_share = launch.startup.resident_share;
    let is_met = resident_share.is_some_and(|share| match wanted {
        PageCache::Cold => share <= STRAY_PAGES,
        PageCache::Warm => share >= 1.0 - STRAY_PAGES,
    });
    if is_met {
        return None;
    }
    let fact = LaunchFact::PageCache {
        wanted,
        resident_share,
    };
    of_launch(launch_view, RuleId::PageCache, fact)
}

/// Of the engine's GPUs the one with the most other processes, and how many; `None` where it had its GPUs for
/// itself, or nobody looked.
pub fn shared_gpu(launch: &Launch) -> Option<(u32, u32)> {
    let telemetry = launch.telemetry.as_ref()?;
    let own = telemetry.engine_gpus();
    let gpus = telemetry.readings.iter().flat_map(|r| &r.gpus);
    let gpus = gpus.filter(|gpu| own.contains(&gpu.index));
    let most = gpus.max_by_key(|gpu| gpu.other_processes)?;
    let others = most.other_processes.filter(|others| *others > 0)?;
    Some((most.index, others))
}

/// Another process was on one of the engine's GPUs.
pub fn gpu_shared(_: &Rules<'_>, launch_view: &LaunchView<'_, '_>) -> Option<Finding> {
    let (gpu, others) =
        shared_gpu(launch_view.launch).filter(|_| launch_view.check.metric.is_by_clock())?;
    let fact = LaunchFact::OthersOnGpu { gpu, others };
    of_launch(launch_view, RuleId::GpuShared, fact)
}

/// Other processes' work beside the launch, where the configuration bounds it.
pub fn busy(rules: &Rules<'_>, launch_view: &LaunchView<'_, '_>) -> Option<Finding> {
    let limit = rules
        .plan
        .telemetry
        .others_cpu
        .filter(|_| launch_view.check.metric.is_by_clock())?;
    let cores = others_cores(launch_view.launch)?;
    if cores <= limit {
        return None;
    }
    let fact = LaunchFact::OthersCpu { cores, limit };
    of_launch(launch_view, RuleId::BusyMachine, fact)
}

/// An engine that works while the other arm's answers slows it by at most the share of a processor that it uses, and so
/// hides or feigns a loss of that size. Its CPU time is read twice, each time to the clock tick.
pub fn busy_beside(rules: &Rules<'_>, launch_view: &LaunchView<'_, '_>) -> Option<Finding> {
    const LIMIT: f64 = 0.05;
    const TICKS_S: f64 = 0.02;
    let limit = match launch_view.check.rule {
        Rule::Regression { margin, .. } => margin.min(LIMIT),
        Rule::Ceiling { .. } | Rule::Floor { .. } => LIMIT,
    };
    let launch = launch_view.launch;
    let took_turns = launch.interleave == Interleave::Requests
        && rules.record.comparison.arms().len() > 1
        && launch_view.check.metric.is_by_clock();
    let rests = |beside: Beside| beside.cpu_s - TICKS_S <= limit * beside.waited_s;
    if !took_turns || launch.beside.is_some_and(rests) {
        return None;
    }
    let cores = launch.beside.map(|beside| beside.cpu_s / beside.waited_s);
    let fact = LaunchFact::BusyBeside { cores, limit };
    of_launch(launch_view, RuleId::BusyBeside, fact)
}

/// Share of `cores` processors' time that the host took, from the first reading to the last.
pub fn stolen_share(launch: &Launch, cores: u32) -> Option<f64> {
    let readings = &launch.telemetry.as_ref()?.readings;
    let (first, last) = (readings.first()?, readings.last()?);
    let seconds = last.at_ns.checked_sub(first.at_ns)? as f64 / 1e9;
    let share = (last.steal_s? - first.steal_s?) / (seconds * f64::from(cores));
    share.is_finite().then_some(share)
}

/// Processors' worth of work by processes that are neither the engine's nor the gate's, from the first
/// reading to the last.
pub fn others_cores(launch: &Launch) -> Option<f64> {
    let readings = &launch.telemetry.as_ref()?.readings;
    let (first, last) = (readings.first()?, readings.last()?);
    let seconds = last.at_ns.checked_sub(first.at_ns)? as f64 / 1e9;
    let spent = |time: fn(&Telemetered) -> Option<f64>| Some(time(last)? - time(first)?);
    let others =
        spent(|r| r.machine_cpu_s)? - spent(|r| r.engine_cpu_s)? - spent(|r| r.gate_cpu_s)?;
    (seconds > 0.0).then(|| (others / seconds).max(0.0))
}
