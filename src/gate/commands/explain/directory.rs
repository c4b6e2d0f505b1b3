//! `gate explain`: a failed check of a result directory taken apart, from its `run.json` alone.
//!
//! Main function: [`explain_directory`]. The verdict is the judge's, computed anew. What stands beside it is looked at
//! in hindsight: intervals of 95 % each, over all sound launches, with no error budget and no verdict of their own.

use crate::explanation::{Explanation, checks, explain, gravest};
use crate::report;
use crate::session::results::{directories, read_record};
use crate::session::{Error, ResultsError};
use std::path::{Path, PathBuf};
use verdict::record::{CheckVerdict, RunVerdict, Verdict};
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

/// Explains the check with this id, or the gravest one that did not pass; where all did and none is named, gives the run's
/// verdict.
///
/// # Errors
/// What [`judge_directory`](crate::session::judge_directory) gives, and a check that the record has not.
pub fn explain_directory(
    directory: &Path,
    check: Option<&str>,
) -> Result<Result<Explanation, Verdict>, Error> {
    let record = read_record(directory)?;
    let plan = plan::from_record(&record);
    let plan = plan.map_err(ResultsError::from)?;
    let verdict = judge::judge(&plan, &record);
    let judged = match check {
        Some(id) => Some(named(&verdict, id)?),
        None => gravest(&verdict),
    };
    let Some(judged) = judged else {
        return Ok(Err(verdict.verdict));
    };
    let reason = report::sentence(judged);
    let explanation = explain(&plan, &record, &verdict, judged, reason);
    explanation.map(Ok).ok_or_else(|| {
        Error::Usage(format!(
            "the record's gates have no workload for {}",
            judged.id
        ))
    })
}

fn named<'v>(verdict: &'v RunVerdict, id: &str) -> Result<&'v CheckVerdict, Error> {
    let mut checks = checks(verdict);
    checks.find(|check| check.id == id).ok_or_else(|| {
        let ids: Vec<&str> = crate::explanation::checks(verdict)
            .map(|check| check.id.as_str())
            .collect();
        Error::Usage(format!(
            "the record has no check `{id}`; it has {}",
            ids.join(", ")
        ))
    })
}
