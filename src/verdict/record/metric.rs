//! The metrics' names, units and kinds. Definitions stand in `docs/metrics.md`, the arithmetic in `metrics/`.

use std::fmt;

/// Declares the metrics, one a row: its name, unit and kind, which way is better, and how many values a launch gives.
macro_rules! metrics {
    ($($(#[$doc:meta])* $metric:ident = $name:literal, $unit:ident, $kind:ident, $better:ident, $values:ident;)*) => {
        /// A number derived from samples.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Metric {
            $($(#[$doc])* $metric,)*
        }

        impl Metric {
            pub const ALL: [Metric; [$(Metric::$metric,)*].len()] = [$(Metric::$metric,)*];

            /// All that is fixed of a metric.
            fn facts(self) -> MetricFacts {
                match self {
                    $(Self::$metric => MetricFacts {
                        name: $name,
                        unit: Unit::$unit,
                        kind: MetricKind::$kind,
                        direction: Direction::$better,
                        values: Values::$values,
                    },)*
                }
            }
        }
    };
}

metrics! {
    /// Time to the first token.
    Ttft = "ttft", Milliseconds, Latency, LowerIsBetter, Many;
    /// Time per output token after the first.
    Tpot = "tpot", MillisecondsPerToken, Latency, LowerIsBetter, Many;
    /// Time between output events.
    Icl = "icl", Milliseconds, Latency, LowerIsBetter, Many;
    /// Whole request: last output event minus send.
    E2e = "e2e", Milliseconds, Latency, LowerIsBetter, Many;
    /// Prompt tokens that the engine computed (prompt − cached), per request.
    PrefilledTokens = "prefilled_tokens", Tokens, Counter, LowerIsBetter, Many;
    /// Greatest over turns of prefilled tokens − tokens that the turn added; 0 where never more.
    PrefillExcess = "prefill_excess", Tokens, Counter, LowerIsBetter, One;
    /// By how much a new token costs more in the last turn than in the first, by the robust slope over
    /// turns.
    PrefillDrift = "prefill_drift", Fraction, Score, LowerIsBetter, One;
    /// Golden cases whose greedy tokens leave the reference at a place that is no near-tie.
    GoldenMismatches = "golden_mismatches", Cases, Counter, LowerIsBetter, One;
    /// Mean absolute difference to the reference's log-probability of its own tokens, teacher-forced.
    LogprobError = "logprob_error", Nats, Score, LowerIsBetter, One;
    /// 99th percentile over tokens of the reference log-probability lost by the engine's own choice.
    LogprobRegret = "logprob_regret", Nats, Score, LowerIsBetter, One;
    /// Share of task cases answered exactly.
    Accuracy = "accuracy", Fraction, Share, HigherIsBetter, One;
    /// Process spawn to the first generated token.
    Ready = "ready", Milliseconds, Latency, LowerIsBetter, One;
    /// Bytes of KV cache in use, by the engine's own gauge.
    KvBytes = "kv_bytes", Bytes, Counter, LowerIsBetter, Many;
    /// Time per output token within the stream: each gap shared out over the tokens of its later event.
    Itl = "itl", Milliseconds, Latency, LowerIsBetter, Many;
    /// Output tokens per output event.
    BurstFactor = "burst_factor", Ratio, Counter, LowerIsBetter, Many;
    /// Computed prompt tokens (prompt − cached) over TTFT.
    PrefillRate = "prefill_rate", TokensPerSecond, Latency, HigherIsBetter, Many;
    /// 1 / TPOT.
    DecodeRate = "decode_rate", TokensPerSecond, Latency, HigherIsBetter, Many;
    /// Output tokens of all requests over the time from the first send to the last event.
    Throughput = "throughput", TokensPerSecond, Latency, HigherIsBetter, One;
    /// The same over the time in which as many streams as asked for were in flight.
    ThroughputFull = "throughput_full", TokensPerSecond, Latency, HigherIsBetter, One;
    /// Throughput of a step of a concurrency ladder over that of the step before, where it is least.
    ThroughputStep = "throughput_step", Ratio, Latency, HigherIsBetter, One;
    /// Share of the KV cache in use, by the engine's own gauge.
    KvUsage = "kv_usage", Fraction, Counter, LowerIsBetter, Many;
    /// Share of requests within every bound of the SLO.
    Goodput = "goodput", Fraction, Score, HigherIsBetter, One;
    /// Client's E2E over the server's own time for the same request.
    TransportOverhead = "transport_overhead", Ratio, Latency, LowerIsBetter, Many;
    /// Client's TTFT less the server's own prefill time of the same request.
    TtftOverhead = "ttft_overhead", Milliseconds, Latency, LowerIsBetter, Many;
    /// Whole answer's time over the streamed one's, of the cell where they differ most.
    StreamParity = "stream_parity", Ratio, Latency, LowerIsBetter, One;
    /// Cells whose streamed and whole answers to one prompt differ.
    StreamMismatches = "stream_mismatches", Cases, Counter, LowerIsBetter, One;
    /// First token since the first user's arrival, for staggered users together.
    WallTtft = "wall_ttft", Milliseconds, Latency, LowerIsBetter, Many;
    /// Wall time of the users one after another over their wall time together.
    InterleavingBenefit = "interleaving_benefit", Ratio, Latency, HigherIsBetter, One;
    /// The longest pause within one user's stream while another user's prompt is prefilled.
    GenerationStall = "generation_stall", Milliseconds, Latency, LowerIsBetter, Many;
    /// Process spawn to the port's first accepted connection.
    PortOpen = "port_open", Milliseconds, Latency, LowerIsBetter, One;
    /// Process spawn to the first token of the first real request.
    FirstToken = "first_token", Milliseconds, Latency, LowerIsBetter, One;
    /// Process spawn to the end of the first real request's answer.
    FirstResponse = "first_response", Milliseconds, Latency, LowerIsBetter, One;
    /// One of the engine's own start-up stages.
    Stage = "stage", Milliseconds, Latency, LowerIsBetter, One;
    /// TPOT at context 0, by the fit base + slope × context.
    TpotBase = "tpot_base", Milliseconds, Latency, LowerIsBetter, One;
    /// What a token of context adds to TPOT, by the same fit.
    TpotSlope = "tpot_slope", MicrosecondsPerToken, Latency, LowerIsBetter, One;
    /// Cells of a matrix with an answer that failed, was empty or degenerate.
    FailedCells = "failed_cells", Cases, Counter, LowerIsBetter, One;
    /// Answers that differ from the same prompt's answer alone, or from base's, and not by a near-tie.
    AnswerMismatches = "answer_mismatches", Cases, Counter, LowerIsBetter, One;
    /// Requests that are void or wrongly answered.
    FailedRequests = "failed_requests", Cases, Counter, LowerIsBetter, One;
    /// Tests of the project's own suite that fail in head.
    FailedTests = "failed_tests", Cases, Counter, LowerIsBetter, One;
    /// Tests of the project's own suite that passed in base, and in head fail, are skipped or missing.
    BrokenTests = "broken_tests", Cases, Counter, LowerIsBetter, One;
    /// By how much the KV bytes in use grew over the workload, by the robust slope.
    KvGrowth = "kv_growth", Fraction, Score, LowerIsBetter, One;
    /// The same of the engine's resident memory.
    RssGrowth = "rss_growth", Fraction, Score, LowerIsBetter, One;
    /// A counter of the engine's `/metrics`: its rise over the measured requests, per output token.
    CounterPerToken = "counter_per_token", PerToken, Counter, LowerIsBetter, One;
    /// The same per request.
    CounterPerRequest = "counter_per_request", PerRequest, Counter, LowerIsBetter, One;
    /// The same over another counter's rise.
    CounterRatio = "counter_ratio", Number, Counter, LowerIsBetter, One;
    /// The same alone.
    CounterIncrease = "counter_increase", Number, Counter, LowerIsBetter, One;
    /// A counter's value after the measured requests: all since the engine's start.
    CounterTotal = "counter_total", Number, Counter, LowerIsBetter, One;
    /// A gauge of the engine's `/metrics` while the workload ran.
    Gauge = "gauge", Number, Counter, LowerIsBetter, Many;
    /// TPOT beside other streams over TPOT with fewer or none.
    Contention = "contention", Ratio, Latency, LowerIsBetter, One;
    /// Share of the reference's tokens that the engine too finds most likely, teacher-forced.
    GreedyAgreement = "greedy_agreement", Fraction, Score, HigherIsBetter, One;
    /// exp of the mean negative log-probability of a text's tokens.
    Perplexity = "perplexity", Number, Score, LowerIsBetter, One;
    /// Mean over tokens of a lower bound of KL(reference ‖ engine).
    KlDivergence = "kl_divergence", Nats, Score, LowerIsBetter, One;
    /// The same with base in the reference's place.
    KlFromBase = "kl_from_base", Nats, Score, LowerIsBetter, One;
    /// Energy that the engine's GPUs took, per output token.
    EnergyPerToken = "energy_per_token", JoulesPerToken, Latency, LowerIsBetter, One;
    /// Memory of the engine's GPUs in use.
    GpuMemory = "gpu_memory", Bytes, Counter, LowerIsBetter, Many;
}

impl Metric {
    /// The name in gate files, records and reports.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    pub fn unit(self) -> Unit {
        self.facts().unit
    }

    /// Of an engine's start, and not of requests after it.
    pub fn is_of_start(self) -> bool {
        use Metric::{FirstResponse, FirstToken, PortOpen, Ready, Stage};
        matches!(self, PortOpen | Ready | FirstToken | FirstResponse | Stage)
    }

    pub fn kind(self) -> MetricKind {
        self.facts().kind
    }

    pub fn direction(self) -> Direction {
        self.facts().direction
    }

    /// Whether a clock has a say in the value, so that what disturbs clocks disturbs it.
    pub fn is_by_clock(self) -> bool {
        self.kind() == MetricKind::Latency || matches!(self, Self::PrefillDrift | Self::Goodput)
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

    /// A change for the worse by a share of base, on the scale of logarithms: ln(1 + c) of what rises, −ln(1 − c) of what falls.
    pub fn loss(self, change: f64) -> f64 {
        self.sign() * (self.sign() * change).ln_1p()
    }

    /// The share of base that such a loss is.
    pub fn change(self, loss: f64) -> f64 {
        self.sign() * (self.sign() * loss).exp_m1()
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
