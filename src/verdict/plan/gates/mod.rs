//! Files of one gate: its workloads, checks and data.

pub mod check;
pub mod compatibility;
pub mod data;
pub mod gate;
pub mod goldens;
pub mod series;
pub mod trace;
pub mod workload;
