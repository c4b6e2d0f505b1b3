//! Choice of the device: the one asked for, or what is there.
//!
//! Main types: [`BackendChoice`] and `Compute`. Where CUDA is not asked for by name, whatever it lacks leads
//! to the CPU, with the reason. Refuses to know: how either computes.

use super::backend::cuda::cache::KernelCache;
use super::backend::cuda::device::DeviceError;
use super::backend::cuda::driver::{Card, Equipped};
use super::backend::cuda::emulated::EmulatorSources;
use super::backend::cuda::sources::Element;
use super::backend::cuda::supports;
use super::config::Config;
use super::options::BackendChoice;
use super::startup::{Stage, StartError, timed};

/// What an engine computes with.
pub enum Compute {
    Cpu,
    Cuda {
        equipped: Box<Equipped>,
        /// Of the GPU's memory.
        free_bytes: usize,
    },
    Emulated(EmulatorSources, Element),
}

/// The memory behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ground {
    /// Bytes of a cached number.
    pub kv_element_bytes: usize,
    /// Each value head of a recurrent state has its own copy of its key head's inputs.
    pub state_by_value_head: bool,
    /// Bytes that weights, activations, keys and values may take together; `None`: the system's own
    /// memory, which is taken as it is used.
    pub free_bytes: Option<usize>,
    /// Tokens of a step, and of one prompt in it, where nothing else is asked for.
    pub step_tokens: usize,
    pub chunk_tokens: usize,
}

/// The CPU keeps keys and values in f32. A step of so many tokens takes it long enough for who waits beside it.
const CPU_GROUND: Ground = Ground {
    kv_element_bytes: 4,
    state_by_value_head: false,
    free_bytes: None,
    step_tokens: 256,
    chunk_tokens: 128,
};

/// On a GPU a step reads all weights for 128 tokens in the time that it computes them in: only from some hundred on is
/// it bound by arithmetic.
const GPU_STEP_TOKENS: usize = 2_048;

/// Memory that the driver, its libraries and CUDA graphs take for themselves, and what chunks of a hybrid's prompts need (Qwen3.5-9B:
/// 230 MB in steps of 2,048 rows).
const GPU_RESERVE: usize = 1 << 30;

impl Compute {
    /// What is there of what was asked for, and why it is not CUDA where that was possible. `element`: the
    /// type of the model's matrices.
    pub fn choose(
        choice: &BackendChoice,
        config: &Config,
        element: Element,
        report: &mut dyn FnMut(Stage),
    ) -> Result<(Self, Option<String>), StartError> {
        match choice {
            BackendChoice::Cpu => Ok((Self::Cpu, None)),
            BackendChoice::Cuda => match Self::cuda(config, element, report) {
                Ok(cuda) => Ok((cuda, None)),
                Err(error) => Err(StartError::Backend(error)),
            },
            BackendChoice::Auto => match Self::cuda(config, element, report) {
                Ok(cuda) => Ok((cuda, None)),
                Err(error) => Ok((Self::Cpu, Some(error.to_string()))),
            },
            BackendChoice::Emulated(sources) => {
                supports(config).map_err(StartError::Backend)?;
                Ok((Self::Emulated(sources.clone(), element), None))
            }
        }
    }

    fn cuda(
        config: &Config,
        element: Element,
        report: &mut dyn FnMut(Stage),
    ) -> Result<Self, DeviceError> {
        supports(config)?;
        let card = timed("driver", report, Card::find)?;
        let cache = KernelCache::from_environment();
        let equipped = timed("kernel_cache", report, || card.equip(element, &cache))?;
        Ok(Self::Cuda {
            free_bytes: equipped.free_bytes()?,
            equipped: Box::new(equipped),
        })
    }

    pub fn ground(&self) -> Ground {
        match self {
            Self::Cpu => CPU_GROUND,
            Self::Cuda {
                equipped,
                free_bytes,
            } => Ground {
                kv_element_bytes: equipped.element().bytes(),
                state_by_value_head: true,
                free_bytes: Some(free_bytes.saturating_sub(GPU_RESERVE)),
                step_tokens: GPU_STEP_TOKENS,
                chunk_tokens: GPU_STEP_TOKENS,
            },
            Self::Emulated(_, element) => Ground {
                kv_element_bytes: element.bytes(),
                state_by_value_head: true,
                ..CPU_GROUND
            },
        }
    }

    /// Where kernels were compiled that the next start has to compile again: why.
    pub fn not_kept(&self) -> Option<&str> {
        match self {
            Self::Cuda { equipped, .. } => equipped.not_kept(),
            Self::Cpu | Self::Emulated(..) => None,
        }
    }
}
