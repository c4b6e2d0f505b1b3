//! The loop of the worker thread: drop who went away, admit who waits, decide, compute, tell.
//!
//! Main type: [`Worker`], which owns the network and the pages. Refuses to know: how it is decided what to
//! compute (see `plan`), what the answers mean for a sequence (see `resolve`).

use std::collections::VecDeque;
use std::time::Instant;

use super::Shared;
use super::admission;
use super::admission::{Placement, Pools, Rules};
use super::effects::Effects;
use super::plan;
use super::resolve::{Outcome, resolve};
use super::sequence::{Copies, Sequence};
use crate::backend::{BackendError, Batch, SampledToken, Span, SpanState};
use crate::executor::Executor;
use crate::faults::Planted;
use crate::kv::{PagePool, StatePool};
use crate::request::{Event, FinishReason, Finished};

pub struct Worker<E: Executor> {
    executor: E,
    pool: PagePool,
    /// Empty where the model has no recurrent layers.
    states: StatePool,
    /// Oldest first.
    running: Vec<Sequence>,
    /// Sent back from running; older than all that are in the queue, oldest first.
    preempted: VecDeque<Sequence>,
    /// What [`Worker::leeway`] was when the oldest that waits was last refused.
    refused_at: Option<isize>,
    rules: Rules,
    eos: Vec<u32>,
    vocab: usize,
    planted: Planted,
    /// Why nothing can be computed any more.
    lost: Option<String>,
}

/// One sequence's answers, or why it cannot go on.
type PendingAnswers = Result<Vec<SampledToken>, String>;

/// What became of the oldest that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    Begun,
    /// For want of pages.
    Refused,
    NobodyWaits,
}

/// How a sequence ends.
enum End {
    Finished(FinishReason),
    Failed(String),
}

impl<E: Executor> Worker<E> {
    pub fn new(
        executor: E,
        pages: usize,
        states: StatePool,
        rules: Rules,
        eos: Vec<u32>,
        vocab: usize,
        planted: Planted,
    ) -> Self {
        Self {
            executor,
            pool: PagePool::new(pages),
            states,
            running: Vec::new(),
            preempted: VecDeque::new(),
            refused_at: None,
            rules,
            eos,
            vocab,
            planted,
            lost: None,
        }
    }

    /// Runs until the queue is closed and everything is answered. The error: what computes is gone, and why.
    pub fn run(&mut self, shared: &Shared) -> Result<(), String> {
        loop {
            if self.is_idle() {
                shared.pulse.rest();
                if !shared.queue.wait() {
                    return Ok(());
                }
            }
            self.turn(shared);
            if let Some(why) = self.lost.take() {
                return Err(why);
            }
        }
    }

    pub fn is_idle(&self) -> bool {
        self.running.is_empty() && self.preempted.is_empty()
    }

    /// One step, and what belongs to it. Never blocks.
    pub fn turn(&mut self, shared: &Shared) {
        shared.pulse.beat();
        self.drop_cancelled(shared);
        self.admit(shared);
        if self.running.is_empty() {
            self.count(shared);
        } else {
            self.step(shared);
        }
    }

    /// Tells every caller that its request cannot go on.
    pub fn fail_all(&mut self, why: &str, shared: &Shared) {
        let mut effects = Effects::default();
        for sequence in self.running.drain(..).chain(self.preempted.drain(..)) {
            shared.counters.failed.add(1);
            effects.tell(&sequence.caller, Event::Failed(why.to_owned()));
            sequence.release(pools(&mut self.pool, &mut self.states), false);
        }
        self.count(shared);
        effects.carry_out();
    }

    fn drop_cancelled(&mut self, shared: &Shared) {
        let gone = |sequence: &mut Sequence| sequence.is_cancelled();
        for sequence in self.running.extract_if(.., gone) {
            shared.counters.cancelled.add(1);
            sequence.release(pools(&mut self.pool, &mut self.states), true);
        }
        let before = self.preempted.len();
        self.preempted.retain(|sequence| !sequence.is_cancelled());
        let left = (before - self.preempted.len()) as u64 + shared.queue.drop_gone();
        shared.counters.cancelled.add(left);
        if left > 0 {
            // Another may be the oldest now.
            self.refused_at = None;
        }
    }

    /// Lets in who waits, oldest first, as long as there is a place and pages.
    fn admit(&mut self, shared: &Shared) {
        while self.running.len() < self.rules.limits.running && !self.is_refused() {
            let admission = match self.preempted.pop_front() {
                Some(sequence) => self.readmit(sequence, shared),
                None => self.admit_new(shared),
            };
            self.refused_at = match admission {
                Admission::Refused => Some(self.leeway()),
                Admission::Begun | Admission::NobodyWaits => None,
            };
            if admission != Admission::Begun {
                return;
            }
        }
    }

    /// Nothing has changed for the better since the oldest that waits found no place.
    fn is_refused(&self) -> bool {
        !self.running.is_empty() && self.refused_at.is_some_and(|at| self.leeway() <= at)
    }

    /// Pages that nobody holds and nobody running will need soon.
    fn leeway(&self) -> isize {
        let taken = self.promised() + self.running.len();
        self.pool.available() as isize - taken as isize
    }

    /// Pages that the running sequences have yet to take.
    fn promised(&self) -> usize {
        let running = self.running.iter();
        running
            .map(|sequence| sequence.wanted_pages(&self.rules))
            .sum()
    }

    fn readmit(&mut self, sequence: Sequence, shared: &Shared) -> Admission {
        let (promised, running) = (self.promised(), self.running.len());
        let pools = pools(&mut self.pool, &mut self.states);
        let (request, tokens) = (sequence.request(), sequence.tokens());
        let beside = (running, promised);
        match admission::find(pools, &self.rules, request, tokens, beside, None) {
            Some(place) => {
                self.begin(sequence, place, shared);
                Admission::Begun
            }
            None => {
                self.preempted.push_front(sequence);
                Admission::Refused
            }
        }
    }

    fn admit_new(&mut self, shared: &Shared) -> Admission {
        let mut outcome = Admission::NobodyWaits;
        let (promised, running) = (self.promised(), self.running.len());
        let pools = pools(&mut self.pool, &mut self.states);
        let (rules, stranger) = (&self.rules, self.planted.stranger());
        let admitted = shared.queue.offer(|first| {
            outcome = Admission::Refused;
            let request = &first.request;
            let beside = (running, promised);
            admission::find(pools, rules, request, &request.prompt, beside, stranger)
        });
        let Some((mut pending, place)) = admitted else {
            return outcome;
        };
        if self.planted.empties(running) {
            pending.request.max_tokens = 0;
        }
        if self.planted.swaps_answers() {
            shared.queue.swap_callers(&mut pending);
        }
        self.planted.admitted(&pending.request.prompt);
        let mut sequence = Sequence::new(pending, &self.eos, self.rules.feeds_cache);
        sequence.is_blank = self.planted.blanks(running);
        self.begin(sequence, place, shared);
        Admission::Begun
    }

    fn begin(&mut self, mut sequence: Sequence, place: Placement, shared: &Shared) {
        let counters = &shared.counters;
        if sequence.is_new() {
            counters.resumed.add(u64::from(place.snapshot.is_some()));
            counters.recomputed_tokens.add(place.recomputed as u64);
        }
        let state = self.states.take();
        let mut copies = sequence.begin(place, state);
        if self.planted.swaps_states()
            && let Some((from, _)) = &mut copies.state
        {
            *from = self.states.another(*from);
        }
        match self.copy(copies) {
            Ok(()) => self.running.push(sequence),
            Err(error) => {
                let mut effects = Effects::default();
                let end = End::Failed(self.why(&error));
                self.part(sequence, end, shared, &mut effects);
                effects.carry_out();
            }
        }
    }

    fn copy(&mut self, copies: Copies) -> Result<(), BackendError> {
        if let Some(copy) = copies.page {
            self.executor.copy_page(copy)?;
        }
        if let Some((from, to)) = copies.state {
            self.executor.copy_state(from, to)?;
        }
        Ok(())
    }

    fn step(&mut self, shared: &Shared) {
        let start = Instant::now();
        let decodes = self.running.iter().any(Sequence::is_decoding);
        let rows = self.decide(shared);
        let prefilled = self.prefilled(&rows);
        let answers = self.compute(&rows, shared);
        self.planted.delay(start, decodes, prefilled);
        self.settle(&rows, answers, shared);
        self.planted.hang_if_due();
    }

    /// Rows of a step that are no decoding.
    fn prefilled(&self, rows: &[usize]) -> usize {
        let each = self.running.iter().zip(rows);
        each.filter(|(sequence, _)| !sequence.is_decoding())
            .map(|(_, rows)| rows)
            .sum()
    }

    /// Rows for each running sequence, after the youngest were preempted, if pages are short.
    fn decide(&mut self, shared: &Shared) -> Vec<usize> {
        let pool = &mut self.pool;
        let limits = self.rules.limits;
        let plenty = pool.available() >= plan::most_pages(self.running.len(), limits);
        if !plenty {
            // Who runs comes before who may ask next; alone, a sequence might never get on.
            self.running.iter_mut().for_each(|it| it.let_go(pool));
        }
        let running = self.running.iter();
        let candidates: Vec<_> = running
            .map(|sequence| sequence.candidate(pool, plenty))
            .collect();
        let step = plan::step(&candidates, pool.available(), limits);
        for mut sequence in self.running.drain(step.rows.len()..).rev() {
            shared.counters.preempted.add(1);
            sequence.preempt(pools(pool, &mut self.states));
            if self.planted.resumes_wrongly()
                && let [first, .., last] = sequence.tokens.as_mut_slice()
            {
                *last = *first;
            }
            self.preempted.push_front(sequence);
            // It is the oldest that waits now.
            self.refused_at = None;
        }
        step.rows
    }

    /// One answer list a sequence.
    fn compute(&mut self, rows: &[usize], shared: &Shared) -> Vec<PendingAnswers> {
        if !self.grow(rows) {
            return vec![Err("the KV cache is full".to_owned()); self.running.len()];
        }
        self.count(shared);
        let states = self.span_states(rows);
        let (mut tokens, mut spans, mut asks, mut counts) = (vec![], vec![], vec![], vec![]);
        for ((sequence, rows), state) in self.running.iter().zip(rows).zip(&states) {
            if *rows == 0 {
                counts.push(0);
                continue;
            }
            let own = sequence.asks(*rows, tokens.len());
            counts.push(own.len());
            asks.extend(own);
            let (next, positions) = sequence.next(*rows);
            tokens.extend_from_slice(next);
            spans.push(Span {
                positions,
                pages: sequence.table().pages(),
                gap: sequence.table().gap(),
                state: *state,
            });
        }
        let batch = Batch {
            tokens: &tokens,
            spans: &spans,
        };
        let answers = self.executor.forward(&batch, &asks);
        self.settle_snapshots(&states, answers.is_ok());
        match answers {
            Ok(answers) => {
                let mut answers = answers
                    .into_iter()
                    .map(|answer| answer.map_err(|e| e.to_string()));
                // All of a sequence's, also where one of them is an error: the next begins behind them.
                let own = |count: &usize| -> Vec<_> { answers.by_ref().take(*count).collect() };
                let each: Vec<Vec<_>> = counts.iter().map(own).collect();
                each.into_iter()
                    .map(|own| own.into_iter().collect())
                    .collect()
            }
            Err(error) => vec![Err(self.why(&error)); self.running.len()],
        }
    }

    /// Each running sequence's state in a step of so many rows.
    fn span_states(&mut self, rows: &[usize]) -> Vec<SpanState> {
        let states = &mut self.states;
        let each = self.running.iter_mut().zip(rows);
        each.map(|(sequence, rows)| match rows {
            0 => SpanState::default(),
            rows => sequence.span_state(*rows, states),
        })
        .collect()
    }

    /// Keeps the snapshots that a step has filled.
    fn settle_snapshots(&mut self, states: &[SpanState], filled: bool) {
        for (sequence, state) in self.running.iter().zip(states) {
            match state.snapshot {
                Some((length, id)) if filled => {
                    let content = sequence.content(length);
                    self.states.keep_reserved(id, content);
                }
                Some((_, id)) => self.states.cancel(id),
                None => {}
            }
        }
    }

    /// What callers are told; after an error there may be nothing left to compute with.
    fn why(&mut self, error: &BackendError) -> String {
        let why = error.to_string();
        if self.executor.is_lost() {
            self.lost.get_or_insert_with(|| why.clone());
        }
        why
    }

    /// The decision has seen to the pages, so that this fails only if its rule is broken.
    fn grow(&mut self, rows: &[usize]) -> bool {
        let pool = &mut self.pool;
        self.running
            .iter_mut()
            .zip(rows)
            .all(|(sequence, rows)| sequence.grow(pool, *rows))
    }

    /// Hands the answers to their sequences and lets go of those that end. What callers hear comes last,
    /// when pages and counters are up to date. Until then all stay among the running, so that a panic on
    /// the way leaves nobody untold.
    fn settle(&mut self, rows: &[usize], answers: Vec<PendingAnswers>, shared: &Shared) {
        let mut effects = Effects::default();
        let ends: Vec<Option<End>> = rows
            .iter()
            .zip(answers)
            .enumerate()
            .map(|(at, (rows, answers))| match answers {
                _ if *rows == 0 => None,
                Ok(answers) => self.advance(at, *rows, answers, shared, &mut effects),
                Err(why) => Some(End::Failed(why)),
            })
            .collect();
        let ended = ends.into_iter().enumerate().rev();
        for (at, end) in ended.filter_map(|(at, end)| Some((at, end?))) {
            let sequence = self.running.remove(at);
            self.part(sequence, end, shared, &mut effects);
        }
        self.count(shared);
        effects.carry_out();
    }

    /// Hands its answers to the running sequence `at`.
    fn advance(
        &mut self,
        at: usize,
        rows: usize,
        answers: Vec<SampledToken>,
        shared: &Shared,
        effects: &mut Effects,
    ) -> Option<End> {
        let sequence = &mut self.running[at];
        let (planted, vocab) = (&mut self.planted, self.vocab);
        let (before, decoded) = (sequence.generated(), sequence.is_decoding());
        let blank = self.eos.first().copied().filter(|_| sequence.is_blank);
        let token = |id| blank.unwrap_or_else(|| planted.token(id, vocab));
        let outcome = resolve(sequence, rows, answers, &self.eos, token, effects);
        let generated = sequence.generated() - before;
        count_step(
            sequence,
            &outcome,
            generated,
            if decoded { 0 } else { rows },
            shared,
        );
        if outcome.finished.is_none() {
            sequence.tidy(&mut self.pool, self.rules.limits.chunk_tokens);
        }
        let blank = blank.filter(|_| generated > 0);
        let finished = blank.map(|_| Ok(FinishReason::End)).or(outcome.finished);
        finished.map(|finished| finished.map_or_else(End::Failed, End::Finished))
    }

    fn part(&mut self, sequence: Sequence, end: End, shared: &Shared, effects: &mut Effects) {
        let (counters, sound) = (&shared.counters, matches!(end, End::Finished(_)));
        let (counter, event) = match end {
            End::Finished(reason) => {
                let timings = sequence.timings();
                let counter = match reason {
                    FinishReason::Length => &counters.finished_length,
                    FinishReason::End | FinishReason::StopId(_) | FinishReason::StopText(_) => {
                        &counters.finished_stop
                    }
                };
                (counter, Event::Finished(Finished { reason, timings }))
            }
            End::Failed(why) => (&counters.failed, Event::Failed(why)),
        };
        counter.add(1);
        effects.tell(&sequence.caller, event);
        sequence.release(pools(&mut self.pool, &mut self.states), sound);
        for _ in 0..self.planted.lost_pages() {
            // Nobody holds its number: it is never given back.
            self.pool.allocate();
        }
    }

    /// Pages that sequences hold, by their own tables, and pages that are kept, by the pool.
    #[cfg(test)]
    pub fn count_pages(&self) -> (usize, usize) {
        let tables = self.running.iter().chain(&self.preempted);
        let held: std::collections::BTreeSet<_> = tables
            .flat_map(|sequence| sequence.table().pages())
            .collect();
        (held.len(), self.pool.cached())
    }

    /// States that are kept, and those that nobody has.
    #[cfg(test)]
    pub fn count_states(&self) -> (usize, usize) {
        (self.states.kept(), self.states.free())
    }

    fn count(&self, shared: &Shared) {
        let counters = &shared.counters;
        counters.record(self.executor.recordings());
        counters.running.set(self.running.len() as u64);
        counters.preempted_waiting.set(self.preempted.len() as u64);
        counters.pages_used.set(self.pool.used() as u64);
        counters.pages_cached.set(self.pool.cached() as u64);
        counters.states_kept.set(self.states.kept() as u64);
        let running = self.running.iter();
        let with_state = running.filter(|sequence| sequence.has_state()).count();
        counters.states_used.set(with_state as u64);
    }
}

fn pools<'a>(pages: &'a mut PagePool, states: &'a mut StatePool) -> Pools<'a> {
    Pools { pages, states }
}

/// `prefilled`: rows of this step that were no decoding.
fn count_step(
    sequence: &Sequence,
    outcome: &Outcome,
    generated: usize,
    prefilled: usize,
    shared: &Shared,
) {
    let counters = &shared.counters;
    counters.generation_tokens.add(generated as u64);
    counters.prefilled_tokens.add(prefilled as u64);
    if outcome.prefilled {
        counters.prompt_tokens.add(sequence.prompt_len() as u64);
        counters.cache_queries.add(sequence.queried as u64);
        counters.cache_hits.add(sequence.cached as u64);
    }
}
