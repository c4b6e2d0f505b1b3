//! What goes over HTTP: OpenAI's requests and answers with vLLM's and llama.cpp's additions.
//!
//! Plain types: requests are read strictly ([`fields`]), answers are serialised. Refuses to know: axum's
//! routes, the order of chunks, the engine's events.

pub mod chat;
mod common;
pub mod completions;
pub mod error;
mod fields;
pub mod logprobs;
pub mod models;
mod neutral;
pub mod sampling;
mod shown;
pub mod stops;
pub mod usage;

pub use common::{Common, Delivery, Show, StreamUsage};
pub use error::ApiError;
