//! Prompts whose answers differ by whether they were streamed.

use crate::metrics::correctness::answers::SURE;
use crate::metrics::{LaunchMeasure, Place, Undefined, Why};
use crate::record::Sample;
use crate::stats;
use std::collections::{BTreeMap, BTreeSet};

/// Less likely than this, an engine that varies by itself would not favour one mode so much, nor head so much more than base.
const UNLIKELY: f64 = 0.05;

/// Prompts whose streamed and whole answers have no text in common, and prompts that got another text in one of the two
/// modes alone. The least value leaves the latter out, unless nearly all are of one mode: near-ties are of both.
///
/// An engine that varies in base too, as often and in both modes alike, is not blamed.
pub fn stream_mismatches(at: &Place<'_>) -> Result<LaunchMeasure, Undefined> {
    let samples = at.measured()?;
    let n = samples.len();
    let head = Modes::of(&samples);
    if head.prompts == 0 {
        return Err(at.undefined(Why::NoPair, None));
    }
    let base = at.requests.base.iter().filter(|s| s.may_enter());
    let base = Modes::of(&base.copied().collect::<Vec<_>>());
    let (streamed, whole) = (head.only_streamed.len(), head.only_whole.len());
    let (of_head, of_base) = (
        streamed + whole,
        base.only_streamed.len() + base.only_whole.len(),
    );
    let p_by_chance =
        stats::mcnemar_p_worse(streamed.max(whole) as u64, streamed.min(whole) as u64);
    let is_usual = of_base > 0
        && stats::mcnemar_p_worse(of_head as u64, of_base as u64) > UNLIKELY
        && p_by_chance > UNLIKELY;
    let apart = head.apart.len();
    let value = if is_usual { apart } else { apart + of_head };
    let least = if p_by_chance <= SURE { value } else { apart };
    let mut measure = LaunchMeasure {
        at_least: Some(least as f64),
        ..LaunchMeasure::single(value as f64, n)
    };
    let parts = [
        (&head.apart, "no text in common"),
        (
            &head.only_streamed,
            "another text when streamed, in some answers",
        ),
        (&head.only_whole, "another text when whole, in some answers"),
    ];
    for (prompts, what) in parts {
        if let Some(first) = prompts.first() {
            let (k, all) = (prompts.len(), head.prompts);
            measure.remarks.push(format!(
                "{k} of {all} prompts have {what} (the first: {first})"
            ));
        }
    }
    Ok(measure)
}

/// The prompts of one launch that were answered in both modes, and those of them that differ.
#[derive(Default)]
struct Modes<'a> {
    prompts: usize,
    /// No text in common.
    apart: Vec<&'a str>,
    /// Whole answers agree, and some streamed ones are other texts.
    only_streamed: Vec<&'a str>,
    /// The reverse.
    only_whole: Vec<&'a str>,
}

impl<'a> Modes<'a> {
    fn of(samples: &[&'a Sample]) -> Self {
        let mut texts: BTreeMap<&str, [BTreeSet<&str>; 2]> = BTreeMap::new();
        for sample in samples {
            if let Some(case) = &sample.case {
                let of_case = texts.entry(case).or_default();
                of_case[usize::from(sample.streamed)].insert(&sample.text_sha256);
            }
        }
        let mut modes = Self::default();
        for (case, [whole, streamed]) in &texts {
            if whole.is_empty() || streamed.is_empty() {
                continue;
            }
            modes.prompts += 1;
            if whole.is_disjoint(streamed) {
                modes.apart.push(case);
            } else if whole.len() == 1 && streamed.len() > 1 {
                modes.only_streamed.push(case);
            } else if streamed.len() == 1 && whole.len() > 1 {
                modes.only_whole.push(case);
            }
        }
        modes
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::testing::{check, launch, steady, streamed};
    use crate::metrics::{Requests, measure_among};
    use crate::plan::{Matrix, Workload, WorkloadKind};
    use crate::record::{CacheState, Launch, Metric, Sample, Statistic};

    fn workload() -> Workload {
        let matrix = Matrix {
            batches: vec![1],
            caches: vec![CacheState::Hot],
            streamed: vec![true, false],
            contexts: vec![100],
            output_tokens: 5,
            passes: 2,
            rounds: 1,
            warmup: 0,
        };
        Workload {
            kind: WorkloadKind::Matrix(matrix),
            ..steady("w")
        }
    }

    /// Texts of each prompt's two streamed and two whole answers, a letter each.
    fn answers(of_prompts: &[&str]) -> Launch {
        let mut samples: Vec<Sample> = Vec::new();
        for (prompt, texts) in of_prompts.iter().enumerate() {
            for (at, text) in texts.chars().enumerate() {
                let mut sample = streamed("w", samples.len() as u32, 1.0, 1.0, 5);
                sample.streamed = at < 2;
                sample.case = Some(format!("100-{prompt}"));
                sample.text_sha256 = format!("{prompt}{text}");
                samples.push(sample);
            }
        }
        launch(0, samples)
    }

    /// All that differ, and those that differ for sure.
    fn counts(head: &[&str], base: Option<&[&str]>) -> (f64, f64) {
        let (check, workload) = (
            check(Metric::StreamMismatches, Statistic::Single),
            workload(),
        );
        let (head, base) = (answers(head), base.map(answers));
        let requests = Requests::of(&check, &workload, &head).beside(&check, base.as_ref());
        let measure = measure_among(&requests, &check).unwrap();
        (measure.value, measure.at_least.unwrap())
    }

    const SAME: [&str; 12] = ["aaaa"; 12];

    fn with(some: &[&'static str]) -> Vec<&'static str> {
        let mut all = SAME.to_vec();
        all[..some.len()].copy_from_slice(some);
        all
    }

    #[test]
    fn texts_of_one_mode_alone_count() {
        assert_eq!(counts(&SAME, Some(&SAME)), (0.0, 0.0));
        assert_eq!(counts(&with(&["bbaa"]), Some(&SAME)), (1.0, 1.0));
        // A near-tie may give one answer of one prompt, not one of ten prompts when streamed and of none when whole.
        assert_eq!(counts(&with(&["baaa"]), Some(&SAME)), (1.0, 0.0));
        assert_eq!(counts(&with(&["baaa"]), None), (1.0, 0.0));
        assert_eq!(counts(&with(&["baaa"; 9]), Some(&SAME)), (9.0, 0.0));
        assert_eq!(counts(&with(&["baaa"; 10]), Some(&SAME)), (10.0, 10.0));
        // Base has the same fault.
        let faulty = with(&["abaa"; 11]);
        assert_eq!(counts(&faulty, Some(&faulty)), (11.0, 11.0));
    }

    #[test]
    fn an_engine_that_varies_in_both_modes_is_not_blamed() {
        let varies = with(&["baaa", "aaba", "aaab"]);
        assert_eq!(counts(&varies, Some(&with(&["aaab"]))), (0.0, 0.0));
        assert_eq!(counts(&varies, Some(&SAME)), (3.0, 0.0));
        let more = with(&["baaa", "aaba", "baaa", "aaab", "abaa", "aaba"]);
        assert_eq!(counts(&more, Some(&with(&["aaab"]))), (0.0, 0.0));
        assert_eq!(
            counts(&[&more[..], &more].concat(), Some(&with(&["aaab"]))),
            (12.0, 0.0)
        );
    }
}
