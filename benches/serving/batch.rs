//! Decoding throughput of users that came together.
//!
//! Main function: [`round`]. Refuses to know: rounds, tables.

use engine::Engine;
use engine::request::Timings;

use crate::common::{self, Outcome, Spread};

pub(crate) const USERS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// So short that the prompts of all users fit one step: what is measured is decoding.
pub(crate) const PROMPT: usize = 4;

/// Tokens a second.
#[derive(Clone, Copy)]
pub(crate) struct Throughput {
    pub(crate) all: f64,
    /// Of the median user, from the first token to the last.
    pub(crate) user: f64,
}

/// One entry for each of [`USERS`].
pub(crate) fn round(engine: &Engine, answer: u32) -> Outcome<Vec<Throughput>> {
    USERS
        .iter()
        .map(|users| throughput(engine, *users, answer))
        .collect()
}

/// Tokens after each user's first, over the time from anybody's first token to the last of all.
fn throughput(engine: &Engine, users: usize, answer: u32) -> Outcome<Throughput> {
    let requests = (0..users).map(|user| common::request(engine, user, PROMPT, answer));
    let events = engine.submit_all(requests.collect())?;
    let timings = events
        .into_iter()
        .map(|events| Ok(common::finish(events)?.timings))
        .collect::<Outcome<Vec<Timings>>>()?;
    let tokens = |timings: &Timings| f64::from(timings.predicted_n - 1);
    // All were submitted at the same moment, so that their clocks began together.
    let first = timings.iter().map(|t| t.queue + t.prompt).min();
    let last = timings
        .iter()
        .map(|t| t.queue + t.prompt + t.predicted)
        .max();
    let elapsed = last.unwrap_or_default() - first.unwrap_or_default();
    let each = timings
        .iter()
        .map(|t| tokens(t) / t.predicted.as_secs_f64());
    Ok(Throughput {
        all: timings.iter().map(tokens).sum::<f64>() / elapsed.as_secs_f64(),
        user: Spread::of(each).middle,
    })
}
