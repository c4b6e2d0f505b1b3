//! Everything that the worker needs to come up, and whether the room for it can be had.
//!
//! Main type: [`Setup`]. Refuses to know: how to compute.

use super::admission::Rules;
use super::plan::Limits;
use crate::backend::cpu::CpuBackend;
use crate::backend::cuda::device::DeviceError;
use crate::config::Config;
use crate::device_choice::Ground;
use crate::faults::Planted;
use crate::kv::{PAGE_TOKENS, PageId, Reach, Window, pages_for};
use crate::loader::Weights;
use crate::model::{logit_rows, scratch_bytes};
use crate::options::{DEFAULT_KV_BYTES, Options};
use crate::startup::StartError;

/// Where no KV room is stated, no more than this many tokens, however small the model.
const MOST_KV_TOKENS: usize = 1 << 17;

/// Bytes that snapshots of recurrent states may take, and how many there are at the most and the least. The memory is taken as
/// they are first used.
const SNAPSHOT_BYTES: usize = 1 << 30;
const MOST_SNAPSHOTS: usize = 1024;
const LEAST_SNAPSHOTS: usize = 4;
/// More are a slip of the hand.
const MOST_STATED_SNAPSHOTS: usize = 1 << 20;

/// No machine has more: a greater count is a slip of the hand, and takes minutes to start.
const MOST_THREADS: usize = 1024;

/// More is a slip of the hand: a prompt of so many tokens is no longer read in one request.
const MOST_POSITIONS: usize = 1 << 24;

/// More rows than this in a step are a slip of the hand.
const MOST_STEP_TOKENS: usize = (1 << 16) - 1;

pub struct Setup {
    pub config: Config,
    pub weights: Weights,
    pub name: String,
    pub threads: usize,
    pub pages: usize,
    pub page_bytes: usize,
    /// Size of one sequence's recurrent state.
    pub state_bytes: usize,
    /// Recurrent states that are kept for requests that begin alike, beside one for each running request.
    pub snapshots: usize,
    pub max_context: usize,
    pub window: Option<Window>,
    pub rules: Rules,
    pub planted: Planted,
}

impl Setup {
    pub fn new(
        config: Config,
        weights: Weights,
        name: String,
        ground: Ground,
        options: &Options,
    ) -> Result<Self, StartError> {
        if options.threads > MOST_THREADS {
            return refused(format!(
                "{} threads are more than {MOST_THREADS}; 0 takes every core",
                options.threads
            ));
        }
        let limits = limits(options, ground)?;
        let longest = longest_context(&config, options)?;
        let bytes_per_token = config.kv_bytes_per_token(ground.kv_element_bytes);
        let page_bytes = bytes_per_token * PAGE_TOKENS;
        let scratch = || {
            let answers = logit_rows(limits.running);
            scratch_bytes(&config, limits.step_tokens, answers, options.window)
        };
        let planted = Planted::new(options.faults.clone());
        let limit = MemoryLimit::of(options.memory_limit, ground.free_bytes);
        let state_bytes = config.state_bytes(ground.state_by_value_head);
        let running_states = limits.running.saturating_mul(state_bytes);
        let fixed = || {
            weights
                .bytes()
                .saturating_add(scratch())
                .saturating_add(running_states)
        };
        let snapshots = match SNAPSHOT_BYTES.checked_div(state_bytes) {
            Some(fit) if options.prefix_cache => {
                let usual = fit.clamp(LEAST_SNAPSHOTS, MOST_SNAPSHOTS);
                let usual = stated_snapshots(options)?.unwrap_or(usual);
                // Of what a limit leaves, keys and values have three quarters at the least.
                limit.map_or(usual, |limit| {
                    usual.min(limit.bytes().saturating_sub(fixed()) / 4 / state_bytes)
                })
            }
            _ => 0,
        };
        let taken = || fixed().saturating_add(snapshots.saturating_mul(state_bytes));
        let left = limit
            .map(|limit| limit.left_for_pages(taken(), running_states, page_bytes))
            .transpose()?;
        let pages = match (options.kv_tokens, left) {
            (0, None) => {
                let fit = DEFAULT_KV_BYTES / bytes_per_token;
                fit.clamp(PAGE_TOKENS, MOST_KV_TOKENS) / PAGE_TOKENS
            }
            (0, Some(left)) => (left / page_bytes).min(pages_for(MOST_KV_TOKENS.max(longest))),
            (tokens, left) => stated_pages(tokens, bytes_per_token, limit.zip(left), ground)?,
        };
        let reach = Reach::new(options.window);
        let max_context = fitting_context(longest, pages, reach)?;
        Ok(Self {
            rules: Rules {
                limits,
                reach,
                reads_cache: options.prefix_cache && planted.reads_cache(),
                feeds_cache: options.prefix_cache,
                recurrent: state_bytes > 0,
            },
            config,
            weights,
            name,
            threads: options.threads,
            pages,
            page_bytes,
            state_bytes,
            snapshots,
            max_context,
            window: options.window,
            planted,
        })
    }
}

fn stated_snapshots(options: &Options) -> Result<Option<usize>, StartError> {
    match options.snapshots {
        Some(count) if count > MOST_STATED_SNAPSHOTS => refused(format!(
            "{count} snapshots are more than {MOST_STATED_SNAPSHOTS}"
        )),
        stated => Ok(stated),
    }
}

fn refused<T>(why: String) -> Result<T, StartError> {
    Err(StartError::Options(why))
}

fn limits(options: &Options, ground: Ground) -> Result<Limits, StartError> {
    let running = options.running;
    let step_tokens = options.step_tokens.unwrap_or(ground.step_tokens);
    let chunk_tokens = options.chunk_tokens.unwrap_or(ground.chunk_tokens);
    if running == 0 || chunk_tokens == 0 {
        return refused(format!(
            "{running} running requests and {chunk_tokens} prompt tokens a chunk: at least 1 of each is needed"
        ));
    }
    if step_tokens <= running || step_tokens > MOST_STEP_TOKENS {
        return refused(format!(
            "{step_tokens} tokens a step are not possible with {running} running requests: give from {} to \
             {MOST_STEP_TOKENS}, one for each request and one for a prompt, or allow fewer requests",
            running + 1
        ));
    }
    Ok(Limits {
        running,
        step_tokens,
        chunk_tokens: chunk_tokens.min(step_tokens),
    })
}

/// The longest context by the model and what was asked for. With a window, what a token sees of its past
/// is never farther than sink and window, so that a context may be longer than what the model was made
/// for.
fn longest_context(config: &Config, options: &Options) -> Result<usize, StartError> {
    let model_limit = config.max_positions;
    let wanted = options.max_context.unwrap_or(model_limit);
    let most = match options.window {
        None => model_limit,
        Some(window) => {
            let seen = window.sink.saturating_add(window.window);
            if window.window == 0 || seen > model_limit {
                return refused(format!(
                    "a sink of {} and a window of {} tokens: the window must be 1 at least, and both together within the model's context of {model_limit}",
                    window.sink, window.window
                ));
            }
            MOST_POSITIONS
        }
    };
    if wanted == 0 || wanted > most {
        return refused(format!(
            "a context of {wanted} tokens was asked for; the most is {most}"
        ));
    }
    Ok(wanted)
}

/// What weights, activations, keys and values may take together, in bytes.
#[derive(Clone, Copy)]
enum MemoryLimit {
    Stated(usize),
    /// Of a GPU's memory.
    Free(usize),
}

impl MemoryLimit {
    /// The limit that was stated, and no more than there is.
    fn of(stated: Option<u64>, free: Option<usize>) -> Option<Self> {
        let stated = stated.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
        match (stated, free) {
            (None, free) => free.map(Self::Free),
            (Some(stated), Some(free)) if free < stated => Some(Self::Free(free)),
            (Some(stated), _) => Some(Self::Stated(stated)),
        }
    }

    fn bytes(self) -> usize {
        let (Self::Stated(limit) | Self::Free(limit)) = self;
        limit
    }

    /// What the `taken` bytes of weights, activations and states leave for keys and values: a page at least. `states`: the bytes
    /// of running requests' states among them.
    fn left_for_pages(
        self,
        taken: usize,
        states: usize,
        page_bytes: usize,
    ) -> Result<usize, StartError> {
        let left = self.bytes().checked_sub(taken);
        if let Some(left) = left.filter(|left| *left >= page_bytes) {
            return Ok(left);
        }
        match self {
            Self::Stated(limit) if states > 0 => refused(format!(
                "a memory limit of {limit} bytes: weights, activations and recurrent states take {taken} of it ({states} for the \
                 states of running requests), which leaves no page of keys and values; allow fewer requests (--max-running)"
            )),
            Self::Stated(limit) => refused(format!(
                "a memory limit of {limit} bytes: weights and activations take {taken} of it, which leaves no page of keys and values"
            )),
            Self::Free(free) => no_gpu_memory(
                taken.saturating_add(page_bytes),
                format!("weights, activations and a page of keys and values; {free} are free"),
            ),
        }
    }
}

/// No flag is to blame, but the GPU.
fn no_gpu_memory<T>(bytes: usize, cause: String) -> Result<T, StartError> {
    Err(StartError::Backend(DeviceError::Memory { bytes, cause }))
}

/// Pages for the room that was asked for, if it can be had.
fn stated_pages(
    tokens: usize,
    bytes_per_token: usize,
    left: Option<(MemoryLimit, usize)>,
    ground: Ground,
) -> Result<usize, StartError> {
    let no_room =
        |why: String| refused(format!("room for {tokens} tokens of keys and values {why}"));
    if tokens < PAGE_TOKENS {
        return no_room(format!("is less than a page of {PAGE_TOKENS}"));
    }
    let pages = tokens / PAGE_TOKENS;
    let bytes = tokens.checked_mul(bytes_per_token);
    // A GPU's room is among what is left.
    let has_room = |bytes| ground.free_bytes.is_some() || CpuBackend::has_room(bytes);
    if PageId::try_from(pages).is_err() || !bytes.is_some_and(has_room) {
        let bytes = tokens as u128 * bytes_per_token as u128;
        return no_room(format!(
            "takes {bytes} bytes ({bytes_per_token} a token), more than this machine gives"
        ));
    }
    match bytes.zip(left) {
        Some((bytes, (MemoryLimit::Stated(_), left))) if bytes > left => no_room(format!(
            "takes {bytes} bytes ({bytes_per_token} a token); the memory limit leaves {left}"
        )),
        Some((bytes, (MemoryLimit::Free(free), left))) if bytes > left => no_gpu_memory(
            bytes,
            format!(
                "{tokens} tokens of keys and values; of {free} free bytes weights and activations leave {left}"
            ),
        ),
        _ => Ok(pages),
    }
}

/// The longest context whose pages there are: without a window all of its tokens' at once.
fn fitting_context(longest: usize, pages: usize, reach: Reach) -> Result<usize, StartError> {
    // Alone a sequence gets on with a chunk of one token.
    if reach.most_pages(longest, 1) <= pages {
        return Ok(longest);
    }
    if reach.is_bounded() {
        return refused(format!(
            "sink and window need {} pages of {PAGE_TOKENS} tokens; there is room for {pages}",
            reach.most_pages(longest, 1)
        ));
    }
    Ok(pages * PAGE_TOKENS)
}
