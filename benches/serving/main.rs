//! What many users of one engine feel: throughput of batches, and a short request or a decoding user
//! beside a long prompt, with that prompt in chunks and whole.
//!
//! `cargo bench --bench serving` measures the embedded model and a random one of Qwen3-0.6B's shape through
//! [`Engine`]'s handle and prints one table; `-- --quick` measures the embedded one alone, `-- --threads N`
//! takes that many threads instead of one for each core. All times but the gaps between tokens are by the
//! engine's own clock. Every ratio is taken within a round, and its median shown with the least and the
//! greatest; rounds repeat until the time of their section is up, so that the whole ends within minutes on
//! a slow machine too.

#![expect(clippy::print_stdout, reason = "a benchmark's table is its output")]

mod batch;
mod beside;
#[path = "../common/mod.rs"]
mod common;
mod table;

use std::time::{Duration, Instant};

use common::Outcome;
use engine::{Engine, ModelSource, Options};

/// Holds every request of the bench at once; the engine's default would not, on the large model.
const KV_TOKENS: usize = 8192;

/// More than any prompt here: a prompt is computed in one step.
const WHOLE: usize = 8192;

/// How often a section is repeated.
#[derive(Clone, Copy)]
struct Rounds {
    least: usize,
    most: usize,
    /// No further round begins after this time.
    time: Duration,
}

const SMALL: Rounds = Rounds {
    least: 3,
    most: 5,
    time: Duration::from_secs(15),
};

const LARGE: Rounds = Rounds {
    least: 2,
    most: 5,
    time: Duration::from_secs(60),
};

/// One model under both settings.
struct Engines {
    /// Default options: prompts in chunks.
    chunked: Engine,
    whole: Engine,
}

impl Engines {
    fn start(model: &ModelSource, threads: usize) -> Outcome<Self> {
        let chunked = Options {
            model: model.clone(),
            threads,
            kv_tokens: KV_TOKENS,
            ..Options::default()
        };
        let whole = Options {
            chunk_tokens: Some(WHOLE),
            step_tokens: Some(WHOLE),
            ..chunked.clone()
        };
        Ok(Self {
            chunked: Engine::start(chunked, &mut drop)?,
            whole: Engine::start(whole, &mut drop)?,
        })
    }
}

fn main() -> Outcome<()> {
    if !common::is_bench() {
        return Ok(());
    }
    let threads = common::threads()?;
    measure("embedded model", &ModelSource::Embedded, threads, 65, SMALL)?;
    if common::has_flag("--quick") {
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    common::model::write(directory.path())?;
    let large = ModelSource::Directory(directory.path().to_path_buf());
    let name = "0.6B-shaped random bf16 model";
    measure(name, &large, threads, 17, LARGE)
}

/// `answer`: tokens that each user of a batch generates.
fn measure(
    name: &str,
    model: &ModelSource,
    threads: usize,
    answer: u32,
    rounds: Rounds,
) -> Outcome<()> {
    let engines = Engines::start(model, threads)?;
    table::title(name, engines.chunked.model_info());
    let batches = repeat(rounds, |_| batch::round(&engines.chunked, answer))?;
    table::batches(answer, &batches);
    let arrivals = repeat(rounds, |at| both(&engines, at, beside::short_beside_long))?;
    table::arrivals(&arrivals);
    let gaps = repeat(rounds, |at| both(&engines, at, beside::user_beside_long))?;
    table::gaps(&gaps);
    Ok(())
}

fn repeat<T>(rounds: Rounds, mut round: impl FnMut(usize) -> Outcome<T>) -> Outcome<Vec<T>> {
    let start = Instant::now();
    let mut results = Vec::new();
    while results.len() < rounds.least
        || results.len() < rounds.most && start.elapsed() < rounds.time
    {
        results.push(round(results.len())?);
    }
    Ok(results)
}

/// A round's result in chunks, and with prompts whole.
struct Both<T> {
    chunked: T,
    whole: T,
}

/// Either engine comes first in every other round.
fn both<T>(
    engines: &Engines,
    round: usize,
    measure: impl Fn(&Engine) -> Outcome<T>,
) -> Outcome<Both<T>> {
    if round.is_multiple_of(2) {
        let chunked = measure(&engines.chunked)?;
        let whole = measure(&engines.whole)?;
        Ok(Both { chunked, whole })
    } else {
        let whole = measure(&engines.whole)?;
        let chunked = measure(&engines.chunked)?;
        Ok(Both { chunked, whole })
    }
}
