//! Stages, result and errors of an engine's start.

use std::time::{Duration, Instant};

use super::backend::cuda::device::DeviceError;
use super::config::{ConfigError, ModelShape};
use super::files::FileError;
use super::kv::Window;
use super::request::Sampling;
use super::text::tokenizer::TokenizerError;
use super::weights::WeightError;

/// Facts about the model that is served.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelInfo {
    pub name: String,
    /// Longest prompt and answer together, in tokens.
    pub max_context: usize,
    pub vocab_size: usize,
    pub shape: ModelShape,
    /// Of the weights as stored: `bf16`, `f16` or `f32`.
    pub dtype: String,
    /// Numbers in the weights; tied embeddings count once.
    pub parameters: u64,
    /// Names of stored tensors that nothing is computed from.
    pub unread: Vec<String>,
    /// End-of-sequence ids, ascending.
    pub eos: Vec<u32>,
    pub threads: usize,
    /// `cpu` or `cuda`.
    pub backend: &'static str,
    /// Vector instructions in use, `avx512`, `avx2` or `portable`; or the GPU's name.
    pub kernels: String,
    /// Greedy answers depend on the history alone, not on how it was cut or what ran beside it.
    pub batch_invariant: bool,
    pub window: Option<Window>,
    /// What the model's `generation_config.json` would have where a request says nothing.
    pub sampling: Sampling,
}

/// The engine could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    #[error(transparent)]
    Weights(#[from] WeightError),
    #[error("{0}")]
    Options(String),
    #[error("the CUDA backend cannot be used: {0}")]
    Backend(DeviceError),
    #[error("the CPU backend cannot be used: {0}")]
    Cpu(String),
    #[error("the warm-up failed: {0}")]
    WarmUp(String),
    #[error("the worker thread could not start")]
    Thread(#[source] std::io::Error),
    #[error("the worker thread ended while it started")]
    WorkerGone,
    /// By [`Faults::die_at_start`](super::Faults::die_at_start).
    #[error("start-up ended by a planted fault")]
    PlantedDeath,
}

pub fn timed<T, E>(
    name: &'static str,
    report: &mut dyn FnMut(Stage),
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let start = Instant::now();
    let done = work()?;
    report(Stage {
        name,
        elapsed: start.elapsed(),
    });
    Ok(done)
}

/// One step of start-up and the time it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// `config`, `tokenizer`, `weights_map`, `weights_upload` (of random weights `weights_made`) or `warm_up`; on a
    /// GPU also `driver`, `kernel_cache`, `backend` and `graph_capture`.
    pub name: &'static str,
    pub elapsed: Duration,
}
