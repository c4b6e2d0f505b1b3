//! Time that a session takes, and gates shared among machines by it.

pub mod estimate;
pub mod least;
pub mod shards;
