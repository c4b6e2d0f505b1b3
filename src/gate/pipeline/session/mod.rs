//! Parts of a measured session: opening a project, building, launching, measuring, judging and writing.
//!
//! The commands beside this folder put them together. Main function: [`run()`].

pub mod checkpoint;
pub mod files;
pub mod host;
pub mod project;
pub mod rendering;
pub mod results;
pub mod sources;

mod error;
mod event;
mod options;
mod run;
mod suite;

pub use error::Error;
pub use event::Event;
pub use files::ResultsError;
pub use options::{Base, Options, Outcome};
pub use rendering::{Form, rendered};
pub use results::judge_directory;
pub use run::{Goal, run, run_until};

use project::Project;
