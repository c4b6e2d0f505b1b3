//! Share of problems with one right answer that were answered right.

use crate::metrics::{LaunchMeasure, Place, Undefined, Why};
use crate::plan::Tasks;
use std::collections::BTreeMap;

/// Most wrong answers that are quoted.
const QUOTED: usize = 3;

/// Right answers / cases; an answer is right when it equals the expected one after trimming.
pub fn accuracy(at: &Place<'_>, tasks: &Tasks) -> Result<LaunchMeasure, Undefined> {
    let samples = at.by_case()?;
    let mut successes = BTreeMap::new();
    let mut remarks = Vec::new();
    for case in &tasks.cases {
        let sample = samples
            .get(case.id.as_str())
            .ok_or_else(|| at.undefined(Why::CaseMissing(case.id.clone()), None))?;
        let text = sample.text.as_deref();
        let text = text.ok_or_else(|| at.undefined(Why::NoText, Some(sample)))?;
        let right = text.trim() == case.expect.trim();
        if !right && remarks.len() < QUOTED {
            remarks.push(format!(
                "case {}: {:?} instead of {:?}",
                case.id,
                text.trim(),
                case.expect
            ));
        }
        successes.insert(case.id.clone(), right);
    }
    if successes.is_empty() {
        return Err(at.undefined(Why::NoSamples, None));
    }
    let right = successes.values().filter(|&&r| r).count();
    let cases = successes.len();
    Ok(LaunchMeasure {
        remarks,
        successes,
        ..LaunchMeasure::single(right as f64 / cases as f64, cases)
    })
}

#[cfg(test)]
mod tests {
    use crate::metrics::testing::{check, launch, streamed};
    use crate::metrics::{Why, measure};
    use crate::plan::{TaskCase, Tasks, Workload, WorkloadKind};
    use crate::record::{Metric, Sample, Statistic};

    fn tasks(answers: &[(&str, &str)]) -> Workload {
        let cases = answers.iter().map(|(id, expect)| TaskCase {
            id: (*id).into(),
            task: "add".into(),
            messages: vec![],
            expect: (*expect).into(),
            max_tokens: 4,
        });
        Workload {
            id: "e2e/tasks".into(),
            launches: Some(1),
            kind: WorkloadKind::Tasks(Tasks {
                cases: cases.collect(),
            }),
        }
    }

    fn answer(index: u32, case: &str, text: &str) -> Sample {
        let mut s = streamed("e2e/tasks", index, 5.0, 1.0, 3);
        s.case = Some(case.into());
        s.text = Some(text.into());
        s
    }

    #[test]
    fn exact_after_trimming() {
        let workload = tasks(&[("a", "12"), ("b", "7"), ("c", "x y"), ("d", "9")]);
        let samples = vec![
            answer(0, "a", " 12\n"),
            answer(1, "b", "07"),
            answer(2, "c", "x  y"),
            answer(3, "d", "9"),
        ];
        let c = check(Metric::Accuracy, Statistic::Single);
        let m = measure(&c, &workload, &launch(0, samples.clone())).unwrap();
        assert_eq!((m.value, m.samples), (0.5, 4));
        assert_eq!(
            m.remarks,
            [
                "case b: \"07\" instead of \"7\"",
                "case c: \"x  y\" instead of \"x y\""
            ]
        );
        let right: Vec<bool> = m.successes.values().copied().collect();
        assert_eq!(right, [true, false, false, true]);
        let missing = measure(&c, &workload, &launch(0, samples[1..].to_vec())).unwrap_err();
        assert_eq!(missing.why, Why::CaseMissing("a".into()));
    }

    #[test]
    fn an_answer_without_text_is_no_answer() {
        let mut sample = answer(0, "a", "12");
        sample.text = None;
        let c = check(Metric::Accuracy, Statistic::Single);
        let undefined = measure(&c, &tasks(&[("a", "12")]), &launch(0, vec![sample])).unwrap_err();
        assert_eq!(undefined.why, Why::NoText);
    }
}
