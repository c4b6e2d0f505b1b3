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
    /// The longest pause within one user's stream while another user's prompt is prefilled.
    GenerationStall,
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
    /// Answers that differ from the same prompt's answer alone, or from base's, and not by a near-tie.
    AnswerMismatches,
    /// Requests that are void or wrongly answered.
    FailedRequests,
    /// Tests of the project's own suite that fail in head.
    FailedTests,
    /// Tests of the project's own suite that passed in base, and in head fail, are skipped or missing.
    BrokenTests,
    /// By how much the KV bytes in use grew over the workload, by the robust slope.
    KvGrowth,
    /// The same of the engine's resident memory.
    RssGrowth,
    /// A counter of the engine's `/metrics`: its rise over the measured requests, per output token.
    CounterPerToken,
    /// The same per request.
    CounterPerRequest,
    /// The same over another counter's rise.
    CounterRatio,
    /// The same alone.
    CounterIncrease,
    /// A counter's value after the measured requests: all since the engine's start.
    CounterTotal,
    /// A gauge of the engine's `/metrics` while the workload ran.
    Gauge,
    /// TPOT beside other streams over TPOT with fewer or none.
    Contention,
    /// Share of the reference's tokens that the engine too finds most likely, teacher-forced.
    GreedyAgreement,
    /// exp of the mean negative log-probability of a text's tokens.
    Perplexity,
    /// Mean over tokens of a lower bound of KL(reference ‖ engine).
    KlDivergence,
    /// The same with base in the reference's place.
    KlFromBase,
    /// Energy that the engine's GPUs took, per output token.
    EnergyPerToken,
    /// Memory of the engine's GPUs in use.
    GpuMemory,
}

impl Metric {
    pub const ALL: [Self; 55] = [
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
        Self::GenerationStall,
        Self::PortOpen,
        Self::FirstToken,
        Self::FirstResponse,
        Self::Stage,
        Self::TpotBase,
        Self::TpotSlope,
        Self::FailedCells,
        Self::AnswerMismatches,
        Self::FailedRequests,
        Self::FailedTests,
        Self::BrokenTests,
        Self::KvGrowth,
        Self::RssGrowth,
        Self::CounterPerToken,
        Self::CounterPerRequest,
        Self::CounterRatio,
        Self::CounterIncrease,
        Self::CounterTotal,
        Self::Gauge,
        Self::Contention,
        Self::GreedyAgreement,
        Self::Perplexity,
        Self::KlDivergence,
        Self::KlFromBase,
        Self::EnergyPerToken,
        Self::GpuMemory,
    ];

    /// All that is fixed of a metric, one a row.
    fn facts(self) -> MetricFacts {
        use Direction::{HigherIsBetter as Higher, LowerIsBetter as Lower};
        use MetricKind::{Counter, Latency, Score, Share};
        use Unit::{
            Bytes, Cases, Fraction, JoulesPerToken, MicrosecondsPerToken, Milliseconds,
            MillisecondsPerToken, Nats, Number, PerRequest, PerToken, Ratio, Tokens,
            TokensPerSecond,
        };
        use Values::{Many, One};
        let row = |name, unit, kind, direction, values| MetricFacts {
            name,
            unit,
            kind,
            direction,
            values,
        };
        match self {
            Self::Ttft => row("ttft", Milliseconds, Latency, Lower, Many),
            Self::Tpot => row("tpot", MillisecondsPerToken, Latency, Lower, Many),
            Self::Icl => row("icl", Milliseconds, Latency, Lower, Many),
            Self::E2e => row("e2e", Milliseconds, Latency, Lower, Many),
            Self::PrefilledTokens => row("prefilled_tokens", Tokens, Counter, Lower, Many),
            Self::PrefillExcess => row("prefill_excess", Tokens, Counter, Lower, One),
            Self::PrefillDrift => row("prefill_drift", Fraction, Score, Lower, One),
            Self::GoldenMismatches => row("golden_mismatches", Cases, Counter, Lower, One),
            Self::LogprobError => row("logprob_error", Nats, Score, Lower, One),
            Self::LogprobRegret => row("logprob_regret", Nats, Score, Lower, One),
            Self::Accuracy => row("accuracy", Fraction, Share, Higher, One),
            Self::Ready => row("ready", Milliseconds, Latency, Lower, One),
            Self::KvBytes => row("kv_bytes", Bytes, Counter, Lower, Many),
            Self::Itl => row("itl", Milliseconds, Latency, Lower, Many),
            Self::BurstFactor => row("burst_factor", Ratio, Counter, Lower, Many),
            Self::PrefillRate => row("prefill_rate", TokensPerSecond, Latency, Higher, Many),
            Self::DecodeRate => row("decode_rate", TokensPerSecond, Latency, Higher, Many),
            Self::Throughput => row("throughput", TokensPerSecond, Latency, Higher, One),
            Self::ThroughputFull => row("throughput_full", TokensPerSecond, Latency, Higher, One),
            Self::ThroughputStep => row("throughput_step", Ratio, Latency, Higher, One),
            Self::KvUsage => row("kv_usage", Fraction, Counter, Lower, Many),
            Self::Goodput => row("goodput", Fraction, Score, Higher, One),
            Self::TransportOverhead => row("transport_overhead", Ratio, Latency, Lower, Many),
            Self::TtftOverhead => row("ttft_overhead", Milliseconds, Latency, Lower, Many),
            Self::StreamParity => row("stream_parity", Ratio, Latency, Lower, One),
            Self::StreamMismatches => row("stream_mismatches", Cases, Counter, Lower, One),
            Self::WallTtft => row("wall_ttft", Milliseconds, Latency, Lower, Many),
            Self::InterleavingBenefit => row("interleaving_benefit", Ratio, Latency, Higher, One),
            Self::GenerationStall => row("generation_stall", Milliseconds, Latency, Lower, Many),
            Self::PortOpen => row("port_open", Milliseconds, Latency, Lower, One),
            Self::FirstToken => row("first_token", Milliseconds, Latency, Lower, One),
            Self::FirstResponse => row("first_response", Milliseconds, Latency, Lower, One),
            Self::Stage => row("stage", Milliseconds, Latency, Lower, One),
            Self::TpotBase => row("tpot_base", Milliseconds, Latency, Lower, One),
            Self::TpotSlope => row("tpot_slope", MicrosecondsPerToken, Latency, Lower, One),
            Self::FailedCells => row("failed_cells", Cases, Counter, Lower, One),
            Self::AnswerMismatches => row("answer_mismatches", Cases, Counter, Lower, One),
            Self::FailedRequests => row("failed_requests", Cases, Counter, Lower, One),
            Self::FailedTests => row("failed_tests", Cases, Counter, Lower, One),
            Self::BrokenTests => row("broken_tests", Cases, Counter, Lower, One),
            Self::KvGrowth => row("kv_growth", Fraction, Score, Lower, One),
            Self::RssGrowth => row("rss_growth", Fraction, Score, Lower, One),
            Self::CounterPerToken => row("counter_per_token", PerToken, Counter, Lower, One),
            Self::CounterPerRequest => row("counter_per_request", PerRequest, Counter, Lower, One),
            Self::CounterRatio => row("counter_ratio", Number, Counter, Lower, One),
            Self::CounterIncrease => row("counter_increase", Number, Counter, Lower, One),
            Self::CounterTotal => row("counter_total", Number, Counter, Lower, One),
            Self::Gauge => row("gauge", Number, Counter, Lower, Many),
            Self::Contention => row("contention", Ratio, Latency, Lower, One),
            Self::GreedyAgreement => row("greedy_agreement", Fraction, Score, Higher, One),
            Self::Perplexity => row("perplexity", Number, Score, Lower, One),
            Self::KlDivergence => row("kl_divergence", Nats, Score, Lower, One),
            Self::KlFromBase => row("kl_from_base", Nats, Score, Lower, One),
            Self::EnergyPerToken => row("energy_per_token", JoulesPerToken, Latency, Lower, One),
            Self::GpuMemory => row("gpu_memory", Bytes, Counter, Lower, Many),
        }
    }

    /// The name in gate files, records and reports.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    pub fn unit(self) -> Unit {
        self.facts().unit
    }

    pub fn kind(self) -> MetricKind {
        self.facts().kind
    }

    pub fn direction(self) -> Direction {
        self.facts().direction
    }

    /// Whether the value is read off a fitted line, which noise can bring to 0 or below.
    pub fn is_fitted(self) -> bool {
        matches!(self, Self::TpotBase | Self::TpotSlope)
    }

    /// True for a metric made of what is read at the ends of the measured part, see
    /// [`Window`](super::Window).
    pub fn is_of_windows(self) -> bool {
        matches!(
            self,
            Self::CounterPerToken
                | Self::CounterPerRequest
                | Self::CounterRatio
                | Self::CounterIncrease
                | Self::CounterTotal
                | Self::EnergyPerToken
        )
    }

    /// Whether the metric is one value a launch, so that no statistic can be chosen.
    pub fn is_single(self) -> bool {
        self.facts().values == Values::One
    }
}

struct MetricFacts {
    name: &'static str,
    unit: Unit,
    kind: MetricKind,
    direction: Direction,
    values: Values,
}

/// How many values a launch gives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Values {
    One,
    Many,
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

impl Direction {
    /// 1 where more is worse, −1 where more is better.
    pub fn sign(self) -> f64 {
        match self {
            Self::LowerIsBetter => 1.0,
            Self::HigherIsBetter => -1.0,
        }
    }
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
    /// Without a unit, or of a unit that the engine alone knows.
    Number,
    /// So many for each output token.
    PerToken,
    /// So many for each request.
    PerRequest,
    JoulesPerToken,
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
