//! What goes over HTTP: OpenAI's requests and answers with vLLM's and llama.cpp's additions.
//!
//! Plain types: requests are read strictly ([`fields`]), answers are serialised. Refuses to know: axum's
//! routes, the order of chunks, the engine's events.

pub(crate) mod chat;
mod common;
pub(crate) mod completions;
pub(crate) mod error;
mod fields;
pub(crate) mod logprobs;
pub(crate) mod models;
mod neutral;
pub(crate) mod sampling;
mod shown;
pub(crate) mod stops;
pub(crate) mod usage;

pub(crate) use common::{Common, Delivery, Show, StreamUsage};
pub(crate) use error::ApiError;
