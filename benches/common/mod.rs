//! What every bench needs: its arguments, requests of arbitrary tokens, their end, the spread of repeats.
//!
//! Main type: [`Spread`]. Refuses to know: what is measured.

pub(crate) mod model;

use std::error::Error;

use engine::Engine;
use engine::request::{CacheUse, Event, Finished, Request};
use tokio::sync::mpsc::UnboundedReceiver;

pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;

/// `cargo test --benches` runs benches too; they have nothing to say there.
pub(crate) fn is_bench() -> bool {
    has_flag("--bench")
}

pub(crate) fn has_flag(flag: &str) -> bool {
    std::env::args().any(|argument| argument == flag)
}

/// `--threads N`; by default one for each core.
pub(crate) fn threads() -> Outcome<usize> {
    let mut arguments = std::env::args()
        .skip_while(|argument| argument != "--threads")
        .skip(1);
    match arguments.next() {
        Some(count) => Ok(count.parse()?),
        None => Ok(std::thread::available_parallelism()?.get()),
    }
}

/// A greedy request of exactly so many tokens, whose prompt is another for each `seed`. It leaves nothing
/// in the prefix cache and finds nothing there.
pub(crate) fn request(engine: &Engine, seed: usize, prompt: usize, max_tokens: u32) -> Request {
    let vocab = engine.model_info().vocab_size;
    let ids = (0..prompt).map(|at| ((at + 31 * seed) * 7919 % vocab) as u32);
    Request {
        ignore_eos: true,
        cache: CacheUse::Off,
        ..Request::new(ids.collect(), max_tokens)
    }
}

/// Waits for the last event.
pub(crate) fn finish(mut events: UnboundedReceiver<Event>) -> Outcome<Finished> {
    while let Some(event) = events.blocking_recv() {
        match event {
            Event::Finished(finished) => return Ok(finished),
            Event::Failed(why) => return Err(why.into()),
            Event::Prompt(_) | Event::Token(_) => {}
        }
    }
    Err("the engine went away".into())
}

/// The median of some repeats, the least and the greatest.
#[derive(Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) low: f64,
    pub(crate) middle: f64,
    high: f64,
}

impl Spread {
    /// Of one value or more.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Self {
            low: values[0],
            middle: values[values.len() / 2],
            high: values[values.len() - 1],
        }
    }

    /// `median (least to greatest)`.
    pub(crate) fn show(self, digits: usize) -> String {
        let Self { low, middle, high } = self;
        format!("{middle:.digits$} ({low:.digits$} to {high:.digits$})")
    }
}
