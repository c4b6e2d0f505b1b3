//! Prompts whose answers differ by whether they were streamed.

use crate::metrics::correctness::answers::{SURE, beside_other_mode};
use crate::metrics::correctness::near_tie::parting;
use crate::metrics::{LaunchMeasure, Place, Undefined, Why};
use crate::record::Sample;
use crate::stats;
use std::collections::BTreeMap;

/// Above this p, chance explains that one mode has more unusual answers, or head more than base.
const UNLIKELY: f64 = 0.05;

/// Prompts whose streamed and whole answers have no text in common, and prompts that got an unusual text in one of the two
/// modes alone. The least value leaves the latter out, unless the unusual answers of several prompts are of one mode, which
/// base's are not: near-ties may depend on the mode, since it changes how requests meet in a batch.
///
/// An engine is not blamed if base varies as often and both modes alike.
pub fn stream_mismatches(at: &Place<'_>) -> Result<LaunchMeasure, Undefined> {
    let samples = at.measured()?;
    let n = samples.len();
    let head = Modes::of(&samples);
    if head.prompts == 0 {
        return Err(at.undefined(Why::NoPair, None));
    }
    let base = at.requests.base.iter().filter(|s| s.may_enter());
    let base = Modes::of(&base.copied().collect::<Vec<_>>());
    let (apart, suspected) = (&head.apart, head.suspected(base.varies()));
    let p_by_chance = head.p_by_chance();
    let of_base = base.suspected(true).len();
    let more_than_base = stats::mcnemar_p_worse(suspected.len() as u64, of_base as u64);
    let is_usual = base.varies() && more_than_base > UNLIKELY && p_by_chance > UNLIKELY;
    let value = apart.len() + if is_usual { 0 } else { suspected.len() };
    let is_bases = base.p_by_chance() <= UNLIKELY && base.is_of_streams() == head.is_of_streams();
    let is_sure = p_by_chance <= SURE && suspected.len() > 1 && !is_bases;
    let least = if is_sure { value } else { apart.len() };
    let mut measure = LaunchMeasure {
        at_least: Some(least as f64),
        ..LaunchMeasure::single(value as f64, n)
    };
    let [whole, streamed] = head.total();
    let all = head.prompts;
    if let Some((first, [whole, streamed])) = apart.first() {
        measure.remarks.push(format!(
            "{} of {all} prompts are never answered alike streamed and whole (prompt {first}, streamed: {})",
            apart.len(),
            parting(whole, streamed, None).text
        ));
    }
    if let Some(first) = suspected.first() {
        measure.remarks.push(format!(
            "{} of {all} prompts have answers unlike their others, {streamed} streamed and {whole} whole ones (the first: \
             {first})",
            suspected.len()
        ));
    }
    Ok(measure)
}

/// The prompts of one launch that were answered in both modes, and those of them that differ.
#[derive(Default)]
struct Modes<'a> {
    prompts: usize,
    /// No text in common; a whole and a streamed answer.
    apart: Vec<(&'a str, [&'a Sample; 2])>,
    /// Whole and streamed answers of each other prompt that are not its most frequent one.
    unusual: BTreeMap<&'a str, [u64; 2]>,
}

impl<'a> Modes<'a> {
    fn of(samples: &[&'a Sample]) -> Self {
        let mut answers: BTreeMap<&str, BTreeMap<&str, [u64; 2]>> = BTreeMap::new();
        let mut first: BTreeMap<(&str, bool), &Sample> = BTreeMap::new();
        for sample in samples {
            if let Some(case) = &sample.case {
                let texts = answers.entry(case).or_default();
                let counts = texts.entry(beside_other_mode(sample)).or_default();
                counts[usize::from(sample.streamed)] += 1;
                first.entry((case, sample.streamed)).or_insert(sample);
            }
        }
        let mut modes = Self::default();
        for (case, texts) in answers {
            let all = [0, 1].map(|mode| texts.values().map(|n| n[mode]).sum::<u64>());
            if all.contains(&0) {
                continue;
            }
            modes.prompts += 1;
            // Of two texts as frequent, that of more whole answers.
            let usual = texts.values().max_by_key(|n| (n[0] + n[1], n[0]));
            match usual {
                Some(usual) if texts.values().any(|n| !n.contains(&0)) => {
                    let unusual = [0, 1].map(|mode| all[mode] - usual[mode]);
                    modes.unusual.insert(case, unusual);
                }
                _ => modes
                    .apart
                    .push((case, [false, true].map(|streamed| first[&(case, streamed)]))),
            }
        }
        modes
    }

    /// Unusual answers, whole and streamed.
    fn total(&self) -> [u64; 2] {
        [0, 1].map(|mode| self.unusual.values().map(|n| n[mode]).sum())
    }

    /// Two-sided sign test: do streamed and whole answers have equally many unusual ones?
    fn p_by_chance(&self) -> f64 {
        let [whole, streamed] = self.total();
        2.0 * stats::mcnemar_p_worse(streamed.max(whole), streamed.min(whole))
    }

    /// Whether streamed answers have more of the unusual ones.
    fn is_of_streams(&self) -> bool {
        let [whole, streamed] = self.total();
        streamed > whole
    }

    fn varies(&self) -> bool {
        self.total() != [0, 0]
    }

    /// Prompts with unusual answers in one mode alone. If the sign test rejects, or if the engine is not known to vary, all
    /// prompts with unusual answers.
    fn suspected(&self, is_known_to_vary: bool) -> Vec<&'a str> {
        let are_all = !is_known_to_vary || self.p_by_chance() <= UNLIKELY;
        let is_suspected = |n: &[u64; 2]| match n {
            [0, 0] => false,
            [0, _] | [_, 0] => true,
            _ => are_all,
        };
        let suspected = self.unusual.iter().filter(|(_, n)| is_suspected(n));
        suspected.map(|(case, _)| *case).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::digest;
    use crate::metrics::testing::{check, launch, steady, streamed};
    use crate::metrics::{Requests, measure_among};
    use crate::plan::{Logprobs, Matrix, Workload, WorkloadKind};
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
            logprobs: Logprobs::default(),
        };
        Workload {
            kind: WorkloadKind::Matrix(matrix),
            ..steady("w")
        }
    }

    /// Texts of each prompt's answers, a letter each: half of them streamed, then half whole.
    fn answers(of_prompts: &[&str]) -> Launch {
        let mut samples: Vec<Sample> = Vec::new();
        for (prompt, texts) in of_prompts.iter().enumerate() {
            for (at, text) in texts.chars().enumerate() {
                let mut sample = streamed("w", samples.len() as u32, 1.0, 1.0, 5);
                sample.streamed = at < texts.len() / 2;
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

    fn with_one(first: &str) -> Vec<&str> {
        let mut all: Vec<&str> = SAME.to_vec();
        all[0] = first;
        all
    }

    #[test]
    fn white_space_at_the_end_is_of_the_mode() {
        let count = |[whole, streamed]: [&str; 2], reasoning: &str| {
            let mut launch = answers(&["aaaa"]);
            for sample in &mut launch.samples {
                let text = if sample.streamed { streamed } else { whole };
                sample.text = Some(text.to_owned());
                let thoughts = if sample.streamed { reasoning } else { "" };
                sample.text_sha256 = digest::of_parts([thoughts.as_bytes(), text.as_bytes()]);
            }
            let (check, workload) = (
                check(Metric::StreamMismatches, Statistic::Single),
                workload(),
            );
            let requests = Requests::of(&check, &workload, &launch).beside(&check, None);
            let measure = measure_among(&requests, &check).unwrap();
            (measure.value > 0.0, measure.remarks.join("; "))
        };
        assert!(!count(["one two", "one two \n"], "").0);
        assert!(count(["one two", "one two"], "thoughts").0);
        assert!(count(["", " "], "").0);
        assert!(count(["one two", "one two\n\n\n\n\n"], "").0);
        let (is_counted, remark) = count(["one two", "one too"], "");
        assert!(is_counted);
        let said = "prompt 100-0, streamed: from character 5 on";
        assert!(remark.contains(said), "{remark}");
    }

    #[test]
    fn texts_of_one_mode_alone_count() {
        assert_eq!(counts(&SAME, Some(&SAME)), (0.0, 0.0));
        assert_eq!(counts(&with(&["bbaa"]), Some(&SAME)), (1.0, 1.0));
        // A near-tie may give one answer of one prompt, not one of ten prompts when streamed and of none when whole.
        assert_eq!(counts(&with(&["baaa"]), Some(&SAME)), (1.0, 0.0));
        assert_eq!(counts(&with(&["baaa"]), None), (1.0, 0.0));
        assert_eq!(counts(&with(&["baaa"; 10]), Some(&SAME)), (10.0, 0.0));
        assert_eq!(counts(&with(&["baaa"; 11]), Some(&SAME)), (11.0, 11.0));
        // Of one prompt only, which a near-tie may do.
        let one = format!("{}{}", "bbbbbbbbbbbbaaaaaaaaaaaa", "a".repeat(24));
        assert_eq!(counts(&with_one(&one), Some(&SAME)), (1.0, 0.0));
        // A third of the streamed answers to four prompts.
        let third = [
            "abaaba aaaaaa",
            "baabaa aaaaaa",
            "aabaab aaaaaa",
            "abbaba aaaaaa",
        ];
        let third = third.map(|texts| texts.replace(' ', ""));
        let third: Vec<&str> = third.iter().map(String::as_str).collect();
        assert_eq!(counts(&third, Some(&["aaaa"; 4])), (4.0, 0.0));
        let twice: Vec<String> = third
            .iter()
            .map(|texts| texts[..6].repeat(2) + &texts[6..].repeat(2))
            .collect();
        let twice: Vec<&str> = twice.iter().map(String::as_str).collect();
        assert_eq!(counts(&twice, Some(&["aaaa"; 4])), (4.0, 4.0));
        // The engine varies by itself too.
        let both =
            ["abbbabaaaa aaaaaaabaa", "bbabbaaaaa aaaaaabaaa"].map(|texts| texts.replace(' ', ""));
        let both: Vec<&str> = both.iter().map(String::as_str).collect();
        let of = |times: usize| {
            let base = ["aaba", "abaa"].repeat(times);
            counts(&both.repeat(times), Some(&base))
        };
        // 8 to 2, 16 to 4 and 32 to 8 unusual answers.
        assert_eq!([of(1), of(2), of(4)], [(0.0, 0.0), (4.0, 0.0), (8.0, 8.0)]);
        // What one prompt has too much when streamed, another has when whole: base never varies.
        let opposed = ["agggaaax", "bbbybwww"].repeat(6);
        assert_eq!(counts(&opposed, Some(&["aaaaaaaa"; 12])), (12.0, 0.0));
        // Base favours the other mode.
        let other = with(&["aaba"; 8]);
        assert_eq!(counts(&with(&["baaa"; 11]), Some(&other)), (11.0, 11.0));
        // Base does the same: main has the fault, or near-ties depend on the mode.
        let faulty = with(&["abaa"; 11]);
        assert_eq!(counts(&faulty, Some(&faulty)), (11.0, 0.0));
        // Two texts as frequent.
        assert_eq!(counts(&["abbbaaab"; 12], Some(&["aaaa"; 12])), (12.0, 12.0));
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
