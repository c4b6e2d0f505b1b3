//! What a long prompt does to others: to a short request that arrives, to a user that decodes.
//!
//! Main functions: [`short_beside_long`], [`user_beside_long`]. Arrival is by condition: the engine's
//! counters say that the long prompt has begun. Refuses to know: how prompts are cut.

use std::thread;
use std::time::{Duration, Instant};

use engine::Engine;
use engine::request::{Event, Finished};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::common::{self, Outcome};

pub(crate) const LONG: usize = 4096;
pub(crate) const SHORT: usize = 32;

/// Prompt of the user that decodes, and its answer: longer than the long prompt takes, which ends it.
const USER_PROMPT: usize = 16;
const USER_ANSWER: u32 = 1024;

/// Tokens of that user before the long prompt comes.
const ALONE: usize = 33;

/// Times to the first token.
#[derive(Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) short: Duration,
    pub(crate) long: Duration,
}

/// A short request comes when a long prompt has just begun.
pub(crate) fn short_beside_long(engine: &Engine) -> Outcome<Arrival> {
    await_idle(engine);
    let long = engine.submit(common::request(engine, 1, LONG, 1))?;
    await_begun(engine, &long)?;
    let short = engine.submit(common::request(engine, 2, SHORT, 1))?;
    if !long.is_empty() {
        return Err(
            "the long prompt was done before the short one came: it is too short here".into(),
        );
    }
    Ok(Arrival {
        short: first_token(&common::finish(short)?),
        long: first_token(&common::finish(long)?),
    })
}

fn first_token(finished: &Finished) -> Duration {
    finished.timings.queue + finished.timings.prompt
}

/// Times between two tokens of one user, as received.
#[derive(Clone, Copy)]
pub(crate) struct Gaps {
    /// The mean before the long prompt came: on few cores the receiving thread may sleep over some tokens and
    /// find them together, which leaves the mean as it is.
    pub(crate) alone: Duration,
    /// The longest from its coming to its first token. None: the user's answer ended before the long
    /// prompt did, so that they did not run beside each other.
    pub(crate) longest: Option<Duration>,
}

/// A long prompt comes while a user decodes.
pub(crate) fn user_beside_long(engine: &Engine) -> Outcome<Gaps> {
    await_idle(engine);
    let mut user = engine.submit(common::request(engine, 3, USER_PROMPT, USER_ANSWER))?;
    let mut stamps = Vec::new();
    while stamps.len() < ALONE {
        if !another_token(&mut user)? {
            return Err("the user's answer ended at once".into());
        }
        stamps.push(Instant::now());
    }
    let mut last = stamps[ALONE - 1];
    let alone = (last - stamps[0]) / (ALONE as u32 - 1);
    let long = engine.submit(common::request(engine, 4, LONG, 1))?;
    let (mut beside, mut longest) = (true, Duration::ZERO);
    while beside && long.is_empty() {
        beside = another_token(&mut user)?;
        longest = longest.max(last.elapsed());
        last = Instant::now();
    }
    // The user goes away; the long prompt is not to be left to the next measurement.
    drop(user);
    common::finish(long)?;
    Ok(Gaps {
        alone,
        longest: beside.then_some(longest),
    })
}

/// Waits for the next token; false when the answer has ended.
fn another_token(events: &mut UnboundedReceiver<Event>) -> Outcome<bool> {
    loop {
        match events.blocking_recv() {
            Some(Event::Token(_)) => return Ok(true),
            Some(Event::Prompt(_)) => {}
            Some(Event::Finished(_)) => return Ok(false),
            Some(Event::Failed(why)) => return Err(why.into()),
            None => return Err("the engine went away".into()),
        }
    }
}

/// Until nothing of an earlier measurement runs.
fn await_idle(engine: &Engine) {
    loop {
        let stats = engine.stats();
        if stats.running == 0 && stats.waiting == 0 && stats.kv.pages_used == 0 {
            return;
        }
        thread::yield_now();
    }
}

/// Until the only request has its pages: what comes later is not in its first step.
fn await_begun(engine: &Engine, only: &UnboundedReceiver<Event>) -> Outcome<()> {
    loop {
        let stats = engine.stats();
        if stats.running > 0 && stats.kv.pages_used > 0 {
            return Ok(());
        }
        if !only.is_empty() || only.is_closed() {
            return Err("the long prompt ended before it was seen to begin".into());
        }
        thread::yield_now();
    }
}
