//! Answers against references, against one another, and against a project's own tests.

pub mod answers;
pub mod differences;
pub mod golden;
pub mod golden_text;
pub mod near_tie;
pub mod scored;
pub mod suite;
pub mod tasks;
