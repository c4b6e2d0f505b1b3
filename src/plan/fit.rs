//! Whether a metric, a workload and a rule fit one another: which metrics a workload can give, of how many
//! samples, and which of them have a relative change.
//!
//! Refuses to know: files, keys, and how a refusal is worded.

use super::model::{Matrix, WorkloadKind};
use crate::record::{Metric, Statistic};

/// Floors of sample counts below which a quantile means nothing (reason: docs/metrics.md).
const MIN_SAMPLES: u32 = 30;
const MIN_SAMPLES_P95: u32 = 200;
const MIN_SAMPLES_P99: u32 = 1000;
/// Fewest readings of a gauge that tell how it behaves.
const MIN_READINGS: u32 = 5;

/// Which metrics a kind of workload can give.
pub(super) fn fits(metric: Metric, kind: &WorkloadKind) -> bool {
    use WorkloadKind as Kind;
    let independent = matches!(
        kind,
        Kind::Steady(_) | Kind::Mixed(_) | Kind::Trace(_) | Kind::Matrix(_)
    );
    let timed = independent || matches!(kind, Kind::Session(_) | Kind::Staggered(_));
    match metric {
        Metric::Ready | Metric::PortOpen | Metric::Stage => true,
        Metric::FirstToken | Metric::FirstResponse => matches!(kind, Kind::FirstRequest(_)),
        Metric::Ttft
        | Metric::Tpot
        | Metric::Icl
        | Metric::Itl
        | Metric::E2e
        | Metric::BurstFactor
        | Metric::PrefillRate
        | Metric::DecodeRate
        | Metric::PrefilledTokens
        | Metric::TransportOverhead
        | Metric::TtftOverhead
        | Metric::Goodput
        | Metric::FailedRequests
        | Metric::KvBytes
        | Metric::KvUsage
        | Metric::KvGrowth
        | Metric::RssGrowth => timed,
        Metric::Throughput | Metric::ThroughputFull => independent,
        Metric::ThroughputStep
        | Metric::StreamParity
        | Metric::StreamMismatches
        | Metric::TpotBase
        | Metric::TpotSlope
        | Metric::FailedCells => matches!(kind, Kind::Matrix(_)),
        Metric::WallTtft | Metric::InterleavingBenefit => matches!(kind, Kind::Staggered(_)),
        Metric::PrefillExcess | Metric::PrefillDrift => matches!(kind, Kind::Session(_)),
        Metric::GoldenMismatches | Metric::LogprobError | Metric::LogprobRegret => {
            matches!(kind, Kind::Goldens(_))
        }
        Metric::Accuracy => matches!(kind, Kind::Tasks(_)),
    }
}

/// Whether one value stands for the launch whatever it sent, so that no number of samples is needed.
fn is_of_launch(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::Ready
            | Metric::PortOpen
            | Metric::Stage
            | Metric::FirstToken
            | Metric::FirstResponse
    )
}

/// Whether it is read beside the requests and not from them.
fn is_telemetry(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::KvBytes | Metric::KvUsage | Metric::KvGrowth | Metric::RssGrowth
    )
}

/// Whether it is a share of a whole, which is 100 % at the most.
pub(super) fn is_part_of_a_whole(metric: Metric) -> bool {
    matches!(metric, Metric::Accuracy | Metric::Goodput | Metric::KvUsage)
}

/// Whether a regression check can compare the arms by a share of the value.
pub(super) fn has_relative_change(metric: Metric) -> bool {
    !matches!(
        metric,
        Metric::LogprobError
            | Metric::LogprobRegret
            | Metric::Goodput
            | Metric::KvGrowth
            | Metric::RssGrowth
    )
}

/// Below how many samples a launch the statistic means nothing, and how many the workload gives it at the most.
pub(super) fn samples(metric: Metric, statistic: Statistic, kind: &WorkloadKind) -> (u32, u32) {
    match kind {
        _ if is_of_launch(metric) => (1, 1),
        // These count readings, as many as the launch takes time for.
        _ if is_telemetry(metric) => (MIN_READINGS, u32::MAX),
        WorkloadKind::Steady(steady) => (floor_of(statistic), steady.requests),
        WorkloadKind::Mixed(mixed) => (floor_of(statistic), mixed.requests),
        WorkloadKind::Trace(trace) => (
            floor_of(statistic),
            count(trace.entries.len()) - trace.warmup,
        ),
        WorkloadKind::Matrix(matrix) => (1, cell_requests(matrix)),
        WorkloadKind::Staggered(staggered) => (1, staggered.users * staggered.passes),
        WorkloadKind::FirstRequest(_) => (1, 1),
        WorkloadKind::Session(session) => (3, session.turns - session.warmup_turns),
        WorkloadKind::Goldens(_) | WorkloadKind::Tasks(_) => (1, u32::MAX),
    }
}

/// Below how many requests a statistic means nothing.
fn floor_of(statistic: Statistic) -> u32 {
    match statistic {
        Statistic::P95 => MIN_SAMPLES_P95,
        Statistic::P99 => MIN_SAMPLES_P99,
        Statistic::Median | Statistic::Mean | Statistic::Max => MIN_SAMPLES,
        Statistic::Single => 1,
    }
}

/// Measured requests of the largest cell.
fn cell_requests(matrix: &Matrix) -> u32 {
    let batch = matrix.batches.iter().max().copied().unwrap_or(1);
    batch
        .saturating_mul(matrix.passes)
        .saturating_mul(matrix.rounds)
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
