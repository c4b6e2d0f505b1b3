//! Compatibility of metrics, workloads and rules: what a workload can give, on which
//! parts, of how many samples, and which metrics have a relative change.
//!
//! Refuses to know: files, keys, and how a refusal is worded, but for the clause that says what a part lacks.

use crate::plan::model::{
    Arrivals, Check, Goldens, Matrix, Part, Rule, Shape, Staggered, Texts, Workload, WorkloadKind,
};
use crate::record::{CacheState, Metric, MetricKind, Statistic};

/// Floors of sample counts below which a quantile means nothing (reason: docs/metrics.md).
pub const MIN_SAMPLES: u32 = 30;
const MIN_SAMPLES_P95: u32 = 200;
const MIN_SAMPLES_P99: u32 = 1000;
/// Fewest readings of a gauge that tell how it behaves.
const MIN_READINGS: u32 = 5;
/// Fewest turns that a slope over a session stands on.
const MIN_TURNS: u32 = 3;

/// Which metrics a kind of workload can give.
pub fn fits(metric: Metric, kind: &WorkloadKind) -> bool {
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
        | Metric::RssGrowth
        | Metric::CounterPerToken
        | Metric::CounterPerRequest
        | Metric::CounterRatio
        | Metric::CounterIncrease
        | Metric::CounterTotal
        | Metric::EnergyPerToken
        | Metric::GpuMemory => timed,
        // What the engine says of itself shows that it came to what a workload of answers is for.
        Metric::Gauge => timed || matches!(kind, Kind::Answers(_)),
        Metric::Throughput => independent || matches!(kind, Kind::Staggered(_)),
        Metric::ThroughputFull => independent,
        Metric::AnswerMismatches => {
            independent || matches!(kind, Kind::Answers(_) | Kind::Staggered(_))
        }
        Metric::ThroughputStep
        | Metric::StreamParity
        | Metric::StreamMismatches
        | Metric::TpotBase
        | Metric::TpotSlope
        | Metric::FailedCells
        | Metric::Contention => matches!(kind, Kind::Matrix(_)),
        Metric::WallTtft | Metric::InterleavingBenefit | Metric::GenerationStall => {
            matches!(kind, Kind::Staggered(_))
        }
        Metric::PrefillExcess | Metric::PrefillDrift => matches!(kind, Kind::Session(_)),
        Metric::GoldenMismatches
        | Metric::LogprobError
        | Metric::LogprobRegret
        | Metric::GreedyAgreement => matches!(kind, Kind::Goldens(_)),
        Metric::Perplexity | Metric::KlDivergence | Metric::KlFromBase => {
            matches!(kind, Kind::Goldens(_) | Kind::Texts(_))
        }
        Metric::Accuracy => matches!(kind, Kind::Tasks(_)),
        Metric::FailedTests | Metric::BrokenTests => matches!(kind, Kind::Suite(_)),
    }
}

/// Whether requests of two engines can take turns and each value is what it would be alone: every timed workload passes the
/// turn on after each request, and no value is of the start, of wall time, of the time between requests, of the whole
/// machine, or of few slow requests, which an engine that works out of turn would make.
pub fn can_take_turns(workloads: &[Workload], checks: &[Check]) -> bool {
    use WorkloadKind as Kind;
    let passes_on = |workload: &Workload| match &workload.kind {
        Kind::Steady(steady) => matches!(steady.arrivals, Arrivals::Closed { concurrency: 1 }),
        Kind::Session(_) | Kind::Goldens(_) | Kind::Texts(_) | Kind::Tasks(_) => true,
        _ => false,
    };
    let is_own = |check: &Check| {
        let is_middle = !matches!(
            check.statistic,
            Statistic::P95 | Statistic::P99 | Statistic::Max
        );
        match check.metric {
            Metric::Ttft
            | Metric::Tpot
            | Metric::Icl
            | Metric::Itl
            | Metric::E2e
            | Metric::PrefillRate
            | Metric::DecodeRate => is_middle,
            Metric::PrefillDrift
            | Metric::PrefillExcess
            | Metric::PrefilledTokens
            | Metric::BurstFactor
            | Metric::FailedRequests
            | Metric::AnswerMismatches
            | Metric::GoldenMismatches
            | Metric::LogprobError
            | Metric::LogprobRegret
            | Metric::GreedyAgreement
            | Metric::Perplexity
            | Metric::KlDivergence
            | Metric::KlFromBase
            | Metric::Accuracy => true,
            _ => false,
        }
    };
    workloads.iter().all(passes_on) && checks.iter().all(is_own)
}

/// Why no launch can ever give the metric on this part of a workload that it fits; `None`: it can.
pub fn lack(metric: Metric, part: &Part, kind: &WorkloadKind) -> Option<&'static str> {
    use WorkloadKind as Kind;
    let answers = answers(kind, part);
    if part.streamed.is_some() && answers.is_empty() {
        return Some("it has no answers of this `streamed`");
    }
    let comes_whole = answers.iter().any(|answer| !answer.streamed);
    if needs_streams(metric, part) && comes_whole {
        return Some(
            "some of these answers come whole, and have no first token: say `streamed = true`",
        );
    }
    let is_short = |answer: &AnswerForm| answer.tokens < 2;
    let too_short = match metric {
        // Their gaps are counted together.
        Metric::Icl | Metric::Itl => !answers.is_empty() && answers.iter().all(is_short),
        _ => part.reads_tpot(metric) && answers.iter().any(is_short),
    };
    if too_short {
        return Some(
            "nothing comes after an answer's only token: ask for two `output_tokens` or more",
        );
    }
    match (metric, kind) {
        (Metric::ThroughputFull, Kind::Trace(_)) => Some(OPEN_LOOP),
        (Metric::ThroughputFull, Kind::Steady(steady)) => open_loop(&steady.arrivals),
        (Metric::ThroughputFull, Kind::Mixed(mixed)) => open_loop(&mixed.arrivals),
        (_, Kind::Matrix(matrix)) => lack_of_cells(metric, part, matrix),
        (Metric::KlDivergence, Kind::Texts(texts)) => lack_of_reference(texts),
        _ if metric.is_of_windows() && part.streamed.is_some() => {
            Some("a counter counts streamed and whole answers together: leave `streamed` out")
        }
        (
            Metric::LogprobError
            | Metric::LogprobRegret
            | Metric::GreedyAgreement
            | Metric::Perplexity
            | Metric::KlDivergence
            | Metric::KlFromBase,
            Kind::Goldens(goldens),
        ) => lack_of_scores(goldens),
        _ => None,
    }
}

fn lack_of_reference(texts: &Texts) -> Option<&'static str> {
    let lacks = texts.cases.iter().any(|case| case.reference.is_empty());
    lacks.then_some(
        "a text of its file has no `reference`: add one, or compare with main by `kl_from_base`",
    )
}

const OPEN_LOOP: &str =
    "an open loop asks for no number of streams: `throughput` is the metric of such";

fn open_loop(arrivals: &Arrivals) -> Option<&'static str> {
    let is_closed = matches!(arrivals, Arrivals::Closed { .. });
    (!is_closed).then_some(OPEN_LOOP)
}

/// Log-probabilities are compared token by token: both sides must know them.
fn lack_of_scores(goldens: &Goldens) -> Option<&'static str> {
    if goldens.top_k.is_none() {
        return Some("the engine is not asked for log-probabilities: say `top_k = 5`");
    }
    let is_known = goldens.cases.iter().all(|case| case.is_scorable);
    (!is_known).then_some(
        "the goldens file does not tell every token by id: make it with `gate golden make --model`",
    )
}

/// What is compared across cells needs two of them at the least.
fn lack_of_cells(metric: Metric, part: &Part, matrix: &Matrix) -> Option<&'static str> {
    let modes = within(&matrix.streamed, part.streamed).count();
    let has_hot = within(&matrix.caches, part.cache).any(|cache| *cache == CacheState::Hot);
    match metric {
        Metric::StreamParity | Metric::StreamMismatches if modes < 2 => Some(
            "streamed answers are compared with whole ones: send both, `streamed = [true, false]`",
        ),
        Metric::StreamMismatches if !has_hot => {
            Some("answers to one prompt are compared, and only a `hot` one is the same again")
        }
        Metric::TpotBase | Metric::TpotSlope | Metric::Contention
            if !matrix.streamed.contains(&true) =>
        {
            Some("answers that come whole have no time per token")
        }
        Metric::TpotBase | Metric::TpotSlope
            if within(&matrix.contexts, part.context).count() < 2 =>
        {
            Some("a line over context needs two of its `contexts`")
        }
        Metric::ThroughputStep if within(&matrix.batches, part.batch).count() < 2 => {
            Some("a step leads from one of its `batches` to another")
        }
        Metric::Contention if within(&matrix.batches, part.batch).count() < 2 => Some(
            "its greatest of `batches` is compared with its least: leave `batch` out, and give two `batches`",
        ),
        _ => None,
    }
}

/// An answer that a workload asks for.
struct AnswerForm {
    streamed: bool,
    tokens: u32,
}

/// The kinds of measured answers of a part; none of a workload whose requests are not alike.
fn answers(kind: &WorkloadKind, part: &Part) -> Vec<AnswerForm> {
    use WorkloadKind as Kind;
    let streamed = |tokens| AnswerForm {
        streamed: true,
        tokens,
    };
    let mut answers: Vec<AnswerForm> = match kind {
        Kind::Steady(steady) => vec![streamed(steady.output_tokens)],
        Kind::Mixed(mixed) => {
            let shapes = mixed.shapes.iter();
            let answer = |shape: &Shape| AnswerForm {
                streamed: shape.streamed,
                tokens: shape.output_tokens,
            };
            shapes.map(answer).collect()
        }
        Kind::Trace(trace) => {
            let measured = trace.entries.iter().skip(trace.warmup as usize);
            measured
                .map(|entry| streamed(entry.output_tokens))
                .collect()
        }
        Kind::FirstRequest(first) => vec![streamed(first.output_tokens)],
        Kind::Matrix(matrix) => {
            let modes = matrix.streamed.iter();
            let answer = |&streamed: &bool| AnswerForm {
                streamed,
                tokens: matrix.output_tokens,
            };
            modes.map(answer).collect()
        }
        Kind::Staggered(staggered) => vec![streamed(staggered.output_tokens)],
        Kind::Session(session) => vec![streamed(session.reply_tokens)],
        Kind::Answers(_) | Kind::Goldens(_) | Kind::Texts(_) | Kind::Tasks(_) | Kind::Suite(_) => {
            Vec::new()
        }
    };
    answers.retain(|answer| part.streamed.is_none_or(|s| s == answer.streamed));
    answers
}

fn needs_streams(metric: Metric, part: &Part) -> bool {
    let of_stream = matches!(
        metric,
        Metric::Ttft
            | Metric::Tpot
            | Metric::Icl
            | Metric::Itl
            | Metric::BurstFactor
            | Metric::PrefillRate
            | Metric::DecodeRate
            | Metric::TtftOverhead
    );
    let slo = part.slo.unwrap_or_default();
    of_stream || slo.ttft.is_some() || slo.tpot.is_some()
}

/// The values of an axis that are within a part.
fn within<T: PartialEq>(axis: &[T], chosen: Option<T>) -> impl Iterator<Item = &T> {
    axis.iter()
        .filter(move |v| chosen.as_ref().is_none_or(|c| c == *v))
}

/// Whether launches are compared by t, so that a session needs looks at them.
pub fn is_tested_by_t(metric: Metric, rule: Rule) -> bool {
    let is_change = matches!(rule, Rule::Regression { .. });
    let is_score = metric == Metric::PrefillDrift || (metric == Metric::Goodput && is_change);
    metric.kind() == MetricKind::Latency || is_score
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
pub fn is_telemetry(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::KvBytes
            | Metric::KvUsage
            | Metric::KvGrowth
            | Metric::RssGrowth
            | Metric::Gauge
            | Metric::GpuMemory
    )
}

/// Whether it is a share of a whole, which is 100 % at the most.
pub fn is_part_of_a_whole(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::Accuracy | Metric::Goodput | Metric::KvUsage | Metric::GreedyAgreement
    )
}

/// Whether a regression check can compare the arms by a share of the value.
pub fn has_relative_change(metric: Metric) -> bool {
    !matches!(
        metric,
        Metric::LogprobError
            | Metric::LogprobRegret
            | Metric::BrokenTests
            | Metric::KvGrowth
            | Metric::RssGrowth
            | Metric::KlDivergence
            | Metric::KlFromBase
            | Metric::StreamMismatches
    )
}

/// Whether it counts cases that are known by name, of which a regression check would compare the numbers alone.
pub fn counts_cases(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::GoldenMismatches
            | Metric::AnswerMismatches
            | Metric::FailedCells
            | Metric::FailedTests
    )
}

/// Below how many samples a launch the statistic means nothing, and how many this part of the workload gives it at the
/// most.
pub fn samples(
    metric: Metric,
    statistic: Statistic,
    part: &Part,
    kind: &WorkloadKind,
) -> (u32, u32) {
    // Where few are sent by design, only what lies in a tail needs many.
    let in_tail = match statistic {
        Statistic::P95 | Statistic::P99 => floor_of(statistic),
        _ => 1,
    };
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
        WorkloadKind::Matrix(matrix) => (in_tail, cell_requests(metric, part, matrix)),
        WorkloadKind::Staggered(staggered) => (in_tail, staggered_requests(metric, staggered)),
        WorkloadKind::FirstRequest(_) => (1, 1),
        WorkloadKind::Session(session) => {
            (in_tail.max(MIN_TURNS), session.turns - session.warmup_turns)
        }
        WorkloadKind::Answers(_)
        | WorkloadKind::Goldens(_)
        | WorkloadKind::Texts(_)
        | WorkloadKind::Tasks(_)
        | WorkloadKind::Suite(_) => (1, u32::MAX),
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

/// Measured requests of the part's cells.
fn cell_requests(metric: Metric, part: &Part, matrix: &Matrix) -> u32 {
    let modes = match metric {
        // The line is through the streamed ones.
        Metric::TpotBase | Metric::TpotSlope | Metric::Contention => 1,
        _ => within(&matrix.streamed, part.streamed).count(),
    };
    let caches = within(&matrix.caches, part.cache).count();
    let contexts = within(&matrix.contexts, part.context).count();
    let batches = within(&matrix.batches, part.batch).copied();
    let in_flight = batches.fold(0, u32::saturating_add);
    [modes, caches, contexts]
        .iter()
        .fold(in_flight, |n, axis| n.saturating_mul(count(*axis)))
        .saturating_mul(matrix.passes)
        .saturating_mul(matrix.rounds)
}

/// Users come one after another, and then together.
fn staggered_requests(metric: Metric, staggered: &Staggered) -> u32 {
    let modes = match metric {
        Metric::WallTtft
        | Metric::InterleavingBenefit
        | Metric::GenerationStall
        | Metric::Throughput => 1,
        _ => 2,
    };
    staggered.users * staggered.passes * modes
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
