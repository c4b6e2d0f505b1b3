//! Errors on standard error: the chain of causes, a hint, and the exit code that belongs to them.

use super::serve;
use crate::baseline::{RemoteError, StoreError};
use crate::calibration::CertificateError;
use crate::cli::{Exit, output};
use crate::launch::{BuildError, GitError, LockError, ProcessError, WorkspaceError};
use crate::proxy::{EngineError, RecordError};
use crate::session::{Error, ResultsError};
use anstyle::{AnsiColor, Style};
use github::Error as GitHubError;
use std::fmt::Write;
use std::io;
use verdict::plan::PlanError;

/// Prints the error and says how to end.
pub fn print(error: &anyhow::Error) -> Exit {
    let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
    // A refused plan is shown with carets and names itself an error.
    match plan_error(error) {
        Some(refused @ PlanError::Refused(_)) => output::error(&refused.render(true)),
        _ => output::error(&format!("{red}error{red:#}: {}", chain(error))),
    }
    if let Some(hint) = hint(error) {
        let cyan = Style::new().bold().fg_color(Some(AnsiColor::Cyan.into()));
        output::error(&format!("{cyan}hint{cyan:#}: {hint}"));
    }
    exit(error)
}

fn chain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let _ = write!(text, "\n  caused by: {cause}");
    }
    text
}

fn plan_error(error: &anyhow::Error) -> Option<&PlanError> {
    match error.downcast_ref()? {
        Error::Plan(plan) | Error::Results(ResultsError::Plan(plan)) => Some(plan),
        _ => None,
    }
}

fn exit(error: &anyhow::Error) -> Exit {
    match error.downcast_ref::<Error>() {
        Some(Error::Plan(_) | Error::Tokenizer(_) | Error::Usage(_)) => Exit::Usage,
        Some(Error::Interrupted) => Exit::Interrupted,
        Some(Error::Results(error)) => results_exit(error),
        Some(Error::Workspace(WorkspaceError::Git(error))) => git_exit(error),
        Some(Error::Workspace(WorkspaceError::Sandbox(_) | WorkspaceError::TreeOfAnother(_))) => {
            Exit::Usage
        }
        Some(Error::GitHub(error)) => github_exit(error),
        Some(Error::Remote(error)) => remote_exit(error),
        Some(
            Error::Workspace(_)
            | Error::Process(_)
            | Error::PageCache(_)
            | Error::Baseline(_)
            | Error::Record(_)
            | Error::Certificate(_)
            | Error::Failed(_),
        ) => Exit::Infrastructure,
        None if matches!(error.downcast_ref(), Some(EngineError::NoPort)) => Exit::Usage,
        None if matches!(error.downcast_ref(), Some(RecordError::There(_))) => Exit::Usage,
        None => serve::exit(error),
    }
}

/// True if a build's log ends like one that a sandbox refused something.
fn is_denied(log_tail: &str) -> bool {
    let log = log_tail.to_ascii_lowercase();
    [
        "permission denied",
        "read-only file system",
        "operation not permitted",
    ]
    .iter()
    .any(|words| log.contains(words))
}

fn results_exit(error: &ResultsError) -> Exit {
    match error {
        ResultsError::Write { .. } => Exit::Infrastructure,
        ResultsError::NotEmpty { .. }
        | ResultsError::Read { .. }
        | ResultsError::ReadResult { .. }
        | ResultsError::TooLarge { .. }
        | ResultsError::Json { .. }
        | ResultsError::Format { .. }
        | ResultsError::Plan(_) => Exit::Usage,
    }
}

/// What is wrong here, before GitHub is asked, is a wrong use; all that GitHub or the network brings is not.
fn github_exit(error: &GitHubError) -> Exit {
    match error {
        GitHubError::NoToken
        | GitHubError::BadToken
        | GitHubError::BadRepository(_)
        | GitHubError::BadSha(_)
        | GitHubError::BadAddress { .. }
        | GitHubError::Event(_) => Exit::Usage,
        GitHubError::Client(_)
        | GitHubError::Refused(_)
        | GitHubError::Unreachable { .. }
        | GitHubError::Malformed { .. }
        | GitHubError::TooManyPages { .. }
        | GitHubError::Write { .. } => Exit::Infrastructure,
    }
}

fn git_exit(error: &GitError) -> Exit {
    match error {
        GitError::Missing(_) | GitError::Clone { .. } | GitError::Failed { .. } => {
            Exit::Infrastructure
        }
        _ => Exit::Usage,
    }
}

fn remote_exit(error: &RemoteError) -> Exit {
    match error {
        RemoteError::NoRepository { .. }
        | RemoteError::Address { .. }
        | RemoteError::Foreign { .. } => Exit::Usage,
        _ => Exit::Infrastructure,
    }
}

fn hint(error: &anyhow::Error) -> Option<&'static str> {
    let full = |error: &io::Error| error.kind() == io::ErrorKind::StorageFull;
    let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let causes = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>());
    if causes.into_iter().any(full) {
        return Some("the disk is full: free some room, or name another directory with --out");
    }
    match error.downcast_ref::<Error>()? {
        Error::Plan(PlanError::NoProject(_)) => Some(
            "run it inside a project that has gates/gate.toml, or make one with `gate init`. Where another branch has \
                 gates/, merge that one into this, or check this one from there: `gate check --head BRANCH`",
        ),
        Error::Workspace(WorkspaceError::Lock(LockError::Held(_))) => {
            Some("wait for it, or end it")
        }
        Error::Workspace(WorkspaceError::Lock(LockError::Left(_))) => {
            Some("wait for that program, or end it (`fuser` names it)")
        }
        Error::Workspace(WorkspaceError::Git(GitError::NoRepository(_))) => Some(
            "`git init` and commit; without commits, `gate check --base stored` judges against stored sessions",
        ),
        Error::Workspace(WorkspaceError::Build(BuildError::Failed { log_tail, .. }))
            if is_denied(log_tail) =>
        {
            Some(
                "builds run in a sandbox: they write to their own tree, build directory, caches and TMPDIR alone, and read \
             what docs/sandbox.md lists and what [engine.build] names; `gate doctor` shows what is in force",
            )
        }
        Error::Process(ProcessError::Spawn { command, source })
            if missing(source) && command.contains("/.gate/artifacts/") =>
        {
            Some(
                "the build left no such program in its artifact: a commit's tree holds what git tracks alone, so compile the program \
                 in [engine.build] of gates/gate.toml",
            )
        }
        Error::Process(ProcessError::Spawn { source, .. }) if missing(source) => Some(
            "install the engine, put it on PATH, or name its program in engine.serve of gates/gate.toml",
        ),
        Error::Results(ResultsError::ReadResult { source, .. }) if missing(source) => Some(
            "name a result directory: `gate check` says at its end where its own is, such as .gate/runs/…",
        ),
        Error::Baseline(StoreError::Format { .. } | StoreError::Note { .. }) => {
            Some("move the file away, or read the store with the gate that wrote it")
        }
        Error::Remote(RemoteError::Failed { .. } | RemoteError::Contended { .. }) => Some(
            "what is recorded here stays here: see that the store can be reached with these credentials, then run \
             the command again",
        ),
        Error::Certificate(CertificateError::Json { .. } | CertificateError::Format { .. }) => {
            Some("remove the file and run `gate calibrate`, or use the gate that wrote it")
        }
        _ => None,
    }
}
