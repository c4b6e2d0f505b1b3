//! What `gate load` can be told to send: the chat route, keys, headers, prompts of files; and several paces in one run.

use super::command::{ended, json, load};
use super::server::{Server, Step, answer, stream};
use super::{done, event, usage};
use fixture::process::gate;
use serde_json::{Value, json as object};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Stdio;

/// A stream of four tokens, as the route that was asked has it.
fn four(path: &str) -> Vec<Step> {
    let token = |text: &str| match path.ends_with("chat/completions") {
        true => object!({"index": 0, "delta": {"content": text}}),
        false => object!({"index": 0, "text": text}),
    };
    let mut events: Vec<String> = (0..4)
        .map(|number| event(&object!({"choices": [token(&format!(" t{number}"))]})))
        .collect();
    let mut last = token("");
    last["finish_reason"] = "length".into();
    events.extend([event(&object!({"choices": [last]})), usage(4), done()]);
    stream(&events)
}

async fn server() -> Server {
    Server::start(|_, request| four(&request.path)).await
}

fn file(lines: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("requests.jsonl");
    std::fs::write(&path, lines).unwrap();
    (folder, path)
}

const FEW: [&str; 6] = [
    "--requests",
    "4",
    "--output-tokens",
    "4",
    "--format",
    "json",
];

#[tokio::test]
async fn the_chat_route_under_a_path_with_key_headers_and_further_fields() {
    let server = server().await;
    let url = format!("http://{}/llm/v1", server.address);
    let mut command = gate(&[
        "load",
        "--url",
        &url,
        "--model",
        "m",
        "--concurrency",
        "2",
        "--chat",
    ]);
    command
        .args(FEW)
        .args([
            "--api-key-env",
            "LOAD_TEST_KEY",
            "--header",
            "x-team: red-team-7",
        ])
        .args([
            "--extra-body",
            r#"{"temperature": 0.7, "nested": {"a": [1]}}"#,
        ])
        .env("LOAD_TEST_KEY", "key-for-this-test")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = ended(command).await;
    let report = json(&output);
    assert_eq!(report["requests"]["ok"], 4, "{output:?}");
    assert_eq!(report["parameters"]["chat"], true);
    assert_eq!(report["parameters"]["header"], "authorization, x-team");
    for shown in [&output.stdout, &output.stderr] {
        let shown = String::from_utf8_lossy(shown);
        assert!(
            !shown.contains("key-for-this-test") && !shown.contains("red-team-7"),
            "{shown}"
        );
    }
    for request in server.received() {
        assert_eq!(request.path, "/llm/v1/chat/completions");
        assert!(
            request
                .head
                .contains("authorization: Bearer key-for-this-test\r\n"),
            "{}",
            request.head
        );
        assert!(
            request.head.contains("x-team: red-team-7\r\n"),
            "{}",
            request.head
        );
        let body = &request.json;
        assert_eq!(
            (&body["temperature"], &body["nested"]["a"][0]),
            (&object!(0.7), &object!(1))
        );
        assert_eq!(body["messages"][0]["role"], "user");
        assert_eq!(body["prompt"], Value::Null);
    }
}

/// A server that quotes the key in its refusal shows it to nobody.
#[tokio::test]
async fn a_key_is_shown_by_no_error() {
    let server = Server::start(|_, _| {
        let body = r#"{"error": {"message": "Incorrect API key provided: key-for-this-test"}}"#;
        answer("401 Unauthorized", body)
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let raw = folder.path().join("raw.jsonl");
    let mut command = load(
        server.address,
        &["--concurrency", "1", "--api-key-env", "LOAD_TEST_KEY"],
    );
    command
        .args(FEW)
        .arg("--out")
        .arg(&raw)
        .env("LOAD_TEST_KEY", "key-for-this-test");
    let output = ended(command).await;
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let raw = std::fs::read(&raw).unwrap();
    for shown in [&output.stdout, &output.stderr, &raw] {
        assert!(!String::from_utf8_lossy(shown).contains("key-for-this-test"));
    }
    let details = json(&output)["requests"]["details"].to_string();
    assert!(details.contains("[redacted]"), "{details}");
}

#[tokio::test]
async fn prompts_and_conversations_of_a_file() {
    let lines = "{\"prompt\": \"One?\"}\n\
                 {\"prompt\": \"Two?\", \"output_tokens\": 4}\n\
                 {\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": \"user\", \"content\": \"Three?\"}]}\n";
    let (_folder, path) = file(lines);
    let server = server().await;
    let mut command = load(
        server.address,
        &[
            "--concurrency",
            "1",
            "--output-tokens",
            "4",
            "--format",
            "json",
        ],
    );
    command.arg("--prompts").arg(&path);
    let output = ended(command).await;
    let report = json(&output);
    assert_eq!(report["requests"]["ok"], 3, "{output:?}");
    let received = server.received();
    assert_eq!(received[0].json["prompt"], "One?");
    assert_eq!(received[1].json["prompt"], "Two?");
    assert_eq!(received[2].path, "/v1/chat/completions");
    assert_eq!(
        received[2].json["messages"][0],
        object!({"role": "system", "content": "Be brief."})
    );
    assert_eq!(received[2].json["max_tokens"], 4);
}

#[tokio::test]
async fn hash_ids_of_a_trace_are_shared_prefixes() {
    let line = |tokens: u32, ids: &str| {
        format!(
            "{{\"timestamp\": 0, \"input_length\": {tokens}, \"output_length\": 4, \"hash_ids\": {ids}}}\n"
        )
    };
    let (_folder, path) =
        file(&(line(1000, "[7, 8]") + &line(1100, "[7, 9, 10]") + &line(1000, "[7, 8]")));
    let server = server().await;
    let mut command = load(
        server.address,
        &["--prompt-ids", "0..1000", "--format", "json"],
    );
    command.arg("--trace").arg(&path);
    let output = ended(command).await;
    assert_eq!(json(&output)["requests"]["sent"], 3, "{output:?}");
    let mut prompts: Vec<Vec<u64>> = server
        .received()
        .iter()
        .map(|request| serde_json::from_value(request.json["prompt"].clone()).unwrap())
        .collect();
    prompts.sort_by_key(Vec::len);
    assert_eq!(
        prompts.iter().map(Vec::len).collect::<Vec<_>>(),
        [1000, 1000, 1100]
    );
    assert_eq!(prompts[0], prompts[1]);
    assert_eq!(prompts[0][..512], prompts[2][..512]);
    assert_ne!(prompts[0][512..], prompts[2][512..1000]);
}

#[tokio::test]
async fn several_streams_are_steps_of_prompts_of_their_own() {
    let server = server().await;
    let arguments = ["--concurrency", "1,2,4", "--prompt-tokens", "8"];
    let folder = tempfile::tempdir().unwrap();
    let raw = folder.path().join("raw.jsonl");
    std::fs::write(&raw, "of an earlier run\n").unwrap();
    let output = ended({
        let mut command = load(server.address, &arguments);
        command.args(FEW).arg("--out").arg(&raw);
        command
    })
    .await;
    let samples = std::fs::read_to_string(&raw).unwrap();
    let samples = samples
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let workloads: Vec<Value> = samples.map(|sample| sample["workload"].clone()).collect();
    let expect = ["load/run-1", "load/run-2", "load/run-3"].map(|step| vec![step; 4]);
    assert_eq!(workloads, expect.concat());
    let report = json(&output);
    let steps = report["steps"].as_array().unwrap();
    let streams: Vec<_> = steps
        .iter()
        .map(|step| &step["parameters"]["concurrency"])
        .collect();
    assert_eq!(streams, [1, 2, 4]);
    for step in steps {
        assert_eq!(step["requests"]["ok"], 4, "{output:?}");
    }
    assert!(report.get("knee").is_some());
    let received = server.received();
    let prompts: BTreeSet<String> = received
        .iter()
        .map(|request| request.json["prompt"].to_string())
        .collect();
    assert_eq!(prompts.len(), 12, "each is sent once");

    let mut command = load(server.address, &arguments);
    command.args(&FEW[..4]);
    let table = String::from_utf8(ended(command).await.stdout).unwrap();
    assert!(
        table.lines().all(|line| line.chars().count() <= 80),
        "{table}"
    );
    let begins = |what: &str| {
        table
            .lines()
            .any(|line| line.trim_start().starts_with(what))
    };
    assert!(begins("streams") && begins("4 "), "{table}");
    assert!(
        table.contains("Knee: ") || table.contains("No knee: "),
        "{table}"
    );
}

/// An answer takes 200 ms at least: a third request would leave after 400.
#[tokio::test]
async fn no_request_is_sent_after_the_duration() {
    let server =
        Server::start(|_, request| [vec![Step::Pause(200)], four(&request.path)].concat()).await;
    let arguments = [
        "--concurrency",
        "1",
        "--duration",
        "0.3",
        "--output-tokens",
        "4",
        "--format",
        "json",
    ];
    let output = ended(load(server.address, &arguments)).await;
    let report = json(&output);
    let sent = report["requests"]["sent"].as_u64().unwrap();
    assert!((1..=2).contains(&sent), "{output:?}");
    assert_eq!(
        (&report["complete"], &report["parameters"]["requests"]),
        (&object!(true), &object!(10_000))
    );
}

#[tokio::test]
async fn what_cannot_be_sent_is_refused_before_anything_is() {
    let server = server().await;
    let (_folder, path) = file("{\"prompt\": \"One?\"}\n{\"prompt\": \"Two?\"}\n");
    let (_folder, wrong) = file("{\"prompt\": \"One?\"}\n{\"text\": \"Two?\"}\n");
    let [path, wrong] = [&path, &wrong].map(|path| path.to_str().unwrap());
    for (arguments, expect) in [
        (&["--trace", path][..], "no `timestamp`; say --prompts FILE"),
        (
            &["--prompts", wrong, "--rate", "1"],
            "line 2: name one of `prompt_length`",
        ),
        (
            &["--prompts", path, "--concurrency", "1,2,4"],
            "for each of 3 steps",
        ),
        (
            &["--prompts", path, "--concurrency", "3"],
            "3 streams are never in flight",
        ),
        (
            &["--prompts", "/nowhere", "--rate", "1"],
            "name a file of requests",
        ),
        (
            &["--concurrency", "1", "--extra-body", "{\"model\": 1}"],
            "`model` is set by the other options",
        ),
        (
            &["--concurrency", "1", "--api-key-env", "NO_SUCH_KEY_1"],
            "give the name of one that holds the key",
        ),
        (
            &["--concurrency", "1", "--chat", "--prompt-ids", "1..9"],
            "cannot be used with",
        ),
    ] {
        let output = ended(load(server.address, arguments)).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expect), "{said}");
    }
    assert_eq!(server.received().len(), 0);
}
