//! An LLM inference engine of the Qwen3 class: config, weights, tokenizer, chat template, model, paged KV
//! cache, scheduler, and a backend that lists the operations.
//!
//! One thread owns the backend and the cache; the outside talks to it through [`Engine`]: submit a
//! [`Request`](request::Request), receive its [`Event`](request::Event)s. Dropping the receiver cancels
//! the request.
//!
//! Refuses to know: HTTP, the command line, and that it is being measured.

pub mod request;

mod backend;
mod chat;
mod config;
mod embedded;
mod executor;
mod faults;
mod files;
mod handle;
mod kv;
mod model;
mod sampling;
mod scheduler;
mod stats;
mod stop;
mod tokenizer;
mod weights;

pub use chat::{ChatTemplate, Message, TemplateError};
pub use config::ConfigError;
pub use faults::{Delay, Faults};
pub use files::{FileError, ModelSource};
pub use handle::{
    DEFAULT_KV_BYTES, Engine, Health, MAX_LOGPROBS, ModelInfo, Options, StartError, SubmitError,
    Window,
};
pub use stats::{KvStats, Stage, Stats};
pub use stop::find_stop;
pub use tokenizer::{TextStream, Tokenizer, TokenizerError};
pub use weights::WeightError;
