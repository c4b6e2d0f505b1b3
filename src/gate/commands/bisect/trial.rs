//! Summary of one session of a bisection, as a [`Trial`].

use crate::launch::Artifact;
use crate::report;
use crate::session::Outcome;
use std::path::PathBuf;
use verdict::record::{Change, CheckVerdict, Finding, Step, Trial, Verdict};
use verdict::stats::Estimate;

/// A trial of which nothing is known yet.
pub fn blank(pair: Pair, artifact: &Artifact) -> Trial {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Trial {
        step: pair.step,
        commit: number(pair.commit),
        against: number(pair.against),
        finding: Finding::Undecided,
        reason: String::new(),
        artifact: Some(artifact.sha256.clone()),
        values: None,
        change: None,
        launches: 0,
        seconds: 0.0,
        directory: String::new(),
    }
}

pub fn skipped(pair: Pair, reason: String) -> Trial {
    let none = Artifact {
        path: PathBuf::new(),
        sha256: String::new(),
        build_s: 0.0,
        on_ci: false,
    };
    Trial {
        finding: Finding::Skipped,
        reason,
        artifact: None,
        ..blank(pair, &none)
    }
}

fn change_of(check: &CheckVerdict) -> Option<Change> {
    Some(Change {
        relative: check.change?,
        interval: check.interval?,
        loss: None,
    })
}

pub fn loss(trial: &Trial) -> Option<Estimate> {
    let (est, se, df) = trial.change?.loss?;
    Some(Estimate { est, se, df })
}

/// Fills a trial by a session's verdict on the check that decided it.
pub fn read_verdict(trial: &mut Trial, outcome: &Outcome, followed: Option<&str>) {
    read_cost(trial, outcome);
    trial.finding = match outcome.verdict.verdict {
        Verdict::Pass => Finding::Good,
        Verdict::Fail => Finding::Bad,
        Verdict::Inconclusive => Finding::Undecided,
        Verdict::Invalid => Finding::Invalid,
    };
    let mut checks = outcome.verdict.gates.iter().flat_map(|gate| &gate.checks);
    let check = match followed {
        Some(id) => checks.find(|check| check.id == id),
        None => report::decisive(&outcome.verdict),
    };
    if let Some(check) = check {
        trial.reason = report::sentence(check);
        trial.values = check.base.zip(check.head);
        trial.change = change_of(check);
    }
}

pub fn read_cost(trial: &mut Trial, outcome: &Outcome) {
    trial.launches = u32::try_from(outcome.record.launches.len()).unwrap_or(u32::MAX);
    trial.seconds = outcome.record.elapsed_s;
    let name = outcome.directory.file_name().unwrap_or_default();
    trial.directory = name.to_string_lossy().into_owned();
}

/// Two commits by their places in the journal.
#[derive(Clone, Copy)]
pub struct Pair {
    pub step: Step,
    pub against: usize,
    pub commit: usize,
}
