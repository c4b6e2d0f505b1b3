//! `gate load --multi-turn`: conversations of a file, turn by turn, with the server's own answers.

use super::command::{ended, json, load};
use super::server::{Received, Server, Step, answer, chunk, stream};
use super::{done, event};
use serde_json::{Value, json as object};
use std::path::PathBuf;

/// Four tokens, the first of which says which request this was. The prompt counts a token for each message, and all
/// but the last two are cached.
fn reply(number: usize, request: &Received) -> Vec<Step> {
    let prompt = messages(request).len();
    let mut events: Vec<String> = (0..4)
        .map(|token| {
            let text = if token == 0 {
                format!("r{number}")
            } else {
                format!(" t{token}")
            };
            event(&object!({"choices": [{"index": 0, "delta": {"content": text}}]}))
        })
        .collect();
    events.push(event(
        &object!({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}),
    ));
    events.push(event(&object!({"choices": [], "usage": {
        "prompt_tokens": prompt, "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": prompt.saturating_sub(2)}}})));
    events.push(done());
    stream(&events)
}

fn messages(request: &Received) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let messages = request.json["messages"].as_array().unwrap();
    let message = |message: &Value| (text(&message["role"]), text(&message["content"]));
    messages.iter().map(message).collect()
}

/// ShareGPT's form: conversation `c` has users' messages `c0`, `c1` … and recorded answers that nobody may send.
fn conversations(turns: &[usize]) -> (tempfile::TempDir, PathBuf) {
    let all = turns.iter().enumerate().map(|(c, turns)| {
        let said = (0..*turns).flat_map(|turn| {
            [
                object!({"from": "human", "value": format!("{c}.{turn}")}),
                object!({"from": "gpt", "value": "recorded"}),
            ]
        });
        object!({"conversations": said.collect::<Vec<Value>>()})
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chats.json");
    std::fs::write(&path, Value::from(all.collect::<Vec<Value>>()).to_string()).unwrap();
    (folder, path)
}

const FEW: [&str; 5] = ["--multi-turn", "--output-tokens", "4", "--format", "json"];

#[tokio::test]
async fn each_turn_holds_the_servers_own_answers_to_those_before_it() {
    let server = Server::start(reply).await;
    let (_folder, path) = conversations(&[3, 1, 4, 2]);
    let mut command = load(server.address, &["--concurrency", "2", "--warmup", "2"]);
    command.args(FEW).arg("--prompts").arg(&path);
    let output = ended(command).await;
    let report = json(&output);
    assert_eq!(report["requests"]["ok"], 8, "{output:?}");
    assert_eq!(report["requests"]["warmup"], 2);
    assert_eq!(report["parameters"]["multi_turn"], true);

    let received = server.received();
    assert_eq!(received.len(), 10);
    // Each answer that a conversation got, in order.
    let mut said = vec![Vec::<(String, String)>::new(); 4];
    for (number, request) in received.iter().enumerate() {
        assert_eq!(request.path, "/v1/chat/completions");
        let messages = messages(request);
        let (role, text) = messages.last().unwrap();
        assert_eq!(role, "user");
        let (conversation, turn) = text.split_once('.').unwrap();
        let history = &mut said[conversation.parse::<usize>().unwrap()];
        history.push(("user".into(), text.clone()));
        assert_eq!(history, &messages, "turn {turn}");
        history.push(("assistant".into(), format!("r{number} t1 t2 t3")));
    }
    let turns: Vec<usize> = said.iter().map(|history| history.len() / 2).collect();
    assert_eq!(turns, [3, 1, 4, 2]);
    check_users(&received, 2);

    let turns = report["turns"].as_array().unwrap();
    let ends: Vec<_> = turns
        .iter()
        .map(|of| (of["from"].clone(), of["to"].clone()))
        .collect();
    assert_eq!(
        ends,
        [
            (1.into(), 1.into()),
            (2.into(), 2.into()),
            (3.into(), 4.into())
        ]
    );
    let counts: u64 = turns
        .iter()
        .map(|of| of["requests"].as_u64().unwrap())
        .sum();
    assert_eq!(counts, 8, "warm-up is in none");
    // Turn 2 has 3 messages, of which one is cached.
    assert_eq!(turns[1]["prompt_tokens"]["mean"], 3.0);
    assert_eq!(turns[1]["cached_share"], 1.0 / 3.0);
    assert!(turns[2]["ttft_ms"].is_object(), "{report}");
    // A first turn follows no answer.
    assert_eq!(turns[0]["pause_ms"]["n"], 0);
    assert_eq!(turns[1]["pause_ms"]["n"], turns[1]["requests"]);
    assert!(turns[1]["pause_ms"]["min"].as_f64() > Some(0.0), "{report}");
}

/// A user ends a conversation before the next one begins.
fn check_users(received: &[Received], users: usize) {
    let mut open = std::collections::BTreeMap::<usize, String>::new();
    for request in received {
        let text = messages(request).pop().unwrap().1;
        let (conversation, turn) = text.split_once('.').unwrap();
        let before = open.insert(request.connection, conversation.to_owned());
        let goes_on = before.as_deref() == Some(conversation);
        assert_eq!(goes_on, turn != "0", "{text}");
    }
    assert_eq!(open.len(), users);
}

#[tokio::test]
async fn new_conversations_come_at_a_rate() {
    let server = Server::start(reply).await;
    let (_folder, path) = conversations(&[2, 2, 2]);
    let mut command = load(server.address, &["--rate", "50", "--arrivals", "constant"]);
    command.args(FEW).arg("--prompts").arg(&path);
    let report = json(&ended(command).await);
    assert_eq!(report["requests"]["ok"], 6, "{report}");
    assert_eq!(report["turns"][1]["requests"], 3);
}

#[tokio::test]
async fn so_many_requests_end_the_last_conversation_early() {
    let server = Server::start(reply).await;
    let (_folder, path) = conversations(&[2, 5]);
    let mut command = load(server.address, &["--concurrency", "1", "--requests", "4"]);
    command.args(FEW).arg("--prompts").arg(&path);
    let report = json(&ended(command).await);
    assert_eq!(report["requests"]["ok"], 4, "{report}");
    assert!(
        !report["notes"].to_string().contains("not sent"),
        "{report}"
    );
}

/// What would follow a void answer is another conversation than the file's.
#[tokio::test]
async fn a_void_answer_ends_its_conversation_and_the_note_counts_what_was_not_sent() {
    let server = Server::start(|number, request| match number {
        0 => answer("500 Internal Server Error", "{}"),
        _ => reply(number, request),
    })
    .await;
    let (_folder, path) = conversations(&[4, 2]);
    let mut command = load(server.address, &["--concurrency", "1"]);
    command.args(FEW).arg("--prompts").arg(&path);
    let report = json(&ended(command).await);
    assert_eq!(report["requests"]["sent"], 3, "{report}");
    assert_eq!(report["requests"]["ok"], 2);
    let note = "3 turns were not sent: a void answer ends its conversation, and 1 were void";
    assert!(report["notes"].to_string().contains(note), "{report}");
    // A server that stops within a conversation is no reason to wait for ever.
    let dead = Server::start(|_, _| vec![chunk(""), Step::Close]).await;
    let mut command = load(dead.address, &["--concurrency", "2"]);
    command.args(FEW).arg("--prompts").arg(&path);
    assert!(!ended(command).await.status.success());
}

#[tokio::test]
async fn what_is_no_conversation_is_refused() {
    let nowhere = super::nobody().await;
    let check = async |lines: &str, arguments: &[&str], part: &str| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chats.jsonl");
        std::fs::write(&path, lines).unwrap();
        let mut command = load(nowhere, arguments);
        command.arg("--multi-turn").arg("--prompts").arg(&path);
        let output = ended(command).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part), "`{part}` in {said}");
    };
    let one = ["--concurrency", "1"];
    check("{\"prompt\": \"x\"}", &one, "line 1: it is no conversation").await;
    let chat = "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}\n".repeat(3);
    check(
        &chat,
        &["--concurrency", "4"],
        "4 users are never there at once with 3",
    )
    .await;
    let steps = ["--concurrency", "1,1", "--warmup", "1"];
    check(
        &chat,
        &steps,
        "1 conversations of 1 turns for each of 2 steps",
    )
    .await;
    check(
        &chat,
        &["--concurrency", "1", "--requests", "4"],
        "3 conversations of 3 turns, and 4",
    )
    .await;
    let mut command = load(nowhere, &["--concurrency", "1", "--multi-turn"]);
    command.arg("--format").arg("json");
    let said = ended(command).await;
    assert_eq!(said.status.code(), Some(2), "--prompts is needed: {said:?}");
}
