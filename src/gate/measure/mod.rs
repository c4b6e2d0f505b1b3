//! The protocol of a session: blocks of launches in random order, each launch's workloads in random
//! order, and what was seen beside them.
//!
//! Refuses to know: how an engine is started (it is handed a [`Host`]), where what was measured is kept
//! (it is handed a [`Follower`]), and what the numbers mean.

mod block;
mod cooldown;
mod due;
mod host;
mod launching;
mod machine;
mod order;
mod stages;

pub use host::{Configuration, Ended, Follower, Host, Progress, Started};
pub use launching::Protocol;
pub use machine::{machine, read};
