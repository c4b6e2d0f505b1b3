//! Options for starting an engine.
//!
//! Main type: [`Options`]. Refuses to know: whether they fit together, which starting finds out.

use std::sync::Arc;
use std::time::Duration;

use super::backend::cuda::emulated::EmulatorSources;
use super::backend::cuda::times::KernelTimes;
use super::faults::Faults;
use super::files::ModelSource;
use super::kv::Window;

/// Room for keys and values where none is stated. The memory is taken as pages are first used.
pub const DEFAULT_KV_BYTES: usize = 1 << 30;

/// How to start an engine.
#[derive(Clone, Debug)]
pub struct Options {
    pub model: ModelSource,
    pub backend: BackendChoice,
    /// The name it answers to; by default the directory's name.
    pub served_name: Option<String>,
    /// Worker threads; 0 takes every core.
    pub threads: usize,
    /// Room for keys and values, in tokens; 0 takes what fits [`DEFAULT_KV_BYTES`].
    pub kv_tokens: usize,
    /// Longest prompt and answer together; by default the model's own limit.
    pub max_context: Option<usize>,
    /// Requests that may wait.
    pub queue_limit: usize,
    /// Requests that are computed together at the most.
    pub running: usize,
    /// Tokens that one step computes at the most, prompts and answers together; `None`: as suits the backend.
    pub step_tokens: Option<usize>,
    /// Prompt tokens of one request in a step at the most; `None`: as suits the backend.
    pub chunk_tokens: Option<usize>,
    pub window: Option<Window>,
    /// Keep keys and values of ended requests for those that begin alike.
    pub prefix_cache: bool,
    /// Recurrent states of a hybrid model that the prefix cache keeps; `None`: those that fit 1 GiB.
    pub snapshots: Option<usize>,
    /// Bytes for weights, activations, recurrent states, keys and values together; the last take what the others leave.
    pub memory_limit: Option<u64>,
    /// A step that takes longer is taken for a hang: see [`Health::Stalled`](super::Health::Stalled).
    pub stall_after: Duration,
    pub faults: Faults,
    /// Times each kernel of the CUDA graphs, which take longer then.
    pub kernel_times: Option<Arc<KernelTimes>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            model: ModelSource::Embedded,
            backend: BackendChoice::default(),
            served_name: None,
            threads: 0,
            kv_tokens: 0,
            max_context: None,
            queue_limit: 1024,
            running: 64,
            step_tokens: None,
            chunk_tokens: None,
            window: None,
            prefix_cache: true,
            snapshots: None,
            memory_limit: None,
            stall_after: Duration::from_secs(60),
            faults: Faults::default(),
            kernel_times: None,
        }
    }
}

/// What an engine is asked to compute with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// A GPU where there is one and all that it needs, else the CPU.
    Auto,
    #[default]
    Cpu,
    Cuda,
    /// The GPU's kernels, run on the CPU: for tests.
    Emulated(EmulatorSources),
}
