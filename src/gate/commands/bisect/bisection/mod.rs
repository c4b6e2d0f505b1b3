//! `gate bisect`: finds the commit of a regression between two commits.
//!
//! Main functions: [`bisect`] and [`resume_bisect`]. First BAD is measured against GOOD as `gate check` does it. If
//! it fails, commits between them are measured against GOOD, each in a session with a directory of its own, as
//! `search/` picks them and `step.rs` decides; at last the culprit against its parent. bisect.json is written
//! after each, so that a search goes on where it was.

mod measuring;

use super::driver::{Hunt, JOURNAL};
use crate::launch::Repository;
use crate::measure;
use crate::session::files::{ResultsError, read_json};
use crate::session::project::{Place, Project, draw_seed, now, tool};
use crate::session::resume::{self, ResumeError};
use crate::session::{Error, Event};
use std::future::Future;
use std::path::{Path, PathBuf};
use verdict::plan::Selection;
use verdict::record::{BISECTION_FORMAT, Bisection, Comparison, Conclusion};

/// What to search, and where.
#[derive(Clone, Debug)]
pub struct BisectOptions {
    /// Where the search for the project begins.
    pub start: PathBuf,
    pub good: String,
    pub bad: String,
    pub gate: String,
    pub profile: String,
    /// The result directory; `None`: a new one under `.gate/runs`.
    pub out: Option<PathBuf>,
    pub seed: Option<u64>,
}

/// Searches; gives what was found and the result directory. `cancel` ends it early: what is known by then is
/// kept, and the search can go on.
pub async fn bisect(
    options: &BisectOptions,
    on_event: &dyn Fn(Event),
    cancel: impl Future<Output = ()>,
) -> Result<(Bisection, PathBuf), Error> {
    let selection = Selection {
        profile: options.profile.clone(),
        gates: vec![options.gate.clone()],
    };
    if let Some(out) = options
        .out
        .as_deref()
        .filter(|out| out.join(JOURNAL).exists())
    {
        return Err(Error::Usage(format!(
            "{} holds a {JOURNAL} already; name another result directory, or go on with --resume",
            out.display()
        )));
    }
    let place = Place::New(options.out.as_deref());
    let mut cancel = std::pin::pin!(cancel);
    let of = (options.start.as_path(), &selection);
    let project = Project::open(of, Comparison::Interleaved, place, cancel.as_mut()).await?;
    let project = project.without_waivers();
    let repository = Repository::open(&project.root)?;
    let commits = repository.first_parents(&options.good, &options.bad)?;
    let last = u32::try_from(commits.len() - 1).unwrap_or(u32::MAX);
    let journal = Bisection {
        format: BISECTION_FORMAT.into(),
        tool: tool(),
        created: now(),
        profile: options.profile.clone(),
        gate: options.gate.clone(),
        seed: options.seed.unwrap_or_else(draw_seed),
        machine: measure::machine().fingerprint,
        inputs: project.inputs.clone(),
        commits,
        check: None,
        metric: None,
        sought: None,
        trials: Vec::new(),
        conclusion: Conclusion::Unfinished { first: 1, last },
    };
    let hunt = Hunt::new(project, repository, journal, on_event)?;
    hunt.run(cancel).await
}

/// Goes on with the search in `directory`.
pub async fn resume_bisect(
    start: &Path,
    directory: &Path,
    on_event: &dyn Fn(Event),
    cancel: impl Future<Output = ()>,
) -> Result<(Bisection, PathBuf), Error> {
    let journal = read_journal(directory)?;
    let selection = Selection {
        profile: journal.profile.clone(),
        gates: vec![journal.gate.clone()],
    };
    let mut cancel = std::pin::pin!(cancel);
    let place = Place::Old(directory);
    let of = (start, &selection);
    let project = Project::open(of, Comparison::Interleaved, place, cancel.as_mut()).await?;
    let project = project.without_waivers();
    // Only now does nobody else search here: what was read before may have been another's.
    let journal = read_journal(directory)?;
    if journal.conclusion.is_final() {
        return Err(Error::Usage(format!(
            "the search in {} is finished, nothing of it is missing; its {JOURNAL} holds the answer",
            directory.display()
        )));
    }
    let mut changes = resume::files(&journal.inputs, &project.inputs);
    changes.extend(resume::change("tool", &journal.tool, &tool()));
    let machine = measure::machine().fingerprint;
    changes.extend(resume::change("machine", &journal.machine, &machine));
    refuse(directory, changes)?;
    let repository = Repository::open(&project.root)?;
    let hunt = Hunt::new(project, repository, journal, on_event)?;
    hunt.run(cancel).await
}

fn read_journal(directory: &Path) -> Result<Bisection, ResultsError> {
    read_json(&directory.join(JOURNAL), BISECTION_FORMAT)
}

fn refuse(directory: &Path, changes: Vec<String>) -> Result<(), ResumeError> {
    let directory = directory.to_path_buf();
    match changes.is_empty() {
        true => Ok(()),
        false => Err(ResumeError::Changed { directory, changes }),
    }
}
