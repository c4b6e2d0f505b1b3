//! Agreement with a reference implementation: greedy tokens, and log-probabilities under teacher forcing.
//!
//! Each case was sent twice: greedily as sample case `id`, and as `id#forced` with the reference's own
//! tokens appended to the prompt and echoed. The answer names tokens by text, the reference by id;
//! [`Vocabulary`] joins the two.

use super::answers::SURE;
use super::differences::Difference;
use super::golden_text::{self, Departure, quoted};
use super::{LaunchMeasure, Place, Undefined, Why};
use crate::plan::{GoldenCase, GoldenToken, Goldens};
use crate::record::{Sample, TokenLogprob};
use crate::stats;
use std::collections::BTreeMap;

/// Most cases that are quoted.
const QUOTED: usize = 3;

/// Number of cases whose greedy answers leave the reference at a place that is no near-tie. The least value leaves out
/// those of which nothing tells whether they do.
pub(super) fn mismatches(at: &Place<'_>, goldens: &Goldens) -> Result<LaunchMeasure, Undefined> {
    let compared = Compared::of(&at.by_case()?, goldens, at)?;
    let Doubts { wrong, open, text } = doubts(at, goldens, &compared);
    let n = compared.wrong.len() + wrong.len();
    let sure = compared.wrong.iter().chain(wrong);
    let remarks = sure.chain(open.iter().copied()).take(QUOTED);
    Ok(LaunchMeasure {
        at_least: Some(n as f64),
        remarks: remarks.map(|left| left.text.clone()).chain(text).collect(),
        ..LaunchMeasure::single((n + open.len()) as f64, goldens.cases.len())
    })
}

/// Those cases, with what was said.
pub(super) fn differences(at: &Place<'_>, goldens: &Goldens) -> Result<Vec<Difference>, Undefined> {
    let Compared { wrong, open, .. } = Compared::of(&at.by_case()?, goldens, at)?;
    let left = wrong.into_iter().chain(open);
    Ok(left.map(|left| left.difference).collect())
}

/// A case whose answer leaves the reference.
struct Left<'a> {
    difference: Difference,
    sample: &'a Sample,
    /// `case add-1, token 3: "a" for "b"`.
    text: String,
}

/// The cases of one launch after comparison.
#[derive(Default)]
struct Compared<'a> {
    /// The reference preferred its own token.
    wrong: Vec<Left<'a>>,
    /// The reference does not tell how likely the answer was.
    open: Vec<Left<'a>>,
}

impl<'a> Compared<'a> {
    fn of(
        samples: &BTreeMap<&str, &'a Sample>,
        goldens: &Goldens,
        at: &Place<'_>,
    ) -> Result<Self, Undefined> {
        let vocabulary = Vocabulary::of(goldens);
        let mut compared = Self::default();
        for case in &goldens.cases {
            let sample = find(at, samples, &case.id)?;
            if sample.logprobs.is_empty() || case.tokens.is_empty() {
                compared.by_text(case, goldens, &vocabulary, sample, at)?;
            } else {
                compared.by_token(case, goldens, &vocabulary, sample);
            }
        }
        Ok(compared)
    }

    fn by_token(
        &mut self,
        case: &GoldenCase,
        goldens: &Goldens,
        vocabulary: &Vocabulary<'_>,
        sample: &'a Sample,
    ) {
        let generated: Vec<&str> = sample.logprobs.iter().map(|e| e.token.as_str()).collect();
        let Some(place) = first_divergence(case, &generated) else {
            return;
        };
        let pair = case.tokens.get(place).zip(generated.get(place).copied());
        if pair.is_some_and(|(t, got)| vocabulary.is_near_tie(t, got, goldens.near_tie_nats)) {
            return;
        }
        let said = generated.get(place).map(|text| (*text).to_owned());
        let expected = case.tokens.get(place).map(|token| token.text.clone());
        let difference = Difference {
            case: case.id.clone(),
            token: Some((place, said, expected)),
            said: generated.concat(),
            expected: case.text.clone(),
        };
        self.wrong.push(Left {
            text: describe(&difference),
            difference,
            sample,
        });
    }

    fn by_text(
        &mut self,
        case: &GoldenCase,
        goldens: &Goldens,
        vocabulary: &Vocabulary<'_>,
        sample: &'a Sample,
        at: &Place<'_>,
    ) -> Result<(), Undefined> {
        let text = sample.text.as_deref();
        let text = text.ok_or_else(|| at.undefined(Why::NoText, Some(sample)))?;
        let departure = golden_text::compare(case, goldens, vocabulary, text);
        let (Departure::Wrong(place) | Departure::Unknown(place)) = departure else {
            return Ok(());
        };
        let (said, expected) = (quoted(text, place), quoted(&case.text, place));
        let left = Left {
            difference: Difference {
                case: case.id.clone(),
                token: None,
                said: text.to_owned(),
                expected: case.text.clone(),
            },
            sample,
            text: format!(
                "case {}, from character {place} on {said} for {expected}",
                case.id
            ),
        };
        match departure {
            Departure::Unknown(_) => self.open.push(left),
            _ => self.wrong.push(left),
        }
        Ok(())
    }
}

/// What becomes of the open cases beside base's answers.
struct Doubts<'c, 'a> {
    wrong: Vec<&'c Left<'a>>,
    open: Vec<&'c Left<'a>>,
    text: Option<String>,
}

/// A reference that tells no log-probabilities cannot tell a near-tie from a wrong token, but base is a second witness:
/// what it answers to the letter is nothing that head changed, as long as it is no more than half of the cases; and so
/// many differences of head's own as chance does not explain are wrong.
fn doubts<'c, 'a>(at: &Place<'_>, goldens: &Goldens, compared: &'c Compared<'a>) -> Doubts<'c, 'a> {
    let open: Vec<&Left<'_>> = compared.open.iter().collect();
    let all = |open| Doubts {
        wrong: Vec::new(),
        open,
        text: None,
    };
    let sound = at.requests.base.iter().filter(|s| s.may_enter());
    let base: BTreeMap<&str, &Sample> = sound
        .filter_map(|s| Some((s.case.as_deref()?, *s)))
        .collect();
    let in_base = Compared::of(&base, goldens, at);
    let (false, Ok(in_base)) = (base.is_empty(), in_base) else {
        return all(open);
    };
    let is_in = |left: &Left<'_>, others: &[Left<'_>]| {
        let mut others = others.iter();
        others.any(|other| {
            other.sample.case == left.sample.case
                && other.sample.text_sha256 == left.sample.text_sha256
        })
    };
    let own = open.iter().filter(|left| !is_in(left, &in_base.open));
    let own: Vec<&Left<'_>> = own.copied().collect();
    let of_base = in_base.open.iter();
    let of_base = of_base.filter(|left| !is_in(left, &compared.open)).count();
    let shared = open.len() - own.len();
    if 2 * shared > goldens.cases.len() {
        return Doubts {
            text: Some(format!(
                "base answers {shared} of them alike: the goldens are not main's any more"
            )),
            ..all(open)
        };
    }
    if stats::mcnemar_p_worse(own.len() as u64, of_base as u64) <= SURE {
        return Doubts {
            wrong: own,
            ..all(Vec::new())
        };
    }
    all(own)
}

/// First place where the two differ; an answer that ends early or goes on differs at its end.
fn first_divergence(case: &GoldenCase, generated: &[&str]) -> Option<usize> {
    let longest = case.tokens.len().max(generated.len());
    (0..longest).find(|&i| {
        let expected = case.tokens.get(i).map(|t| t.text.as_str());
        expected != generated.get(i).copied()
    })
}

fn describe(difference: &Difference) -> String {
    let word = |text: &Option<String>| {
        text.as_ref()
            .map_or("the end".to_owned(), |t| format!("{t:?}"))
    };
    let Some((place, said, expected)) = &difference.token else {
        return format!("case {}", difference.case);
    };
    format!(
        "case {}, token {place}: {} for {}",
        difference.case,
        word(said),
        word(expected)
    )
}

/// Mean over all reference tokens of |engine's − reference's log-probability of that token|.
pub(super) fn logprob_error(at: &Place<'_>, goldens: &Goldens) -> Result<LaunchMeasure, Undefined> {
    let errors = over_forced_tokens(at, goldens, |token, entry| {
        entry.logprob.map(|engine| (engine - token.logprob).abs())
    })?;
    let mean = stats::mean(&errors).ok_or_else(|| at.undefined(Why::NoSamples, None))?;
    Ok(LaunchMeasure::single(mean, goldens.cases.len()))
}

/// 99th percentile over all reference tokens of the reference's log-probability lost by following the
/// engine's own best token.
pub(super) fn logprob_regret(
    at: &Place<'_>,
    goldens: &Goldens,
) -> Result<LaunchMeasure, Undefined> {
    let vocabulary = Vocabulary::of(goldens);
    let regrets = over_forced_tokens(at, goldens, |token, entry| {
        let (choice, _) = entry.top.first()?;
        vocabulary.regret(token, choice)
    })?;
    let value = super::reduce(crate::record::Statistic::P99, &regrets)
        .map_err(|why| at.undefined(why, None))?;
    Ok(LaunchMeasure::single(value, goldens.cases.len()))
}

/// `value` of each reference token with the engine's entry at its place, over all cases.
fn over_forced_tokens(
    at: &Place<'_>,
    goldens: &Goldens,
    value: impl Fn(&GoldenToken, &TokenLogprob) -> Option<f64>,
) -> Result<Vec<f64>, Undefined> {
    let samples = at.by_case()?;
    let mut values = Vec::new();
    for case in &goldens.cases {
        let sample = find(at, &samples, &format!("{}#forced", case.id))?;
        let (got, need) = (
            sample.logprobs.len(),
            case.prompt_ids.len() + case.tokens.len(),
        );
        if got != need {
            return Err(at.undefined(Why::Logprobs { got, need }, Some(sample)));
        }
        let entries = &sample.logprobs[case.prompt_ids.len()..];
        for (place, (token, entry)) in case.tokens.iter().zip(entries).enumerate() {
            let v = value(token, entry);
            values.push(v.ok_or_else(|| at.undefined(Why::NoLogprob { place }, Some(sample)))?);
        }
    }
    Ok(values)
}

fn find<'a>(
    at: &Place<'_>,
    samples: &BTreeMap<&str, &'a Sample>,
    case: &str,
) -> Result<&'a Sample, Undefined> {
    let sample = samples.get(case).copied();
    sample.ok_or_else(|| at.undefined(Why::CaseMissing(case.to_owned()), None))
}

/// Texts of the token ids that the reference names.
pub(super) struct Vocabulary<'a> {
    texts: BTreeMap<u32, &'a str>,
}

impl<'a> Vocabulary<'a> {
    pub(super) fn of(goldens: &'a Goldens) -> Self {
        let listed = goldens.texts.iter().map(|(&id, text)| (id, text.as_str()));
        let tokens = goldens.cases.iter().flat_map(|c| &c.tokens);
        let own = tokens.map(|t| (t.id, t.text.as_str()));
        Self {
            texts: listed.chain(own).collect(),
        }
    }

    /// Text of a token id, where it is known.
    pub(super) fn text(&self, id: u32) -> Option<&'a str> {
        self.texts.get(&id).copied()
    }

    /// Whether the reference itself was undecided here and `got` is one of the tokens that it was
    /// undecided between.
    pub(super) fn is_near_tie(&self, token: &GoldenToken, got: &str, near_tie_nats: f64) -> bool {
        let Some(&(_, best)) = token.top.first() else {
            return false;
        };
        let near = |lp: f64| best - lp < near_tie_nats;
        let tied = token.top.get(1).is_some_and(|&(_, second)| near(second));
        tied && self.reference(token, got).is_some_and(near)
    }

    /// Reference log-probability lost by choosing `got`; where `got` is not among the reference's best
    /// tokens, the loss of the worst of them, which is a lower bound. `None` without a list.
    fn regret(&self, token: &GoldenToken, got: &str) -> Option<f64> {
        let &(_, best) = token.top.first()?;
        let &(_, worst) = token.top.last()?;
        Some(best - self.reference(token, got).unwrap_or(worst))
    }

    /// The reference's log-probability of the token with text `got`, where it lists one. A listed id
    /// whose text nobody told may be any text that belongs to no known id: the best such counts.
    fn reference(&self, token: &GoldenToken, got: &str) -> Option<f64> {
        if got == token.text {
            return Some(token.logprob);
        }
        let known = |id: u32| self.text(id);
        let listed = token.top.iter().find(|&&(id, _)| known(id) == Some(got));
        let listed = listed.or_else(|| {
            let stranger = !self.texts.values().any(|&text| text == got);
            token
                .top
                .iter()
                .find(|&&(id, _)| stranger && known(id).is_none())
        });
        listed.map(|&(_, lp)| lp)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, launch, streamed};
    use super::super::{LaunchMeasure, Undefined, Why, measure};
    use super::*;
    use crate::plan::{Workload, WorkloadKind};
    use crate::record::{Metric, Statistic};

    /// A reference token that was preferred to "b" (id 2) and "c" (id 3) by the given margins.
    fn token(text: &str, to_b: f64, to_c: f64) -> GoldenToken {
        GoldenToken {
            id: 1,
            text: text.into(),
            logprob: -0.5,
            top: vec![(1, -0.5), (2, -0.5 - to_b), (3, -0.5 - to_c)],
        }
    }

    fn goldens(tokens: Vec<GoldenToken>) -> Goldens {
        Goldens {
            cases: vec![GoldenCase {
                id: "case".into(),
                prompt_ids: vec![7, 8],
                text: tokens.iter().map(|t| t.text.as_str()).collect(),
                tokens,
                finish: "stop".into(),
                ..GoldenCase::default()
            }],
            near_tie_nats: 0.1,
            top_k: Some(3),
            texts: [(2, "b".to_owned()), (3, "c".to_owned())].into(),
            ..Goldens::default()
        }
    }

    fn entries(tokens: &[(&str, Option<f64>, &str)]) -> Vec<TokenLogprob> {
        let entry = |&(token, logprob, best): &(&str, Option<f64>, &str)| TokenLogprob {
            token: token.to_owned(),
            logprob,
            top: vec![(best.to_owned(), -0.1)],
        };
        tokens.iter().map(entry).collect()
    }

    fn sample(case: &str, logprobs: Vec<TokenLogprob>) -> Sample {
        let mut s = streamed("e2e/golden", 0, 5.0, 1.0, 3);
        s.case = Some(case.into());
        s.logprobs = logprobs;
        s
    }

    fn of(metric: Metric, g: Goldens, s: Vec<Sample>) -> Result<LaunchMeasure, Undefined> {
        let workload = Workload {
            id: "e2e/golden".into(),
            launches: Some(1),
            kind: WorkloadKind::Goldens(g),
        };
        measure(&check(metric, Statistic::Single), &workload, &launch(0, s))
    }

    fn greedy(g: &Goldens, words: &[&str]) -> LaunchMeasure {
        let logprobs = entries(
            &words
                .iter()
                .map(|w| (*w, Some(-0.1), *w))
                .collect::<Vec<_>>(),
        );
        of(
            Metric::GoldenMismatches,
            g.clone(),
            vec![sample("case", logprobs)],
        )
        .unwrap()
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "whole numbers are held exactly")]
    fn only_a_divergence_that_the_reference_did_not_see_coming_counts() {
        let firm = goldens(vec![token("a", 2.0, 3.0), token("x", 2.0, 3.0)]);
        let tied = goldens(vec![token("a", 0.05, 3.0), token("x", 2.0, 3.0)]);
        let three = goldens(vec![token("a", 0.05, 0.06), token("x", 2.0, 3.0)]);
        let table: [(&Goldens, &[&str], f64); 9] = [
            (&firm, &["a", "x"], 0.0),
            (&firm, &["b", "x"], 1.0),
            (&firm, &["a"], 1.0),
            (&firm, &["a", "x", "y"], 1.0),
            // A near-tie's second token, and what follows it is not compared.
            (&tied, &["b", "anything"], 0.0),
            // At a near-tie, but a third token.
            (&tied, &["c", "x"], 1.0),
            (&three, &["c", "x"], 0.0),
            // At a near-tie, but a word that the reference does not list.
            (&tied, &["zebra", "x"], 1.0),
            (&tied, &["a", "b"], 1.0),
        ];
        for (g, words, expect) in table {
            assert_eq!(greedy(g, words).value, expect, "{words:?}");
        }
        let remarks = greedy(&firm, &["a", "b"]).remarks;
        assert_eq!(remarks, ["case case, token 1: \"b\" for \"x\""]);
        assert_eq!(
            greedy(&firm, &["a"]).remarks,
            ["case case, token 1: the end for \"x\""]
        );
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "whole numbers are held exactly")]
    fn an_id_without_text_may_be_any_stranger() {
        let mut g = goldens(vec![token("a", 0.05, 3.0)]);
        g.texts.remove(&2);
        assert_eq!(greedy(&g, &["stranger"]).value, 0.0);
        assert_eq!(greedy(&g, &["c"]).value, 1.0);
    }

    fn forced(metric: Metric, g: &Goldens, last: &[(&str, Option<f64>, &str)]) -> Result<f64, Why> {
        let mut logprobs = entries(&[("p", None, "p"), ("q", Some(-1.0), "p")]);
        logprobs.extend(entries(last));
        let measured = of(metric, g.clone(), vec![sample("case#forced", logprobs)]);
        measured.map(|m| m.value).map_err(|u| u.why)
    }

    #[test]
    fn error_is_the_mean_distance() {
        let g = goldens(vec![token("a", 2.0, 3.0), token("x", 2.0, 3.0)]);
        let got = forced(
            Metric::LogprobError,
            &g,
            &[("a", Some(-0.6), "a"), ("x", Some(-0.2), "x")],
        );
        assert!((got.unwrap() - 0.2).abs() < 1e-12);
        let none = forced(
            Metric::LogprobError,
            &g,
            &[("a", Some(-0.6), "a"), ("x", None, "x")],
        );
        assert_eq!(none, Err(Why::NoLogprob { place: 1 }));
        let short = forced(Metric::LogprobError, &g, &[("a", Some(-0.6), "a")]);
        assert_eq!(short, Err(Why::Logprobs { got: 3, need: 4 }));
    }

    #[test]
    fn regret_is_what_the_reference_loses() {
        let vocabulary_of = goldens(vec![token("a", 0.5, 3.0)]);
        let vocabulary = Vocabulary::of(&vocabulary_of);
        let t = &vocabulary_of.cases[0].tokens[0];
        for (choice, expect) in [("a", 0.0), ("b", 0.5), ("c", 3.0), ("zebra", 3.0)] {
            let got = vocabulary.regret(t, choice).unwrap();
            assert!((got - expect).abs() < 1e-12, "{choice}: {got}");
        }
        // 100 tokens, two of them lost by 0.5: the 99th percentile lies among them.
        let many = goldens(vec![token("a", 0.5, 3.0); 100]);
        let mut answers = vec![("a", Some(-0.5), "a"); 100];
        answers[3].2 = "b";
        answers[90].2 = "b";
        assert!((forced(Metric::LogprobRegret, &many, &answers).unwrap() - 0.5).abs() < 1e-12);
        let few = forced(
            Metric::LogprobRegret,
            &vocabulary_of,
            &[("a", Some(-0.5), "a")],
        );
        assert_eq!(few, Err(Why::TooFewForP99 { n: 1 }));
    }

    /// A text-only reference of so many cases, each of which was answered by "c0 yes", "c1 yes", …
    fn texts(n: usize) -> Goldens {
        let case = |i: usize| GoldenCase {
            id: format!("c{i}"),
            prompt_text: Some("p".into()),
            max_tokens: 4,
            text: format!("c{i} yes"),
            finish: "length".into(),
            ..GoldenCase::default()
        };
        Goldens {
            cases: (0..n).map(case).collect(),
            near_tie_nats: 0.1,
            ..Goldens::default()
        }
    }

    /// One launch that answers the cases of these numbers with " no".
    fn answered(n: usize, wrong: &[usize], say: &str) -> crate::record::Launch {
        let samples = (0..n).zip(0..).map(|(i, index)| {
            let mut s = sample(&format!("c{i}"), Vec::new());
            let said = if wrong.contains(&i) { say } else { " yes" };
            let text = format!("c{i}{said}");
            (s.index, s.text_sha256, s.text) = (index, text.clone(), Some(text));
            s
        });
        launch(0, samples.collect())
    }

    /// Mismatches, and how many of them are sure, of head beside base.
    fn beside(n: usize, head: &[usize], base: Option<&[usize]>) -> (f64, f64, Vec<String>) {
        let workload = Workload {
            id: "e2e/golden".into(),
            launches: Some(1),
            kind: WorkloadKind::Goldens(texts(n)),
        };
        let check = check(Metric::GoldenMismatches, Statistic::Single);
        let head = answered(n, head, " no");
        let base = base.map(|wrong| answered(n, wrong, " no"));
        let requests =
            super::super::Requests::of(&check, &workload, &head).beside(&check, base.as_ref());
        let measure = super::super::measure_among(&requests, &check).unwrap();
        (measure.value, measure.at_least.unwrap(), measure.remarks)
    }

    /// Numbers of the cases that head and base answer otherwise, and mismatches: all, and sure ones.
    type Row<'a> = (&'a [usize], Option<&'a [usize]>, (f64, f64));

    #[test]
    fn without_any_log_probabilities_base_is_the_second_witness() {
        let all: Vec<usize> = (0..12).collect();
        let table: [Row<'_>; 8] = [
            (&[], Some(&[]), (0.0, 0.0)),
            // One difference may be a near-tie; ten of ten are not.
            (&[3], Some(&[]), (1.0, 0.0)),
            (&all, Some(&[]), (12.0, 12.0)),
            (&all, None, (12.0, 0.0)),
            // What base answers to the letter is nothing that head changed …
            (&[3, 4], Some(&[3, 4]), (0.0, 0.0)),
            (&[3, 4], Some(&[3]), (1.0, 0.0)),
            // … unless main is far from the goldens itself.
            (&all, Some(&all), (12.0, 0.0)),
            // Base's own differences speak against chance as little as head's do.
            (&all, Some(&[0, 1, 2, 3]), (8.0, 0.0)),
        ];
        for (head, base, (value, sure)) in table {
            let (got, at_least, _) = beside(12, head, base);
            assert_eq!((got, at_least), (value, sure), "{head:?} {base:?}");
        }
        let (_, _, remarks) = beside(12, &[3], Some(&[]));
        let expect = "case c3, from character 3 on \"c3 no\" for \"c3 yes\"";
        assert_eq!(remarks, [expect]);
        let (_, _, remarks) = beside(12, &all, Some(&all));
        assert!(remarks[3].contains("not main's any more"), "{remarks:?}");
    }

    #[test]
    fn both_requests_of_a_case_are_needed() {
        let g = goldens(vec![token("a", 2.0, 3.0)]);
        let only_forced = vec![sample("case#forced", entries(&[("a", None, "a")]))];
        let undefined = of(Metric::GoldenMismatches, g, only_forced).unwrap_err();
        assert_eq!(undefined.why, Why::CaseMissing("case".into()));
    }
}
