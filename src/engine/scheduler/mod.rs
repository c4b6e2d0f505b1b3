//! The worker thread: takes requests from the queue and computes them together, first come, first served.
//!
//! Main function: [`work`], the thread's whole life. The decision on a step (`plan`, pure), its execution
//! (`worker`), what its answers mean (`resolve`) and what callers are told (`effects`) are apart. Refuses to
//! know: how the network computes.

pub mod admission;
mod effects;
pub mod heartbeat;
mod plan;
mod queue;
mod resolve;
mod sequence;
mod setup;
pub mod shared;
mod warm_up;
mod worker;

#[cfg(test)]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::Sender;

pub use queue::{Pending, Refusal};
pub use setup::Setup;
pub use shared::Shared;

use super::backend::cpu::CpuBackend;
use super::backend::cuda::CudaBackend;
use super::backend::cuda::device::{Device, DeviceError};
use super::backend::cuda::driver::Driver;
use super::backend::cuda::emulated::Emulated;
use super::backend::cuda::times::KernelTimes;
use super::backend::{Backend, BackendError, Room};
use super::device_choice::Compute;
use super::executor::Executor;
use super::kv::{PAGE_TOKENS, StatePool};
use super::model::{Model, logit_rows};
use super::startup::{ModelInfo, Stage, StartError, timed};
use worker::Worker;

/// What the worker says while it comes up.
pub enum Progress {
    Stage(Stage),
    Ready(Box<ModelInfo>),
    Failed(StartError),
}

/// Comes up, answers requests until the queue is closed and empty, ends. A panic becomes a bad health and
/// failed requests. `times`: where a GPU tells what its kernels take. `progress` is dropped once the worker is up.
pub fn work(
    setup: Setup,
    compute: Compute,
    times: Option<Arc<KernelTimes>>,
    shared: &Shared,
    progress: Sender<Progress>,
) {
    let threads = setup.threads;
    match compute {
        Compute::Cpu => {
            let refused = |error: BackendError| StartError::Cpu(error.to_string());
            let cpu = |_: Report<'_>| CpuBackend::new(threads).map_err(refused);
            work_on(cpu, setup, shared, progress);
        }
        Compute::Cuda { equipped, .. } => {
            let start = || {
                let mut driver = Driver::start(*equipped)?;
                driver.tell(times);
                Ok(driver)
            };
            let cuda = |report: Report<'_>| on_device(report, start);
            work_on(cuda, setup, shared, progress);
        }
        Compute::Emulated(sources, element) => {
            let build = || {
                let mut emulated = Emulated::build(&sources, element)?;
                emulated.tell(times);
                Ok(emulated)
            };
            let emulated = |report: Report<'_>| on_device(report, build);
            work_on(emulated, setup, shared, progress);
        }
    }
}

type Report<'a> = &'a mut dyn FnMut(Stage);

/// A device's start takes a share of the whole that is worth a stage of its own.
fn on_device<D: Device>(
    report: Report<'_>,
    start: impl FnOnce() -> Result<D, DeviceError>,
) -> Result<CudaBackend<D>, StartError> {
    let device = timed("backend", report, start).map_err(StartError::Backend)?;
    Ok(CudaBackend::new(device))
}

/// `backend` is made on this thread.
fn work_on<B: Backend>(
    backend: impl FnOnce(Report<'_>) -> Result<B, StartError>,
    setup: Setup,
    shared: &Shared,
    progress: Sender<Progress>,
) {
    let (mut worker, info) = match come_up(backend, setup, shared, &progress) {
        Ok(up) => up,
        Err(error) => {
            shared.end();
            return drop(progress.send(Progress::Failed(error)));
        }
    };
    drop(progress.send(Progress::Ready(Box::new(info))));
    drop(progress);
    live(&mut worker, shared);
}

/// Works to the end; where that is a panic, or the loss of what computes, nobody is left untold.
fn live<E: Executor>(worker: &mut Worker<E>, shared: &Shared) {
    let why = match catch_unwind(AssertUnwindSafe(|| worker.run(shared))) {
        Ok(Ok(())) => return shared.end(),
        Ok(Err(lost)) => lost,
        // The panic itself has been printed.
        Err(_) => "a panic".to_owned(),
    };
    let said = shared.die(why);
    worker.fail_all(&said, shared);
}

fn come_up<B: Backend>(
    backend: impl FnOnce(Report<'_>) -> Result<B, StartError>,
    setup: Setup,
    shared: &Shared,
    progress: &Sender<Progress>,
) -> Result<(Worker<Model<B>>, ModelInfo), StartError> {
    let mut report = |stage| drop(progress.send(Progress::Stage(stage)));
    let Setup {
        threads: _,
        config,
        weights,
        name,
        pages,
        page_bytes,
        state_bytes,
        snapshots,
        max_context,
        window,
        rules,
        planted,
    } = setup;
    let (shape, vocab) = (config.shape(), config.vocab);
    let (eos, sampling) = (config.eos.clone(), config.sampling.clone());
    let room = Room {
        rows: rules.limits.step_tokens,
        answers: logit_rows(rules.limits.running),
        sequences: rules.limits.running,
        context: max_context,
    };
    let running = rules.limits.running;
    let states = match rules.recurrent {
        true => StatePool::new(running, snapshots),
        false => StatePool::default(),
    };
    let backend = backend(&mut report)?;
    let mut model = timed(weights.stage(), &mut report, || {
        let states = running + snapshots;
        Model::load(backend, config, &weights, pages, states, window, room)
    })?;
    drop(weights);
    let info = ModelInfo {
        name,
        max_context,
        vocab_size: vocab,
        shape,
        dtype: model.facts().dtype.to_owned(),
        parameters: model.facts().parameters,
        unread: model.facts().unread.clone(),
        eos: eos.clone(),
        threads: model.backend().threads(),
        backend: model.backend().name(),
        kernels: model.backend().kernels().to_owned(),
        batch_invariant: model.backend().batch_invariant(),
        window,
        sampling,
    };
    if !model.backend().dummy_runs().is_empty() {
        timed("graph_capture", &mut report, || model.dummy_run_all())
            .map_err(|error| StartError::WarmUp(error.to_string()))?;
    }
    timed("warm_up", &mut report, || {
        warm_up::run(&mut model, rules.limits.step_tokens)
    })
    .map_err(StartError::WarmUp)?;
    let counters = &shared.counters;
    counters.page_tokens.set(PAGE_TOKENS as u64);
    counters.page_bytes.set(page_bytes as u64);
    counters.pages_total.set(pages as u64);
    counters.state_bytes.set(state_bytes as u64);
    counters.record(model.recordings());
    let worker = Worker::new(model, pages, states, rules, eos, vocab, planted);
    Ok((worker, info))
}
