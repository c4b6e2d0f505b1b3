//! Workloads: one type for each kind that a gate can name.

use crate::record::{CacheState, Condition, TokenLogprob};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// A named stream of requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// `gate/workload`.
    pub id: String,
    /// Only the first so many launches of each arm run it; `None`: all.
    pub launches: Option<u32>,
    pub kind: WorkloadKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum WorkloadKind {
    Steady(Steady),
    Mixed(Mixed),
    Trace(Trace),
    FirstRequest(FirstRequest),
    Matrix(Matrix),
    Staggered(Staggered),
    Answers(Answers),
    Session(Session),
    Goldens(Goldens),
    Texts(Texts),
    Tasks(Tasks),
    Suite(Suite),
}

impl WorkloadKind {
    /// Requests of one launch at the most: warm-up and what fills caches included. Their indices lie below it.
    pub fn requests(&self) -> u64 {
        let count = |n: usize| n as u64;
        match self {
            Self::Steady(w) => u64::from(w.warmup) + u64::from(w.requests),
            Self::Mixed(w) => u64::from(w.warmup) + u64::from(w.requests),
            Self::Trace(w) => w.entries.iter().map(|e| count(e.prompt.requests())).sum(),
            Self::FirstRequest(_) => 1,
            Self::Matrix(w) => {
                let in_flight: u64 = w.batches.iter().copied().map(u64::from).sum();
                let a_pass =
                    in_flight * u64::from(w.rounds) * count(w.streamed.len() * w.contexts.len());
                // Each request of a cache that is not cold has one before it.
                let sent = |cache: &CacheState| if *cache == CacheState::Cold { 1 } else { 2 };
                let caches: u64 = w.caches.iter().map(sent).sum();
                u64::from(w.warmup) + a_pass * caches * u64::from(w.passes)
            }
            // Alone in turn, and together.
            Self::Staggered(w) => {
                u64::from(w.warmup) + 2 * u64::from(w.users) * u64::from(w.passes)
            }
            Self::Answers(w) => w.requests(),
            Self::Session(w) => u64::from(w.turns),
            // Generated, and scored.
            Self::Goldens(w) => 2 * count(w.cases.len()),
            Self::Texts(w) => count(w.cases.len()),
            Self::Tasks(w) => count(w.cases.len()),
            // Whatever it sends is its own.
            Self::Suite(_) => 0,
        }
    }
}

/// When requests that do not depend on each other are sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// So many in flight; each slot sends its next as soon as its last was answered.
    Closed { concurrency: u32 },
    /// An open loop: exponential gaps with this mean rate, requests a second.
    Poisson { rate: f64 },
    /// An open loop: gaps of a gamma distribution, clustered where `shape` is below 1 and regular above.
    Gamma { rate: f64, shape: f64 },
    /// An open loop: equal gaps.
    Constant { rate: f64 },
    /// An open loop: so many at once, again and again.
    Burst { size: u32, every: Duration },
    /// An open loop: these moments from the start, rising.
    Recorded { at: Vec<Duration> },
}

/// Independent requests of one shape with forced output length, unique prompts, streamed.
#[derive(Clone, Debug, PartialEq)]
pub struct Steady {
    pub requests: u32,
    /// Further requests sent first and kept out of every metric.
    pub warmup: u32,
    pub prompt_tokens: u32,
    pub output_tokens: u32,
    pub arrivals: Arrivals,
}

impl Steady {
    /// Share of the requests that are in flight as a closed loop runs empty, beside ever fewer others.
    pub fn drain(&self) -> f64 {
        match self.arrivals {
            Arrivals::Closed { concurrency } => {
                f64::from(concurrency.saturating_sub(1)) / f64::from(self.requests.max(1))
            }
            _ => 0.0,
        }
    }

    /// Share of the requests that are sent before the users of a closed loop, who begin at once, are spread; of one user none.
    pub fn lead(&self) -> f64 {
        match self.arrivals {
            Arrivals::Closed { concurrency } if concurrency > 1 => {
                3.0 * f64::from(concurrency) / f64::from(self.requests.max(1))
            }
            _ => 0.0,
        }
    }
}

/// Independent requests of several shapes, drawn by weight: a soak.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixed {
    pub requests: u32,
    pub warmup: u32,
    /// At least one.
    pub shapes: Vec<Shape>,
    pub arrivals: Arrivals,
    /// The last moment, from the start, at which a request is sent.
    pub duration: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    pub prompt_tokens: u32,
    pub output_tokens: u32,
    /// Share of requests, relative to the other shapes'.
    pub weight: u32,
    /// Streamed, or answered whole.
    pub streamed: bool,
}

/// Requests of a file: recorded lengths, or prompts of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// In the order of sending. Shared: there may be a million, and requests are made of them while others run.
    pub entries: Arc<[TraceEntry]>,
    /// First entries that no metric counts.
    pub warmup: u32,
    /// [`Arrivals::Recorded`], the configured speed-up applied, or another pace than the file's.
    pub arrivals: Arrivals,
    /// Time over which rate or users rise from nothing, in proportion; what is sent meanwhile is warm-up too.
    pub ramp_up: Option<Duration>,
    /// The last moment, from the start, at which a request is sent.
    pub duration: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    pub prompt: TracePrompt,
    /// Of the answer, or of all answers of a conversation together.
    pub output_tokens: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TracePrompt {
    /// So many tokens, drawn from the session's seed.
    Drawn {
        tokens: u32,
        /// Where other requests of the file share their beginning.
        blocks: Option<PromptBlocks>,
    },
    Text(String),
    /// Role and content of each message, for the chat route.
    Messages(Vec<(String, String)>),
    /// A conversation over the chat route: each turn is sent after the server's own answers to those before it.
    Turns(Vec<Turn>),
}

/// What a user says at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Role and content of each message; what the turns before said is not repeated.
    pub messages: Vec<(String, String)>,
    /// Of its answer.
    pub output_tokens: u32,
}

/// A prompt in blocks of equal length, the last one cut off: equal ids are equal tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptBlocks {
    pub ids: Vec<u64>,
    /// Tokens of a block.
    pub size: u32,
}

impl TracePrompt {
    /// Its length; of a text about that, at four bytes a token.
    pub fn tokens(&self) -> u32 {
        let of_bytes = |bytes: usize| u32::try_from(bytes.div_ceil(4)).unwrap_or(u32::MAX);
        match self {
            Self::Drawn { tokens, .. } => *tokens,
            Self::Text(text) => of_bytes(text.len()),
            Self::Messages(messages) => of_bytes(bytes(messages)),
            Self::Turns(turns) => of_bytes(turns.iter().map(|turn| bytes(&turn.messages)).sum()),
        }
    }

    /// Requests that it is.
    pub fn requests(&self) -> usize {
        match self {
            Self::Turns(turns) => turns.len(),
            _ => 1,
        }
    }
}

fn bytes(messages: &[(String, String)]) -> usize {
    messages.iter().map(|(_, content)| content.len()).sum()
}

/// One request, the first that the engine gets after it became ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstRequest {
    pub prompt_tokens: u32,
    pub output_tokens: u32,
}

/// Every combination of batch, cache, streaming and context, several times over, in a random order.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    pub batches: Vec<u32>,
    pub caches: Vec<CacheState>,
    pub streamed: Vec<bool>,
    /// Prompt tokens.
    pub contexts: Vec<u32>,
    pub output_tokens: u32,
    /// Repetitions of each cell.
    pub passes: u32,
    /// Requests that each of the batch's slots sends in a row within one pass.
    pub rounds: u32,
    /// Requests sent before the first cell.
    pub warmup: u32,
    pub logprobs: Logprobs,
}

/// Log-probabilities that requests ask for, and how they are judged.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Logprobs {
    /// Number of best tokens per place; `None`: requests ask for no log-probabilities.
    pub top_k: Option<u32>,
    /// Two tokens closer than this are equally right; set where `top_k` is.
    pub near_tie_nats: Option<f64>,
}

/// Users that arrive one after another, measured alone in turn and together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staggered {
    pub users: u32,
    /// Time between two arrivals.
    pub offset: Duration,
    pub prompt_tokens: u32,
    pub output_tokens: u32,
    pub passes: u32,
    pub warmup: u32,
}

/// The same greedy prompts alone, in a batch, cached and beside a prefill.
#[derive(Clone, Debug, PartialEq)]
pub struct Answers {
    /// In each of three groups: those that are known to the cache when others are beside them, and those that meet a
    /// batch, and a prefill, while they are new.
    pub prompts: u32,
    pub prompt_tokens: u32,
    pub output_tokens: u32,
    /// Requests in flight at once, where a prompt is not alone.
    pub batch: u32,
    /// Length of the prompts that are prefilled beside the others.
    pub beside_tokens: u32,
    /// Repetitions, each with prompts of its own.
    pub passes: u32,
    /// Further conditions: sampled (and drawn with it), stopped, left, ended, penalised or refused.
    pub conditions: Vec<Condition>,
    /// Tokens of a prompt that exceeds the engine's context, one of the bad requests; `None`: it is not sent.
    pub beyond_tokens: Option<u32>,
    pub logprobs: Logprobs,
}

/// Questions of the condition `ended`.
pub const QUESTIONS: u32 = 8;

/// Of these, questions without a short answer.
pub const STORIES: u32 = 4;

/// Texts of the condition `penalised`, each with two kinds of penalty and without.
pub const REPEATED: u32 = 8;

/// Bad requests besides a prompt that is too long.
pub const BAD_REQUESTS: u32 = 8;

impl Answers {
    /// Bad requests of a pass: each is sent twice, since one may fail by chance.
    pub fn bad_requests(&self) -> u32 {
        let kinds = BAD_REQUESTS + u32::from(self.beyond_tokens.is_some());
        match self.conditions.contains(&Condition::Refused) {
            true => 2 * kinds,
            false => 0,
        }
    }

    fn requests(&self) -> u64 {
        let has = |condition| self.conditions.contains(&condition);
        let of = |condition| u64::from(has(condition));
        let (sampled, stopped) = (of(Condition::Sampled), of(Condition::Stopped));
        let prompts = u64::from(self.prompts);
        // Eight answers a prompt, and two prompts to be prefilled beside it. Of the left ones every second comes again.
        let a_pass = prompts * (10 + 3 * sampled + stopped)
            + of(Condition::Left) * (prompts / 2)
            + u64::from(self.bad_requests());
        // Questions over the chat route whole and streamed, and as text; stories, and each drawn twice.
        let stories = u64::from(STORIES) * (1 + 2 * sampled);
        let ended = of(Condition::Ended) * (3 * u64::from(QUESTIONS) + stories);
        let penalised = of(Condition::Penalised) * 3 * u64::from(REPEATED);
        a_pass * u64::from(self.passes) + ended + penalised
    }
}

impl WorkloadKind {
    /// Log-probabilities that its answers are asked for. (Goldens have their own rules.)
    pub fn logprobs(&self) -> Logprobs {
        match self {
            Self::Answers(answers) => answers.logprobs,
            Self::Matrix(matrix) => matrix.logprobs,
            _ => Logprobs::default(),
        }
    }
}

/// One conversation over the chat route; each turn sends the whole history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub turns: u32,
    /// First turns that no metric counts.
    pub warmup_turns: u32,
    pub message_words: u32,
    pub reply_tokens: u32,
    /// Time from one turn's intended moment to the next; `None`: as soon as the last was answered.
    pub spacing: Option<Duration>,
    /// The last moment, from the start, at which a turn begins.
    pub duration: Option<Duration>,
}

/// Comparison with a reference's greedy answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Goldens {
    pub cases: Vec<GoldenCase>,
    /// A first divergence where the reference's two best tokens lie closer than this is no mismatch.
    pub near_tie_nats: f64,
    /// How many best tokens to ask for; `None` for an engine without log-probabilities.
    pub top_k: Option<u32>,
    /// Text of the token ids that the cases' `top` lists name, by which an engine's answer is told.
    /// Ids of the cases' own tokens need not be repeated here.
    pub texts: BTreeMap<u32, String>,
    /// Token ids that end an answer, where the reference names them.
    pub stop_ids: BTreeSet<u32>,
}

/// One prompt, in each form that the reference knows of it, and the reference's answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GoldenCase {
    pub id: String,
    /// Empty where only text or messages are known.
    pub prompt_ids: Vec<u32>,
    pub prompt_text: Option<String>,
    /// (role, content); empty where the prompt is no conversation.
    pub messages: Vec<(String, String)>,
    pub ignore_eos: bool,
    /// Most tokens of the answer.
    pub max_tokens: u32,
    /// Empty where the reference knows the text alone.
    pub tokens: Vec<GoldenToken>,
    /// The ids of prompt and tokens are the model's own, so that an engine can score them.
    pub is_scorable: bool,
    pub text: String,
    /// `stop` or `length`.
    pub finish: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct GoldenToken {
    pub id: u32,
    pub text: String,
    pub logprob: f64,
    /// Best token ids with their log-probabilities, best first.
    pub top: Vec<(u32, f64)>,
}

/// Texts whose tokens the engine scores: echoed with log-probabilities, nothing is generated.
#[derive(Clone, Debug, PartialEq)]
pub struct Texts {
    pub cases: Vec<TextCase>,
    /// How many best tokens to ask for.
    pub top_k: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TextCase {
    pub id: String,
    pub prompt: TextPrompt,
    /// A reference's answer to the same request, one entry a token; empty: there is none.
    pub reference: Vec<TokenLogprob>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextPrompt {
    /// The engine cuts it into tokens.
    Text(String),
    Ids(Vec<u32>),
}

/// Problems with one right answer, over the chat route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tasks {
    pub cases: Vec<TaskCase>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskCase {
    pub id: String,
    pub task: String,
    /// (role, content)
    pub messages: Vec<(String, String)>,
    /// The whole answer, compared after trimming white space.
    pub expect: String,
    pub max_tokens: u32,
}

/// The project's own tests, run beside a ready engine in the tree of its arm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suite {
    /// Never empty. `{artifact}`, `{target}`, `{junit}`, `{url}` and `{port}` are filled in, here and in `env`.
    pub command: Vec<String>,
    pub env: Vec<(String, String)>,
    /// The JUnit file that the command writes: relative to the tree, or below `{target}`.
    pub junit: Option<String>,
    /// The command and all that it started are killed after this.
    pub timeout: Duration,
}
