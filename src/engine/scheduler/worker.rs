//! The loop of the worker thread: drop who went away, admit who waits, plan, compute, tell.
//!
//! Main type: [`Worker`], which owns the network and the pages. Refuses to know: what is decided (see
//! `plan`), what a sequence tells its caller (see `sequence`).

use std::time::Instant;

use super::plan::{self, Limits};
use super::sequence::{Parting, Sequence};
use super::{Queue, Shared};
use crate::engine::backend::{Backend, Batch, Ranked, Span};
use crate::engine::faults::Planted;
use crate::engine::kv::{PagePool, PageTable};
use crate::engine::model::{Model, RowAsk};
use crate::engine::request::FinishReason;

pub(crate) struct Worker<B: Backend> {
    model: Model<B>,
    pool: PagePool,
    running: Vec<Sequence>,
    limits: Limits,
    eos: Vec<u32>,
    vocab: usize,
    planted: Planted,
}

/// One sequence's answers, or why it cannot go on.
type Answers = Result<Vec<Ranked>, String>;

/// How a sequence ends.
enum End {
    Finished(FinishReason),
    Failed(String),
}

impl<B: Backend> Worker<B> {
    pub(crate) fn new(
        model: Model<B>,
        pages: usize,
        limits: Limits,
        eos: Vec<u32>,
        vocab: usize,
        planted: Planted,
    ) -> Self {
        let pool = PagePool::new(pages);
        Self {
            model,
            pool,
            running: Vec::new(),
            limits,
            eos,
            vocab,
            planted,
        }
    }

    /// A short generation, so that the first request finds every thread and page of memory awake. It
    /// leaves nothing in the cache and in the counters.
    pub(crate) fn warm_up(&mut self) -> Result<(), String> {
        const PROMPT: [u32; 8] = [0; 8];
        const STEPS: usize = 4;
        let mut table = PageTable::default();
        let grown = table.grow(&mut self.pool, PROMPT.len() + STEPS);
        let mut result = if grown {
            Ok(())
        } else {
            Err("too few pages".to_owned())
        };
        let mut at = 0;
        for tokens in std::iter::once(&PROMPT[..]).chain(std::iter::repeat_n(&PROMPT[..1], STEPS)) {
            let span = Span {
                positions: (at, at + tokens.len()),
                pages: table.pages(),
            };
            let ask = RowAsk {
                row: tokens.len() - 1,
                ask: super::GREEDY,
            };
            at += tokens.len();
            result = result.and_then(|()| {
                let batch = Batch {
                    tokens,
                    spans: &[span],
                };
                let answers = self
                    .model
                    .forward(&batch, &[ask])
                    .map_err(|e| e.to_string())?;
                answers
                    .into_iter()
                    .try_for_each(|answer| answer.map(drop).map_err(|e| e.to_string()))
            });
        }
        table.release(&mut self.pool);
        result
    }

    /// Runs until the queue is closed and everything is answered.
    pub(crate) fn run(&mut self, shared: &Shared) {
        loop {
            self.drop_cancelled(shared);
            self.admit(shared);
            self.count(shared);
            if self.running.is_empty() {
                return;
            }
            self.step(shared);
        }
    }

    /// Tells every caller that its request cannot go on.
    pub(crate) fn fail_all(&mut self, why: &str, shared: &Shared) {
        for sequence in self.running.drain(..) {
            shared.counters.failed.add(1);
            sequence.fail(why.to_owned(), &mut self.pool).send();
        }
        self.count(shared);
    }

    fn drop_cancelled(&mut self, shared: &Shared) {
        for sequence in self
            .running
            .extract_if(.., |sequence| sequence.is_cancelled())
        {
            shared.counters.cancelled.add(1);
            sequence.cancel(&mut self.pool);
        }
    }

    /// Blocks while there is nothing to do; leaves `running` empty only when the queue is closed.
    fn admit(&mut self, shared: &Shared) {
        while self.running.len() < self.limits.running {
            let idle = self.running.is_empty();
            if idle {
                self.count(shared);
            }
            let Some(pending) = self.next(&shared.queue, idle) else {
                return;
            };
            if pending.events.is_closed() {
                shared.counters.cancelled.add(1);
                continue;
            }
            let reads_cache = self.planted.reads_cache();
            self.running
                .push(Sequence::begin(pending, &mut self.pool, reads_cache));
        }
    }

    fn next(&self, queue: &Queue, wait: bool) -> Option<super::Pending> {
        let reserved = self.running.iter().map(Sequence::reserved_pages).sum();
        let (running, pages) = (self.running.len(), self.pool.total());
        queue.pop(wait, |pending| {
            let needed = Sequence::pages_needed(&pending.request);
            plan::admit(running, reserved, needed, pages, self.limits)
        })
    }

    fn step(&mut self, shared: &Shared) {
        let start = Instant::now();
        let decodes = self.running.iter().any(Sequence::is_decoding);
        let pending: Vec<usize> = self.running.iter().map(Sequence::pending).collect();
        let rows = plan::step(&pending, self.limits);
        let answers = self.compute(&rows, shared);
        if decodes {
            self.planted.delay(start);
        }
        self.settle(&rows, answers, shared);
    }

    /// One answer list a sequence.
    fn compute(&mut self, rows: &[usize], shared: &Shared) -> Vec<Answers> {
        if !self.grow(rows) {
            return vec![Err("the KV cache is full".to_owned()); self.running.len()];
        }
        self.count(shared);
        let (mut tokens, mut spans, mut asks, mut counts) = (vec![], vec![], vec![], vec![]);
        for (sequence, rows) in self.running.iter().zip(rows) {
            let own = sequence.asks(*rows, tokens.len(), &self.eos);
            counts.push(own.len());
            asks.extend(own);
            let (next, positions) = sequence.next(*rows);
            tokens.extend_from_slice(next);
            spans.push(Span {
                positions,
                pages: sequence.table().pages(),
            });
        }
        let batch = Batch {
            tokens: &tokens,
            spans: &spans,
        };
        match self.model.forward(&batch, &asks) {
            Ok(answers) => {
                let mut answers = answers
                    .into_iter()
                    .map(|answer| answer.map_err(|e| e.to_string()));
                counts
                    .iter()
                    .map(|count| answers.by_ref().take(*count).collect())
                    .collect()
            }
            Err(error) => vec![Err(error.to_string()); self.running.len()],
        }
    }

    /// Admission has reserved the pages, so that this fails only if that rule is broken.
    fn grow(&mut self, rows: &[usize]) -> bool {
        let pool = &mut self.pool;
        self.running
            .iter_mut()
            .zip(rows)
            .all(|(sequence, rows)| sequence.grow(pool, *rows))
    }

    /// Hands the answers to their sequences and lets go of those that end. Their last event follows when
    /// pages and counters are up to date. Until then they stay among the running, so that a panic on the
    /// way leaves nobody untold.
    fn settle(&mut self, rows: &[usize], answers: Vec<Answers>, shared: &Shared) {
        let ends: Vec<Option<End>> = rows
            .iter()
            .zip(answers)
            .enumerate()
            .map(|(at, (rows, answers))| match answers {
                Ok(answers) => self.advance(at, *rows, answers, shared).map(End::Finished),
                Err(why) => Some(End::Failed(why)),
            })
            .collect();
        let mut partings = Vec::new();
        for (at, end) in ends.into_iter().enumerate().rev() {
            if let Some(end) = end {
                let sequence = self.running.remove(at);
                partings.push(self.part(sequence, end, shared));
            }
        }
        self.count(shared);
        partings.into_iter().rev().for_each(Parting::send);
    }

    fn part(&mut self, sequence: Sequence, end: End, shared: &Shared) -> Parting {
        let counters = &shared.counters;
        match end {
            End::Finished(reason) => {
                let counter = match reason {
                    FinishReason::Stop => &counters.finished_stop,
                    FinishReason::Length => &counters.finished_length,
                };
                counter.add(1);
                sequence.finish(reason, &mut self.pool)
            }
            End::Failed(why) => {
                counters.failed.add(1);
                sequence.fail(why, &mut self.pool)
            }
        }
    }

    /// Hands its answers to the running sequence `at`.
    fn advance(
        &mut self,
        at: usize,
        rows: usize,
        answers: Vec<Ranked>,
        shared: &Shared,
    ) -> Option<FinishReason> {
        let counters = &shared.counters;
        let sequence = &mut self.running[at];
        let before = sequence.generated();
        let (planted, vocab) = (&mut self.planted, self.vocab);
        let outcome = sequence.advance(rows, answers.into_iter(), &self.eos, |id| {
            planted.token(id, vocab)
        });
        sequence.publish(&mut self.pool);
        counters
            .generation_tokens
            .add((sequence.generated() - before) as u64);
        if outcome.prefilled {
            count_prompt(sequence, shared);
        }
        self.planted.hang_if_due();
        outcome.finished
    }

    fn count(&self, shared: &Shared) {
        let counters = &shared.counters;
        counters.running.set(self.running.len() as u64);
        counters.pages_used.set(self.pool.used() as u64);
        counters.pages_cached.set(self.pool.cached() as u64);
    }
}

fn count_prompt(sequence: &Sequence, shared: &Shared) {
    let counters = &shared.counters;
    counters.prompt_tokens.add(sequence.prompt_len() as u64);
    counters
        .prefilled_tokens
        .add((sequence.prompt_len() - sequence.cached()) as u64);
    counters.cache_queries.add(sequence.queried() as u64);
    counters.cache_hits.add(sequence.cached() as u64);
}
