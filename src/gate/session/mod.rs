//! Parts of a measured session: opening a project, building, launching, measuring, judging and writing.
//!
//! The [commands](crate::commands) put them together. Main function: [`run()`].

pub mod arms;
pub mod checkpoint;
pub mod figures;
pub mod files;
pub mod host;
pub mod launch_cost;
pub mod null_sessions;
pub mod project;
pub mod rendering;
pub mod results;
pub mod sources;

pub mod baseline;
pub mod citation;
pub mod resume;

mod error;
mod event;
mod github;
mod options;
mod run;
mod suite;

pub use baseline::{Recorded, record_baseline};
pub use error::Error;
pub use event::Event;
pub use files::ResultsError;
pub use github::GitHubOptions;
pub use options::{Base, Options, Outcome};
pub use rendering::{Form, rendered};
pub use results::judge_directory;
pub use resume::resume;
pub use run::{Goal, run, run_until};

use project::{Place, Project, new_record, now};
use sources::build_arms;
