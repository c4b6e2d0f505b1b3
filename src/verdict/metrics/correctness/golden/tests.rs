use super::*;
use crate::metrics::testing::{check, launch, streamed};
use crate::metrics::{LaunchMeasure, Undefined, Why, measure};
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
    assert_eq!(remarks, ["case case, token 1: \"b\" instead of \"x\""]);
    assert_eq!(
        greedy(&firm, &["a"]).remarks,
        ["case case, token 1: the end instead of \"x\""]
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
        crate::metrics::Requests::of(&check, &workload, &head).beside(&check, base.as_ref());
    let measure = crate::metrics::measure_among(&requests, &check).unwrap();
    (measure.value, measure.at_least.unwrap(), measure.remarks)
}

/// Numbers of the cases that head and base answer otherwise, and mismatches: all, and sure ones.
type TokenRow<'a> = (&'a [usize], Option<&'a [usize]>, (f64, f64));

#[test]
fn without_any_log_probabilities_base_is_the_second_witness() {
    let all: Vec<usize> = (0..12).collect();
    let table: [TokenRow<'_>; 8] = [
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
    let expect = "case c3, from character 3 on \"c3 no\" instead of \"c3 yes\"";
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
