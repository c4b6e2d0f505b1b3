//! Rules of the judge, by their stable names.

/// Declares the rules, each with its stable name.
macro_rules! rules {
    ($($rule:ident = $name:literal,)*) => {
        /// A rule of the judge.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum RuleId {
            $($rule,)*
        }

        impl RuleId {
            /// Kebab-case name, for machines.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$rule => $name,)*
                }
            }
        }
    };
}

rules! {
    AmbiguousEvents = "ambiguous-events",
    AnswersDiffer = "answers-differ",
    Budget = "budget",
    Bursts = "bursts",
    BusyBeside = "busy-beside",
    BusyMachine = "busy-machine",
    CapReached = "cap-reached",
    Ceiling = "ceiling",
    ClientLate = "client-late",
    ConstantLatency = "constant-latency",
    CounterVaries = "counter-varies",
    EngineAltered = "engine-altered",
    EngineFailed = "engine-failed",
    FewerTurns = "fewer-turns",
    FingerprintChanged = "fingerprint-changed",
    Floor = "floor",
    GpuShared = "gpu-shared",
    GrowthByChance = "growth-by-chance",
    HeadThrottles = "head-throttles",
    HeldBack = "held-back",
    ImplausiblePhases = "implausible-phases",
    Interrupted = "interrupted",
    LateEnd = "late-end",
    LaunchFailed = "launch-failed",
    LogprobsMoved = "logprobs-moved",
    MissingValue = "missing-value",
    NoBase = "no-base",
    NoPairedCases = "no-paired-cases",
    NoRelativeScale = "no-relative-scale",
    NoStoredBase = "no-stored-base",
    NoVariance = "no-variance",
    NotFinite = "not-finite",
    NotInterleaved = "not-interleaved",
    NotPositive = "not-positive",
    NotSteady = "not-steady",
    OneArtifact = "one-artifact",
    PageCache = "page-cache",
    Regression = "regression",
    Reliability = "reliability",
    Resent = "resent",
    ServerTimings = "server-timings",
    SlowWarmUp = "slow-warm-up",
    Stopped = "stopped",
    StoredBase = "stored-base",
    StreamsNotReached = "streams-not-reached",
    Throttled = "throttled",
    TokenParity = "token-parity",
    TooFewLaunches = "too-few-launches",
    TooFewSamples = "too-few-samples",
    TreeFiles = "tree-files",
    Undecided = "undecided",
    UnkeptConnections = "unkept-connections",
    UnknownWorkload = "unknown-workload",
    Vacuous = "vacuous",
    VoidSamples = "void-samples",
    WaiverExpired = "waiver-expired",
    WrongAnswers = "wrong-answers",
}
