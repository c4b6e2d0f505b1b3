//! infergate: a regression gate for LLM inference engines.
mod digest;
pub mod engine;
pub mod launch;
pub mod plan;
pub mod record;
