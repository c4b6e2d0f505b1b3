//! Streams that break other tools: the truth is told, or the sample is void by name.

use super::server::{Server, Step, chunk, end, stream, stream_head};
use super::{
    TOKENS, check_order, check_sound, check_void, done, endpoint, event, goodbye, last, plain,
};
use super::{run_on, steady, text, tokens, usage};
use serde_json::json;
use verdict::record::VoidRule;

#[tokio::test]
async fn a_plain_stream_is_sound() {
    check_sound(stream(&plain()), TOKENS).await;
}

#[tokio::test]
async fn a_role_long_before_the_first_token() {
    let role = event(&json!({"choices": [{"delta": {"role": "assistant", "content": ""}}]}));
    let mut script = vec![stream_head(), chunk(&role), Step::Pause(20)];
    script.extend(plain().iter().map(|text| chunk(text)));
    script.push(end());
    check_sound(script, TOKENS).await;
}

#[tokio::test]
async fn four_tokens_in_an_event() {
    let fours: Vec<String> = (0..TOKENS / 4).map(|_| text("a b c d")).collect();
    check_sound(stream(&[fours, goodbye()].concat()), TOKENS / 4).await;
}

#[tokio::test]
async fn no_usage_at_all() {
    let chunks = [tokens(TOKENS), vec![last("length"), done()]].concat();
    check_void(stream(&chunks), VoidRule::TokenCounts).await;
}

#[tokio::test]
async fn end_of_sequence_at_half_the_forced_length() {
    let chunks = [tokens(32), vec![last("stop"), usage(32), done()]].concat();
    check_void(stream(&chunks), VoidRule::FinishReason).await;
}

#[tokio::test]
async fn empty_deltas_between_tokens() {
    let spaced = tokens(TOKENS)
        .into_iter()
        .flat_map(|token| [token, text("")]);
    check_sound(stream(&[spaced.collect(), goodbye()].concat()), TOKENS).await;
}

#[tokio::test]
async fn reasoning_first() {
    let part = |name: &str| event(&json!({"choices": [{"delta": {name: "x"}}]}));
    for name in ["reasoning_content", "reasoning"] {
        let chunks = [vec![part(name); 32], vec![part("content"); 32], goodbye()].concat();
        check_sound(stream(&chunks), TOKENS).await;
    }
}

#[tokio::test]
async fn a_late_goodbye() {
    let mut script = vec![stream_head()];
    script.extend(tokens(TOKENS).iter().map(|text| chunk(text)));
    script.push(Step::Pause(20));
    script.extend(goodbye().iter().map(|text| chunk(text)));
    script.push(end());
    check_sound(script, TOKENS).await;
}

#[tokio::test]
async fn comment_lines() {
    let kept_alive = plain()
        .into_iter()
        .flat_map(|event| [": keep-alive\n\n".into(), event]);
    check_sound(stream(&kept_alive.collect::<Vec<_>>()), TOKENS).await;
}

#[tokio::test]
async fn other_line_ends() {
    for end in ["\r\n", "\r"] {
        let chunks: Vec<String> = plain()
            .iter()
            .map(|event| event.replace('\n', end))
            .collect();
        check_sound(stream(&chunks), TOKENS).await;
    }
}

#[tokio::test]
async fn a_stream_cut_at_token_32() {
    let mut script = vec![stream_head()];
    script.extend(tokens(32).iter().map(|text| chunk(text)));
    script.push(Step::Close);
    // Every second one, so that no row of failures ends the workload.
    let server = Server::start(move |number, _| {
        if number % 2 == 0 {
            script.clone()
        } else {
            stream(&plain())
        }
    })
    .await;
    let outcome = run_on(&endpoint(server.address), &steady(16, 0, 1)).await;
    assert_eq!((outcome.samples.len(), outcome.stopped), (16, None));
    for (index, sample) in outcome.samples.iter().enumerate() {
        check_order(sample);
        let void = sample.void.as_ref().map(|void| void.rule);
        if index % 2 == 0 {
            assert_eq!(
                (void, sample.tokens.events),
                (Some(VoidRule::CutStream), 32)
            );
            assert_eq!(sample.stamps.done_ns, None);
        } else {
            assert_eq!((void, sample.tokens.events), (None, 64));
        }
    }
}

#[tokio::test]
async fn usage_ten_too_high() {
    let chunks = [
        tokens(TOKENS),
        vec![last("length"), usage(TOKENS + 10), done()],
    ]
    .concat();
    check_void(stream(&chunks), VoidRule::TokenCounts).await;
}

#[tokio::test]
async fn events_and_characters_split_across_packets() {
    let crabs: Vec<String> = (0..TOKENS).map(|_| text("🦀é")).collect();
    let body = [crabs, goodbye()].concat().concat();
    // HTTP chunks and TCP writes of one byte, in the middle of everything.
    let mut script = vec![stream_head()];
    script.extend(
        body.bytes()
            .map(|byte| Step::Send([b"1\r\n", &[byte][..], b"\r\n"].concat())),
    );
    script.push(end());
    let server = Server::start(move |_, _| script.clone()).await;
    let outcome = run_on(&endpoint(server.address), &steady(2, 0, 2)).await;
    let plain = Server::start(move |_, _| stream(std::slice::from_ref(&body))).await;
    let at_once = run_on(&endpoint(plain.address), &steady(2, 0, 2)).await;
    for (split, whole) in outcome.samples.iter().zip(&at_once.samples) {
        assert_eq!((&split.void, &whole.void), (&None, &None));
        assert_eq!((split.tokens.events, whole.tokens.events), (64, 64));
        assert_eq!(split.text_sha256, whole.text_sha256);
        // All in one read: only the time of its last event, `[DONE]`, is exact.
        assert_eq!(whole.stamps.ambiguous_events, 64);
    }
}
