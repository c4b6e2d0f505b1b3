//! `gate explain`: a failed check of a result directory taken apart, from its `run.json` alone.
//!
//! Main function: [`explain_directory`]. The verdict is the judge's, computed anew. What stands beside it is looked at
//! in hindsight: intervals of 95 % each, over all sound launches, with no error budget and no verdict of their own.

use super::case::{Case, checks};
use super::view::Explanation;
use crate::session::results::{directories, read_record};
use crate::session::{Error, ResultsError};
use std::path::{Path, PathBuf};
use verdict::record::{CheckVerdict, RuleId, RunRecord, RunVerdict, Verdict};
use verdict::{judge, plan};

/// The result directory of the latest session of the project around `start`.
///
/// # Errors
/// `start` is in no project, or nothing was measured there.
pub fn newest(start: &Path) -> Result<PathBuf, Error> {
    let root = plan::find_root(start)?;
    let mut newest = directories(&root).into_iter();
    let newest = newest.find(|directory| directory.join("run.json").is_file());
    newest.ok_or_else(|| {
        Error::Usage(format!(
            "there is no result under {}/.gate/runs: run `gate check`, or name a result directory",
            root.display()
        ))
    })
}

/// Explains the check with this id, or the gravest failed one; where none failed and none is named, says what the
/// run's verdict is.
///
/// # Errors
/// What [`judge_directory`](crate::session::judge_directory) gives, and a check that the record has not.
pub fn explain_directory(
    directory: &Path,
    check: Option<&str>,
) -> Result<Result<Explanation, String>, Error> {
    let record = read_record(directory)?;
    let plan = plan::from_record(&record);
    let plan = plan.map_err(ResultsError::from)?;
    let verdict = judge::judge(&plan, &record);
    let judged = match check {
        Some(id) => Some(named(&verdict, id)?),
        None => gravest(&verdict),
    };
    let Some(judged) = judged else {
        return Ok(Err(format!(
            "no check failed: the run is {}; --check ID explains another one",
            verdict.verdict.name()
        )));
    };
    let checks = plan.gates.iter().flat_map(|gate| {
        let checks = gate.checks.iter();
        checks.map(move |check| {
            (
                check,
                gate.workloads.iter().find(|w| w.id == check.workload),
            )
        })
    });
    let found = checks.into_iter().find(|(check, _)| check.id == judged.id);
    let Some((check, Some(workload))) = found else {
        return Err(Error::Usage(format!(
            "the record's gates have no workload for {}",
            judged.id
        )));
    };
    let record = machine_of(record, &verdict, &judged.id);
    let case = Case::new(&plan, &record, check, workload);
    Ok(Ok(case.explain(&verdict, judged)))
}

/// The record, or of several machines' the session of the one that measured the check's gate.
fn machine_of(record: RunRecord, verdict: &RunVerdict, check: &str) -> RunRecord {
    let family = u32::try_from(checks(verdict).count()).unwrap_or(u32::MAX);
    let mut sessions = record.shard_sessions(family).into_iter();
    let gate = check.split('/').next().unwrap_or_default();
    let own = sessions.find(|session| session.gates.iter().any(|name| name == gate));
    own.unwrap_or(record)
}

fn named<'v>(verdict: &'v RunVerdict, id: &str) -> Result<&'v CheckVerdict, Error> {
    let mut checks = checks(verdict);
    checks.find(|check| check.id == id).ok_or_else(|| {
        let ids: Vec<&str> = super::case::checks(verdict)
            .map(|check| check.id.as_str())
            .collect();
        Error::Usage(format!(
            "the record has no check `{id}`; it has {}",
            ids.join(", ")
        ))
    })
}

/// The failed check that chance explains least: one that no test stands behind, else the least p.
fn gravest(verdict: &RunVerdict) -> Option<&CheckVerdict> {
    let failed = checks(verdict).filter(|check| check.verdict == Verdict::Fail);
    let p = |check: &&CheckVerdict| match check.reason.rule {
        RuleId::Reliability => -1.0,
        _ => check.p_fail.unwrap_or(0.0),
    };
    failed.min_by(|a, b| p(a).total_cmp(&p(b)))
}
