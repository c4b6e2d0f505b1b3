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
}

impl Metric {
    pub const ALL: [Self; 13] = [
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
        }
    }

    pub fn unit(self) -> Unit {
        match self {
            Self::Ttft | Self::Icl | Self::E2e | Self::Ready => Unit::Milliseconds,
            Self::Tpot => Unit::MillisecondsPerToken,
            Self::PrefilledTokens | Self::PrefillExcess => Unit::Tokens,
            Self::PrefillDrift | Self::Accuracy => Unit::Fraction,
            Self::GoldenMismatches => Unit::Cases,
            Self::LogprobError | Self::LogprobRegret => Unit::Nats,
            Self::KvBytes => Unit::Bytes,
        }
    }

    pub fn kind(self) -> MetricKind {
        match self {
            Self::Ttft | Self::Tpot | Self::Icl | Self::E2e | Self::Ready => MetricKind::Latency,
            Self::PrefilledTokens
            | Self::PrefillExcess
            | Self::GoldenMismatches
            | Self::KvBytes => MetricKind::Counter,
            Self::PrefillDrift | Self::LogprobError | Self::LogprobRegret => MetricKind::Score,
            Self::Accuracy => MetricKind::Share,
        }
    }

    pub fn direction(self) -> Direction {
        match self {
            Self::Accuracy => Direction::HigherIsBetter,
            _ => Direction::LowerIsBetter,
        }
    }
}

/// How a metric is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Many positive values a launch, compared on the log scale: y = ln(statistic).
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
    Tokens,
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
