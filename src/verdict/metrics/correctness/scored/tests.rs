//! Perplexity, divergence and agreement of scripted answers; the worked cases of `docs/metrics.md`.

use crate::metrics::testing::{check, launch, steady, streamed};
use crate::metrics::{LaunchMeasure, Requests, Undefined, Why, measure, measure_among};
use crate::plan::{
    GoldenCase, GoldenToken, Goldens, TextCase, TextPrompt, Texts, Workload, WorkloadKind,
};
use crate::record::{Launch, Metric, Sample, Statistic, TokenLogprob};

fn token(token: &str, logprob: Option<f64>, top: &[(&str, f64)]) -> TokenLogprob {
    let top = top.iter().map(|(text, p)| ((*text).to_owned(), p.ln()));
    TokenLogprob {
        token: token.into(),
        logprob,
        top: top.collect(),
    }
}

/// "the cat sat": the first token has no score, the others have probabilities of 0.5 and 0.125.
fn answer() -> Vec<TokenLogprob> {
    vec![
        token("the", None, &[]),
        token(" cat", Some(0.5_f64.ln()), &[(" cat", 0.5), (" dog", 0.4)]),
        token(
            " sat",
            Some(0.125_f64.ln()),
            &[(" ran", 0.7), (" lay", 0.15)],
        ),
    ]
}

fn sample(case: &str, logprobs: Vec<TokenLogprob>) -> Sample {
    let mut s = streamed("w", 0, 5.0, 1.0, 1);
    s.case = Some(case.into());
    s.text = Some(logprobs.iter().map(|entry| entry.token.as_str()).collect());
    s.logprobs = logprobs;
    s
}

fn texts(prompt: TextPrompt, reference: Vec<TokenLogprob>) -> Workload {
    let case = TextCase {
        id: "a".into(),
        prompt,
        reference,
    };
    Workload {
        kind: WorkloadKind::Texts(Texts {
            cases: vec![case],
            top_k: 2,
        }),
        ..steady("w")
    }
}

fn cat() -> TextPrompt {
    TextPrompt::Text("the cat sat".into())
}

fn of(metric: Metric, w: &Workload, samples: Vec<Sample>) -> Result<LaunchMeasure, Undefined> {
    measure(&check(metric, Statistic::Single), w, &launch(0, samples))
}

#[track_caller]
fn near(got: Result<LaunchMeasure, Undefined>, expect: f64, remark: &str) {
    let got = got.unwrap();
    assert!((got.value - expect).abs() < 1e-4, "{}", got.value);
    assert_eq!(got.remarks[0], remark);
}

#[test]
fn perplexity_is_over_all_tokens_but_the_first() {
    // exp(−(ln 0.5 + ln 0.125) / 2) = (1/16)^−½ = 4.
    let remark = "1.38629 nats per token; tokens 2, texts 1";
    let words = texts(cat(), vec![]);
    near(
        of(Metric::Perplexity, &words, vec![sample("a", answer())]),
        4.0,
        remark,
    );
    let ids = texts(TextPrompt::Ids(vec![1, 2, 3]), vec![]);
    near(
        of(Metric::Perplexity, &ids, vec![sample("a", answer())]),
        4.0,
        remark,
    );
}

#[test]
fn an_answer_that_scores_something_else_has_no_perplexity() {
    let why = |w: &Workload, s: Sample| of(Metric::Perplexity, w, vec![s]).unwrap_err().why;
    let words = texts(cat(), vec![]);
    let mut cut = sample("a", answer());
    cut.logprobs.pop();
    cut.text = Some("the cat".into());
    assert_eq!(why(&words, cut.clone()), Why::NotEchoed);
    let ids = texts(TextPrompt::Ids(vec![1, 2, 3]), vec![]);
    assert_eq!(why(&ids, cut), Why::Logprobs { got: 2, need: 3 });
    let mut bare = sample("a", answer());
    bare.logprobs[2].logprob = None;
    assert_eq!(why(&words, bare), Why::NoLogprob { place: 2 });
    let mut none = sample("a", answer());
    none.logprobs.clear();
    assert_eq!(why(&words, none), Why::Logprobs { got: 0, need: 2 });
    assert_eq!(
        why(&words, sample("b", answer())),
        Why::CaseMissing("a".into())
    );
}

/// As [`answer`], but " cat" 0.6 and " dog" 0.3; " ran" has 0.9, which the engine lists with 0.7.
fn reference() -> Vec<TokenLogprob> {
    let mut reference = answer();
    reference[1] = token(" cat", Some(0.6_f64.ln()), &[(" cat", 0.6), (" dog", 0.3)]);
    reference[2].top = vec![(" ran".into(), 0.9_f64.ln())];
    reference[2].logprob = Some(0.05_f64.ln());
    reference
}

#[test]
fn divergence_from_a_reference_is_a_mean_over_tokens() {
    let w = texts(cat(), reference());
    // 0.6 ln(0.6/0.5) + 0.3 ln(0.3/0.4) + 0.1 ln(0.1/0.1) = 0.0231, and of the second token
    // 0.9 ln(0.9/0.7) + 0.05 ln(0.05/0.125) + 0.05 ln(0.05/0.175) = 0.1177.
    let remark = "tokens 2; most in a, token 2 (\" sat\"): 0.1177 nats";
    near(
        of(Metric::KlDivergence, &w, vec![sample("a", answer())]),
        0.0704,
        remark,
    );
    let same = of(Metric::KlDivergence, &w, vec![sample("a", reference())]).unwrap();
    assert_eq!(
        (same.value.to_bits(), &*same.remarks[0]),
        (0, "tokens 2, all alike")
    );
}

#[test]
fn divergence_of_other_tokens_is_unknown() {
    let w = texts(cat(), reference());
    let mut other = answer();
    other[2].token = " s at".into();
    let why = |answer| {
        of(Metric::KlDivergence, &w, vec![sample("a", answer)])
            .unwrap_err()
            .why
    };
    assert_eq!(why(other), Why::OtherTokens { place: 2 });
    let mut longer = answer();
    longer.push(token(" ", Some(-1.0), &[(" ", 0.5)]));
    assert_eq!(why(longer), Why::OtherTokens { place: 3 });
    let mut bare = answer();
    bare[1].top.clear();
    assert_eq!(why(bare), Why::NoLogprob { place: 1 });
}

#[test]
fn a_list_without_the_references_token_shows_a_divergence() {
    let mut wild = answer();
    wild[1].top = vec![
        (" cow".into(), 0.9_f64.ln()),
        (" owl".into(), 0.01_f64.ln()),
    ];
    wild[1].logprob = Some(0.01_f64.ln());
    let w = texts(cat(), reference());
    let m = of(Metric::KlDivergence, &w, vec![sample("a", wild)]).unwrap();
    // " cat" has 0.01 and " dog" 0.01 at the most: 0.6 ln 60 + 0.3 ln 30 + 0.1 ln(0.1/0.98).
    let first = 0.6 * 60.0_f64.ln() + 0.3 * 30.0_f64.ln() + 0.1 * (0.1_f64 / 0.98).ln();
    assert!(
        (m.value - f64::midpoint(first, 0.1177)).abs() < 1e-3,
        "{}",
        m.value
    );
    // Two tokens of one text are not told apart, and belong to the rest.
    let mut twins = answer();
    twins[1].top.push((" cat".into(), 0.05_f64.ln()));
    twins[1].top.push(("\u{fffd}".into(), 0.04_f64.ln()));
    let twins = of(Metric::KlDivergence, &w, vec![sample("a", twins)]).unwrap();
    assert!(twins.value.is_finite() && twins.value >= 0.0);
}

#[test]
fn divergence_from_base_needs_bases_answer() {
    let w = texts(cat(), vec![]);
    let check = check(Metric::KlFromBase, Statistic::Single);
    let head = launch(0, vec![sample("a", answer())]);
    let beside = |base: Option<&Launch>| {
        let requests = Requests::of(&check, &w, &head).beside(&check, base);
        measure_among(&requests, &check)
    };
    assert_eq!(beside(None).unwrap_err().why, Why::NothingCompared);
    let base = launch(1, vec![sample("a", reference())]);
    let remark = "tokens 2; most in a, token 2 (\" sat\"): 0.1177 nats";
    near(beside(Some(&base)), 0.0704, remark);
    assert!(beside(Some(&head)).unwrap().value.abs() < 1e-12);
    // Perplexities of other tokens are not comparable.
    let mut longer = answer();
    longer.push(token(" up", Some(-1.0), &[(" up", 0.5)]));
    let longer = launch(1, vec![sample("a", longer)]);
    let perplexity = crate::metrics::testing::check(Metric::Perplexity, Statistic::Single);
    let requests = Requests::of(&perplexity, &w, &head).beside(&perplexity, Some(&longer));
    let undefined = measure_among(&requests, &perplexity).unwrap_err().why;
    assert_eq!(undefined, Why::OtherTokens { place: 3 });
    let elsewhere = launch(1, vec![sample("b", reference())]);
    let missing = beside(Some(&elsewhere)).unwrap_err().why;
    assert_eq!(missing, Why::OtherTokens { place: 1 });
}

fn golden(ties: f64) -> Workload {
    let token = |id, text: &str, p: f64, other: (u32, f64)| GoldenToken {
        id,
        text: text.into(),
        logprob: p.ln(),
        top: vec![(id, p.ln()), (other.0, other.1.ln())],
    };
    let case = GoldenCase {
        id: "g".into(),
        prompt_ids: vec![7],
        is_scorable: true,
        tokens: vec![
            token(1, " cat", 0.6, (2, 0.3)),
            token(3, " sat", 0.5, (4, ties)),
        ],
        text: " cat sat".into(),
        finish: "length".into(),
        ..GoldenCase::default()
    };
    Workload {
        kind: WorkloadKind::Goldens(Goldens {
            cases: vec![case],
            near_tie_nats: 0.1,
            top_k: Some(2),
            texts: [(2, " dog".to_owned()), (4, " ran".to_owned())].into(),
            ..Goldens::default()
        }),
        ..steady("w")
    }
}

#[test]
fn goldens_are_scored_after_their_prompts() {
    let forced = || vec![sample("g#forced", answer())];
    near(
        of(Metric::Perplexity, &golden(0.2), forced()),
        4.0,
        "1.38629 nats per token; tokens 2, texts 1",
    );
    let first = 0.6 * 1.2_f64.ln() + 0.3 * 0.75_f64.ln();
    let second = 0.5 * 4.0_f64.ln() + 0.2 * (0.2_f64 / 0.7).ln() + 0.3 * (0.3_f64 / 0.175).ln();
    let m = of(Metric::KlDivergence, &golden(0.2), forced()).unwrap();
    assert!(
        (m.value - f64::midpoint(first, second)).abs() < 1e-6,
        "{}",
        m.value
    );
}

#[test]
fn agreement_counts_tokens_and_forgives_near_ties() {
    let forced = || vec![sample("g#forced", answer())];
    // The engine's likeliest are " cat" and " ran"; the reference says " cat" and " sat".
    let firm = of(Metric::GreedyAgreement, &golden(0.2), forced()).unwrap();
    assert!((firm.value - 0.5).abs() < 1e-12);
    assert_eq!(
        firm.remarks,
        [
            "1 of 2 tokens",
            "case g, token 1: \" ran\" instead of \" sat\""
        ]
    );
    let tied = of(Metric::GreedyAgreement, &golden(0.49), forced()).unwrap();
    assert!((tied.value - 1.0).abs() < 1e-12);
    let mut bare = answer();
    bare[2].top.clear();
    let bare = of(
        Metric::GreedyAgreement,
        &golden(0.2),
        vec![sample("g#forced", bare)],
    );
    assert_eq!(bare.unwrap_err().why, Why::NoLogprob { place: 2 });
}
