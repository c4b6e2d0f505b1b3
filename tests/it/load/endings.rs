//! How `gate load` ends where not all went well: what it prints, and its exit code.

use super::command::{check_known, ended, json, load};
use super::server::{Server, Step, answer, stream};
use super::{done, last, nobody, plain, tokens, usage};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::sync::Arc;
use tokio::sync::Notify;

#[tokio::test]
async fn answers_that_are_no_measurement_end_with_4_and_a_dead_server_with_5() {
    let lie = [tokens(64), vec![last("length"), usage(74), done()]].concat();
    let server = Server::start(move |number, _| match number % 2 {
        0 => stream(&lie),
        _ => answer("429 Too Many Requests", ""),
    })
    .await;
    let arguments = [
        "--concurrency",
        "2",
        "--requests",
        "10",
        "--output-tokens",
        "64",
        "--format",
        "json",
    ];
    let output = ended(load(server.address, &arguments)).await;
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let requests = &json(&output)["requests"];
    assert_eq!(
        (&requests["ok"], &requests["sent"]),
        (&0.into(), &10.into())
    );
    let void = &requests["void"];
    assert_eq!(
        (&void["token-counts"], &void["status"]),
        (&5.into(), &5.into())
    );
    assert_eq!(requests["details"]["status"], "status 429: no message");

    let output = ended(load(nobody().await, &["--concurrency", "2"])).await;
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("nothing answers at http://127.0.0.1:"),
        "{said}"
    );
}

#[tokio::test]
async fn a_server_that_dies_in_the_middle_ends_with_5_and_the_numbers_until_then() {
    let server = Server::start(|number, _| match number {
        0..4 => stream(&plain()),
        _ => vec![Step::Close],
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let raw = folder.path().join("raw.jsonl");
    let arguments = ["--concurrency", "1", "--output-tokens", "64"];
    let mut command = load(server.address, &arguments);
    command.arg("--out").arg(&raw).args(["--format", "json"]);
    let output = ended(command).await;
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let report = json(&output);
    assert_eq!(report["complete"], false);
    let why = report["stopped"].as_str().unwrap();
    assert!(why.contains("3 requests in a row failed"), "{why}");
    let requests = &report["requests"];
    // Three that fail end it; what was sent until that was heard of is told as well.
    let sent = requests["sent"].as_u64().unwrap();
    assert!(sent >= 7, "{sent}");
    assert_eq!(requests["ok"], 4);
    assert_eq!(
        requests["void"],
        serde_json::json!({"cut-stream": sent - 4})
    );
    check_known(&report, "ttft_ms", 4);
    assert_eq!(
        std::fs::read_to_string(raw).unwrap().lines().count() as u64,
        sent
    );
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("the server's own log"), "{said}");
}

#[tokio::test]
async fn an_interrupted_run_prints_what_was_done() {
    let hanging = Arc::new(Notify::new());
    let told = Arc::clone(&hanging);
    let server = Server::start(move |number, _| {
        if number < 4 {
            return stream(&plain());
        }
        told.notify_one();
        vec![Step::Hang]
    })
    .await;
    let arguments = [
        "--concurrency",
        "1",
        "--output-tokens",
        "64",
        "--format",
        "json",
    ];
    let child = load(server.address, &arguments).spawn().unwrap();
    hanging.notified().await;
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    let waited = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap());
    let output = waited.await.unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let report = json(&output);
    assert_eq!(report["complete"], false);
    let client = &report["client"];
    assert_eq!(
        (&client["threads"], &client["send_lag_ms"]["n"]),
        (&1.into(), &4.into())
    );
    assert_eq!(report["requests"]["ok"], 4);
    check_known(&report, "ttft_ms", 4);
    server.all_ended().await;
}
