//! `gate check` through the binary, against real engine processes: what must pass, what must be caught,
//! and that nothing is left running.
//!
//! These tests run beside each other on a busy machine: what is planted is large, and nothing here hangs on a small time.

mod attacks;
mod baseline;
mod broken_engines;
mod clones;
mod commits;
mod escapes;
mod faults;
mod hybrid;
mod interrupted;
mod own_numbers;
mod same_build;
mod suite;
mod turns;
