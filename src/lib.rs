//! infergate: a regression gate for LLM inference engines.
pub mod engine;
pub mod plan;
pub mod record;
