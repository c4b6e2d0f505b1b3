//! Streams that break other tools, each beside a sound one; `tests/it/quirks` has the others.

use super::server::{Server, Step, chunk, end, stream, stream_head};
use super::{TOKENS, check_order, endpoint, goodbye, plain, run_on, steady, text, tokens};
use verdict::record::VoidRule;

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
