//! Gates of a project's profiles that a run left out: a pass says nothing about them. Also: a slower start, more memory,
//! or an engine that SIGTERM does not end, which no check judged.

use super::numbers;
use verdict::record::{Arm, Comparison, Launch, Metric, RunRecord, RunVerdict, Verdict};
use verdict::stats;

/// The report mentions a start that is slower than base's by more than this factor and this many seconds.
const SLOWER: f64 = 1.25;
const SLOWER_S: f64 = 0.25;
/// Fewer launches of an arm may have been slow by chance.
const LEAST_LAUNCHES: usize = 3;

/// It mentions memory that is greater than base's by more than this factor and this many bytes.
const GREATER: f64 = 1.25;
const GREATER_BYTES: f64 = 64e6;

/// The report mentions memory that grows by this many bytes more than base's.
const GROWTH_BYTES: f64 = 4e6;

/// Lists what a pass does not judge, each with a label. Empty for a run that did not pass.
pub fn limits(record: &RunRecord, verdict: &RunVerdict) -> Vec<(&'static str, String)> {
    let compares = record.comparison != Comparison::SameBuild;
    if !compares || verdict.verdict != Verdict::Pass {
        return Vec::new();
    }
    let unjudged = [
        slower_start(record, verdict),
        greater_memory(record),
        growing_memory(record, verdict),
        killed(record),
    ];
    let unjudged = unjudged.into_iter().flatten();
    let unjudged = unjudged.map(|text| ("not judged", text));
    let gates = not_run(verdict).map(|gates| ("not run", gates));
    unjudged.chain(gates).collect()
}

/// `head starts in 2.07 s, base in 0.07 s (gate check --gate cold-start)`.
fn slower_start(record: &RunRecord, verdict: &RunVerdict) -> Option<String> {
    let mut checks = verdict.gates.iter().flat_map(|gate| &gate.checks);
    if checks.any(|check| check.metric.is_of_start()) {
        return None;
    }
    let start_s = |launch: &Launch| {
        let startup = &launch.startup;
        Some(startup.ready_ns?.saturating_sub(startup.spawn_ns) as f64 / 1e9)
    };
    let [base, head] = [Arm::Base, Arm::Head].map(|arm| values(record, arm, start_s));
    if base.len().min(head.len()) < LEAST_LAUNCHES {
        return None;
    }
    let (base, head) = (stats::median(&base)?, stats::median(&head)?);
    let of_starts = "cold-start";
    let mut others = verdict.not_run.iter().flat_map(|(_, gates)| gates);
    let command = match others.any(|gate| gate == of_starts) {
        true => format!(" (gate check --gate {of_starts})"),
        false => String::new(),
    };
    let unit = Metric::Ready.unit();
    (head > SLOWER * base && head - base > SLOWER_S).then(|| {
        format!(
            "head starts in {}, base in {}{command}",
            numbers::value(1e3 * head, unit),
            numbers::value(1e3 * base, unit)
        )
    })
}

/// `head's memory reaches 2048 MiB, base's 700 MiB`: resident in a launch at most, the median
/// over launches.
fn greater_memory(record: &RunRecord) -> Option<String> {
    let greatest = |launch: &Launch| {
        let readings = launch.telemetry.iter().flat_map(|it| &it.readings);
        let bytes = readings.filter_map(|reading| reading.rss_bytes).max();
        bytes.map(|bytes| bytes as f64)
    };
    let median = |arm| stats::median(&values(record, arm, greatest));
    let (base, head) = (median(Arm::Base)?, median(Arm::Head)?);
    let unit = Metric::KvBytes.unit();
    (head > GREATER * base && head - base > GREATER_BYTES).then(|| {
        format!(
            "head's memory reaches {}, base's {}",
            numbers::value(head, unit),
            numbers::value(base, unit)
        )
    })
}

/// `head's memory grows by 40 MiB in the second half of a launch, base's by 0 MiB, …`: from the
/// median of the third quarter's readings to that of the last; medians over launches, of which each of head's grows by more
/// than each of base's.
fn growing_memory(record: &RunRecord, verdict: &RunVerdict) -> Option<String> {
    let mut checks = verdict.gates.iter().flat_map(|gate| &gate.checks);
    if checks.any(|check| check.metric == Metric::RssGrowth) {
        return None;
    }
    let growth = |launch: &Launch| {
        let readings = launch.telemetry.iter().flat_map(|it| &it.readings);
        let readings = readings.filter(|reading| Some(reading.at_ns) >= launch.startup.ready_ns);
        let bytes = readings.filter_map(|reading| reading.rss_bytes);
        let bytes: Vec<f64> = bytes.map(|bytes| bytes as f64).collect();
        let (middle, late) = (bytes.len() / 2, bytes.len() / 4 * 3);
        let before = stats::median(bytes.get(middle..late)?)?;
        Some(stats::median(bytes.get(late..)?)? - before)
    };
    let [base, head] = [Arm::Base, Arm::Head].map(|arm| values(record, arm, growth));
    if base.len().min(head.len()) < LEAST_LAUNCHES {
        return None;
    }
    let least = head.iter().copied().fold(f64::INFINITY, f64::min);
    let is_apart = base.iter().all(|of_base| *of_base < least);
    let (base, head) = (stats::median(&base)?, stats::median(&head)?);
    let (base, mib) = (base.max(0.0), 1024.0 * 1024.0);
    (is_apart && head - base > GROWTH_BYTES).then(|| {
        format!(
            "head's memory grows by {:.0} MiB in the second half of a launch, base's by {:.0} MiB (`rss_growth` judges it, as \
             in the gate soak)",
            head / mib,
            base / mib
        )
    })
}

/// `SIGTERM ends base, not head, which was killed (4 of 4 launches)`: of those that ran without errors.
fn killed(record: &RunRecord) -> Option<String> {
    let clean = |arm| {
        let launches = record.launches.iter().filter(move |it| it.arm == arm);
        launches.filter(|launch| launch.exit.is_clean())
    };
    let killed = |arm| clean(arm).filter(|launch| launch.killed).count();
    let (of_head, all) = (killed(Arm::Head), clean(Arm::Head).count());
    let ends_base = clean(Arm::Base).count() > 0 && killed(Arm::Base) == 0;
    (ends_base && 2 * of_head > all).then(|| {
        format!("SIGTERM ends base, not head, which was killed ({of_head} of {all} launches)")
    })
}

/// The values of an arm's launches.
fn values(record: &RunRecord, arm: Arm, value: impl Fn(&Launch) -> Option<f64>) -> Vec<f64> {
    let launches = record.launches.iter().filter(|launch| launch.arm == arm);
    launches.filter_map(value).collect()
}

/// `cold-start, users (gate check --profile full)`; `None` where profiles name no others.
fn not_run(verdict: &RunVerdict) -> Option<String> {
    let gates = verdict.not_run.iter().flat_map(|(_, gates)| gates);
    let mut all: Vec<&str> = gates.map(String::as_str).collect();
    all.retain(|name| is_name(name));
    all.sort_unstable();
    all.dedup();
    let mut profiles = verdict.not_run.iter();
    let of_one = profiles.find(|(name, gates)| is_name(name) && gates.len() == all.len());
    let profile = of_one.map_or_else(String::new, |(name, _)| {
        format!(" (gate check --profile {name})")
    });
    (!all.is_empty()).then(|| format!("{}{profile}", all.join(", ")))
}

/// A name that no reader of a report can take for something else.
fn is_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    text.len() <= 64 && text.chars().all(is_plain)
}
