//! Cells that fail, streamed against whole, the line over contexts, the ladder.

use super::super::testing::{check, launch, steady, streamed};
use super::super::{LaunchMeasure, Requests, Undefined, Why, measure, measure_among};
use crate::plan::{Check, Logprobs, Matrix, Workload, WorkloadKind};
use crate::record::{CacheState, Metric, Phase, Sample, Setting, Statistic, Void, VoidRule};

fn matrix() -> Matrix {
    Matrix {
        batches: vec![1, 2],
        caches: vec![CacheState::Hot],
        streamed: vec![true, false],
        contexts: vec![100],
        output_tokens: 5,
        passes: 1,
        rounds: 1,
        warmup: 0,
        logprobs: Logprobs::default(),
    }
}

fn workload(matrix: Matrix) -> Workload {
    Workload {
        kind: WorkloadKind::Matrix(matrix),
        ..steady("w")
    }
}

fn of(metric: Metric, matrix: Matrix, samples: Vec<Sample>) -> Result<LaunchMeasure, Undefined> {
    let check: Check = check(metric, Statistic::Single);
    measure(&check, &workload(matrix), &launch(0, samples))
}

/// A hot answer of five tokens, the last `end_ms` after the sending.
fn hot(index: u32, batch: u32, streams: bool, end_ms: f64) -> Sample {
    let mut s = streamed("w", index, end_ms - 4.0, 1.0, 5);
    s.streamed = streams;
    s.stamps.done_ns = s.stamps.events_ns.last().copied();
    s.setting = Some(Setting::Cell {
        batch,
        cache: CacheState::Hot,
        context: 100,
        pass: 0,
    });
    s.case = Some(format!("100-{}", index % 2));
    s.text_sha256 = s.case.clone().unwrap();
    s
}

/// Priming of both prompts, then each cell.
fn all() -> Vec<Sample> {
    let mut samples: Vec<Sample> = (0..8)
        .map(|i| hot(i, if i < 4 { 1 } else { 2 }, i % 4 < 2, 50.0))
        .collect();
    for sample in &mut samples[..2] {
        sample.phase = Phase::Warmup;
    }
    samples.push(hot(8, 1, true, 50.0));
    samples
}

#[test]
fn an_empty_answer_fails_its_cell_by_name() {
    let sound = of(Metric::FailedCells, matrix(), all()).unwrap();
    assert_eq!(sound.remarks, ["4 cells OK, 0 WARN, 0 FAIL"]);
    let mut samples = all();
    samples[4].void = Some(Void {
        rule: VoidRule::Degenerate,
        detail: "5 tokens, all of them white space".into(),
    });
    samples[6].text_sha256 = "another".into();
    let m = of(Metric::FailedCells, matrix(), samples).unwrap();
    assert!((m.value - 1.0).abs() < 1e-12);
    assert_eq!(
        m.remarks,
        [
            "2 cells OK, 1 WARN, 1 FAIL",
            "FAIL batch 2, hot, context 100, streamed: 1 of 2 answers, degenerate: 5 tokens, all of them white space",
            "WARN batch 2, hot, context 100, whole: 1 of 2 answers differ from what the same prompt got alone",
        ]
    );
    let mut missing = all();
    missing.truncate(6);
    let undefined = of(Metric::FailedCells, matrix(), missing).unwrap_err();
    assert!(matches!(undefined.why, Why::CellMissing(_)), "{undefined}");
}

#[test]
fn an_answer_that_head_alone_cuts_short_fails_its_cell() {
    let short = |rule| {
        let mut samples = all();
        samples[4].void = Some(Void {
            rule,
            detail: "ended after 3 of 5 tokens".into(),
        });
        launch(0, samples)
    };
    let failed = |rule, base: Option<VoidRule>| {
        let (check, workload) = (
            check(Metric::FailedCells, Statistic::Single),
            workload(matrix()),
        );
        let base = base.map_or_else(|| launch(1, all()), short);
        let head = short(rule);
        let requests = Requests::of(&check, &workload, &head).beside(&check, Some(&base));
        measure_among(&requests, &check).unwrap().value
    };
    use VoidRule::{FinishReason, TokenCounts};
    // Usage that miscounts is no wrong answer.
    let heads = [FinishReason, TokenCounts].map(|rule| failed(rule, None));
    let both = failed(FinishReason, Some(FinishReason));
    assert_eq!((heads, both), ([1.0, 0.0], 0.0));
}

#[test]
fn streamed_and_whole_are_compared_cell_by_cell() {
    let mut samples = all();
    let m = of(Metric::StreamParity, matrix(), samples.clone()).unwrap();
    assert!((m.value - 1.0).abs() < 1e-12);
    let mismatches = of(Metric::StreamMismatches, matrix(), samples.clone()).unwrap();
    assert!(mismatches.value.abs() < 1e-12);
    // Whole answers of batch 2 take 20 % longer, and one prompt gets another text there.
    for s in samples.iter_mut().filter(|s| !s.streamed) {
        s.text_sha256 = s.text_sha256.replace("100-1", "else");
        if matches!(s.setting, Some(Setting::Cell { batch: 2, .. })) {
            s.stamps.done_ns = Some(60_000_000);
        }
    }
    let m = of(Metric::StreamParity, matrix(), samples.clone()).unwrap();
    assert!((m.value - 1.2).abs() < 1e-9, "{}", m.value);
    let mismatches = of(Metric::StreamMismatches, matrix(), samples).unwrap();
    assert!((mismatches.value - 1.0).abs() < 1e-12);
    let alone = all().into_iter().filter(|s| s.streamed).collect();
    let undefined = of(Metric::StreamParity, matrix(), alone).unwrap_err();
    assert_eq!(undefined.why, Why::NoPair);
}

#[test]
fn tpot_is_a_base_and_a_slope() {
    let mut m = matrix();
    m.contexts = vec![98, 998, 3_998];
    // 8 ms + 2 µs a token of context, of the middle token: 100, 1000, 4000.
    let samples = (0..).zip(&m.contexts).map(|(index, &context)| {
        let tpot = 8.0 + 0.002 * f64::from(context + 2);
        let mut s = streamed("w", index, 50.0, tpot, 4);
        s.setting = Some(Setting::Cell {
            batch: 1,
            cache: CacheState::Cold,
            context,
            pass: 0,
        });
        s
    });
    let samples: Vec<Sample> = samples.collect();
    let base = of(Metric::TpotBase, m.clone(), samples.clone()).unwrap();
    let slope = of(Metric::TpotSlope, m.clone(), samples.clone()).unwrap();
    assert!((base.value - 8.0).abs() < 1e-6, "{}", base.value);
    assert!((slope.value - 2.0).abs() < 1e-6, "{}", slope.value);
    let one = of(Metric::TpotBase, m, samples[..1].to_vec()).unwrap_err();
    assert_eq!(one.why, Why::TooFewContexts { n: 1 });
}

#[test]
fn a_ladder_says_its_worst_step_and_where_it_saturates() {
    let mut m = matrix();
    m.batches = vec![1, 2, 4];
    // 100, 200 and 180 tokens/s: five tokens a request in 50, 50 and 111 ms.
    let mut samples = Vec::new();
    for (batch, ms) in [(1, 50.0), (2, 50.0), (4, 1e3 * 20.0 / 180.0)] {
        for _ in 0..batch {
            samples.push(hot(samples.len() as u32, batch, true, ms));
        }
    }
    let step = of(Metric::ThroughputStep, m, samples).unwrap();
    assert!((step.value - 0.9).abs() < 1e-6, "{}", step.value);
    assert_eq!(
        step.remarks,
        ["tokens/s: 100 at 1, 200 at 2, 180 at 4; saturates at 2 in flight"]
    );
}

#[test]
fn contention_is_the_time_per_token_beside_others_over_that_alone() {
    // TPOT of 1 ms at batch 1; of 1.5 ms at batch 2; whole answers have none.
    let beside = |index| {
        let mut s = hot(index, 2, true, 50.0);
        let last = s.stamps.events_ns.len() as u64 - 1;
        let first = s.stamps.events_ns[0];
        for (place, at) in (0_u64..).zip(&mut s.stamps.events_ns) {
            *at = first + place * 1_500_000;
        }
        assert_eq!(last, 4);
        s
    };
    let samples = vec![
        hot(0, 1, true, 50.0),
        hot(1, 1, false, 90.0),
        beside(2),
        beside(3),
        hot(4, 2, false, 90.0),
    ];
    let m = of(Metric::Contention, matrix(), samples.clone()).unwrap();
    assert!((m.value - 1.5).abs() < 1e-9, "{}", m.value);
    let remark = "TPOT 1.0000 ms at batch 1, 1.5000 ms at batch 2, hot, context 100";
    assert_eq!(m.remarks, [remark]);
    let alone = of(Metric::Contention, matrix(), samples[..2].to_vec());
    assert_eq!(alone.unwrap_err().why, Why::NoLadder);
}
