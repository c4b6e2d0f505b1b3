//! An LLM inference engine of the Qwen3 and Qwen3.5 classes: config, weights, tokenizer, chat template, model, paged KV
//! cache, scheduler, and a backend that lists the operations.
//!
//! One thread owns the backend and the cache; the outside talks to it through [`Engine`]: submit a
//! [`Request`](request::Request), receive its [`Event`](request::Event)s. Dropping the receiver cancels
//! the request.
//!
//! Refuses to know: HTTP, the command line, and that it is being measured.

mod device_choice;
pub mod fault_value;
pub mod request;
pub mod server;
mod text;

mod backend;
mod config;
mod digest;
mod embedded;
mod executor;
mod faults;
mod files;
mod handle;
mod kv;
mod loader;
mod model;
mod options;
mod sampling;
mod scheduler;
mod speed;
mod splitmix;
mod startup;
mod stats;
mod synthetic;
mod weights;

#[cfg(test)]
use fixture::skip;

/// The CUDA backend's parts, for the tests of its kernels and for measuring a GPU.
pub mod cuda {
    pub use super::backend::cuda::device;
    pub use super::backend::cuda::driver;
    pub use super::backend::cuda::emulated;
    pub use super::backend::cuda::launch;
    pub use super::backend::cuda::times;
}

pub use crate::fault_value::Delay;
pub use backend::cuda::cache::KernelCache;
pub use backend::cuda::compile::{Module, Origin, compiler_version, modules, why_not_kept};
pub use backend::cuda::compiler::{CompileError, CompilerVersion};
pub use backend::cuda::sources::{Arch, Element};
pub use backend::cuda::spills::{AllowedSpill, allowed_spills};
pub use backend::cuda::usage::KernelUsage;
pub use config::hybrid::DeltaShape;
pub use config::{ConfigError, ModelShape};
pub use faults::Faults;
pub use files::{FileError, ModelSource};
pub use handle::{Engine, Health, MAX_LOGPROBS, SubmitError};
pub use kv::Window;
pub use options::{BackendChoice, DEFAULT_KV_BYTES, Options};
pub use speed::{Speed, SpeedError, measure_cpu, measure_gpu};
pub use startup::{ModelInfo, Stage, StartError};
pub use stats::{KvStats, StateStats, Stats};
pub use synthetic::Synthetic;
pub use text::chat::{ChatTemplate, Conversation, Ending as PromptEnding, TemplateError};
pub use text::guide::{AnswerForm, Function, Guide, GuideError};
pub use text::stop::find_stop;
pub use text::tokenizer::{TextStream, Tokenizer, TokenizerError};
pub use weights::WeightError;
