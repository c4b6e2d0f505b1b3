//! Answers that were not streamed, and scored prompts.

use super::*;

#[test]
fn whole_answers() {
    let answer = r#"{"choices":[{"message":{"role":"assistant","content":" 42\n","reasoning_content":"6*7"},
        "finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":3},
        "timings":{"prompt_n":5,"prompt_ms":2.0,"predicted_n":3,"predicted_ms":4.5}}"#;
    let sound = sample(
        &WHOLE,
        &exchange(&[(30, &answer[..40]), (40, &answer[40..])]),
    );
    assert_eq!(rule(&sound), None);
    assert_eq!(sound.text.as_deref(), Some(" 42\n"));
    assert_eq!(sound.stamps.events_ns, [0_u64; 0]);
    assert_eq!(
        (sound.stamps.first_byte_ns, sound.stamps.done_ns),
        (Some(30), Some(40))
    );
    assert_eq!(sound.timings.unwrap().predicted_n, 3);
}

/// As with `tool_choice = "required"`.
#[test]
fn an_answer_that_only_calls_a_function_has_a_text() {
    let answer = r#"{"choices":[{"message":{"content":null,"tool_calls":[{"function":{"name":"f","arguments":"{\"a\":1}"}}]},
        "finish_reason":"tool_calls"}]}"#;
    let called = sample(&WHOLE, &exchange(&[(30, answer)]));
    assert_eq!(rule(&called), None);
    assert_eq!(called.text.as_deref(), Some("f{\"a\":1}"));
}

fn check_whole(expect: &Expect, answer: &str, void: Option<VoidRule>) {
    let sample = sample(expect, &exchange(&[(30, answer)]));
    assert_eq!(rule(&sample), void, "{answer}: {:?}", sample.void);
}

#[test]
fn whole_answers_are_void_by_the_same_names() {
    let end_of_sequence_at_once = r#"{"choices":[{"message":{"content":""},"finish_reason":"stop"}],"usage":{"completion_tokens":1}}"#;
    check_whole(&WHOLE, end_of_sequence_at_once, None);
    check_whole(
        &WHOLE,
        r#"{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}"#,
        None,
    );
    check_whole(
        &WHOLE,
        r#"{"choices":[{"message":{"content":""}}]}"#,
        Some(VoidRule::NoOutput),
    );
    check_whole(
        &WHOLE,
        r#"{"choices":[],"usage":{"completion_tokens":0}}"#,
        Some(VoidRule::NoOutput),
    );
    check_whole(
        &WHOLE,
        r#"{"choices":[{"text":"x","finish_reason":"abort"}]}"#,
        Some(VoidRule::FinishReason),
    );
    check_whole(&WHOLE, r#"{"error":"no"}"#, Some(VoidRule::Status));
    check_whole(&WHOLE, "<html>", Some(VoidRule::Malformed));
    check_whole(&WHOLE, "", Some(VoidRule::Malformed));
}

/// An answer with `n` scored tokens, `usage` completion tokens and this finish reason.
fn scored(n: usize, usage: &str, finish: &str) -> String {
    let tokens = vec!["\"x\""; n].join(",");
    let logprobs = vec!["-1"; n].join(",");
    format!(
        "{{\"choices\":[{{\"text\":\"x\",\"finish_reason\":\"{finish}\",\"logprobs\":\
         {{\"tokens\":[{tokens}],\"token_logprobs\":[{logprobs}]}}}}],\"usage\":{usage}}}"
    )
}

#[test]
fn scored_tokens_must_agree_with_usage_and_length() {
    let lie = Some(VoidRule::TokenCounts);
    let free = Expect {
        logprobs: true,
        ..WHOLE
    };
    let forced = Expect {
        forced: Some(3),
        ..free
    };
    check_whole(
        &forced,
        &scored(3, "{\"completion_tokens\":3}", "length"),
        None,
    );
    check_whole(&forced, &scored(3, "null", "length"), None);
    check_whole(&forced, &scored(2, "null", "length"), lie);
    check_whole(
        &forced,
        &scored(2, "{\"completion_tokens\":3}", "length"),
        lie,
    );
    check_whole(
        &forced,
        &scored(2, "{\"completion_tokens\":2}", "length"),
        lie,
    );
    // An end-of-sequence token may be counted and not scored, but only where the answer stopped.
    check_whole(&free, &scored(2, "{\"completion_tokens\":3}", "stop"), None);
    check_whole(
        &free,
        &scored(2, "{\"completion_tokens\":3}", "length"),
        lie,
    );
    check_whole(&free, &scored(3, "{\"completion_tokens\":2}", "stop"), lie);
    check_whole(
        &free,
        r#"{"choices":[{"text":"x","finish_reason":"stop"}]}"#,
        Some(VoidRule::Malformed),
    );
}

#[test]
fn a_list_that_skips_parts_of_characters_is_left_out() {
    let expect = Expect {
        forced: Some(4),
        logprobs: true,
        ..WHOLE
    };
    let answer = |listed, text: &str| {
        let answer = scored(listed, "{\"completion_tokens\":4}", "length");
        answer.replace("\"text\":\"x\"", &format!("\"text\":\"{text}\""))
    };
    for (listed, kept) in [(2, 0), (4, 4)] {
        let sample = sample(&expect, &exchange(&[(30, &answer(listed, "日本"))]));
        assert_eq!((sample.logprobs.len(), sample.void), (kept, None));
    }
    let lie = Some(VoidRule::TokenCounts);
    check_whole(&expect, &answer(2, "ab"), lie);
    check_whole(&expect, &answer(5, "日本"), lie);
    // No character of UTF-8 has more than four bytes.
    check_whole(&expect, &answer(1, "é"), None);
    check_whole(&expect, &answer(0, "é"), lie);
    // What lacks is the end of sequence.
    let free = Expect {
        forced: None,
        ..expect
    };
    let stopped = answer(3, "日本").replace("length", "stop");
    let sample = sample(&free, &exchange(&[(30, &stopped)]));
    assert_eq!((sample.logprobs.len(), sample.void), (3, None));
    let long = Expect {
        forced: Some(64),
        ..expect
    };
    let usage = "\"completion_tokens\":64";
    let lost = answer(33, "é").replace("\"completion_tokens\":4", usage);
    check_whole(&long, &lost, lie);
}

#[test]
fn an_echoed_prompt_is_scored_whole() {
    let lie = Some(VoidRule::TokenCounts);
    let echoed = Expect {
        echoed: true,
        logprobs: true,
        prompt: Some(5),
        ..WHOLE
    };
    let usage = "{\"prompt_tokens\":5,\"completion_tokens\":0}";
    check_whole(&echoed, &scored(5, usage, "length"), None);
    check_whole(&echoed, &scored(4, usage, "length"), lie);
    check_whole(
        &echoed,
        &scored(6, "{\"prompt_tokens\":5,\"completion_tokens\":1}", "length"),
        None,
    );
    check_whole(
        &echoed,
        &scored(6, "{\"prompt_tokens\":6,\"completion_tokens\":0}", "length"),
        lie,
    );
}
