//! The protocol of a session: blocks of launches in random order, each launch's workloads in random
//! order, and what was seen beside them.
//!
//! Refuses to know: how an engine is started (it is handed a [`Host`]), and what the numbers mean.

mod block;
mod machine;
mod order;
mod stages;

pub use block::{Host, Progress, Protocol, Started};
pub use machine::machine;
