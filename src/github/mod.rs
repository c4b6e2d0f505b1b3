//! Everything that speaks to GitHub: its REST API through one patient [`Client`], and what GitHub Actions hands
//! to a job and takes from it ([`event`], [`actions`]).
//!
//! The client sends, waits as GitHub asks it to, and says what was refused and what mends it; one file each for
//! pull requests, labels, permissions, statuses and dispatches lays GitHub's routes on it. All text that comes
//! back is somebody else's: names and messages are carried as data, cleaned before they are shown ([`clean`]).
//!
//! Refuses to know: what a verdict is, which label belongs to which path, who may run (`commands` decides), and
//! any file but those that Actions names.

pub mod actions;
mod clock;
pub mod event;
mod http;
mod identity;
mod pulls;
mod repository;
mod runs;
mod text;
mod wire;

pub use clock::{Clock, SystemClock};
pub use http::client::Client;
pub use http::error::{Error, EventError, Refusal};
pub use http::route::segment;
pub use http::token::Token;
pub use identity::ACTIONS_BOT_ID;
pub use pulls::branch::Tip;
pub use pulls::comment::StickyComment;
pub use pulls::labels::LabelEvent;
pub use pulls::permission::{Permission, PersonKind};
pub use pulls::pull::{ChangedFile, Comparison, MOST_COMPARED, MOST_FILES, Pull};
pub use pulls::queue::{QueueBranch, QueueEvent};
pub use repository::{Repository, Sha};
pub use runs::check_run::{CheckAnnotation, CheckName, CheckRun, CheckText, MOST_ANNOTATIONS};
pub use runs::commit_status::{CommitStatus, NewStatus, State};
pub use runs::workflow_run::WorkflowRun;
pub use text::clean;
