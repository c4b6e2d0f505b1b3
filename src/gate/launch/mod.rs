//! From a git ref to a running engine and back to nothing: build, start, await ready, stop the whole tree.
//!
//! [`Workspace`] knows the project's trees and what was built from them; [`Process`] is one engine from
//! spawn to exit, whose drop leaves nothing running.
//!
//! Refuses to know: what is measured, and HTTP (readiness is asked through a function that it is handed).

mod artifact;
mod build;
mod environment;
mod git;
mod identity;
mod lock;
mod log;
mod page_cache;
mod ports;
mod process;
mod readiness;
mod scratch;
mod sockets;
mod suite;
mod toolchain;
mod tree;
mod tree_files;
pub mod watchdog;
mod workspace;

pub use artifact::{Artifact, open_plain, sha256};
pub use build::BuildError;
pub use git::{GitError, Repository};
pub use identity::{identify, program};
pub use lock::LockError;
pub use log::tail;
pub use page_cache::{PageCacheError, prepare};
pub use ports::free_port;
pub use process::{Process, ProcessError, Start};
pub use readiness::{Limits, NotReady, Patience, Ready, StartError, await_ready};
pub use sockets::Sockets;
pub use suite::{SuiteJob, Tested, TestedEnd};
pub use tree_files::TreeFiles;
pub use workspace::{Origin, Workspace, WorkspaceError, settings_around};
