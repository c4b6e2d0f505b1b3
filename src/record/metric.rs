//! The metrics' names, units and kinds. Definitions stand in `docs/metrics.md`, the arithmetic in `metrics/`.

use std::fmt;

/// A number derived from samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Metric {
    /// Time to the first token.
    Ttft,
    /// Time per output token after the first.
    Tpot,
    /// Time between output events.
    Icl,
    /// Whole request: last output event minus send.
    E2e,
    /// Prompt tokens that the engine computed (prompt − cached), per request.
    PrefilledTokens,
    /// Greatest over turns of prefilled tokens − tokens that the turn added; 0 where never more.
    PrefillExcess,
    /// By how much a new token costs more in the last turn than in the first, by the robust slope over
    /// turns.
    PrefillDrift,
    /// Golden cases whose greedy tokens leave the reference at a place that is no near-tie.
    GoldenMismatches,
    /// Mean absolute difference to the reference's log-probability of its own tokens, teacher-forced.
    LogprobError,
    /// 99th percentile over tokens of the reference log-probability lost by the engine's own choice.
    LogprobRegret,
    /// Share of task cases answered exactly.
    Accuracy,
    /// Process spawn to the first generated token.
    Ready,
    /// Bytes of KV cache in use, by the engine's own gauge.
    KvBytes,
    /// Time per output token within the stream: each gap shared out over the tokens of its later event.
    Itl,
    /// Output tokens per output event.
    BurstFactor,
    /// Computed prompt tokens (prompt − cached) over TTFT.
    PrefillRate,
    /// 1 / TPOT.
    DecodeRate,
    /// Output tokens of all requests over the time from the first send to the last event.
    Throughput,
    /// The same over the time in which as many streams as asked for were in flight.
    ThroughputFull,
    /// Throughput of a step of a concurrency ladder over that of the step before, where it is least.
    ThroughputStep,
    /// Share of the KV cache in use, by the engine's own gauge.
    KvUsage,
    /// Share of requests within every bound of the SLO.
    Goodput,
    /// Client's E2E over the server's own time for the same request.
    TransportOverhead,
    /// Client's TTFT less the server's own prefill time of the same request.
    TtftOverhead,
    /// Whole answer's time over the streamed one's, of the cell where they differ most.
    StreamParity,
    /// Cells whose streamed and whole answers to one prompt differ.
    StreamMismatches,
    /// First token since the first user's arrival, for staggered users together.
    WallTtft,
    /// Wall time of the users one after another over their wall time together.
    InterleavingBenefit,
    /// Process spawn to the port's first accepted connection.
    PortOpen,
    /// Process spawn to the first token of the first real request.
    FirstToken,
    /// Process spawn to the end of the first real request's answer.
    FirstResponse,
    /// One of the engine's own start-up stages.
    Stage,
    /// TPOT at context 0, by the fit base + slope × context.
    TpotBase,
    /// What a token of context adds to TPOT, by the same fit.
    TpotSlope,
    /// Cells of a matrix with an answer that failed, was empty or degenerate.
    FailedCells,
    /// Requests that the engine failed to answer.
    FailedRequests,
    /// By how much the KV bytes in use grew over the workload, by the robust slope.
    KvGrowth,
    /// The same of the engine's resident memory.
    RssGrowth,
}

impl Metric {
    pub const ALL: [Self; 38] = [
        Self::Ttft,
        Self::Tpot,
        Self::Icl,
        Self::E2e,
        Self::PrefilledTokens,
        Self::PrefillExcess,
        Self::PrefillDrift,
        Self::GoldenMismatches,
        Self::LogprobError,
        Self::LogprobRegret,
        Self::Accuracy,
        Self::Ready,
        Self::KvBytes,
        Self::Itl,
        Self::BurstFactor,
        Self::PrefillRate,
        Self::DecodeRate,
        Self::Throughput,
        Self::ThroughputFull,
        Self::ThroughputStep,
        Self::KvUsage,
        Self::Goodput,
        Self::TransportOverhead,
        Self::TtftOverhead,
        Self::StreamParity,
        Self::StreamMismatches,
        Self::WallTtft,
        Self::InterleavingBenefit,
        Self::PortOpen,
        Self::FirstToken,
        Self::FirstResponse,
        Self::Stage,
        Self::TpotBase,
        Self::TpotSlope,
        Self::FailedCells,
        Self::FailedRequests,
        Self::KvGrowth,
        Self::RssGrowth,
    ];

    /// The name in gate files, records and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ttft => "ttft",
            Self::Tpot => "tpot",
            Self::Icl => "icl",
            Self::E2e => "e2e",
            Self::PrefilledTokens => "prefilled_tokens",
            Self::PrefillExcess => "prefill_excess",
            Self::PrefillDrift => "prefill_drift",
            Self::GoldenMismatches => "golden_mismatches",
            Self::LogprobError => "logprob_error",
            Self::LogprobRegret => "logprob_regret",
            Self::Accuracy => "accuracy",
            Self::Ready => "ready",
            Self::KvBytes => "kv_bytes",
            Self::Itl => "itl",
            Self::BurstFactor => "burst_factor",
            Self::PrefillRate => "prefill_rate",
            Self::DecodeRate => "decode_rate",
            Self::Throughput => "throughput",
            Self::ThroughputFull => "throughput_full",
            Self::ThroughputStep => "throughput_step",
            Self::KvUsage => "kv_usage",
            Self::Goodput => "goodput",
            Self::TransportOverhead => "transport_overhead",
            Self::TtftOverhead => "ttft_overhead",
            Self::StreamParity => "stream_parity",
            Self::StreamMismatches => "stream_mismatches",
            Self::WallTtft => "wall_ttft",
            Self::InterleavingBenefit => "interleaving_benefit",
            Self::PortOpen => "port_open",
            Self::FirstToken => "first_token",
            Self::FirstResponse => "first_response",
            Self::Stage => "stage",
            Self::TpotBase => "tpot_base",
            Self::TpotSlope => "tpot_slope",
            Self::FailedCells => "failed_cells",
            Self::FailedRequests => "failed_requests",
            Self::KvGrowth => "kv_growth",
            Self::RssGrowth => "rss_growth",
        }
    }

    pub fn unit(self) -> Unit {
        match self {
            Self::Ttft
            | Self::Icl
            | Self::E2e
            | Self::Ready
            | Self::Itl
            | Self::WallTtft
            | Self::TtftOverhead
            | Self::PortOpen
            | Self::FirstToken
            | Self::FirstResponse
            | Self::Stage
            | Self::TpotBase => Unit::Milliseconds,
            Self::Tpot => Unit::MillisecondsPerToken,
            Self::PrefilledTokens | Self::PrefillExcess => Unit::Tokens,
            Self::PrefillDrift
            | Self::Accuracy
            | Self::Goodput
            | Self::KvUsage
            | Self::KvGrowth
            | Self::RssGrowth => Unit::Fraction,
            Self::GoldenMismatches
            | Self::StreamMismatches
            | Self::FailedCells
            | Self::FailedRequests => Unit::Cases,
            Self::LogprobError | Self::LogprobRegret => Unit::Nats,
            Self::KvBytes => Unit::Bytes,
            Self::BurstFactor
            | Self::TransportOverhead
            | Self::StreamParity
            | Self::ThroughputStep
            | Self::InterleavingBenefit => Unit::Ratio,
            Self::PrefillRate | Self::DecodeRate | Self::Throughput | Self::ThroughputFull => {
                Unit::TokensPerSecond
            }
            Self::TpotSlope => Unit::MicrosecondsPerToken,
        }
    }

    pub fn kind(self) -> MetricKind {
        match self {
            Self::Ttft
            | Self::Tpot
            | Self::Icl
            | Self::E2e
            | Self::Ready
            | Self::Itl
            | Self::PrefillRate
            | Self::DecodeRate
            | Self::Throughput
            | Self::ThroughputFull
            | Self::TransportOverhead
            | Self::TtftOverhead
            | Self::StreamParity
            | Self::ThroughputStep
            | Self::WallTtft
            | Self::InterleavingBenefit
            | Self::PortOpen
            | Self::FirstToken
            | Self::FirstResponse
            | Self::Stage
            | Self::TpotBase
            | Self::TpotSlope => MetricKind::Latency,
            Self::PrefilledTokens
            | Self::PrefillExcess
            | Self::GoldenMismatches
            | Self::KvBytes
            | Self::KvUsage
            | Self::BurstFactor
            | Self::StreamMismatches
            | Self::FailedCells
            | Self::FailedRequests => MetricKind::Counter,
            Self::PrefillDrift
            | Self::LogprobError
            | Self::LogprobRegret
            | Self::Goodput
            | Self::KvGrowth
            | Self::RssGrowth => MetricKind::Score,
            Self::Accuracy => MetricKind::Share,
        }
    }

    pub fn direction(self) -> Direction {
        match self {
            Self::Accuracy
            | Self::Goodput
            | Self::PrefillRate
            | Self::DecodeRate
            | Self::Throughput
            | Self::ThroughputFull
            | Self::ThroughputStep
            | Self::InterleavingBenefit => Direction::HigherIsBetter,
            _ => Direction::LowerIsBetter,
        }
    }
}

/// How a metric is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Positive values from a clock (times, rates and their ratios), compared on the log scale:
    /// y = ln(statistic).
    Latency,
    /// A count that is constant in a sound engine, compared exactly where it is.
    Counter,
    /// One value a launch on its own scale.
    Score,
    /// Successes out of trials, bounded by Wilson's interval and compared case by case.
    Share,
}

/// What better means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    LowerIsBetter,
    HigherIsBetter,
}

/// Units of metrics. Values are kept in exactly this unit everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Milliseconds,
    MillisecondsPerToken,
    MicrosecondsPerToken,
    Tokens,
    TokensPerSecond,
    /// 1.05 is five hundredths more than one.
    Ratio,
    Cases,
    /// 0.02 is 2 %.
    Fraction,
    /// Natural-logarithm probability units.
    Nats,
    Bytes,
}

/// How a launch's many values become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    Median,
    Mean,
    P95,
    P99,
    Max,
    /// The metric is already one value a launch.
    Single,
}

impl Statistic {
    pub const ALL: [Self; 6] = [
        Self::Median,
        Self::Mean,
        Self::P95,
        Self::P99,
        Self::Max,
        Self::Single,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Median => "median",
            Self::Mean => "mean",
            Self::P95 => "p95",
            Self::P99 => "p99",
            Self::Max => "max",
            Self::Single => "single",
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
