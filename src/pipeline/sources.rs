//! Which sources the arms are built from, and building them.

use super::host::Arms;
use super::{Base, Error, Event, Options, Project};
use crate::launch::{Artifact, GitError, Repository};
use crate::plan;
use std::path::Path;

/// What each arm runs.
pub(super) async fn build_arms(
    options: &Options,
    project: &Project,
    on_event: &dyn Fn(Event),
) -> Result<Arms, Error> {
    let Project { plan, root, .. } = project;
    let mut arms = match &plan.engine.build {
        None => {
            refuse_commits(options, None)?;
            Arms::without_build(plan, options)
        }
        Some(build) => arms_from_sources(options, project, build, on_event).await?,
    };
    arms.identify(&plan.engine, root).await;
    Ok(arms)
}

/// Without a build nobody may name a commit: left aside, it would pass for one that was measured.
pub(super) fn refuse_commits(options: &Options, anchor: Option<&str>) -> Result<(), Error> {
    let option = match (&options.head, &options.base, anchor) {
        (Some(_), _, _) => "--head",
        (None, Base::Ref(_), _) => "--base",
        (None, Base::Anchor(_), _) | (None, _, Some(_)) => "--anchor (or `baseline.anchor`)",
        (None, Base::Main | Base::Stored, None) => return Ok(()),
    };
    Err(Error::Usage(format!(
        "{option} names a commit to build, and gates/gate.toml has no table `engine.build` that would build it: \
         add one, or leave {option} out"
    )))
}

async fn arms_from_sources(
    options: &Options,
    project: &Project,
    build: &plan::Build,
    on_event: &dyn Fn(Event),
) -> Result<Arms, Error> {
    let Project {
        plan, workspace, ..
    } = project;
    let commits = commits(options, &project.root)?;
    let told = |what: String, artifact: &Artifact| {
        let seconds = artifact.build_s;
        on_event(Event::Built { what, seconds });
    };
    let of_commit = async |arm: &str, repository: &Repository, commit: &str| {
        let what = format!("{arm} {}", &commit[..12.min(commit.len())]);
        on_event(Event::Building { what: what.clone() });
        let artifact = workspace.build_commit(repository, build, commit).await?;
        told(what, &artifact);
        Ok::<_, Error>(artifact)
    };
    let head = match (&options.head, &commits.repository, &commits.head) {
        (Some(_), Some(repository), Some(commit)) => of_commit("head", repository, commit).await?,
        _ => {
            let what = "head".to_owned();
            on_event(Event::Building { what: what.clone() });
            let head = workspace.build_head(build).await?;
            told(what, &head);
            head
        }
    };
    let base = match (&commits.repository, commits.base) {
        (Some(repository), Some(commit)) => {
            let is_head = !commits.dirty && commits.head.as_ref() == Some(&commit);
            let base = match is_head {
                true => head.clone(),
                false => of_commit("base", repository, &commit).await?,
            };
            Some((base, commit))
        }
        _ => None,
    };
    let head = (head, commits.head, commits.dirty);
    Ok(Arms::built(plan, options, head, base))
}

/// Which sources the arms are built from.
pub(super) struct Commits {
    /// `None` outside a repository.
    pub(super) head: Option<String>,
    /// The working tree is head, and differs from its commit.
    pub(super) dirty: bool,
    /// `None` in a stored comparison.
    pub(super) base: Option<String>,
    repository: Option<Repository>,
}

pub(super) fn commits(options: &Options, root: &Path) -> Result<Commits, Error> {
    if options.base == Base::Stored && options.head.is_none() {
        return commits_without_base(root);
    }
    let repository = Repository::open(root)?;
    let (head, dirty) = match &options.head {
        Some(name) => (repository.commit(name)?, false),
        None => (repository.head()?, repository.is_dirty()?),
    };
    let base = match &options.base {
        Base::Anchor(name) => Some(repository.commit(name)?),
        Base::Ref(name) => Some(repository.base_commit(&head, Some(name))?),
        Base::Main => Some(repository.base_commit(&head, None)?),
        Base::Stored => None,
    };
    Ok(Commits {
        head: Some(head),
        dirty,
        base,
        repository: Some(repository),
    })
}

/// Stored sessions need no repository; where there is one, head's commit is told.
fn commits_without_base(root: &Path) -> Result<Commits, Error> {
    let repository = match Repository::open(root) {
        Ok(repository) => Some(repository),
        Err(GitError::Missing(_) | GitError::NoRepository(_)) => None,
        Err(error) => return Err(error.into()),
    };
    let head = repository.as_ref().and_then(|r| r.head().ok());
    let dirty = repository
        .as_ref()
        .is_none_or(|r| r.is_dirty().unwrap_or(true));
    Ok(Commits {
        head,
        dirty,
        base: None,
        repository,
    })
}
