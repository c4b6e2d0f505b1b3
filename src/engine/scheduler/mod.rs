//! The worker thread: takes requests from the queue and computes them together, first come, first served.
//!
//! Main function: [`work`], the thread's whole life. The decision on a step (`plan`, pure), its execution
//! (`worker`), what its answers mean (`resolve`) and what callers are told (`effects`) are apart. Refuses to
//! know: how the network computes.

mod effects;
mod life;
mod place;
mod plan;
mod pulse;
mod queue;
mod resolve;
mod sequence;
mod setup;
mod warm_up;
mod worker;

#[cfg(test)]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::Sender;

pub(crate) use life::Shared;
pub(crate) use queue::{Pending, Refusal};
pub(crate) use setup::Setup;

use super::backend::Backend;
use super::backend::cpu::CpuBackend;
use super::executor::Executor;
use super::handle::{ModelInfo, StartError, timed};
use super::kv::PAGE_TOKENS;
use super::model::Model;
use super::stats::Stage;
use super::weights::WeightError;
use life::WORKER_DIED;
use worker::Worker;

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
            shared.end();
            return drop(progress.send(Progress::Failed(error)));
        }
    };
    drop(progress.send(Progress::Ready(info)));
    drop(progress);
    live(&mut worker, shared);
}

/// Works to the end; after a panic nobody is left untold.
fn live<E: Executor>(worker: &mut Worker<E>, shared: &Shared) {
    match catch_unwind(AssertUnwindSafe(|| worker.run(shared))) {
        Ok(()) => shared.end(),
        Err(_) => {
            shared.fail();
            worker.fail_all(WORKER_DIED, shared);
        }
    }
}

fn come_up(
    setup: Setup,
    shared: &Shared,
    progress: &Sender<Progress>,
) -> Result<(Worker<Model<CpuBackend>>, ModelInfo), StartError> {
    let mut report = |stage| drop(progress.send(Progress::Stage(stage)));
    let Setup {
        config,
        checkpoint,
        name,
        threads,
        pages,
        page_bytes,
        max_context,
        window,
        rules,
        planted,
    } = setup;
    let (vocab, eos, sampling) = (config.vocab, config.eos.clone(), config.sampling.clone());
    let mut model = timed("weights_upload", &mut report, || {
        let backend = CpuBackend::new(threads).map_err(|error| WeightError::Upload {
            tensor: "(no tensor yet)".to_owned(),
            cause: error.to_string(),
        })?;
        let rows = rules.limits.step_tokens;
        Model::load(backend, config, &checkpoint, pages, window, rows)
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
        window,
        sampling,
    };
    timed("warm_up", &mut report, || warm_up::run(&mut model)).map_err(StartError::WarmUp)?;
    let counters = &shared.counters;
    counters.page_tokens.set(PAGE_TOKENS as u64);
    counters.page_bytes.set(page_bytes as u64);
    counters.pages_total.set(pages as u64);
    let worker = Worker::new(model, pages, rules, eos, vocab, planted);
    Ok((worker, info))
}
