//! One session of a search: what it builds, where it is kept, and when it ends.

use super::refuse;
use crate::commands::bisect::driver::Hunt;
use crate::commands::bisect::search::Search;
use crate::commands::bisect::step::Question;
use crate::commands::bisect::trial::Pair;
use crate::launch::{Artifact, BuildError, Origin, WorkspaceError};
use crate::session::arms::Arms;
use crate::session::project::new_record;
use crate::session::results::{Results, read_record};
use crate::session::{self, Base, Error, Event, Options, Outcome, resume};
use std::future::Future;
use std::pin::Pin;
use verdict::plan::Selection;
use verdict::record::{Comparison, Ending, RunRecord, RunVerdict, short};

impl Hunt<'_> {
    /// Measures the pair in a directory of its own, or goes on where that was begun: until the question is
    /// answered, or as `gate check` does where there is none.
    pub async fn session<C: Future<Output = ()>>(
        &mut self,
        pair: Pair,
        (base, head): (&Artifact, &Artifact),
        ask: Option<(&Question, &Search)>,
        cancel: Pin<&mut C>,
    ) -> Result<Outcome, Error> {
        let number = self.journal.trials.len();
        let ids = [pair.against, pair.commit].map(|n| self.journal.commits[n].id.clone());
        let [base_id, head_id] = ids;
        let directory = self.directory.join(directory_name(number, &head_id));
        let options = self.options(number);
        let (base, head) = (
            (base.clone(), base_id),
            (head.clone(), Some(head_id), false),
        );
        let mut arms = Arms::built(&self.project.plan, &options, head, Some(base));
        arms.is_head_a_commit = true;
        if arms.is_one_engine() {
            // A commit that changes nothing of the engine is as good as the one that it is measured against.
            arms.comparison = Comparison::SameBuild;
        }
        arms.identify(&self.project.plan.engine, &self.project.root)
            .await;
        let record = if directory.join("run.json").exists() {
            self.project.results = Results::reopen(&directory, &self.project.workspace)?;
            let mut record = read_record(&directory)?;
            refuse(&directory, resume::builds(&record, &arms.builds))?;
            record.ending = Ending::Unfinished;
            record
        } else {
            let profile = &self.design.profile;
            let results = Results::create(Some(&directory), &self.project.workspace, profile)?;
            self.project.results = results;
            new_record(&options, &self.project, &arms)
        };
        // What a look says is told once, in the step's own line.
        let quiet = |event: Event| match event {
            Event::Looked { .. } => {}
            event => (self.on_event)(event),
        };
        let outcome = match ask {
            None => session::run(&self.project, &arms, record, &quiet, cancel).await?,
            Some((question, search)) => {
                let is_answered = |record: &RunRecord, _: &RunVerdict| {
                    question.answer(search, record, false).is_some()
                };
                let goal = session::Goal {
                    is_reached: &is_answered,
                    blocks: question.most_blocks(),
                };
                session::run_until(&self.project, &arms, record, goal, &quiet, cancel).await?
            }
        };
        match outcome.record.ending {
            Ending::Interrupted => Err(Error::Interrupted),
            _ => Ok(outcome),
        }
    }

    fn options(&self, number: usize) -> Options {
        Options {
            start: self.project.root.clone(),
            selection: Selection {
                profile: self.journal.profile.clone(),
                gates: vec![self.journal.gate.clone()],
            },
            base: Base::Main,
            head: None,
            out: None,
            seed: Some(self.journal.seed.wrapping_add(number as u64)),
            base_args: Vec::new(),
            head_args: Vec::new(),
            same_build: false,
            together: Vec::new(),
        }
    }

    /// GOOD, BAD, or a commit that was built before: without it nothing can go on.
    pub async fn build_or_end<C: Future<Output = ()>>(
        &self,
        commit: usize,
        cancel: Pin<&mut C>,
    ) -> Result<Artifact, Error> {
        let id = &self.journal.commits[commit].id;
        // GOOD, the line's first commit.
        let origin = if commit == 0 {
            Origin::Main
        } else {
            Origin::Other
        };
        let what = short(id).to_owned();
        (self.on_event)(Event::Building { what: what.clone() });
        let built = tokio::select! {
            built = self.project.workspace.build_commit(&self.repository, &self.build, id, origin) => built?,
            () = cancel => return Err(Error::Interrupted),
        };
        let seconds = built.build_s;
        (self.on_event)(Event::Built { what, seconds });
        Ok(built)
    }

    /// Any other commit; one that does not build gives the reason.
    pub async fn build<C: Future<Output = ()>>(
        &self,
        commit: usize,
        cancel: Pin<&mut C>,
    ) -> Result<Result<Artifact, String>, Error> {
        match self.build_or_end(commit, cancel).await {
            Ok(artifact) => Ok(Ok(artifact)),
            Err(Error::Workspace(WorkspaceError::Build(error))) => match error {
                BuildError::Keep { .. }
                | BuildError::Stale { .. }
                | BuildError::Wait(_)
                | BuildError::End(_) => Err(error.into()),
                BuildError::Failed { status, .. } => Ok(Err(format!("does not build ({status})"))),
                BuildError::TimedOut { .. } => Ok(Err("its build takes too long".into())),
                BuildError::NoArtifact(_) | BuildError::Escapes(_) => {
                    Ok(Err("its build makes no artifact".into()))
                }
                BuildError::Start(_) => Ok(Err("its build cannot be started".into())),
            },
            Err(error) => Err(error),
        }
    }
}

fn directory_name(number: usize, commit: &str) -> String {
    format!("{number:02}-{}", short(commit))
}
