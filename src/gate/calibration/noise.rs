//! From the launches of A/A sessions to the variances of one check.

use super::{Noise, Warmup};
use std::collections::BTreeMap;
use verdict::judge::on_test_scale;
use verdict::metrics;
use verdict::plan::{Check, Gate, Workload};
use verdict::record::{Arm, Launch, LaunchNoise, Phase, RunRecord, Sample};
use verdict::stats::{self, WarmUp};

/// Fewer sessions with a variance do not tell how much it differs from one to the next.
const SESSIONS: usize = 5;
/// Fewer degrees of freedom of the blocks' differences, over all sessions, do not tell whether pairs pay.
const PAIRS_DF: f64 = 20.0;
/// Launches of a block are compared in pairs where the differences have at most this share of the variance that
/// launches by themselves would give them: a pair has half the degrees of freedom, so less does not pay.
const SHARE: f64 = 0.6;

/// What one launch gave one check; values on the scale of the test, that is logarithms.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    arm: Arm,
    block: u32,
    /// The launch's value.
    y: f64,
    /// The single values behind it, in order; empty for a value that is none of many.
    series: Vec<f64>,
    /// The same from the launch's first request on, warm-up included.
    from_first: Vec<f64>,
    /// Seconds that one of `series` takes.
    request_s: f64,
}

/// What every clean launch of a session gave a check. Empty for a check that is not compared by t.
pub fn observe(record: &RunRecord, gate: &Gate, check: &Check) -> Vec<Observed> {
    let Some(workload) = gate.workloads.iter().find(|w| w.id == check.workload) else {
        return Vec::new();
    };
    launches_of(record, gate)
        .filter_map(|launch| observe_launch(check, workload, launch))
        .collect()
}

/// The session's launches of the gate's engine that ended well on a machine that did not throttle.
fn launches_of<'a>(record: &'a RunRecord, gate: &'a Gate) -> impl Iterator<Item = &'a Launch> {
    record
        .launches
        .iter()
        .filter(|launch| gate.is_run_by(launch) && launch.exit.is_clean() && !launch.is_throttled())
}

fn observe_launch(check: &Check, workload: &Workload, launch: &Launch) -> Option<Observed> {
    let on_scale = |value: &f64| on_test_scale(check.metric, *value).filter(|y| y.is_finite());
    let measured = metrics::measure(check, workload, launch).ok()?;
    // A single request of no time at all has no logarithm; the launch's value may have one all the same.
    let on_scale_all = |values: &[f64]| values.iter().map(on_scale).collect::<Option<Vec<f64>>>();
    let series = on_scale_all(&measured.series).unwrap_or_default();
    // The same measure, of a launch whose warm-up counts.
    let mut whole = launch.clone();
    for sample in &mut whole.samples {
        sample.phase = Phase::Measured;
    }
    let whole = metrics::measure(check, workload, &whole).map_or(Vec::new(), |m| m.series.to_vec());
    let mine = launch.samples.iter().filter(|s| s.workload == workload.id);
    let mine: Vec<&Sample> = mine.collect();
    let counted = mine.iter().filter(|s| s.phase == Phase::Measured).count() as f64;
    Some(Observed {
        arm: launch.arm,
        block: launch.block,
        y: on_scale(&measured.value)?,
        request_s: seconds(&mine) * counted / mine.len() as f64 / series.len() as f64,
        from_first: on_scale_all(&whole).unwrap_or_default(),
        series,
    })
}

/// From the first request's sending to the last one's end.
fn seconds(samples: &[&Sample]) -> f64 {
    let begin = samples.iter().map(|s| s.stamps.send_ns).min();
    let end = samples.iter().filter_map(|s| s.stamps.done_ns).max();
    begin
        .zip(end)
        .map_or(0.0, |(begin, end)| end.saturating_sub(begin) as f64 / 1e9)
}

/// Seconds of each of the session's launches of the gate's engine: from its start to the next one's, for the
/// last to the session's end.
pub fn launch_seconds(record: &RunRecord, gate: &Gate) -> Vec<f64> {
    let end_ns = record.elapsed_s * 1e9;
    let next_ns = |launch: &Launch| {
        let later = record.launches.iter();
        later
            .filter(|l| l.position > launch.position)
            .map(|l| l.startup.spawn_ns)
            .min()
            .map_or(end_ns, |ns| ns as f64)
    };
    launches_of(record, gate)
        .map(|launch| (next_ns(launch) - launch.startup.spawn_ns as f64) / 1e9)
        .filter(|seconds| *seconds > 0.0)
        .collect()
}

/// The variances of a check whose launches take `launch_s` seconds, from several sessions. `None` where no
/// session has two launches with a value, and where they do not vary.
pub fn noise(sessions: &[Vec<Observed>], launch_s: f64) -> Option<Noise> {
    let values: Vec<Vec<f64>> = sessions
        .iter()
        .map(|session| session.iter().map(|o| o.y).collect())
        .collect();
    let launches = stats::one_way(&values).filter(|c| c.within > 0.0)?;
    let all: Vec<&Observed> = sessions.iter().flatten().collect();
    let series: Vec<Vec<f64>> = all.iter().map(|o| o.series.clone()).collect();
    let requests = series.iter().map(|s| s.len() as f64).sum::<f64>() / series.len() as f64;
    let within = stats::one_way(&series).map(|c| c.within);
    let autocorrelation = stats::lag_one(&series);
    let request_s = all.iter().map(|o| o.request_s).sum::<f64>() / all.len() as f64;
    let whole: Vec<Vec<f64>> = all.iter().map(|o| o.from_first.clone()).collect();
    let cost = (launch_s - request_s * requests) / request_s;
    let requests_wanted = within
        .zip(autocorrelation)
        .and_then(|(within, rho)| {
            let effective = within * (1.0 + rho) / (1.0 - rho);
            let of_launches = launches.within - effective / requests;
            Some((cost * effective / of_launches).sqrt()).filter(|_| of_launches > 0.0)
        })
        .filter(|wanted| wanted.is_finite());
    Some(Noise {
        launches: u32::try_from(all.len()).unwrap_or(u32::MAX),
        launch_sd: launches.within.sqrt(),
        launch_df: launches.df,
        session_sd: launches.between.map(f64::sqrt),
        request_sd: within.map(f64::sqrt),
        autocorrelation,
        warm_up: stats::warm_up(&whole).map(|found| match found {
            WarmUp::Ends(requests) => Warmup::Ends(u32::try_from(requests).unwrap_or(u32::MAX)),
            WarmUp::BeyondHalf => Warmup::BeyondHalf,
        }),
        requests,
        requests_wanted,
    })
}

/// By which variance later sessions are judged, and whether in pairs: from the blocks (base, head) of A/A sessions, on the
/// scale of the test. `None` where fewer than five sessions have two blocks, where all have fewer than twenty blocks beyond their
/// first, and where nothing varies.
///
/// The variance is pooled over sessions by degrees of freedom, so that sessions which ended early since they seemed quiet
/// do not make it too small.
pub fn launch_noise(sessions: &[Vec<(f64, f64)>]) -> Option<LaunchNoise> {
    let arms = sessions.iter().filter_map(|blocks| {
        let (base, head): (Vec<f64>, Vec<f64>) = blocks.iter().copied().unzip();
        let both = f64::midpoint(stats::variance(&base)?, stats::variance(&head)?);
        Some((both, (2 * (blocks.len() - 1)) as f64))
    });
    let pairs = sessions.iter().filter_map(|blocks| {
        let differences: Vec<f64> = blocks.iter().map(|(base, head)| head - base).collect();
        Some((stats::variance(&differences)?, (blocks.len() - 1) as f64))
    });
    let (arms, pairs): (Vec<_>, Vec<_>) = (arms.collect(), pairs.collect());
    let df: f64 = pairs.iter().map(|(_, df)| df).sum();
    if pairs.len() < SESSIONS || df < PAIRS_DF {
        return None;
    }
    let (launches, differences) = (
        stats::prior_variance(&arms)?,
        stats::prior_variance(&pairs)?,
    );
    let paired = differences.variance <= SHARE * 2.0 * launches.variance;
    let prior = if paired { differences } else { launches };
    let noise = LaunchNoise {
        paired,
        sd: prior.variance.sqrt(),
        df: prior.df,
    };
    noise.counted()
}

/// The blocks of a session that have one launch of each arm.
pub fn blocks(session: &[Observed]) -> Vec<(f64, f64)> {
    in_blocks(session.iter().map(|o| (o.block, o.arm, o.y)))
}

/// Base and head of each block that has one value of both.
pub fn in_blocks(values: impl Iterator<Item = (u32, Arm, f64)>) -> Vec<(f64, f64)> {
    let mut blocks: BTreeMap<u32, [Vec<f64>; 2]> = BTreeMap::new();
    for (block, arm, value) in values {
        blocks.entry(block).or_default()[usize::from(arm == Arm::Head)].push(value);
    }
    let pairs = blocks.into_values().filter_map(|arms| match arms {
        [base, head] if base.len() == 1 && head.len() == 1 => Some((base[0], head[0])),
        _ => None,
    });
    pairs.collect()
}

/// From launch to launch within a session, of values in the check's own unit; as [`Noise::launch_sd`]. `None`
/// for a check that is not compared by t, and as for [`stats::one_way`].
pub fn stored_sd(check: &Check, sessions: &[Vec<f64>]) -> Option<f64> {
    let on_scale = |value: &f64| on_test_scale(check.metric, *value);
    let on_scale = |values: &Vec<f64>| values.iter().map(on_scale).collect::<Option<Vec<f64>>>();
    let values: Vec<Vec<f64>> = sessions.iter().map(on_scale).collect::<Option<_>>()?;
    let components = stats::one_way(&values)?;
    (components.within > 0.0).then(|| components.within.sqrt())
}
