//! One request's raw record: stamps, counts, and what came back. Numbers are derived in `metrics/`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// One request as the client saw it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Which workload of the plan sent it: `gate/workload`, for example `tpot/decode`.
    pub workload: String,
    /// Order of sending within this workload and launch, from 0, warm-up included.
    pub index: u32,
    pub phase: Phase,
    /// Identity of a golden or task case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<String>,
    /// Turn of a session, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    pub streamed: bool,
    /// Under which circumstances it was sent, where a workload has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setting: Option<Setting>,
    pub stamps: Stamps,
    pub tokens: TokenCounts,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// HTTP status of a request that may be refused; 0: the connection was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The answer's fields and their kinds, such as `choices[].text: string`; of [`Condition::Ended`] only.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub fields: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timings: Option<ServerTimings>,
    /// The generated text, then names and arguments of called functions. Older gates kept it where correctness was judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Hex SHA-256 of the generated text (empty text included).
    pub text_sha256: String,
    /// Per-token log-probabilities, where they were asked for. For an echoed (teacher-forced) request
    /// they cover the prompt; the first prompt token has no `logprob`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<TokenLogprob>,
    /// Why this sample must not enter any metric; `None` for a sound one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub void: Option<Void>,
}

impl Sample {
    /// Measured and sound: warm-up and void samples enter no metric.
    pub fn may_enter(&self) -> bool {
        self.phase == Phase::Measured && self.void.is_none()
    }

    /// The condition of a workload `answers` under which it was sent.
    pub fn condition(&self) -> Option<Condition> {
        match self.setting {
            Some(Setting::Answer { condition, .. }) => Some(condition),
            _ => None,
        }
    }

    /// True if the text is [`is_blank`]; false where it is not kept.
    pub fn is_blank(&self) -> bool {
        self.text.as_deref().is_some_and(is_blank)
    }
}

/// True for a text in which a reader sees nothing: white space, control and ignorable characters.
pub fn is_blank(text: &str) -> bool {
    let is_hidden = |c: char| c.is_whitespace() || c.is_control() || is_ignorable(c);
    text.chars().all(is_hidden)
}

/// True for a character without a mark of its own: joiners, directions of writing, variation selectors, fillers.
/// Unicode's `Default_Ignorable_Code_Point`, and the blank pattern of Braille.
pub fn is_ignorable(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fff8}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// The circumstances of a request, where a workload compares several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Setting {
    /// One cell of a matrix; whether it streams stands in [`Sample::streamed`].
    Cell {
        /// Requests in flight at once.
        batch: u32,
        cache: CacheState,
        /// Prompt tokens.
        context: u32,
        /// Which repetition of the cell, from 0.
        pass: u32,
    },
    /// One user of several that come one after another, each when the last was answered.
    Sequential {
        user: u32,
        pass: u32,
        /// The wall clock's start of this mode: the first user's intended moment.
        origin_ns: u64,
    },
    /// The same users, each at its own arrival.
    Together {
        user: u32,
        pass: u32,
        origin_ns: u64,
    },
    /// A prompt that is answered under several conditions; its name stands in [`Sample::case`].
    Answer { condition: Condition, pass: u32 },
}

/// What surrounds a prompt of which the answer must not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// No other request in flight: the answer that the others are held against.
    Alone,
    /// The same again: the cache knows the prompt.
    Cached,
    /// Beside other prompts, none of them known to the cache.
    Batch,
    CachedBatch,
    /// Beside long prompts that are being prefilled.
    Prefill,
    CachedPrefill,
    /// Cached, beside other prompts, and sampled from so few tokens that only the best is left.
    Sampled,
    /// Cached, beside other prompts, and drawn at temperature 1: each prompt twice, with one seed.
    Drawn,
    /// Cached, and ended by the first of some strings.
    Stopped,
    /// Its client leaves as the answer begins, or before.
    Left,
    /// A question over the chat route, or as plain text, whose answer ends by itself.
    Ended,
    /// A text answered with a penalty for tokens that are there already, or beside such.
    Penalised,
    /// A bad request, sent beside other prompts.
    Refused,
}

/// The strings of [`Condition::Stopped`]: many texts have one, and most tokenizers spread the first three over two tokens.
/// OpenAI's API takes four.
pub const STOPS: [&str; 4] = ["e ", "s ", ", ", "\n"];

/// Cases of prompts that come again after [`Condition::Left`] begin so; the number of that request follows.
pub const LEFT_CASE: &str = "left-";

/// Names of chats of [`Condition::Ended`] contain this if they have a system message …
pub const SYSTEM_MESSAGE: &str = ", system message";

/// … and this if they have earlier turns.
pub const EARLIER_TURNS: &str = ", earlier turns";

/// The case of a text of [`Condition::Penalised`] that has a penalty is that of the text without, this, and the penalty's name.
pub const WITH: &str = ", with ";

/// A prompt that differs from another one in its last words alone has the other's case with this behind it.
pub const ENDING: &str = ", ending otherwise";

/// The names of penalties in such cases.
pub const FREQUENCY_PENALTY: &str = "frequency penalty";
pub const PRESENCE_PENALTY: &str = "presence penalty";

impl Condition {
    /// The words of reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Cached => "cached",
            Self::Batch => "in a batch",
            Self::CachedBatch => "cached, in a batch",
            Self::Prefill => "beside a prefill",
            Self::CachedPrefill => "cached, beside a prefill",
            Self::Sampled => "cached, in a batch, sampled from one token",
            Self::Drawn => "sampled at temperature 1",
            Self::Stopped => "cached, with stop strings",
            Self::Left => "left by its client",
            Self::Ended => "a question",
            Self::Penalised => "penalties in the batch",
            Self::Refused => "a bad request",
        }
    }
}

/// What the engine's prefix cache has seen of a prompt before it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheState {
    /// Nothing.
    Cold,
    /// Its first half.
    Warm,
    /// All of it.
    Hot,
}

impl CacheState {
    pub const ALL: [Self; 3] = [Self::Cold, Self::Warm, Self::Hot];

    /// The name in gate files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Warm => "warm",
            Self::Hot => "hot",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    Warmup,
    Measured,
}

/// Moments of one request, in nanoseconds from the session's start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamps {
    /// When the arrival process wanted to send; equals `send_ns` in a closed loop.
    pub intended_ns: u64,
    /// Connection asked for and established, where this request opened one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect_ns: Option<(u64, u64)>,
    /// First byte of the request handed to the kernel.
    pub send_ns: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers_ns: Option<u64>,
    /// First byte of the body, whatever it holds (a role-only event, a comment).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_ns: Option<u64>,
    /// Arrival of the last byte of each event that carries output, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events_ns: Vec<u64>,
    /// How many of those arrived together with a later event, so that only an upper bound is known.
    #[serde(default)]
    pub ambiguous_events: u32,
    /// `[DONE]`, or the end of the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_ns: Option<u64>,
    /// The end of a stream's body, where it came after `[DONE]`: its client waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_ns: Option<u64>,
    /// The body of a stream ended well, and without `[DONE]`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_done: bool,
    /// Whether arrival times are the kernel's receive stamps (true) or were taken after the read.
    #[serde(default)]
    pub kernel_stamps: bool,
}

impl Stamps {
    /// The end that a client waits for, if it came.
    pub fn ended_ns(&self) -> Option<u64> {
        self.end_ns.or(self.done_ns)
    }
}

/// Token counts by every source that gave one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenCounts {
    /// Output tokens that the request demanded (forced length), if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested: Option<u32>,
    /// `usage.prompt_tokens`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<u32>,
    /// `usage.prompt_tokens_details.cached_tokens`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<u32>,
    /// `usage.completion_tokens`; in the streams of an engine that is configured to send none
    /// (`stream_usage = false`), the client's count by token ids, log-probabilities or tokenizer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion: Option<u32>,
    /// Events that carried output.
    pub events: u32,
    /// Tokens by `logprobs` entries, where asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_logprobs: Option<u32>,
    /// Cumulative usage at the first output event, where the server streams usage with each event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_first_event: Option<u32>,
    /// Tokens of each output event in order, where the stream tells (token ids, log-probabilities or
    /// cumulative usage); their sum is all of the output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per_event: Vec<u32>,
    /// Characters of the first output event and of the whole output, where a stream has fewer events than tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_at_first: Option<(u32, u32)>,
    /// Events without output before the first one with output, where usage counts exactly as many tokens more than there
    /// are events with output: the first tokens may have no text.
    #[serde(default, skip_serializing_if = "is_none")]
    pub silent_first: u32,
    /// Output tokens by the client's own tokenizer, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_tokenizer: Option<u32>,
    /// The output's text is one piece, short enough for a token, 16 times or more and nothing else.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeats: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_none(count: &u32) -> bool {
    *count == 0
}

/// Tokens an event above which a stream sends several at once. A token without text of its own comes with the next
/// one, so a few more tokens than events are usual.
pub const USUAL_TOKENS_AN_EVENT: f64 = 1.1;

impl TokenCounts {
    /// Tokens of the output events that arrived first: of the first one, and of all that have its moment. (`tpot` in
    /// docs/metrics.md.) Of a stream whose events all have one moment, those of the first event.
    pub fn first_arrival(&self, events_ns: &[u64]) -> f64 {
        let all = events_ns.len();
        let together = events_ns
            .iter()
            .take_while(|at| Some(*at) == events_ns.first());
        let together = together.count();
        let at_first = self.first_event(all);
        if together < 2 || together == all {
            return at_first;
        }
        if self.per_event.len() == all {
            let later = self.per_event[1..together]
                .iter()
                .map(|tokens| f64::from(*tokens));
            return at_first + later.sum::<f64>();
        }
        let rest = f64::from(self.completion.unwrap_or(self.events)) - at_first;
        at_first + rest * (together - 1) as f64 / (all - 1) as f64
    }

    /// Tokens of the first output event of a stream of `events` events: as the stream tells, else an estimate.
    pub fn first_event(&self, events: usize) -> f64 {
        let told = self.of_first_event().map(f64::from);
        told.or_else(|| self.first_event_of_burst(events))
            .unwrap_or(1.0)
    }

    /// 1 or the average event's tokens, whichever the first event's share of the text is nearer to; `None` where
    /// events hold a token each, and where nothing follows the first.
    fn first_event_of_burst(&self, events: usize) -> Option<f64> {
        let tokens = f64::from(self.completion?);
        let average = tokens / events as f64;
        if events < 2 || average <= USUAL_TOKENS_AN_EVENT {
            return None;
        }
        let by_text = self
            .text_at_first
            .filter(|(_, all)| *all > 0)
            .map(|(first, all)| tokens * f64::from(first) / f64::from(all));
        let is_single = by_text.is_some_and(|by_text| by_text < f64::midpoint(1.0, average));
        Some(if is_single { 1.0 } else { average })
    }

    /// Tokens of the first output event, where the stream tells: by cumulative usage, else as
    /// [`Self::per_event`]. A usage of 0 tells nothing: Ollama sends zeros until the end.
    pub fn of_first_event(&self) -> Option<u32> {
        let by_usage = self.at_first_event.filter(|tokens| *tokens > 0);
        by_usage.or(self.per_event.first().copied())
    }
}

/// The server's own account of a request, in the form of llama.cpp's server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerTimings {
    /// Prompt tokens computed (cached ones are not among them).
    pub prompt_n: u32,
    pub prompt_ms: f64,
    pub predicted_n: u32,
    /// From the first generated token to the last.
    pub predicted_ms: f64,
}

/// One token's log-probability under the engine, natural logarithm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokenLogprob {
    pub token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logprob: Option<f64>,
    /// The most likely tokens at this place, best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub top: Vec<(String, f64)>,
}

/// A named reason that a sample is no measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Void {
    pub rule: VoidRule,
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VoidRule {
    /// The server answered with a status other than 200, or with an error object in the stream.
    Status,
    /// The connection failed or ended before the answer did.
    CutStream,
    /// Nothing arrived for longer than the workload's timeout.
    Timeout,
    /// An answer without a single output token.
    NoOutput,
    /// The answer is not what the protocol promises (bad JSON, bad framing).
    Malformed,
    /// Counts by usage, events, log-probabilities or the forced length disagree.
    TokenCounts,
    /// The forced length was not reached, or the finish reason is not an expected one.
    FinishReason,
    /// A phase of negative length, or stamps out of order.
    NegativePhase,
    /// Faster than the bounds that the configuration sets: tokens that were not computed, or not counted.
    Implausible,
    /// Cached tokens where the prompt was to be new, or none where it was to be cached.
    CacheState,
    /// Blank text where the same prompt gave a text before, or where the engine stopped before its length.
    Degenerate,
}

impl VoidRule {
    /// Whether the engine is to blame (an engine that fails in one arm alone fails the gate); the
    /// others say that the measurement cannot be trusted.
    pub fn blames_engine(self) -> bool {
        matches!(
            self,
            Self::Status
                | Self::CutStream
                | Self::Timeout
                | Self::NoOutput
                | Self::Malformed
                | Self::Degenerate
        )
    }

    /// The name as it stands in records and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::CutStream => "cut-stream",
            Self::Timeout => "timeout",
            Self::NoOutput => "no-output",
            Self::Malformed => "malformed",
            Self::TokenCounts => "token-counts",
            Self::FinishReason => "finish-reason",
            Self::NegativePhase => "negative-phase",
            Self::Implausible => "implausible",
            Self::CacheState => "cache-state",
            Self::Degenerate => "degenerate",
        }
    }
}
