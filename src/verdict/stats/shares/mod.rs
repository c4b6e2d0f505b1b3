//! Shares of successes: intervals and tests.

pub mod mcnemar;
pub mod wilson;
