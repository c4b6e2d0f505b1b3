//! An answer's bytes as events, tokens and text.

pub mod answer;
pub mod exchange;
pub mod fields;
pub mod logprobs;
pub mod observed;
pub mod sanitize;
pub mod sse;
pub mod steps;
pub mod token_counts;
pub mod transcript;
