//! One request on its way: its tokens, its pages, its caller.
//!
//! Main type: [`Sequence`]. Refuses to know: other sequences, the network.

use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;

use super::queue::Pending;
use crate::engine::backend::{Ask, Pick, Ranked};
use crate::engine::kv::{PagePool, PageTable, pages_for};
use crate::engine::model::RowAsk;
use crate::engine::request::{
    Event, FinishReason, Finished, Logprob, Prompt, Request, Timings, Token,
};

pub(crate) struct Sequence {
    request: Request,
    events: UnboundedSender<Event>,
    /// Prompt and answer.
    tokens: Vec<u32>,
    /// Leading tokens whose keys and values are in the cache.
    computed: usize,
    cached: usize,
    /// Prompt tokens that were looked up in the prefix cache.
    queried: usize,
    table: PageTable,
    prompt_logprobs: Vec<Option<Logprob>>,
    queued: Duration,
    started: Instant,
    first: Option<Instant>,
    last: Option<Instant>,
}

/// The last event of a request whose pages are already free.
pub(crate) struct Parting {
    events: UnboundedSender<Event>,
    event: Event,
}

impl Parting {
    pub(crate) fn send(self) {
        tell(&self.events, self.event);
    }
}

/// What a step did to a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The prompt is now computed.
    pub(crate) prefilled: bool,
    pub(crate) finished: Option<FinishReason>,
}

impl Sequence {
    /// Takes what the prefix cache holds of the prompt, unless `reads_cache` is off.
    pub(crate) fn begin(pending: Pending, pool: &mut PagePool, reads_cache: bool) -> Self {
        let Pending {
            request,
            events,
            submitted,
        } = pending;
        let looks = reads_cache && request.use_cache && !request.prompt_logprobs;
        let ((table, cached), queried) = if looks {
            let found = PageTable::find(pool, &request.prompt);
            (found, request.prompt.len())
        } else {
            Default::default()
        };
        // Nothing precedes the first token, so that it has no probability.
        let prompt_logprobs = if request.prompt_logprobs {
            vec![None]
        } else {
            Vec::new()
        };
        Self {
            tokens: request.prompt.clone(),
            request,
            events,
            computed: cached,
            cached,
            queried,
            table,
            prompt_logprobs,
            queued: submitted.elapsed(),
            started: Instant::now(),
            first: None,
            last: None,
        }
    }

    /// Pages that the request may come to hold.
    pub(crate) fn pages_needed(request: &Request) -> usize {
        pages_for(request.prompt.len() + request.max_tokens as usize)
    }

    pub(crate) fn reserved_pages(&self) -> usize {
        Self::pages_needed(&self.request)
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.events.is_closed()
    }

    /// Tokens whose keys and values are still to be computed.
    pub(crate) fn pending(&self) -> usize {
        self.tokens.len() - self.computed
    }

    pub(crate) fn prompt_len(&self) -> usize {
        self.request.prompt.len()
    }

    pub(crate) fn cached(&self) -> usize {
        self.cached
    }

    pub(crate) fn generated(&self) -> usize {
        self.tokens.len() - self.prompt_len()
    }

    pub(crate) fn queried(&self) -> usize {
        self.queried
    }

    pub(crate) fn is_decoding(&self) -> bool {
        self.computed >= self.prompt_len()
    }

    /// The next `rows` tokens to compute, and the positions they stand at.
    pub(crate) fn next(&self, rows: usize) -> (&[u32], (usize, usize)) {
        let end = self.computed + rows;
        (&self.tokens[self.computed..end], (self.computed, end))
    }

    pub(crate) fn table(&self) -> &PageTable {
        &self.table
    }

    /// Makes room for the next `rows` tokens.
    pub(crate) fn grow(&mut self, pool: &mut PagePool, rows: usize) -> bool {
        self.table.grow(pool, self.computed + rows)
    }

    /// What is to be known of the next `rows` rows, which begin at row `first` of the batch.
    pub(crate) fn asks<'a>(&'a self, rows: usize, first: usize, eos: &'a [u32]) -> Vec<RowAsk<'a>> {
        let (_, (start, end)) = self.next(rows);
        let mut asks = Vec::new();
        let logprobs = self.request.logprobs.map(|count| count as usize);
        if self.request.prompt_logprobs {
            let followed = start..end.min(self.prompt_len() - 1);
            asks.extend(followed.map(|at| RowAsk {
                row: first + at - start,
                ask: Ask {
                    pick: Pick::Given(self.tokens[at + 1]),
                    logprobs: Some(logprobs.unwrap_or(0)),
                },
            }));
        }
        if end == self.tokens.len() && self.request.max_tokens > 0 {
            let early = self.generated() < self.request.min_tokens as usize;
            let banned = if early { eos } else { &[] };
            let ask = Ask {
                pick: Pick::Best { banned },
                logprobs,
            };
            asks.push(RowAsk {
                row: first + rows - 1,
                ask,
            });
        }
        asks
    }

    /// Takes the answers to [`Sequence::asks`] in their order, and tells the caller. `token` may replace
    /// the id that was chosen.
    pub(crate) fn advance(
        &mut self,
        rows: usize,
        mut answers: impl Iterator<Item = Ranked>,
        eos: &[u32],
        mut token: impl FnMut(u32) -> u32,
    ) -> Outcome {
        let was_decoding = self.is_decoding();
        let reaches_end = rows == self.pending();
        self.computed += rows;
        if self.request.prompt_logprobs && !was_decoding {
            // One for each prompt token that is now preceded by a computed one.
            let known = (self.computed + 1).min(self.prompt_len());
            let new = known - self.prompt_logprobs.len();
            self.prompt_logprobs
                .extend(answers.by_ref().take(new).map(|answer| logprob(&answer)));
        }
        let prefilled = !was_decoding && self.is_decoding();
        if prefilled {
            self.tell_prompt();
        }
        let finished = match answers.next() {
            Some(answer) => self.append(answer, eos, &mut token),
            None if reaches_end => Some(FinishReason::Length),
            None => None,
        };
        Outcome {
            prefilled,
            finished,
        }
    }

    /// Offers the computed pages to the prefix cache, if the request feeds it.
    pub(crate) fn publish(&mut self, pool: &mut PagePool) {
        if self.request.use_cache {
            self.table.publish(pool, &self.tokens[..self.computed]);
        }
    }

    pub(crate) fn finish(self, reason: FinishReason, pool: &mut PagePool) -> Parting {
        let timings = self.timings();
        self.part(Event::Finished(Finished { reason, timings }), pool)
    }

    pub(crate) fn fail(self, why: String, pool: &mut PagePool) -> Parting {
        self.part(Event::Failed(why), pool)
    }

    pub(crate) fn cancel(self, pool: &mut PagePool) {
        self.table.release(pool);
    }

    fn part(self, event: Event, pool: &mut PagePool) -> Parting {
        self.table.release(pool);
        Parting {
            events: self.events,
            event,
        }
    }

    fn tell_prompt(&mut self) {
        let asked = self.request.prompt_logprobs;
        let logprobs = asked.then(|| std::mem::take(&mut self.prompt_logprobs));
        tell(
            &self.events,
            Event::Prompt(Prompt {
                cached_tokens: self.cached as u32,
                logprobs,
            }),
        );
    }

    fn append(
        &mut self,
        answer: Ranked,
        eos: &[u32],
        token: &mut impl FnMut(u32) -> u32,
    ) -> Option<FinishReason> {
        let now = Instant::now();
        self.first.get_or_insert(now);
        self.last = Some(now);
        let id = token(answer.id);
        self.tokens.push(id);
        tell(
            &self.events,
            Event::Token(Token {
                id,
                logprob: logprob(&answer),
            }),
        );
        if !self.request.ignore_eos && eos.contains(&id) {
            return Some(FinishReason::Stop);
        }
        let full = self.generated() >= self.request.max_tokens as usize;
        full.then_some(FinishReason::Length)
    }

    fn timings(&self) -> Timings {
        let first = self.first.unwrap_or_else(Instant::now);
        let last = self.last.unwrap_or(first);
        Timings {
            queue: self.queued,
            prompt_n: (self.prompt_len() - self.cached) as u32,
            prompt: first - self.started,
            predicted_n: self.generated() as u32,
            predicted: last - first,
        }
    }
}

fn logprob(answer: &Ranked) -> Option<Logprob> {
    answer
        .logprobs
        .clone()
        .map(|(chosen, top)| Logprob { chosen, top })
}

/// A caller that has gone is noticed at the next step.
fn tell(events: &UnboundedSender<Event>, event: Event) {
    drop(events.send(event));
}
