//! Readings of the engine and the machine: counters, gauges, and load beside a launch.

pub mod counter;
pub mod gauge;
pub mod interference;
