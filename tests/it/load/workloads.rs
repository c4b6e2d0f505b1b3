//! Workloads as they go over the wire, and what comes of them.

use super::server::{Received, Server, Step, answer, stream};
use super::{
    SEED, check_order, done, endpoint, event, last, plain, run_on, steady, usage, workload,
};
use client::{Endpoint, SessionClock, run};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::sync::Barrier;
use verdict::plan::{GoldenCase, GoldenToken, Goldens, Session, TaskCase, Tasks, WorkloadKind};
use verdict::record::Phase;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steady_forces_the_length_of_unique_prompts() {
    // The first three wait for each other, so that all three slots must be in flight at once.
    let barrier = Arc::new(Barrier::new(3));
    let server = Server::start(move |number, _| {
        let meet = (number < 3).then(|| Step::Meet(Arc::clone(&barrier)));
        meet.into_iter().chain(stream(&plain())).collect()
    })
    .await;
    let seen = Mutex::new(Vec::new());
    let clock = SessionClock::start();
    let progress = |done, total| seen.lock().unwrap().push((done, total));
    let outcome = run(
        &endpoint(server.address),
        &steady(10, 2, 3),
        SEED,
        &clock,
        &progress,
    )
    .await;
    let ended_ns = clock.now_ns();

    assert_eq!(
        *seen.lock().unwrap(),
        (1..=12).map(|done| (done, 12)).collect::<Vec<_>>()
    );
    let phases: Vec<Phase> = outcome.samples.iter().map(|sample| sample.phase).collect();
    assert_eq!(
        phases,
        [vec![Phase::Warmup; 2], vec![Phase::Measured; 10]].concat()
    );
    for sample in &outcome.samples {
        assert_eq!(sample.void, None);
        assert_eq!(
            (sample.workload.as_str(), sample.streamed),
            ("gate/work", true)
        );
        assert_eq!(sample.tokens.requested, Some(64));
        assert_eq!(
            (sample.text.is_some(), &sample.case, sample.turn),
            (true, &None, None)
        );
        assert!(sample.stamps.done_ns.is_some_and(|done| done <= ended_ns));
    }
    // One connection a slot, kept alive.
    let opened = outcome
        .samples
        .iter()
        .filter(|sample| sample.stamps.connect_ns.is_some())
        .count();
    let received = server.received();
    let connections = received
        .iter()
        .map(|request| request.connection)
        .max()
        .unwrap()
        + 1;
    assert_eq!((opened, connections), (3, 3));

    let mut prompts: Vec<Vec<u64>> = received.iter().map(check_steady).collect();
    prompts.sort();
    prompts.dedup();
    assert_eq!(prompts.len(), 12);
}

/// Checks a steady request; gives its prompt.
fn check_steady(request: &Received) -> Vec<u64> {
    let body = &request.json;
    assert_eq!(request.path, "/v1/completions");
    assert_eq!(body["model"], "m");
    assert_eq!(
        (&body["max_tokens"], &body["min_tokens"]),
        (&json!(64), &json!(64))
    );
    assert_eq!(
        (&body["ignore_eos"], &body["temperature"]),
        (&json!(true), &json!(0.0))
    );
    assert_eq!(body["stream_options"], json!({"include_usage": true}));
    let prompt = body["prompt"].as_array().unwrap();
    let ids: Vec<u64> = prompt.iter().map(|id| id.as_u64().unwrap()).collect();
    assert_eq!(ids.len(), 8);
    assert!(ids.iter().all(|id| (100..200).contains(id)));
    ids
}

#[tokio::test]
async fn without_token_ids_prompts_are_words() {
    let server = Server::start(|_, _| stream(&plain())).await;
    let words = Endpoint {
        prompt_ids: None,
        ..endpoint(server.address)
    };
    let outcome = run_on(&words, &steady(1, 0, 1)).await;
    // Usage says 8 prompt tokens; nothing was promised, so whatever it says stands.
    assert_eq!(outcome.samples[0].void, None);
    let prompt = server.received()[0].json["prompt"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(prompt.split(' ').count(), 8);
}

#[tokio::test]
async fn a_conversation_sends_the_real_replies() {
    // Replies name their turn; the third fails and is not part of the history.
    let server = Server::start(|turn, _| {
        if turn == 2 {
            return answer("500 Oops", "");
        }
        let part = |text: &str| event(&json!({"choices": [{"delta": {"content": text}}]}));
        let reply = [part(&format!("reply {turn}")), part("!")];
        let bye = [last("length"), usage(2), done()];
        stream(&[&reply[..], &bye].concat())
    })
    .await;
    let session = workload(WorkloadKind::Session(Session {
        turns: 5,
        warmup_turns: 1,
        message_words: 6,
        reply_tokens: 2,
        spacing: None,
        duration: None,
    }));
    let outcome = run_on(&endpoint(server.address), &session).await;

    let phases: Vec<Phase> = outcome.samples.iter().map(|sample| sample.phase).collect();
    assert_eq!(
        phases,
        [vec![Phase::Warmup], vec![Phase::Measured; 4]].concat()
    );
    let turns: Vec<Option<u32>> = outcome.samples.iter().map(|sample| sample.turn).collect();
    assert_eq!(turns, (0..5).map(Some).collect::<Vec<_>>());
    let void: Vec<bool> = outcome
        .samples
        .iter()
        .map(|sample| sample.void.is_some())
        .collect();
    assert_eq!(void, [false, false, true, false, false]);

    let received = server.received();
    let content = |request: usize, message: usize| {
        received[request].json["messages"][message]["content"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let lengths: Vec<usize> = received
        .iter()
        .map(|request| request.json["messages"].as_array().unwrap().len())
        .collect();
    assert_eq!(lengths, [1, 3, 5, 5, 7]);
    assert!(
        received
            .iter()
            .all(|request| request.path == "/v1/chat/completions")
    );
    assert_eq!(
        received[1].json["messages"][1],
        json!({"role": "assistant", "content": "reply 0!"})
    );
    assert_eq!(content(4, 5), "reply 3!");
    assert_eq!(content(1, 0), content(0, 0));
    assert_ne!(content(3, 4), content(2, 4));
    assert_eq!(content(0, 0).split(' ').count(), 6);
    assert_eq!(received[0].json["min_tokens"], 2);
}

fn golden(id: &str, ignore_eos: bool) -> GoldenCase {
    let token = |id| GoldenToken {
        id,
        text: id.to_string(),
        logprob: -0.5,
        top: vec![(id, -0.5)],
    };
    GoldenCase {
        id: id.into(),
        prompt_ids: vec![1, 2, 3],
        ignore_eos,
        max_tokens: 2,
        tokens: vec![token(7), token(8)],
        is_scorable: true,
        text: "78".into(),
        finish: "length".into(),
        ..GoldenCase::default()
    }
}

#[tokio::test]
async fn goldens_are_generated_and_then_scored() {
    let server = Server::start(|_, request| {
        let echo = request.json["echo"] == json!(true);
        let sent = request.json["prompt"].as_array().unwrap().len();
        let scored = if echo { sent } else { 2 };
        let body = json!({
            "choices": [{
                "text": "78",
                "finish_reason": "length",
                "logprobs": {
                    "tokens": vec!["7"; scored],
                    "token_logprobs": vec![-0.5; scored],
                    "top_logprobs": vec![json!({"7": -0.5, "9": -1.5}); scored],
                },
            }],
            "usage": {"prompt_tokens": sent, "completion_tokens": if echo { 0 } else { 2 }},
        });
        answer("200 OK", &body.to_string())
    })
    .await;
    let goldens = workload(WorkloadKind::Goldens(Goldens {
        cases: vec![golden("one", true), golden("two", false)],
        near_tie_nats: 0.1,
        top_k: Some(2),
        ..Goldens::default()
    }));
    let outcome = run_on(&endpoint(server.address), &goldens).await;

    let cases: Vec<&str> = outcome
        .samples
        .iter()
        .map(|s| s.case.as_deref().unwrap())
        .collect();
    assert_eq!(cases, ["one", "one#forced", "two", "two#forced"]);
    for sample in &outcome.samples {
        assert_eq!(sample.void, None);
        assert_eq!(sample.text.as_deref(), Some("78"));
        assert_eq!(
            sample.logprobs[0].top,
            [("7".to_owned(), -0.5), ("9".to_owned(), -1.5)]
        );
        check_order(sample);
    }
    let lengths: Vec<usize> = outcome.samples.iter().map(|s| s.logprobs.len()).collect();
    assert_eq!(lengths, [2, 5, 2, 5]);

    let sent: Vec<Value> = server
        .received()
        .into_iter()
        .map(|request| request.json)
        .collect();
    assert_eq!(
        (&sent[0]["prompt"], &sent[1]["prompt"]),
        (&json!([1, 2, 3]), &json!([1, 2, 3, 7, 8]))
    );
    assert_eq!(
        (&sent[0]["ignore_eos"], &sent[2]["ignore_eos"]),
        (&json!(true), &Value::Null)
    );
    assert_eq!(
        (&sent[0]["max_tokens"], &sent[1]["max_tokens"]),
        (&json!(2), &json!(0))
    );
    assert!(
        sent.iter()
            .all(|body| body["logprobs"] == 2 && body["stream"] == false)
    );
}

#[tokio::test]
async fn tasks_keep_their_answers() {
    let server = Server::start(|_, _| {
        let body = json!({
            "choices": [{"message": {"role": "assistant", "content": "5"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 4, "completion_tokens": 2},
        });
        answer("200 OK", &body.to_string())
    })
    .await;
    let case = TaskCase {
        id: "add-1".into(),
        task: "add".into(),
        messages: vec![("user".into(), "2+3=".into())],
        expect: "5".into(),
        max_tokens: 8,
    };
    let tasks = workload(WorkloadKind::Tasks(Tasks { cases: vec![case] }));
    let outcome = run_on(&endpoint(server.address), &tasks).await;
    let sample = &outcome.samples[0];
    assert_eq!((&sample.void, sample.text.as_deref()), (&None, Some("5")));
    assert_eq!(sample.case.as_deref(), Some("add-1"));
    let body = &server.received()[0].json;
    assert_eq!(
        body["messages"],
        json!([{"role": "user", "content": "2+3="}])
    );
    assert_eq!(
        (&body["max_tokens"], &body["min_tokens"]),
        (&json!(8), &Value::Null)
    );
}
