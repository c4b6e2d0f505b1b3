//! Times and rates: of requests, conversations, users, starts and whole workloads.

pub mod ambiguous;
pub mod contradiction;
pub mod occupancy;
pub mod phases;
pub mod request;
pub mod session;
pub mod staggered;
pub mod startup;
pub mod throughput;
