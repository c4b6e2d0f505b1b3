//! Everything that speaks to GitHub: its REST API through one patient [`Client`], and what GitHub Actions hands
//! to a job and takes from it ([`event`], [`actions`]).
//!
//! The client sends, waits as GitHub asks it to, and says what was refused and what mends it; one file each for
//! pull requests, labels, permissions, statuses and dispatches lays GitHub's routes on it. All text that comes
//! back is somebody else's: names and messages are carried as data, cleaned before they are shown ([`clean`]).
//!
//! Refuses to know: what a verdict is, which label belongs to which path, who may run (`pipeline` decides), and
//! any file but those that Actions names.

pub mod actions;
mod address;
mod branch;
mod check_run;
mod client;
mod clock;
mod comment;
mod commit_status;
mod dispatch;
mod error;
pub mod event;
mod exchange;
mod identity;
mod labels;
mod link;
mod permission;
mod pull;
mod queue;
mod repository;
mod retry;
mod route;
mod text;
mod token;
mod wire;
mod workflow_run;

pub use branch::Tip;
pub use check_run::{CheckAnnotation, CheckName, CheckRun, CheckText, MOST_ANNOTATIONS};
pub use client::Client;
pub use clock::{Clock, SystemClock};
pub use comment::StickyComment;
pub use commit_status::{CommitStatus, NewStatus, State};
pub use error::{Error, EventError, Refusal};
pub use identity::ACTIONS_BOT_ID;
pub use labels::LabelEvent;
pub use permission::{Permission, PersonKind};
pub use pull::{ChangedFile, Comparison, MOST_COMPARED, MOST_FILES, Pull};
pub use queue::{QueueBranch, QueueEvent};
pub use repository::{Repository, Sha};
pub use route::segment;
pub use text::clean;
pub use token::Token;
pub use workflow_run::WorkflowRun;
