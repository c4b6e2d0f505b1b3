//! Cases that a launch answered wrongly, with the wrong answers.
//!
//! Main function: [`differences`]. Refuses to know: how many are allowed, and which arm it was.

use super::golden::{self, Difference};
use crate::metrics::requests::Requests;
use crate::metrics::value::Place;
use crate::plan::{Check, Workload, WorkloadKind};
use crate::record::Launch;

/// In the order of the cases. Empty for workloads that have no right answer, and where an answer is missing: its
/// check says so.
pub fn differences(check: &Check, workload: &Workload, launch: &Launch) -> Vec<Difference> {
    let requests = Requests::of(check, workload, launch);
    let at = Place {
        launch,
        workload,
        part: &check.part,
        requests: &requests,
    };
    match &workload.kind {
        WorkloadKind::Goldens(goldens) => golden::differences(&at, goldens).unwrap_or_default(),
        WorkloadKind::Tasks(tasks) => {
            let samples = at.by_case().unwrap_or_default();
            let wrong = tasks.cases.iter().filter_map(|case| {
                let said = samples.get(case.id.as_str())?.text.as_deref()?.trim();
                (said != case.expect.trim()).then(|| Difference {
                    case: case.id.clone(),
                    token: None,
                    said: said.to_owned(),
                    expected: case.expect.trim().to_owned(),
                })
            });
            wrong.collect()
        }
        _ => Vec::new(),
    }
}
