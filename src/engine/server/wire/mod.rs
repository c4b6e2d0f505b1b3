//! The HTTP API's bodies: OpenAI's, with vLLM's and llama.cpp's additions.
//!
//! Plain types: requests are read strictly by serde ([`json`]), answers are serialised. Refuses to know: axum's
//! routes, the order of chunks, the engine's events.

pub mod chat;
mod common;
pub mod completions;
pub mod error;
mod form;
mod json;
pub mod logprobs;
pub mod models;
mod neutral;
mod parameters;
pub mod sampling;
pub mod stops;
#[cfg(test)]
mod tests;
pub mod tokenize;
pub mod truncate;
pub mod usage;

pub use common::{Common, Delivery, Show, StreamUsage};
pub use error::ApiError;
