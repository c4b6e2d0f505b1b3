//! Runs and results on a commit: check runs, commit statuses, dispatched workflows.

pub mod check_run;
pub mod commit_status;
pub mod dispatch;
pub mod workflow_run;
