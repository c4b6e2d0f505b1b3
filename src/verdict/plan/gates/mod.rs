//! Files of one gate: its workloads, checks and data.

pub mod check;
pub mod data;
pub mod fit;
pub mod gate;
pub mod goldens;
pub mod series;
pub mod trace;
pub mod workload;
