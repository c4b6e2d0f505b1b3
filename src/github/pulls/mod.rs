//! Pull requests: their files, comments and labels, the merge queue, and what a person may do.

pub mod branch;
pub mod comment;
pub mod labels;
pub mod permission;
pub mod pull;
pub mod queue;
