//! Rules on what the machine did beside the engine: other tenants, other work, the page cache.
//!
//! They read what telemetry recorded; where nothing was recorded there is nothing to say. Only what a clock
//! has a say in is disturbed by them.

use super::Rules;
use super::invalid::{Finding, invalid};
use super::sight::Sight;
use super::view::is_by_clock;
use super::words::number;
use crate::plural::count;
use crate::record::{Launch, PageCache, Reading as Telemetered};

/// A cold start may find so much of the engine's files in memory; a warm one may miss so much.
const STRAY_PAGES: f64 = 0.05;

/// The page cache was not as the gate asked.
pub fn page_cache(_: &Rules<'_>, sight: &Sight<'_, '_>) -> Option<Finding> {
    let launch = sight.launch;
    let wanted = launch.page_cache.filter(|_| is_by_clock(sight.check))?;
    let Some(share) = launch.startup.resident_share else {
        let text = format!(
            "{}: the page cache was to be {}, and its state was never read: name the engine's files in \
             `engine.files`, and see that util-linux's `fincore` is installed",
            at(launch),
            wanted.name()
        );
        return invalid("page-cache", text);
    };
    let is_met = match wanted {
        PageCache::Cold => share <= STRAY_PAGES,
        PageCache::Warm => share >= 1.0 - STRAY_PAGES,
    };
    if is_met {
        return None;
    }
    let text = format!(
        "{}: the page cache was to be {}, and {} % of the engine's files were in memory",
        at(launch),
        wanted.name(),
        number(share * 100.0)
    );
    invalid("page-cache", text)
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
pub fn gpu_shared(_: &Rules<'_>, sight: &Sight<'_, '_>) -> Option<Finding> {
    let launch = sight.launch;
    let (index, others) = shared_gpu(launch).filter(|_| is_by_clock(sight.check))?;
    let text = format!(
        "{}: {} on GPU {index}: what they took would count as the engine's",
        at(launch),
        count(others, "other process")
    );
    invalid("gpu-shared", text)
}

/// Other processes' work beside the launch, where the configuration bounds it.
pub fn busy(rules: &Rules<'_>, sight: &Sight<'_, '_>) -> Option<Finding> {
    let limit = rules
        .plan
        .telemetry
        .others_cpu
        .filter(|_| is_by_clock(sight.check))?;
    let launch = sight.launch;
    let cores = others_cores(launch)?;
    if cores <= limit {
        return None;
    }
    let text = format!(
        "{}: other processes used {} cores, {} are allowed: end them, or measure when they rest",
        at(launch),
        number(cores),
        number(limit)
    );
    invalid("busy-machine", text)
}

/// Processors' worth of work by processes that are neither the engine's nor the gate's, from the first
/// reading to the last.
fn others_cores(launch: &Launch) -> Option<f64> {
    let readings = &launch.telemetry.as_ref()?.readings;
    let (first, last) = (readings.first()?, readings.last()?);
    let seconds = last.at_ns.checked_sub(first.at_ns)? as f64 / 1e9;
    let spent = |time: fn(&Telemetered) -> Option<f64>| Some(time(last)? - time(first)?);
    let others =
        spent(|r| r.machine_cpu_s)? - spent(|r| r.engine_cpu_s)? - spent(|r| r.gate_cpu_s)?;
    (seconds > 0.0).then(|| (others / seconds).max(0.0))
}

fn at(launch: &Launch) -> String {
    format!("launch {} ({})", launch.position, launch.arm.name())
}
