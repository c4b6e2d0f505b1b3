//! Sources of the two arms, and their builds.

use super::arms::Arms;
use super::{Base, Error, Event, Options, Project};
use crate::launch::{Artifact, GitError, Origin, Repository, WorkspaceError};
use std::path::Path;
use verdict::plan;
use verdict::record::{ChangedGates, Comparison, short};

/// Builds the arms.
pub async fn build_arms(
    options: &Options,
    project: &Project,
    on_event: &dyn Fn(Event),
) -> Result<Arms, Error> {
    let Project { plan, root, .. } = project;
    let mut arms = match &plan.engine.build {
        None => {
            refuse_commits(options, None)?;
            let arms = Arms::without_build(plan, options);
            refuse_same_build(options, root, &arms)?;
            arms
        }
        Some(build) => arms_from_sources(options, project, build, on_event).await?,
    };
    arms.identify(&plan.engine, root).await;
    Ok(arms)
}

/// A change that both arms would leave out must not be measured as if it were compared.
fn refuse_same_build(options: &Options, root: &Path, arms: &Arms) -> Result<(), Error> {
    if options.same_build || arms.comparison != Comparison::SameBuild {
        return Ok(());
    }
    let change = match changed(options, root) {
        Ok(None) => return Ok(()),
        Ok(Some(change)) => change,
        // Whether there is a change cannot be told.
        Err(error) => return Err(error),
    };
    Err(Error::Usage(format!(
        "nothing would be compared: {change}, and gates/gate.toml does not say how to build the engine, so both arms \
         would start the same one. Add how it is built from its tree:\n\n    [engine.build]\n    command = [\"make\", \
         \"server\"]      # runs in the tree of each arm\n    artifact = \"server\"             # the file or folder \
         that it makes\n    timeout = \"30 min\"\n\nand let engine.serve start {{artifact}}. Or compare with main's \
         stored sessions (--base stored), or measure this one build against itself (--same-build)"
    )))
}

/// How head differs from what it would be compared with, in words; `None` where it does not, or outside of git.
fn changed(options: &Options, root: &Path) -> Result<Option<String>, Error> {
    let commits = match commits(options, root) {
        Err(Error::Workspace(WorkspaceError::Git(
            GitError::Missing(_) | GitError::NoRepository(_),
        ))) => {
            return Ok(None);
        }
        commits => commits?,
    };
    let name = |commit: &Option<String>| commit.as_deref().map_or("none", short).to_owned();
    Ok(if commits.dirty {
        Some("the working tree has uncommitted changes".to_owned())
    } else if commits.head != commits.base {
        Some(format!(
            "HEAD is {}, main's commit {}",
            name(&commits.head),
            name(&commits.base)
        ))
    } else {
        None
    })
}

/// Without a build nobody may name a commit: left aside, it would pass for one that was measured.
pub fn refuse_commits(options: &Options, anchor: Option<&str>) -> Result<(), Error> {
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

/// Files of `gates/` that are named.
const NAMED: usize = 8;

/// Files of `gates/` in which this tree differs from base. Reports name them, since a change may loosen its own limits.
pub fn changed_gates(options: &Options, project: &Project) -> Result<Option<ChangedGates>, Error> {
    if options.same_build || project.plan.engine.build.is_none() {
        return Ok(None);
    }
    let commits = commits(options, &project.root)?;
    let (Some(repository), Some(base)) = (&commits.repository, &commits.base) else {
        return Ok(None);
    };
    let within = project.root.strip_prefix(repository.root());
    let gates = within.unwrap_or(Path::new("")).join("gates");
    let mut files = repository.changed_paths(base)?;
    files.retain(|path| Path::new(path).starts_with(&gates));
    let count = u32::try_from(files.len()).unwrap_or(u32::MAX);
    files.truncate(NAMED);
    Ok((count > 0).then_some(ChangedGates { files, count }))
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
    let of_commit = async |arm: &str, repository: &Repository, commit: &str, origin| {
        let what = format!("{arm} {}", short(commit));
        on_event(Event::Building { what: what.clone() });
        let artifact = workspace
            .build_commit(repository, build, commit, origin)
            .await?;
        told(what, &artifact);
        Ok::<_, Error>(artifact)
    };
    let is_head = !commits.dirty && commits.head == commits.base;
    let wants_base = !options.same_build && (!is_head || options.head.is_some());
    // Base first: what builds it was never touched by head's code.
    let base = match (&commits.repository, &commits.base) {
        (Some(repository), Some(commit)) if wants_base => {
            Some(of_commit("base", repository, commit, Origin::Main).await?)
        }
        _ => None,
    };
    let head = match (&options.head, &commits.repository, &commits.head) {
        (Some(_), _, _) if is_head && base.is_some() => base.clone(),
        (Some(_), Some(repository), Some(commit)) => {
            Some(of_commit("head", repository, commit, Origin::Other).await?)
        }
        _ => None,
    };
    let head = match head {
        Some(head) => head,
        None => {
            let what = "head".to_owned();
            on_event(Event::Building { what: what.clone() });
            let head = workspace.build_head(build).await?;
            told(what, &head);
            head
        }
    };
    if options.same_build {
        let head = (head, commits.head, commits.dirty);
        let arms = Arms::built(plan, options, head, None).against_itself();
        return Ok(arms.with_subjects(commits.repository.as_ref()));
    }
    let base = commits
        .base
        .map(|commit| (base.unwrap_or_else(|| head.clone()), commit));
    let head = (head, commits.head, commits.dirty);
    let arms = Arms::built(plan, options, head, base);
    let arms = arms.with_subjects(commits.repository.as_ref());
    if arms.is_one_engine() {
        return Err(Error::Usage(
            "nothing would be compared: base and head built the same program, equal to the byte. If the change only \
             touches comments, tests or documents, there is nothing to measure (`--same-build` measures this one \
             program against itself). If the engine should differ, engine.build.artifact in gates/gate.toml does not \
             name all that it is started from"
                .into(),
        ));
    }
    Ok(arms)
}

/// Which sources the arms are built from.
pub struct Commits {
    /// `None` outside a repository.
    pub head: Option<String>,
    /// The working tree is head, and differs from its commit.
    pub dirty: bool,
    /// `None` in a stored comparison.
    pub base: Option<String>,
    repository: Option<Repository>,
}

pub fn commits(options: &Options, root: &Path) -> Result<Commits, Error> {
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
