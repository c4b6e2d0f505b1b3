//! Error rates and power: several tests, repeated looks, and the number of values that a test needs.

pub mod holm;
pub mod midpoint_test;
pub mod power;
pub mod spending;
