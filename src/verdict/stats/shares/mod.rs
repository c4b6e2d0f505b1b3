//! Shares of successes: intervals and tests.

pub mod binomial;
pub mod clustered;
pub mod fisher;
pub mod wilson;
