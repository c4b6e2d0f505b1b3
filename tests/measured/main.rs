//! Sessions that measure, against real engine processes: what must pass, what must be caught. They run one at a time,
//! whatever the number of test threads, with nothing beside them but the tutorial.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod demo;
mod every_gate;
mod faults;
mod null;
mod profiles;
mod scaled;
mod tutorial;
