//! Shares of successes: intervals and tests.

pub mod clustered;
pub mod fisher;
pub mod mcnemar;
pub mod wilson;
