//! The worker thread: takes requests from the queue and computes them, first come, first served.
//!
//! Main function: [`work`], the thread's whole life. Decision (`plan`, pure), computing (`worker`) and
//! what a caller is told (`sequence`) are apart. Refuses to know: how the network computes.

mod plan;
mod queue;
mod sequence;
mod worker;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::Sender;

pub(crate) use queue::{Pending, Queue, Refusal};

use super::backend::cpu::CpuBackend;
use super::backend::{Ask, Backend, Pick};
use super::config::Config;
use super::faults::Planted;
use super::handle::{DEFAULT_KV_BYTES, ModelInfo, Options, StartError, timed};
use super::kv::{PAGE_TOKENS, PageId};
use super::model::Model;
use super::request::Event;
use super::stats::{Counters, Stage};
use super::weights::{Checkpoint, WeightError};
use plan::LIMITS;
use worker::Worker;

const GREEDY: Ask<'static> = Ask {
    pick: Pick::Best { banned: &[] },
    logprobs: None,
};

/// Bytes of a cached number; the CPU keeps f32.
const KV_ELEMENT_BYTES: usize = 4;

/// Where no KV room is stated, no more than this many tokens, however small the model.
const MOST_KV_TOKENS: usize = 1 << 17;

/// No machine has more: a greater count is a slip of the hand, and takes minutes to start.
const MOST_THREADS: usize = 1024;

/// Everything that the worker needs to come up.
pub(crate) struct Setup {
    config: Config,
    checkpoint: Checkpoint,
    name: String,
    threads: usize,
    pages: usize,
    max_context: usize,
    planted: Planted,
}

impl Setup {
    pub(crate) fn new(
        config: Config,
        checkpoint: Checkpoint,
        name: String,
        options: &Options,
    ) -> Result<Self, StartError> {
        let model_limit = config.max_positions;
        let wanted = options.max_context.unwrap_or(model_limit);
        if wanted == 0 || wanted > model_limit {
            return Err(StartError::Options(format!(
                "a context of {wanted} tokens was asked for; the model's is {model_limit}"
            )));
        }
        if options.threads > MOST_THREADS {
            return Err(StartError::Options(format!(
                "{} threads are more than {MOST_THREADS}; 0 takes every core",
                options.threads
            )));
        }
        let bytes_per_token = config.kv_bytes_per_token(KV_ELEMENT_BYTES);
        let pages = match options.kv_tokens {
            0 => {
                (DEFAULT_KV_BYTES / bytes_per_token).clamp(PAGE_TOKENS, MOST_KV_TOKENS)
                    / PAGE_TOKENS
            }
            tokens => stated_pages(tokens, bytes_per_token)?,
        };
        Ok(Self {
            max_context: wanted.min(pages * PAGE_TOKENS),
            config,
            checkpoint,
            name,
            threads: options.threads,
            pages,
            planted: Planted::new(options.faults.clone()),
        })
    }
}

/// Pages for the room that was asked for, if it can be had.
fn stated_pages(tokens: usize, bytes_per_token: usize) -> Result<usize, StartError> {
    let refused = |why: String| {
        Err(StartError::Options(format!(
            "room for {tokens} tokens of keys and values {why}"
        )))
    };
    if tokens < PAGE_TOKENS {
        return refused(format!("is less than a page of {PAGE_TOKENS}"));
    }
    let pages = tokens / PAGE_TOKENS;
    let bytes = tokens.checked_mul(bytes_per_token);
    if PageId::try_from(pages).is_err() || !bytes.is_some_and(CpuBackend::has_room) {
        let bytes = tokens as u128 * bytes_per_token as u128;
        return refused(format!(
            "takes {bytes} bytes ({bytes_per_token} a token), more than this machine gives"
        ));
    }
    Ok(pages)
}

/// What the worker and the callers share.
pub(crate) struct Shared {
    pub(crate) queue: Queue,
    pub(crate) counters: Counters,
    life: AtomicU8,
}

const ALIVE: u8 = 0;
const ENDED: u8 = 1;
const FAILED: u8 = 2;

impl Shared {
    pub(crate) fn new(queue_limit: usize) -> Self {
        let life = AtomicU8::new(ALIVE);
        Self {
            queue: Queue::new(queue_limit),
            counters: Counters::default(),
            life,
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.life.load(Ordering::Acquire) == ALIVE
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.life.load(Ordering::Acquire) == FAILED
    }

    /// Nothing is taken in any more; what waited is told why.
    fn end(&self, life: u8) {
        self.life.store(life, Ordering::Release);
        self.queue.close();
        while let Some(pending) = self.queue.pop(false, |_| true) {
            self.counters.failed.add(1);
            drop(pending.events.send(Event::Failed(WORKER_DIED.to_owned())));
        }
    }
}

const WORKER_DIED: &str = "the engine's worker has died";

/// What the worker says while it comes up.
pub(crate) enum Progress {
    Stage(Stage),
    Ready(ModelInfo),
    Failed(StartError),
}

/// Comes up, answers requests until the queue is closed and empty, ends. A panic becomes a bad health and
/// failed requests. `progress` is dropped once the worker is up.
pub(crate) fn work(setup: Setup, shared: &Shared, progress: Sender<Progress>) {
    let (mut worker, info) = match come_up(setup, shared, &progress) {
        Ok(up) => up,
        Err(error) => {
            shared.end(ENDED);
            return drop(progress.send(Progress::Failed(error)));
        }
    };
    drop(progress.send(Progress::Ready(info)));
    drop(progress);
    match catch_unwind(AssertUnwindSafe(|| worker.run(shared))) {
        Ok(()) => shared.end(ENDED),
        Err(_) => {
            shared.end(FAILED);
            worker.fail_all(WORKER_DIED, shared);
        }
    }
}

fn come_up(
    setup: Setup,
    shared: &Shared,
    progress: &Sender<Progress>,
) -> Result<(Worker<CpuBackend>, ModelInfo), StartError> {
    let mut report = |stage| drop(progress.send(Progress::Stage(stage)));
    let Setup {
        config,
        checkpoint,
        name,
        threads,
        pages,
        max_context,
        planted,
    } = setup;
    let (vocab, eos) = (config.vocab, config.eos.clone());
    let page_bytes = config.kv_bytes_per_token(KV_ELEMENT_BYTES) * PAGE_TOKENS;
    let max_rows = LIMITS.rows.min(max_context);
    let model = timed("weights_upload", &mut report, || {
        let backend = CpuBackend::new(threads).map_err(|error| WeightError::Upload {
            tensor: "(no tensor yet)".to_owned(),
            cause: error.to_string(),
        })?;
        Model::load(backend, config, &checkpoint, pages, max_rows)
    })?;
    drop(checkpoint);
    let info = ModelInfo {
        name,
        max_context,
        vocab_size: vocab,
        dtype: model.facts().dtype.to_owned(),
        parameters: model.facts().parameters,
        eos: eos.clone(),
        threads: model.backend().threads(),
        kernels: model.backend().kernels(),
        batch_invariant: model.backend().batch_invariant(),
    };
    let limits = plan::Limits {
        rows: max_rows,
        ..LIMITS
    };
    let mut worker = Worker::new(model, pages, limits, eos, vocab, planted);
    timed("warm_up", &mut report, || worker.warm_up()).map_err(StartError::WarmUp)?;
    let counters = &shared.counters;
    counters.page_tokens.set(PAGE_TOKENS as u64);
    counters.page_bytes.set(page_bytes as u64);
    counters.pages_total.set(pages as u64);
    Ok((worker, info))
}
