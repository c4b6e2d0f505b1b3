//! The scheduler with a network whose answers tell whether it was shown the right pages.
//!
//! [`Fake`] keeps, for each page and slot, a number that depends on the token that stands there and on all
//! that it attends to, as keys and values do. A page that is shared, copied, evicted or recomputed wrongly
//! gives another answer than [`expected`], which knows no pages at all. In a recurrent house it keeps a state a sequence too. Steps are random: requests that
//! begin alike, that are cancelled, that are more than there are pages for.

use std::collections::HashMap;
use std::time::Instant;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::admission::Rules;
use super::plan::Limits;
use super::queue::Pending;
use super::shared::Shared;
use super::worker::Worker;
use crate::backend::cuda::device::DeviceError;
use crate::backend::{BackendError, Batch, NotANumber, SampledToken, Span, SpanState};
use crate::executor::{Answers, Executor, RowAsk};
use crate::faults::{Faults, Planted};
use crate::kv::Window;
use crate::kv::{Copy, PAGE_TOKENS, PageId, Reach, StateId, StatePool, pages_for};
use crate::request::{CacheUse, Event, FinishReason, Request};

const VOCAB: u32 = 50;
const EOS: u32 = 49;
/// No token of any other request: the stand-in panics.
const BREAKS: u32 = VOCAB;
/// Nor this: what computes is gone from there on.
const LOSES: u32 = VOCAB + 1;
/// Nor this: what follows it is no number.
const NOT_A_NUMBER: u32 = VOCAB + 2;

/// A token of some value at a position, after what it attends to.
fn mix(seen: u64, token: u32, position: usize) -> u64 {
    let salted = seen ^ (u64::from(token) << 32) ^ position as u64;
    (salted ^ (salted >> 29)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn combine(seen: u64, value: u64) -> u64 {
    (seen.rotate_left(7) ^ value).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

fn token_of(value: u64) -> u32 {
    (value >> 40) as u32 % VOCAB
}

/// Positions before `position` that it attends to.
fn attended(window: Option<Window>, position: usize) -> impl Iterator<Item = usize> {
    let (sink, first) = match window {
        None => (0, 0),
        Some(w) => {
            let first = (position + 1).saturating_sub(w.window);
            (w.sink.min(first).min(position), first)
        }
    };
    (0..sink).chain(first..position)
}

struct Fake {
    slots: Vec<[u64; PAGE_TOKENS]>,
    /// Empty where the house is not recurrent.
    states: Vec<u64>,
    window: Option<Window>,
    rows: usize,
    lost: bool,
}

impl Fake {
    fn slot(&mut self, span: &Span<'_>, position: usize) -> &mut u64 {
        let sink = self.window.map_or(0, |window| pages_for(window.sink));
        let page = position / PAGE_TOKENS;
        let at = if page < sink { page } else { page - span.gap };
        &mut self.slots[span.pages[at] as usize][position % PAGE_TOKENS]
    }
}

impl Executor for Fake {
    fn forward(&mut self, batch: &Batch<'_>, asks: &[RowAsk<'_>]) -> Result<Answers, BackendError> {
        assert!(batch.tokens.len() <= self.rows);
        let mut tokens = batch.tokens.iter();
        let mut values = Vec::new();
        for span in batch.spans {
            for position in span.positions() {
                let own = span.state.own as usize;
                if let Some(state) = self.states.get_mut(own).filter(|_| position == 0) {
                    *state = 0;
                }
                let before = self.states.get(own).copied().unwrap_or(0);
                let seen = attended(self.window, position)
                    .fold(before, |seen, at| combine(seen, *self.slot(span, at)));
                let token = *tokens.next().expect("a token a position");
                assert_ne!(token, BREAKS, "the stand-in breaks");
                self.lost |= token == LOSES;
                let value = mix(seen, token, position);
                *self.slot(span, position) = value;
                if let Some(state) = self.states.get_mut(own) {
                    *state = combine(before, value);
                }
                if let Some((at, to)) = span.state.snapshot
                    && at == position + 1
                {
                    self.states[to as usize] = self.states[own];
                }
                values.push(value);
            }
        }
        if self.lost {
            let (call, cause) = ("a call", "it is gone".to_owned());
            return Err(DeviceError::Failed { call, cause }.into());
        }
        let answer = |ask: &RowAsk<'_>| {
            if batch.tokens[ask.row] == NOT_A_NUMBER {
                return Err(NotANumber);
            }
            Ok(SampledToken {
                id: token_of(values[ask.row]),
                logprobs: None,
            })
        };
        Ok(asks.iter().map(answer).collect())
    }

    fn copy_page(&mut self, Copy { from, to }: Copy) -> Result<(), BackendError> {
        self.slots[to as usize] = self.slots[from as usize];
        Ok(())
    }

    fn copy_state(&mut self, from: StateId, to: StateId) -> Result<(), BackendError> {
        self.states[to as usize] = self.states[from as usize];
        Ok(())
    }

    fn is_lost(&mut self) -> bool {
        self.lost
    }
}

/// The answer to a prompt, without pages and states.
fn expected(house: House, request: &Request) -> Vec<u32> {
    let (mut tokens, mut values) = (request.prompt.clone(), Vec::new());
    let (window, mut state) = (house.window, 0);
    loop {
        for (position, token) in tokens.iter().enumerate().skip(values.len()) {
            let seen = attended(window, position).fold(state, |seen, at| combine(seen, values[at]));
            let value = mix(seen, *token, position);
            values.push(value);
            if house.snapshots.is_some() {
                state = combine(state, value);
            }
        }
        let answer = &tokens[request.prompt.len()..];
        let ended = answer.last() == Some(&EOS) && !request.ignore_eos;
        if ended || answer.len() == request.max_tokens as usize {
            return answer.to_vec();
        }
        tokens.push(token_of(values[values.len() - 1]));
    }
}

/// Small numbers that look random: equal seeds give equal runs.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

#[derive(Clone, Copy)]
struct House {
    pages: usize,
    limits: Limits,
    window: Option<Window>,
    caches: bool,
    /// Of a recurrent house.
    snapshots: Option<usize>,
}

#[derive(Default, Debug)]
struct StepTally {
    steps: u64,
    answered: u64,
    cancelled: u64,
    preempted: u64,
    hits: u64,
}

struct Caller {
    request: Request,
    events: UnboundedReceiver<Event>,
    answer: Vec<u32>,
}

struct RandomRun {
    house: House,
    worker: Worker<Fake>,
    shared: Shared,
    dice: Dice,
    callers: HashMap<usize, Caller>,
    submitted: usize,
    /// Prompts and answers so far: what others may begin with.
    histories: Vec<Vec<u32>>,
    tally: StepTally,
}

impl RandomRun {
    fn new(house: House, seed: u64) -> Self {
        let rules = Rules {
            limits: house.limits,
            reach: Reach::new(house.window),
            reads_cache: house.caches,
            feeds_cache: house.caches,
            recurrent: house.snapshots.is_some(),
        };
        let running = house.limits.running;
        let states = house.snapshots.map(|most| StatePool::new(running, most));
        let fake = Fake {
            slots: vec![[u64::MAX; PAGE_TOKENS]; house.pages],
            states: vec![u64::MAX; house.snapshots.map_or(0, |most| running + most)],
            window: house.window,
            rows: house.limits.step_tokens,
            lost: false,
        };
        let planted = Planted::new(Faults::default());
        let eos = vec![EOS];
        Self {
            house,
            worker: Worker::new(
                fake,
                house.pages,
                states.unwrap_or_default(),
                rules,
                eos,
                VOCAB as usize,
                planted,
            ),
            shared: Shared::new(1 << 20),
            dice: Dice(seed),
            callers: HashMap::new(),
            submitted: 0,
            histories: vec![vec![1]],
            tally: StepTally::default(),
        }
    }

    /// The longest that fits the house alone.
    fn longest(&self) -> usize {
        match self.house.window {
            None => self.house.pages * PAGE_TOKENS,
            Some(_) => 400,
        }
    }

    fn submit_one(&mut self) {
        let longest = self.longest().min(160);
        let at = self.dice.roll(self.histories.len());
        let mut prompt = self.histories[at].clone();
        // Short beside their answers: who is let in then comes to need more than there is.
        prompt.truncate(1 + self.dice.roll(longest / 2));
        for _ in 0..self.dice.roll(20) {
            prompt.push(self.dice.roll(VOCAB as usize) as u32);
        }
        prompt.truncate(longest - 1);
        let room = longest - prompt.len();
        let request = Request {
            ignore_eos: self.dice.roll(2) == 0,
            cache: match self.dice.roll(8) {
                0 => CacheUse::Off,
                1 => CacheUse::Salted("a".to_owned()),
                _ => CacheUse::Shared,
            },
            ..Request::new(prompt, 1 + self.dice.roll(room.min(100)) as u32)
        };
        self.submit(request);
    }

    fn submit(&mut self, request: Request) {
        let (caller, events) = unbounded_channel();
        let pending = Pending {
            request: request.clone(),
            stop: None,
            caller,
            submitted: Instant::now(),
        };
        assert_eq!(self.shared.queue.push(vec![pending]), Ok(()));
        let answer = Vec::new();
        let caller = Caller {
            request,
            events,
            answer,
        };
        self.callers.insert(self.submitted, caller);
        self.submitted += 1;
    }

    fn cancel(&mut self) {
        let mut known: Vec<usize> = self.callers.keys().copied().collect();
        known.sort_unstable();
        if !known.is_empty() {
            let one = known[self.dice.roll(known.len())];
            self.callers.remove(&one);
            self.tally.cancelled += 1;
        }
    }

    fn turn(&mut self) {
        self.worker.turn(&self.shared);
        self.tally.steps += 1;
        let stats = self.shared.counters.snapshot(0, &[]);
        assert!(stats.running <= self.house.limits.running as u64);
        let (held, cached) = self.worker.count_pages();
        assert_eq!(stats.kv.pages_used, held as u64);
        assert_eq!(stats.kv.pages_cached, cached as u64);
        assert!(held + cached <= self.house.pages);
        self.listen();
    }

    /// Takes what was told and compares each ended answer with the one that knows no pages.
    fn listen(&mut self) {
        let (house, tally, histories) = (self.house, &mut self.tally, &mut self.histories);
        let dice = &mut self.dice;
        self.callers.retain(|_, caller| {
            while let Ok(event) = caller.events.try_recv() {
                match event {
                    Event::Prompt(_) => assert!(caller.answer.is_empty()),
                    Event::Token(token) => caller.answer.push(token.id),
                    Event::Failed(why) => panic!("{why}"),
                    Event::Finished(finished) => {
                        assert_eq!(caller.answer, expected(house, &caller.request));
                        let ends = caller.answer.last() == Some(&EOS) && !caller.request.ignore_eos;
                        let reason = match ends {
                            true => FinishReason::End,
                            false => FinishReason::Length,
                        };
                        assert_eq!(finished.reason, reason);
                        tally.answered += 1;
                        let history = [&caller.request.prompt[..], &caller.answer].concat();
                        match histories.len() {
                            0..20 => histories.push(history),
                            known => histories[dice.roll(known)] = history,
                        }
                        return false;
                    }
                }
            }
            true
        });
    }

    fn steps(mut self, count: u64) -> StepTally {
        while self.tally.steps < count {
            match self.dice.roll(100) {
                0..12 if self.callers.len() < 40 => self.submit_one(),
                12..14 => self.cancel(),
                _ => self.turn(),
            }
        }
        // Nobody starves: what is left ends within its own length and that of all before it.
        let left: usize = self
            .callers
            .values()
            .map(|caller| caller.request.max_tokens as usize + 200)
            .sum();
        for _ in 0..left {
            self.turn();
        }
        assert!(self.callers.is_empty() && self.worker.is_idle());
        let stats = self.shared.counters.snapshot(0, &[]);
        assert_eq!(
            (stats.running, stats.waiting, stats.kv.pages_used),
            (0, 0, 0)
        );
        if let Some(most) = self.house.snapshots {
            assert_eq!(
                self.worker.count_states(),
                (most, self.house.limits.running)
            );
        }
        self.tally.preempted = stats.preempted;
        self.tally.hits = stats.cache_hits;
        self.tally
    }
}

fn houses() -> Vec<House> {
    let limits = |running, step_tokens, chunk_tokens| Limits {
        running,
        step_tokens,
        chunk_tokens,
    };
    let house = |pages, limits, window| House {
        pages,
        limits,
        window,
        caches: true,
        snapshots: None,
    };
    let recurrent = |snapshots, house: House| House {
        snapshots: Some(snapshots),
        ..house
    };
    let window = |sink, window| Some(Window { sink, window });
    vec![
        house(200, limits(16, 64, 32), None),
        house(12, limits(8, 32, 16), None),
        house(12, limits(16, 17, 17), None),
        house(10, limits(4, 5, 1), None),
        house(11, limits(8, 40, 40), window(4, 30)),
        house(12, limits(8, 40, 7), window(20, 33)),
        house(10, limits(6, 20, 20), window(0, 64)),
        // Just enough for one that takes a token a step.
        house(4, limits(8, 40, 40), window(4, 30)),
        House {
            caches: false,
            ..house(14, limits(8, 24, 24), None)
        },
        recurrent(24, house(200, limits(16, 64, 32), None)),
        recurrent(3, house(12, limits(8, 32, 16), None)),
        recurrent(8, house(11, limits(8, 40, 40), window(4, 30))),
        recurrent(5, house(10, limits(4, 5, 1), None)),
    ]
}

/// Pages for many, places for two.
fn house_for_two() -> House {
    let house = houses()[0];
    House {
        limits: Limits {
            running: 2,
            ..house.limits
        },
        ..house
    }
}

/// Every answer is the right one, no page leaks, nobody starves. At night two million steps in all.
#[test]
fn random_steps_give_every_request_its_own_answer() {
    let steps = if fixture::is_nightly() {
        250_000
    } else {
        25_000
    };
    for (at, house) in houses().into_iter().enumerate() {
        let tally = RandomRun::new(house, at as u64 + 1).steps(steps);
        assert!(
            tally.answered > steps / 250 && tally.cancelled > steps / 250,
            "{at}: {tally:?}"
        );
        assert_eq!(
            tally.preempted > steps / 2_500,
            house.pages < 100,
            "{at}: {tally:?}"
        );
        assert_eq!(tally.hits > steps / 250, house.caches, "{at}: {tally:?}");
    }
}

/// Who comes while others run is let in at the next step, and at the one after the first is gone where the
/// house was full.
#[test]
fn a_newcomer_runs_at_the_next_step() {
    let mut run = RandomRun::new(house_for_two(), 1);
    let running = |run: &RandomRun| run.shared.counters.snapshot(0, &[]).running;
    for expect in [1, 2, 2] {
        run.submit(Request {
            ignore_eos: true,
            ..Request::new(vec![1], 100)
        });
        // Once with nobody to look at, once with the newcomer.
        run.turn();
        run.turn();
        assert_eq!(running(&run), expect);
    }
    run.callers.remove(&0);
    run.turn();
    assert_eq!((running(&run), run.shared.queue.waiting()), (2, 0));
}

/// A panic within a step, or the loss of what computes, ends those who run and those who wait, and says so; nothing
/// is taken any more.
#[test]
fn a_worker_that_dies_leaves_nobody_untold() {
    for (token, death) in [
        (BREAKS, "a panic"),
        (LOSES, "the GPU failed in a call: it is gone"),
    ] {
        let mut run = RandomRun::new(house_for_two(), 1);
        // Two that run, of which one reads a token that ends the stand-in, and one that has to wait.
        run.submit(Request::new(vec![1, 2, 3], 50));
        run.submit(Request::new(vec![4, token], 50));
        run.submit(Request::new(vec![5], 50));
        super::live(&mut run.worker, &run.shared);
        for caller in run.callers.values_mut() {
            let mut last = None;
            while let Ok(event) = caller.events.try_recv() {
                last = Some(event);
            }
            assert!(matches!(last, Some(Event::Failed(_))), "{last:?}");
        }
        assert_eq!(run.shared.death(), Some(death));
        assert!(!run.shared.is_alive());
        let stats = run.shared.counters.snapshot(0, &[]);
        assert_eq!(
            (stats.running, stats.failed, stats.kv.pages_used),
            (0, 3, 0)
        );
    }
}

/// A request that asks about each token of its prompt fails by one of them; who is computed beside it gets its own answer.
#[test]
fn what_is_no_number_fails_its_own_request_alone() {
    let mut run = RandomRun::new(house_for_two(), 1);
    let asks = Request {
        prompt_logprobs: true,
        ..Request::new(vec![1, NOT_A_NUMBER, 2, 3, 4, 5], 4)
    };
    run.submit(asks);
    run.submit(Request::new(vec![6, 7, 8], 8));
    let mut broken = run.callers.remove(&0).expect("it was submitted");
    while !run.callers.is_empty() {
        run.turn();
    }
    let mut last = None;
    while let Ok(event) = broken.events.try_recv() {
        last = Some(event);
    }
    let Some(Event::Failed(why)) = last else {
        panic!("{last:?}");
    };
    assert!(why.contains("is not a number"), "{why}");
}

/// What the other tests rest on: another content of a page that is read gives another answer.
#[test]
fn the_fake_tells_a_wrong_page() {
    let request = Request::new(vec![1; 40], 8);
    let right = expected(house_for_two(), &request);
    let mut fake = Fake {
        slots: vec![[0; PAGE_TOKENS]; 4],
        states: Vec::new(),
        window: None,
        rows: 64,
        lost: false,
    };
    let pages: [PageId; 3] = [0, 1, 2];
    let span = Span {
        positions: (0, 40),
        pages: &pages,
        gap: 0,
        state: SpanState::default(),
    };
    let batch = Batch {
        tokens: &request.prompt,
        spans: &[span],
    };
    fake.forward(&batch, &[]).unwrap();
    assert_eq!(token_of(fake.slots[2][7]), right[0]);
    fake.slots[0][3] ^= 1;
    let last = Span {
        positions: (39, 40),
        ..span
    };
    let batch = Batch {
        tokens: &[1],
        spans: &[last],
    };
    fake.forward(&batch, &[]).unwrap();
    assert_ne!(token_of(fake.slots[2][7]), right[0]);
}
