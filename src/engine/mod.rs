//! An LLM inference engine of the Qwen3 class: config, weights, tokenizer, chat template, model, paged KV
//! cache, scheduler, and a backend that lists the operations.
//!
//! One thread owns the backend and the cache; the outside talks to it through [`Engine`]: submit a
//! [`Request`], receive its [`Event`]s. Dropping the receiver cancels the request.
//!
//! Refuses to know: HTTP, the command line, and that it is being measured.

pub mod request;
