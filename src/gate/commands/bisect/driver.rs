//! A search at work: which session comes next, and what is kept of each.
//!
//! Main type: [`Hunt`]. Refuses to know: how a session is measured (`measuring.rs`) and a step decided (`step.rs`).

use super::search::Search;
use super::step::{self, Question};
use super::trial::{Pair, blank, loss, read_cost, read_verdict, skipped};
use crate::launch::{Artifact, Repository};
use crate::session::files::replace;
use crate::session::project::Project;
use crate::session::{Error, Event, Outcome};
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use verdict::judge;
use verdict::plan::{Build, Design};
use verdict::plural::count;
use verdict::record::{
    Bisection, Conclusion, Finding, RuleId, Sought, Step, Trial, Verdict, short,
};

/// The search as it stands, in the result directory.
pub const JOURNAL: &str = "bisect.json";

/// A search at work.
pub struct Hunt<'a> {
    pub project: Project,
    pub repository: Repository,
    pub build: Build,
    pub directory: PathBuf,
    /// Of a session as `gate check` makes it.
    pub design: Design,
    pub journal: Bisection,
    pub on_event: &'a dyn Fn(Event),
}

impl<'a> Hunt<'a> {
    pub fn new(
        project: Project,
        repository: Repository,
        journal: Bisection,
        on_event: &'a dyn Fn(Event),
    ) -> Result<Self, Error> {
        let build = project.plan.engine.build.clone();
        let build = build.ok_or_else(|| {
            Error::Usage(
                "gates/gate.toml has no [engine.build], so no commit's engine can be built: add one, or compare \
                 two engines with `gate check --base-arg … --head-arg …`"
                    .into(),
            )
        })?;
        Ok(Self {
            directory: project.results.directory().to_path_buf(),
            design: project.plan.design.clone(),
            project,
            repository,
            build,
            journal,
            on_event,
        })
    }

    pub async fn run<C: Future<Output = ()>>(
        mut self,
        cancel: Pin<&mut C>,
    ) -> Result<(Bisection, PathBuf), Error> {
        self.keep()?;
        match self.search(cancel).await {
            Ok(()) | Err(Error::Interrupted) => {}
            Err(error) => return Err(error),
        }
        self.keep()?;
        Ok((self.journal, self.directory))
    }

    async fn search<C: Future<Output = ()>>(
        &mut self,
        mut cancel: Pin<&mut C>,
    ) -> Result<(), Error> {
        let good = self.build_or_end(0, cancel.as_mut()).await?;
        let last = self.journal.commits.len() - 1;
        if self.journal.check.is_none() {
            let bad = self.build_or_end(last, cancel.as_mut()).await?;
            self.confirm(&good, &bad, cancel.as_mut()).await?;
        }
        let (Some(check), Some(sought)) = (self.journal.check.clone(), self.journal.sought) else {
            return Ok(());
        };
        self.project.plan.design.looks = step::looks(&self.design.looks);
        self.project.plan.design.budget = self.design.budget * step::BUDGETS;
        let question = Question::new(&self.project.plan, &check, sought);
        let question = question.ok_or_else(|| unknown(&check))?;
        let mut search = Search::new(last, question.loss(), question.errors());
        let earlier = self.journal.trials.iter();
        for trial in earlier.filter(|trial| trial.step == Step::Search) {
            search.take(trial.commit as usize, trial.finding, loss(trial));
        }
        while let Some(commit) = search.next() {
            self.tell_of(commit, &search);
            let pair = Pair {
                step: Step::Search,
                against: 0,
                commit,
            };
            let trial = self
                .step(pair, &good, &question, &search, cancel.as_mut())
                .await?;
            search.take(commit, trial.finding, loss(&trial));
            let (first, last) = search.candidates();
            self.journal.conclusion = match trial.finding {
                Finding::Invalid => Conclusion::Invalid,
                _ => Conclusion::Unfinished { first, last },
            };
            self.push(trial)?;
            if self.journal.conclusion == Conclusion::Invalid {
                return Ok(());
            }
        }
        let conclusion = search.conclusion();
        if let Conclusion::Culprit { commit } = conclusion {
            self.jump(commit as usize, &question, &search, cancel)
                .await?;
        }
        self.journal.conclusion = conclusion;
        Ok(())
    }

    /// A session as `gate check` makes it, BAD against GOOD.
    async fn confirm<C: Future<Output = ()>>(
        &mut self,
        good: &Artifact,
        bad: &Artifact,
        cancel: Pin<&mut C>,
    ) -> Result<(), Error> {
        let pair = Pair {
            step: Step::Confirm,
            against: 0,
            commit: self.journal.commits.len() - 1,
        };
        let mut trial = blank(pair, bad);
        if good.sha256 == bad.sha256 {
            trial.finding = Finding::Good;
            trial.reason = "both commits build the same engine".to_owned();
            self.journal.conclusion = Conclusion::NoRegression;
            return self.push(trial);
        }
        self.tell(format!(
            "confirming: {} against GOOD",
            self.name(pair.commit)
        ));
        let outcome = self.session(pair, (good, bad), None, cancel).await?;
        read_verdict(&mut trial, &outcome, self.journal.check.as_deref());
        let shown = crate::report::decisive(&outcome.verdict);
        self.journal.metric = shown.map(|check| check.metric.name().to_owned());
        self.journal.conclusion = match outcome.verdict.verdict {
            Verdict::Pass => Conclusion::NoRegression,
            Verdict::Inconclusive => Conclusion::Unshown,
            Verdict::Invalid => Conclusion::Invalid,
            Verdict::Fail => match self.sought(&outcome) {
                Ok((check, sought)) => {
                    self.journal.check = Some(check);
                    self.journal.sought = Some(sought);
                    let (first, last) = (1, trial.commit);
                    Conclusion::Unfinished { first, last }
                }
                Err(reason) => {
                    trial.reason = reason;
                    Conclusion::Unshown
                }
            },
        };
        self.push(trial)
    }

    /// The first check that BAD failed, and what tells bad from good by it.
    fn sought(&self, outcome: &Outcome) -> Result<(String, Sought), String> {
        let failed = crate::report::decisive(&outcome.verdict);
        let failed = failed.ok_or("the session failed without a check")?;
        let id = failed.id.clone();
        if failed.reason.rule == RuleId::Reliability {
            return Ok((id, Sought::Failure));
        }
        let plan = &self.project.plan;
        let checks = plan.gates.iter().flat_map(|gate| &gate.checks);
        let check = checks.into_iter().find(|check| check.id == id);
        let contrast = judge::contrast(plan, &outcome.record, &id);
        match (check, contrast) {
            (Some(check), Ok(contrast)) => step::sought(check, &contrast).map(|it| (id, it)),
            _ => Err("GOOD gives nothing to compare with: name another".to_owned()),
        }
    }

    /// Measures one commit against GOOD, unless it is known to be the same engine as one that was measured.
    async fn step<C: Future<Output = ()>>(
        &mut self,
        pair: Pair,
        good: &Artifact,
        question: &Question,
        search: &Search,
        mut cancel: Pin<&mut C>,
    ) -> Result<Trial, Error> {
        let built = self.build(pair.commit, cancel.as_mut()).await?;
        let artifact = match built {
            Ok(artifact) => artifact,
            Err(why) => return Ok(skipped(pair, why)),
        };
        if let Some((finding, like)) = self.known(&artifact, good) {
            let mut trial = blank(pair, &artifact);
            trial.finding = finding;
            trial.reason = format!("the same engine as {}", self.name(like));
            return Ok(trial);
        }
        let ask = Some((question, search));
        let outcome = self.session(pair, (good, &artifact), ask, cancel).await?;
        let mut trial = blank(pair, &artifact);
        read_cost(&mut trial, &outcome);
        if let Some(answer) = question.answer(search, &outcome.record, true) {
            trial.finding = answer.finding;
            trial.reason = answer.reason;
            trial.values = answer
                .contrast
                .map(|contrast| (contrast.base, contrast.head));
            trial.change = answer.change;
        }
        Ok(trial)
    }

    /// A commit with this very artifact that is GOOD, or was found good or bad.
    fn known(&self, artifact: &Artifact, good: &Artifact) -> Option<(Finding, usize)> {
        if artifact.sha256 == good.sha256 {
            return Some((Finding::Good, 0));
        }
        let same = self.journal.trials.iter().find(|trial| {
            let is_known = matches!(trial.finding, Finding::Good | Finding::Bad);
            is_known && trial.artifact.as_ref() == Some(&artifact.sha256)
        })?;
        Some((same.finding, same.commit as usize))
    }

    /// The culprit against its parent, unless that very pair was measured on the way.
    async fn jump<C: Future<Output = ()>>(
        &mut self,
        commit: usize,
        question: &Question,
        search: &Search,
        mut cancel: Pin<&mut C>,
    ) -> Result<(), Error> {
        let against = commit - 1;
        if self.journal.measured(against, commit).is_some() {
            return Ok(());
        }
        let pair = Pair {
            step: Step::Jump,
            against,
            commit,
        };
        let parent = self.build_or_end(against, cancel.as_mut()).await?;
        let culprit = self.build_or_end(commit, cancel.as_mut()).await?;
        let (name, parent_name) = (self.name(commit), self.name(against));
        self.tell(format!("measuring {name} against its parent {parent_name}"));
        let is_by_clock = matches!(self.journal.sought, Some(Sought::Loss { .. }));
        let ask = (!is_by_clock).then_some((question, search));
        self.project.plan.design = self.design.clone();
        let outcome = self.session(pair, (&parent, &culprit), ask, cancel).await?;
        let mut trial = blank(pair, &culprit);
        read_verdict(&mut trial, &outcome, self.journal.check.as_deref());
        if let Some(answer) = ask.and_then(|(q, s)| q.answer(s, &outcome.record, true)) {
            trial.finding = answer.finding;
            trial.values = answer
                .contrast
                .map(|contrast| (contrast.base, contrast.head));
            trial.change = answer.change;
        }
        self.push(trial)
    }

    /// Keeps a finished step, and tells of it.
    fn push(&mut self, trial: Trial) -> Result<(), Error> {
        self.journal.trials.push(trial);
        self.keep()?;
        if let Some(trial) = self.journal.trials.last() {
            self.tell(super::view::bisection_line(&self.journal, trial));
        }
        Ok(())
    }

    fn keep(&self) -> Result<(), Error> {
        replace(&self.directory, JOURNAL, |file| {
            serde_json::to_writer_pretty(file, &self.journal).map_err(io::Error::from)
        })?;
        Ok(())
    }

    fn tell_of(&self, commit: usize, search: &Search) {
        let (first, last) = search.candidates();
        let (candidates, steps) = (last - first + 1, search.steps_left());
        let name = self.name(commit);
        self.tell(format!(
            "trying {name}: {candidates} candidates, about {} left",
            count(steps, "step")
        ));
    }

    fn tell(&self, line: String) {
        (self.on_event)(Event::Step { line });
    }

    fn name(&self, commit: usize) -> String {
        short(&self.journal.commits[commit].id).to_owned()
    }
}

fn unknown(check: &str) -> Error {
    Error::Usage(format!("the gates have no check {check} any more"))
}
