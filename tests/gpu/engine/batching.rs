//! Many requests at once: each must get the answer that it gets alone, and leave nothing behind.

use std::collections::VecDeque;

use engine::request::{CacheUse, Event, Logprob, Request, Sampling, Token};
use engine::{Engine, ModelSource, Options};
use tokio::sync::mpsc::UnboundedReceiver;

use super::{Answer, assert_nothing_held, both_models, collect, prompt, request, run, start};

/// Requests of all sorts: short and long prompts, some that begin alike, short and long answers, scored,
/// drawn, ended by the model.
fn mixed(count: u32) -> Vec<Request> {
    let one = |seed: u32| {
        let length = [1, 9, 30, 64, 150, 333, 700, 1500][seed as usize % 8];
        let mut tokens = prompt(length, seed % 5);
        tokens.extend(prompt(seed % 7, seed));
        Request {
            ignore_eos: !seed.is_multiple_of(3),
            logprobs: seed.is_multiple_of(2).then_some(3),
            prompt_logprobs: seed.is_multiple_of(11),
            cache: match seed % 6 {
                0 => CacheUse::Off,
                1 => CacheUse::Salted(format!("salt {}", seed % 4)),
                _ => CacheUse::Shared,
            },
            sampling: match seed % 5 {
                0 => Sampling {
                    temperature: 0.8,
                    top_p: 0.9,
                    repetition_penalty: 1.1,
                    seed: u64::from(seed),
                    ..Sampling::default()
                },
                _ => Sampling::default(),
            },
            ..request(&tokens, 1 + seed * 29 % 200)
        }
    };
    (0..count).map(one).collect()
}

/// What must be the same: the answer, and the prompt's own log-probabilities.
type Said = (Vec<Token>, Option<Vec<Option<Logprob>>>);

fn said(answer: Answer) -> Said {
    (answer.tokens, answer.prompt.logprobs)
}

/// One at a time, without a cache, on one thread.
fn alone(model: &ModelSource, requests: &[Request]) -> Vec<Said> {
    let engine = start(Options {
        model: model.clone(),
        threads: 1,
        running: 1,
        prefix_cache: false,
        ..Options::default()
    });
    let answer = |request: &Request| said(run(&engine, request.clone()));
    requests.iter().map(answer).collect()
}

fn together(options: Options, requests: &[Request], expect: &[Said]) -> Engine {
    let engine = start(options);
    let events = engine.submit_all(requests.to_vec()).expect("all are taken");
    for (at, (events, expect)) in events.into_iter().zip(expect).enumerate() {
        let answer = collect(events).expect("it is answered");
        assert_eq!(said(answer), *expect, "request {at}");
    }
    assert_nothing_held(&engine);
    engine
}

/// To the last token, and to the last bit of its log-probability: with room for all and with so little
/// that most are preempted, in large steps and in small ones. 32 requests, at night 64.
#[test]
fn mixed_requests_together_are_answered_as_each_alone() {
    let count = if fixture::is_nightly() { 64 } else { 32 };
    for model in both_models() {
        requests_together_are_answered_as_each_alone(&model, &mixed(count));
    }
}

fn requests_together_are_answered_as_each_alone(model: &ModelSource, requests: &[Request]) {
    let expect = alone(model, requests);
    let roomy = Options {
        model: model.clone(),
        threads: 2,
        ..Options::default()
    };
    let engine = together(roomy.clone(), requests, &expect);
    assert_eq!(engine.stats().preempted, 0);
    // Answers to what is in the cache already.
    let again = engine.submit_all(requests.to_vec()).expect("all are taken");
    for (events, expect) in again.into_iter().zip(&expect) {
        assert_eq!(said(collect(events).expect("it is answered")), *expect);
    }
    assert!(engine.stats().cache_hits > 0);
    let mut preempted = 0;
    for (step_tokens, chunk_tokens) in [(600, 512), (65, 7), (66, 64)] {
        let tight = Options {
            kv_tokens: 1_728,
            step_tokens: Some(step_tokens),
            chunk_tokens: Some(chunk_tokens),
            ..roomy.clone()
        };
        preempted += together(tight, requests, &expect).stats().preempted;
    }
    assert!(preempted > 0);
}

/// A small number that looks random.
fn roll(state: &mut u64, sides: u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1);
    (*state >> 33) % sides
}

/// Reads to the end and compares.
fn finish(which: usize, events: UnboundedReceiver<Event>, expect: &[Said]) {
    let answer = collect(events).expect("it is answered");
    assert_eq!(said(answer), expect[which], "request {which}");
}

/// A thousand requests, at night ten thousand, on a pool of 24 pages: most of them preempt others or evict what is cached,
/// one in four goes away early. Every answer is right, and at the end every page is there.
#[test]
fn requests_leave_no_page_behind() {
    for model in both_models() {
        println!("{}", requests_leave_nothing_behind(&model));
    }
}

/// What happened, in numbers.
fn requests_leave_nothing_behind(model: &ModelSource) -> String {
    const PAGES: usize = 24;
    let requested: u64 = if fixture::is_nightly() { 10_000 } else { 1_000 };
    let short = |seed: u32| {
        let mut tokens = prompt(5 + seed * 37 % 40, seed % 9);
        tokens.extend(prompt(seed % 11, seed));
        Request {
            ignore_eos: !seed.is_multiple_of(4),
            ..request(&tokens, 1 + seed * 7 % 70)
        }
    };
    let requests: Vec<Request> = (0..200).map(short).collect();
    let expect = alone(model, &requests);
    let engine = start(Options {
        model: model.clone(),
        threads: 1,
        kv_tokens: PAGES * 16,
        running: 16,
        step_tokens: Some(64),
        chunk_tokens: Some(24),
        ..Options::default()
    });
    let (mut state, mut cancelled) = (7, 0);
    let mut running = VecDeque::new();
    for _ in 0..requested {
        if running.len() == 40 {
            // Any of them, not the oldest: so they end in another order than they came.
            let at = roll(&mut state, 40) as usize;
            let (which, events) = running.swap_remove_back(at).expect("it is there");
            finish(which, events, &expect);
        }
        let which = roll(&mut state, 200) as usize;
        let events = engine.submit(requests[which].clone()).expect("taken");
        running.push_back((which, events));
        if roll(&mut state, 4) == 0 {
            // One of the last few, which waits or runs.
            let at = running.len() - 1 - roll(&mut state, running.len().min(8) as u64) as usize;
            drop(running.remove(at));
            cancelled += 1;
        }
    }
    for (which, events) in running {
        finish(which, events, &expect);
    }
    // The last that went away are noticed before this one, which needs every page there is.
    let whole = request(&prompt(PAGES as u32 * 16 - 1, 1), 1);
    assert_eq!(run(&engine, whole).tokens.len(), 1);
    assert_nothing_held(&engine);
    let stats = engine.stats();
    assert!(
        stats.cancelled > requested / 20
            && stats.preempted > requested / 100
            && stats.cache_hits > 0,
        "{stats:?}"
    );
    format!(
        "{requested} requests, {cancelled} given up by their callers, {} of them before their end; {} preemptions; {} of {} prompt tokens cached",
        stats.cancelled, stats.preempted, stats.cache_hits, stats.cache_queries
    )
}
