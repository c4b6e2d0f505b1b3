//! Errors of every command: those of the stages, and of wrong use.

use super::files::ResultsError;
use crate::baseline::{FormatError, RemoteError, StoreError};
use crate::calibration::CertificateError;
use crate::launch::{BuildError, GitError, PageCacheError, ProcessError, WorkspaceError};
use client::TokenizerError;
use verdict::plan::PlanError;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    PageCache(#[from] PageCacheError),
    #[error(transparent)]
    Results(#[from] ResultsError),
    #[error(transparent)]
    Baseline(#[from] StoreError),
    #[error(transparent)]
    Remote(#[from] RemoteError),
    #[error(transparent)]
    Record(#[from] FormatError),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    #[error(transparent)]
    GitHub(#[from] github::Error),
    /// Other arguments help.
    #[error("{0}")]
    Usage(String),
    /// Something outside failed: an engine, a server, another program.
    #[error("{0}")]
    Failed(String),
    #[error("interrupted before anything was measured")]
    Interrupted,
}

impl From<GitError> for Error {
    fn from(error: GitError) -> Self {
        Self::Workspace(error.into())
    }
}

impl From<BuildError> for Error {
    fn from(error: BuildError) -> Self {
        Self::Workspace(error.into())
    }
}
