//! Well-formed answers that cannot be true.

use super::*;
use verdict::plan::Plausible;
use verdict::record::{CacheState, Setting};

const MS: u64 = 1_000_000;

/// Sent at 10 ns; four tokens at 50, 60, 70 and 80 ms; 9 prompt tokens, 1 of them cached; then `rest`.
fn stream(rest: &str) -> Exchange {
    let bye = [LENGTH, USAGE_4, rest, DONE].concat();
    let tokens = [50, 60, 70, 80].map(|ms| (ms * MS, A));
    exchange(&[&tokens[..], &[(80 * MS, bye.as_str())]].concat())
}

fn detail(sample: &Sample, rule: VoidRule) -> &str {
    let void = sample.void.as_ref().unwrap();
    assert_eq!(void.rule, rule, "{}", void.detail);
    &void.detail
}

#[test]
fn faster_than_the_machine_is_implausible() {
    let check = |tpot, prefill, expect: Option<&str>| {
        let bounded = Endpoint {
            plausible: Plausible {
                tpot_floor_ms: tpot,
                prefill_floor_us: prefill,
            },
            ..endpoint()
        };
        let label = Label::of(0, Phase::Measured);
        let sample = sample_at(&bounded, label, &FORCED_4, &stream(""));
        match expect {
            None => assert_eq!(sample.void, None),
            Some(part) => {
                let detail = detail(&sample, VoidRule::Implausible);
                assert!(detail.contains(part), "{detail}");
            }
        }
    };
    check(None, None, None);
    check(Some(10.0), None, None);
    check(Some(10.1), None, Some("10.0000 ms a token"));
    // Eight tokens were computed in 50 ms: 6.25 ms each.
    check(None, Some(6_240.0), None);
    check(
        None,
        Some(6_260.0),
        Some("8 prompt tokens computed in 50.000 ms"),
    );
}

fn cell(cache: CacheState, phase: Phase) -> Label {
    Label {
        setting: Some(Setting::Cell {
            batch: 1,
            cache,
            context: 300,
            pass: 0,
        }),
        ..Label::of(0, phase)
    }
}

#[test]
fn the_cache_must_be_in_the_cells_state() {
    let check = |label: Label, prompt: u32, cached: &str, expect: Option<VoidRule>| {
        let usage = format!(
            "data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":{prompt},\"completion_tokens\":4,\
             \"prompt_tokens_details\":{cached}}}}}\n\n"
        );
        let text = [A, A, A, A, LENGTH, &usage, DONE].concat();
        let sample = sample_at(&endpoint(), label, &FORCED_4, &exchange(&[(30, &text)]));
        assert_eq!(rule(&sample), expect, "{cached}: {:?}", sample.void);
    };
    let tokens = |count: u32| format!("{{\"cached_tokens\":{count}}}");
    let wrong = Some(VoidRule::CacheState);
    let (cold, warm, hot) = (CacheState::Cold, CacheState::Warm, CacheState::Hot);
    check(cell(cold, Phase::Measured), 300, &tokens(30), None);
    check(cell(cold, Phase::Measured), 300, &tokens(31), wrong);
    check(cell(cold, Phase::Warmup), 300, &tokens(31), None);
    check(cell(warm, Phase::Measured), 300, &tokens(0), None);
    check(cell(hot, Phase::Measured), 300, &tokens(0), wrong);
    check(cell(hot, Phase::Measured), 300, &tokens(1), None);
    check(cell(hot, Phase::Warmup), 300, &tokens(0), None);
    check(cell(hot, Phase::Measured), 300, "null", None);
    check(Label::of(0, Phase::Measured), 300, &tokens(300), None);
    // In a short prompt, tokens that are alike by chance are a large share.
    check(cell(cold, Phase::Measured), 8, &tokens(4), None);
    check(cell(cold, Phase::Measured), 8, &tokens(5), wrong);
}

#[test]
fn an_answer_without_a_word_is_degenerate() {
    let check = |cache: CacheState, forced: u32, (text, reason): (&str, &str), expect| {
        let whole = Expect {
            forced: Some(forced),
            ..WHOLE
        };
        let tokens = if reason == "length" { forced } else { 1 };
        let answer = format!(
            "{{\"choices\":[{{\"text\":\"{text}\",\"finish_reason\":\"{reason}\"}}],\
             \"usage\":{{\"prompt_tokens\":9,\"completion_tokens\":{tokens}}}}}"
        );
        let label = cell(cache, Phase::Measured);
        let sample = sample_at(&endpoint(), label, &whole, &exchange(&[(30, &answer)]));
        assert_eq!(
            rule(&sample),
            expect,
            "{cache:?} {forced} `{text}` {reason}"
        );
    };
    let degenerate = Some(VoidRule::Degenerate);
    check(CacheState::Hot, 8, (" ", "length"), degenerate);
    check(CacheState::Hot, 8, ("a", "length"), None);
    check(CacheState::Hot, 7, (" ", "length"), None);
    check(CacheState::Cold, 8, (" ", "length"), None);
    // One space and no more, whatever the cache knew.
    check(CacheState::Hot, 8, (" ", "stop"), degenerate);
    check(CacheState::Warm, 8, (" ", "stop"), degenerate);
    check(
        CacheState::Warm,
        8,
        ("a", "stop"),
        Some(VoidRule::FinishReason),
    );
    // Outside cells too; where no length is forced it may be the model's own end.
    let anywhere = |forced: Option<u32>, text: &str, reason: &str, expect| {
        let whole = Expect {
            forced,
            most: Some(64),
            ..WHOLE
        };
        let tokens = forced.filter(|_| reason == "length").unwrap_or(1);
        let answer = format!(
            "{{\"choices\":[{{\"text\":\"{text}\",\"finish_reason\":\"{reason}\"}}],\
             \"usage\":{{\"prompt_tokens\":9,\"completion_tokens\":{tokens}}}}}"
        );
        let label = Label::of(0, Phase::Measured);
        let sample = sample_at(&endpoint(), label, &whole, &exchange(&[(30, &answer)]));
        assert_eq!(rule(&sample), expect, "{forced:?} `{text}` {reason}");
    };
    anywhere(Some(2), " ", "stop", degenerate);
    anywhere(Some(64), "", "stop", degenerate);
    anywhere(Some(64), " ", "length", None);
    anywhere(None, " ", "stop", None);
    // Counted by usage alone.
    check(CacheState::Cold, 8, ("", "length"), degenerate);
}
