//! One request on its way: its tokens, its pages, its caller.
//!
//! Main type: [`Sequence`]. It waits without pages, runs with them, and may be sent back to wait: its
//! tokens stay, their keys and values are computed anew. Refuses to know: other sequences, the network.

use std::time::Instant;

use tokio::sync::mpsc::UnboundedSender;

use super::admission::{Placement, Pools, Rules};
use super::plan::Candidate;
use super::queue::Pending;
use crate::backend::{Ask, Draw, Pick, SpanState};
use crate::executor::RowAsk;
use crate::kv::{Content, Copy, Key, PAGE_TOKENS, PagePool, PageTable, Reach, StateId, StatePool};
use crate::request::{CacheUse, Event, Logprob, Request, Timings, ascending};
use crate::sampling::Needs;
use crate::text::stop::StopText;

pub struct Sequence {
    pub request: Request,
    pub stop: Option<StopText>,
    pub caller: UnboundedSender<Event>,
    /// Prompt and answer.
    pub tokens: Vec<u32>,
    /// Leading tokens whose keys and values are in the cache.
    pub computed: usize,
    /// Prompt tokens that were found in the prefix cache at first, of those that were looked up.
    pub cached: usize,
    pub queried: usize,
    /// Ids that may not be chosen before `min_tokens`: each of them may end the answer. Ascending.
    ends: Vec<u32>,
    feeds_cache: bool,
    /// A planted fault: the answer is an end-of-sequence token.
    pub is_blank: bool,
    table: PageTable,
    /// Where the model has recurrent layers, while it runs.
    state: Option<StateId>,
    /// Tokens before the last snapshot that it left, or that it resumed from.
    last_snapshot: usize,
    pub prompt_told: bool,
    /// Known so far; gone once they are told.
    pub prompt_logprobs: Vec<Option<Logprob>>,
    submitted: Instant,
    started: Option<Instant>,
    pub first: Option<Instant>,
    pub last: Option<Instant>,
}

impl Sequence {
    /// `eos`: the model's end-of-sequence ids; `feeds_cache`: what it computes may be used by others.
    pub fn new(pending: Pending, eos: &[u32], feeds_cache: bool) -> Self {
        let Pending {
            request,
            stop,
            caller,
            submitted,
        } = pending;
        // Nothing precedes the first token, so that it has no probability.
        let prompt_logprobs = match request.prompt_logprobs {
            true => vec![None],
            false => Vec::new(),
        };
        Self {
            tokens: request.prompt.clone(),
            ends: ascending([eos, &request.stop_ids].concat()),
            feeds_cache: feeds_cache && request.cache != CacheUse::Off,
            request,
            stop,
            caller,
            is_blank: false,
            computed: 0,
            cached: 0,
            queried: 0,
            table: PageTable::new(Key::default(), Reach::default()),
            state: None,
            last_snapshot: 0,
            prompt_told: false,
            prompt_logprobs,
            submitted,
            started: None,
            first: None,
            last: None,
        }
    }

    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Prompt and answer so far.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Begins or goes on at a place, with a state of its own where the model has recurrent layers; what is to be copied
    /// first is returned.
    pub fn begin(&mut self, place: Placement, state: Option<StateId>) -> Copies {
        if self.started.is_none() {
            self.started = Some(Instant::now());
            self.cached = place.covered;
            self.queried = if place.looked { self.prompt_len() } else { 0 };
        }
        self.table = place.table;
        self.computed = place.covered;
        self.state = state;
        self.last_snapshot = place.covered;
        Copies {
            page: place.copy,
            state: place.snapshot.zip(state),
        }
    }

    /// Gives its pages and its state back and waits. What it computed stays findable as long as room is not needed.
    pub fn preempt(&mut self, pools: Pools<'_>) {
        let empty = PageTable::new(Key::default(), Reach::default());
        let table = std::mem::replace(&mut self.table, empty);
        let keeps = self.feeds_cache;
        give_back(
            table,
            self.state.take(),
            self.computed_tokens(),
            keeps,
            pools,
        );
        self.computed = 0;
    }

    /// Ends: its pages and its state are free. `sound`: what it computed may be used by others.
    pub fn release(mut self, pools: Pools<'_>, sound: bool) {
        let keeps = sound && self.feeds_cache;
        let state = self.state.take();
        let tokens = &self.tokens[..self.computed];
        give_back(self.table, state, tokens, keeps, pools);
    }

    fn computed_tokens(&self) -> &[u32] {
        &self.tokens[..self.computed]
    }

    /// Its state in a batch of its next `rows` rows. A prompt's last chunk leaves a snapshot at the end of the last page that the
    /// same prompt could resume from, which has a token left to compute; so do the chunks before it, but each only half as far
    /// again as the one before: a long prompt does not drive out all others.
    pub fn span_state(&mut self, rows: usize, states: &mut StatePool) -> SpanState {
        let end = self.computed + rows;
        let is_last = end == self.tokens.len();
        let usable = if is_last { end - 1 } else { end };
        let boundary = usable - usable % PAGE_TOKENS;
        let is_end = is_last || boundary == self.prompt_page_end();
        let is_far = is_end || 2 * boundary >= 3 * self.last_snapshot;
        let wants = self.state.is_some() && self.feeds_cache && !self.is_decoding() && is_far;
        let is_new = |states: &mut StatePool| {
            let content = self.table.content(&self.tokens[..boundary]);
            states.find(&content).is_none()
        };
        let snapshot = match wants && boundary > self.computed && is_new(states) {
            true => states.reserve().map(|to| (boundary, to)),
            false => None,
        };
        if wants && boundary > self.computed {
            self.last_snapshot = boundary;
        }
        SpanState {
            own: self.state.unwrap_or_default(),
            snapshot,
        }
    }

    /// It has not run yet.
    pub fn is_new(&self) -> bool {
        self.started.is_none()
    }

    pub fn has_state(&self) -> bool {
        self.state.is_some()
    }

    /// The name of its first `length` tokens, which are computed.
    pub fn content(&self, length: usize) -> Content {
        self.table.content(&self.tokens[..length])
    }

    pub fn is_cancelled(&self) -> bool {
        self.caller.is_closed()
    }

    /// `plenty`: there are pages for everyone, so that nobody's own are counted.
    pub fn candidate(&self, pool: &PagePool, plenty: bool) -> Candidate {
        Candidate {
            pending: self.pending(),
            room: self.table.room() - self.computed,
            own_pages: if plenty {
                0
            } else {
                self.table.own_pages(pool)
            },
        }
    }

    /// Tokens whose keys and values are still to be computed.
    pub fn pending(&self) -> usize {
        self.tokens.len() - self.computed
    }

    pub fn prompt_len(&self) -> usize {
        self.request.prompt.len()
    }

    pub fn generated(&self) -> usize {
        self.tokens.len() - self.prompt_len()
    }

    /// The tokens that are left are the answer's last one alone.
    pub fn is_decoding(&self) -> bool {
        self.pending() == 1 && self.generated() > 0
    }

    /// The next `rows` tokens to compute, and the positions they stand at.
    pub fn next(&self, rows: usize) -> (&[u32], (usize, usize)) {
        let end = self.computed + rows;
        (&self.tokens[self.computed..end], (self.computed, end))
    }

    pub fn table(&self) -> &PageTable {
        &self.table
    }

    /// Makes room for the next `rows` tokens.
    pub fn grow(&mut self, pool: &mut PagePool, rows: usize) -> bool {
        self.table.grow(pool, self.computed + rows)
    }

    /// What is to be known of the next `rows` rows, which begin at row `first` of the batch.
    pub fn asks(&self, rows: usize, first: usize) -> Vec<RowAsk<'_>> {
        let (_, (start, end)) = self.next(rows);
        let mut asks = Vec::new();
        let logprobs = self.request.logprobs.map(|count| count as usize);
        if self.request.prompt_logprobs && !self.prompt_told {
            // Those that were answered before the sequence was preempted are not asked again.
            let from = start.max(self.prompt_logprobs.len() - 1);
            let followed = from..end.min(self.prompt_len() - 1);
            asks.extend(followed.map(|at| RowAsk {
                row: first + at - start,
                ask: Ask {
                    pick: Pick::Given(self.tokens[at + 1]),
                    logprobs: Some(logprobs.unwrap_or(0)),
                },
            }));
        }
        if end == self.tokens.len() && self.request.max_tokens > 0 {
            let pick = self.pick();
            asks.push(RowAsk {
                row: first + rows - 1,
                ask: Ask { pick, logprobs },
            });
        }
        asks
    }

    fn pick(&self) -> Pick<'_> {
        let early = self.generated() < self.request.min_tokens as usize;
        let banned = if early { &self.ends[..] } else { &[] };
        let rules = &self.request.sampling;
        match rules.needs() {
            Needs::Greatest => Pick::Best { banned },
            Needs::Scores | Needs::Weights | Needs::Best(_) => Pick::Drawn(Draw {
                rules,
                banned,
                prompt: &self.request.prompt,
                answer: &self.tokens[self.prompt_len()..],
            }),
        }
    }

    /// Pages that it has yet to take to compute its tokens and one more.
    pub fn wanted_pages(&self, rules: &Rules) -> usize {
        let all = rules.most_pages(self.tokens.len() + 1);
        all.saturating_sub(self.table.pages().len())
    }

    /// Offers the computed pages to the prefix cache, if the request feeds it, and lets go of those that
    /// no later token attends to. `chunk_tokens`: the most of one sequence in a step.
    pub fn tidy(&mut self, pool: &mut PagePool, chunk_tokens: usize) {
        if self.feeds_cache {
            self.table.publish(pool, &self.tokens[..self.computed]);
        }
        self.table.slide(pool, self.kept_from(chunk_tokens));
    }

    /// The first position whose window is kept: that of the prompt's last full page, as long as what is kept then is no more
    /// than a prompt's chunk needs. The answer may come back as other tokens, from there on.
    fn kept_from(&self, chunk_tokens: usize) -> usize {
        let next = self.computed + self.pending().clamp(1, chunk_tokens);
        let page_end = self.prompt_page_end();
        match self.feeds_cache && next <= page_end + chunk_tokens {
            true => page_end.min(self.computed),
            false => self.computed,
        }
    }

    /// Lets go of what is kept for who asks next.
    pub fn let_go(&mut self, pool: &mut PagePool) {
        self.table.slide(pool, self.computed);
    }

    /// Where the last full page ends that the same prompt could go on after, which has a token left to compute.
    fn prompt_page_end(&self) -> usize {
        let usable = self.prompt_len().saturating_sub(1);
        usable - usable % PAGE_TOKENS
    }

    /// The engine's clock on this request, so far.
    pub fn timings(&self) -> Timings {
        let started = self.started.unwrap_or(self.submitted);
        let first = self.first.unwrap_or_else(Instant::now);
        let last = self.last.unwrap_or(first);
        Timings {
            queue: started - self.submitted,
            prompt_n: (self.prompt_len() - self.cached) as u32,
            prompt: first.saturating_duration_since(started),
            predicted_n: self.generated() as u32,
            predicted: last.saturating_duration_since(first),
        }
    }
}

/// What must be copied before a sequence's first rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copies {
    pub page: Option<Copy>,
    /// From a snapshot to the sequence's own state.
    pub state: Option<(StateId, StateId)>,
}

/// Frees a sequence's pages and its state, which is that after `computed`; `keeps`: others may use them.
fn give_back(
    table: PageTable,
    state: Option<StateId>,
    computed: &[u32],
    keeps: bool,
    Pools { pages, states }: Pools<'_>,
) {
    match state {
        Some(state) if keeps && !computed.is_empty() => states.keep(state, table.content(computed)),
        Some(state) => states.release(state),
        None => {}
    }
    table.release(pages, keeps.then_some(computed));
}
