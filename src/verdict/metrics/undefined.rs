//! Why a number is not there, and which sample is at fault.

use crate::record::Metric;
use std::fmt;
use thiserror::Error;

/// A metric that one launch does not have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct Undefined {
    pub why: Why,
    /// Position of the launch in the session.
    pub launch: u32,
    pub workload: String,
    /// Index of the sample at fault, where one is.
    pub sample: Option<u32>,
}

impl fmt::Display for Undefined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "launch {}, ", self.launch)?;
        match self.sample {
            Some(index) => write!(f, "request {index} of {}: ", self.workload)?,
            None => write!(f, "{}: ", self.workload)?,
        }
        write!(f, "{}", self.why)
    }
}

/// The reason by itself.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Why {
    #[error("no sound measured request")]
    NoSamples,
    #[error("the engine never generated a token")]
    NotReady,
    #[error("the launch has no telemetry")]
    NoTelemetry,
    #[error(
        "the engine's {0} was never read: name its gauge in `engine.metrics` of gates/gate.toml"
    )]
    NoGauge(&'static str),
    #[error("the process's memory was never read")]
    NoMemory,
    #[error(
        "{have} of {all} readings have the value: what it was in the others is not known, and an engine that answers only \
         when it rests would hide its peaks; see `missing` of the launch's telemetry"
    )]
    Patchy { have: usize, all: usize },
    #[error(
        "the prompt of the conversation did not grow ({first} to {last} tokens): its replies hold no text, as those of a \
         model that only thinks within `reply_tokens`"
    )]
    NoConversation { first: u32, last: u32 },
    #[error(
        "`{0}` was never read: compare its name and labels with the engine's /metrics, and see `missing` of the launch's \
         telemetry"
    )]
    NoSeries(String),
    #[error(
        "`{0}` is missing in the engine's /metrics: compare its name and labels with what the engine serves there"
    )]
    NoCounter(String),
    #[error(
        "`{name}` fell from {from} to {to}: a counter only rises unless its engine starts anew; what may fall is read \
         with the metric `gauge`"
    )]
    CounterReset {
        name: String,
        from: String,
        to: String,
    },
    #[error(
        "`{0}` stayed where it was: nothing shows that the engine counts; where no rise is a sound value, say \
         `allow_zero = true`"
    )]
    NeverMoved(String),
    #[error("the request is void, and counters count it too")]
    VoidCounted,
    #[error(
        "no counters were read at the ends of the measured part: the record is another tool's, an older gate's, or of \
         other checks; measure again"
    )]
    NoWindow,
    #[error("the answers have no output tokens")]
    NoOutputTokens,
    #[error(
        "no GPU was read: energy and GPU memory come from NVML, see `missing` of the launch's telemetry"
    )]
    NoGpu,
    #[error(
        "GPU {0} has no energy reading at both ends of the measured part: NVML gives one for Volta and later, \
         `telemetry.gpu_exporter` none"
    )]
    NoEnergy(u32),
    #[error(
        "a measured part of {ms} ms is too short for the GPU's energy counter: send requests for 1 s or more, in a \
         matrix within each pass of each cell"
    )]
    TooShortForEnergy { ms: u64 },
    #[error(
        "{n} readings above 0 where {need} are needed: lengthen the workload, or read more often"
    )]
    TooFewReadings { n: usize, need: usize },
    #[error("the gauge is 0 in all of {n} readings: it measures nothing")]
    AlwaysZero { n: usize },
    #[error(
        "the engine names no start-up stage `{wanted}`; it names {}",
        list(named)
    )]
    NoStage { wanted: String, named: Vec<String> },
    #[error("the port never took a connection")]
    NoPort,
    #[error("the stream does not tell how many tokens each event carries")]
    TokensPerEvent,
    #[error("the answer has no timings of the server's own")]
    NoTimings,
    #[error("the answer has no positive time for {0}")]
    NoPositiveTime(&'static str),
    #[error("the requests take no time")]
    NoSpan,
    #[error("an open loop asks for no number of streams in flight")]
    OpenLoop,
    #[error("{0} streams were never in flight together")]
    NeverFull(u32),
    #[error("the sample does not say its cell")]
    NoCell,
    #[error("cell {0} has no sound answer")]
    CellMissing(String),
    #[error("{n} contexts where two are needed for a line")]
    TooFewContexts { n: usize },
    #[error("one batch alone is no ladder")]
    NoLadder,
    #[error("no cell was asked both streamed and whole")]
    NoPair,
    #[error("the sample does not say its mode and user")]
    NoMode,
    #[error(
        "in pass {0} no user's prompt was prefilled while another's answer was streamed: make `offset` smaller, or the answers longer"
    )]
    NeverMet(u32),
    #[error("{0} cannot be read from this kind of workload")]
    WrongWorkload(Metric),
    #[error("a 99th percentile of {n} values is no percentile, 100 are needed")]
    TooFewForP99 { n: usize },
    #[error("{n} values where the statistic `single` needs exactly one")]
    NotSingle { n: usize },
    #[error("the answer was not streamed, so its first token has no time")]
    NotStreamed,
    #[error("the answer has no output event")]
    NoEvents,
    #[error("the answer has no end")]
    NoEnd,
    #[error("the answer has no usage count")]
    NoUsage,
    #[error("{n} output tokens, {at_first} of them in the first event: nothing is left to time")]
    TooFewTokens { n: u32, at_first: u32 },
    #[error("the answer does not say how many prompt tokens there were")]
    NoPromptCount,
    #[error("the engine does not report cached tokens (usage.prompt_tokens_details.cached_tokens)")]
    NoCachedTokens,
    #[error("{cached} cached tokens of {prompt} prompt tokens")]
    CachedBeyondPrompt { prompt: u32, cached: u32 },
    #[error("the sample does not say which turn it is")]
    NoTurn,
    #[error("turn {0} was sent twice")]
    TurnTwice(u32),
    #[error("turn {0} is missing or void")]
    TurnMissing(u32),
    #[error("turn {0} added no token to the prompt")]
    NothingAdded(u32),
    #[error("turn {0} has no positive time to its first token")]
    NoTime(u32),
    #[error("{n} measured turns where two are needed")]
    TooFewTurns { n: usize },
    #[error("case {0} was answered twice")]
    CaseTwice(String),
    #[error("case {0} has no sound answer")]
    CaseMissing(String),
    #[error("the answer has {got} log-probability entries where {need} are needed")]
    Logprobs { got: usize, need: usize },
    #[error("token {place} of the reference has no log-probability in the answer")]
    NoLogprob { place: usize },
    #[error(
        "token {place} has a log-probability of {logprob}, and none is above 0: the engine sends logits, or another sign"
    )]
    AboveZero { place: usize, logprob: String },
    #[error(
        "the probabilities listed for token {place} add up to {sum}, and together they are at most 1: the engine sends no \
         log-probabilities"
    )]
    MoreThanCertain { place: usize, sum: String },
    #[error(
        "no prompt was answered twice: base was not launched beside head, and no prompt was sent again in this launch"
    )]
    NothingCompared,
    #[error(
        "token {place} is not the token that it is compared with: the two have different tokenizers"
    )]
    OtherTokens { place: usize },
    #[error(
        "the engine did not echo the whole text: does it fit into its context, and does it know `echo`?"
    )]
    NotEchoed,
    #[error("{0}")]
    Suite(String),
    #[error("the text was not kept")]
    NoText,
}

/// `a, b, c`, or that there is none and which key brings them.
fn list(names: &[String]) -> String {
    match names {
        [] => "none (engine.startup_metric)".into(),
        names => names.join(", "),
    }
}
