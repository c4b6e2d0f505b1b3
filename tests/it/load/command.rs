//! `gate load` through the binary: against the embedded model and against the scripted server.

use super::server::{Server, Step, stream};
use super::{bytes, nobody, plain};
use fixture::process::{self, gate};
use serde_json::Value;
use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};

const MODEL: &str = "tiny-qwen3";

/// `gate load` against `address` with these further arguments.
pub(super) fn load(address: SocketAddr, arguments: &[&str]) -> Command {
    let url = format!("http://{address}");
    let mut command = gate(&["load", "--url", &url, "--model", MODEL]);
    command
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs it to its end off this thread, where the scripted server runs.
pub(super) async fn ended(mut command: Command) -> Output {
    let run = tokio::task::spawn_blocking(move || command.output().unwrap());
    run.await.unwrap()
}

pub(super) fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// A sound run ends with 0. Where the machine was too busy for the client to keep its own limit, or to see when tokens
/// came, so that the server's times contradict the streams, it ends with 4 and says so: that is no failure of a test.
#[track_caller]
fn check_ended(output: &Output, report: &Value) {
    let beyond = report["client_beyond_limit"].as_array().unwrap();
    let is_sound = beyond.is_empty()
        && report["server_contradicts"].is_null()
        && report["implausible"].is_null();
    let expect = if is_sound { 0 } else { 4 };
    assert_eq!(output.status.code(), Some(expect), "{output:?}");
}

#[track_caller]
fn check_summary(report: &Value, name: &str, n: u64) {
    let summary = &report[name];
    assert_eq!(summary["n"], n, "{name}: {summary}");
    let at = |key: &str| {
        summary[key]
            .as_f64()
            .unwrap_or_else(|| panic!("{name}.{key}"))
    };
    assert!(
        at("min") <= at("p50") && at("p50") <= at("max"),
        "{summary}"
    );
    assert!((at("min")..=at("max")).contains(&at("mean")), "{summary}");
    assert_eq!(summary["p90"].is_null(), n < 10, "{summary}");
    assert_eq!(summary["p99"].is_null(), n < 100, "{summary}");
}

/// So many answers have a TTFT, or a TPOT, but for those of which a busy machine saw too much at one moment, as is told.
#[track_caller]
pub(super) fn check_known(report: &Value, name: &str, answers: u64) {
    let n = report[name]["n"].as_u64().unwrap();
    if n == answers {
        check_summary(report, name, n);
    } else {
        let summary = &report[name];
        let is_null = |key: &str| summary[key].is_null();
        assert!(is_null("min"), "{summary}");
        let [p50, max] = ["p50", "max"].map(|key| summary[key].as_f64());
        assert!(p50 <= max || max.is_none(), "{summary}");
        assert!(n >= 10 || is_null("p90"), "{summary}");
        assert!(n >= 100 || is_null("p99"), "{summary}");
    }
    let notes = report["notes"].to_string();
    let of = format!(" of {answers} ");
    let told = ["first events arrived together", "answers of several tokens"];
    let is_told = told
        .iter()
        .any(|what| notes.contains(&format!("{of}{what}")));
    assert_eq!(n < answers, is_told, "{n}: {notes}");
}

#[tokio::test]
async fn the_embedded_model_in_a_closed_loop() {
    let server = process::Server::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let raw = folder.path().join("raw.jsonl");
    let mut command = load(
        server.address,
        &[
            "--concurrency",
            "4",
            "--requests",
            "12",
            "--warmup",
            "4",
            "--prompt-tokens",
            "16",
        ],
    );
    command
        .args([
            "--output-tokens",
            "24",
            "--prompt-ids",
            "3..384",
            "--return-token-ids",
        ])
        .args(["--slo-e2e", "600000", "--seed", "7", "--format", "json"])
        .arg("--out")
        .arg(&raw);
    let output = ended(command).await;
    let report = json(&output);
    check_ended(&output, &report);
    check_summary(&report, "e2e_ms", 12);
    check_known(&report, "ttft_ms", 12);
    check_known(&report, "tpot_ms", 12);
    // Every token has its event.
    for name in ["icl_ms", "itl_ms"] {
        assert_eq!(report[name]["n"], 12 * 23, "{name}");
        assert!(report[name]["mean"].as_f64() > Some(0.0), "{name}");
    }
    for (name, tokens) in [("prompt_tokens", 16.0), ("output_tokens", 24.0)] {
        let counted = &report[name];
        assert_eq!(
            (&counted["n"], &counted["mean"]),
            (&12.into(), &tokens.into()),
            "{name}"
        );
    }
    let requests = &report["requests"];
    assert_eq!(
        (&requests["sent"], &requests["ok"]),
        (&12.into(), &12.into())
    );
    assert_eq!(
        (&requests["warmup"], &requests["void"]),
        (&4.into(), &serde_json::json!({}))
    );
    assert_eq!(
        (&report["burst_factor"], &report["complete"]),
        (&1.0.into(), &true.into())
    );
    assert_eq!(report["goodput"]["share"], 1.0);
    assert!(
        report["throughput"]["output_tokens_per_s"]
            .as_f64()
            .unwrap()
            > 0.0
    );
    assert_eq!(
        (&report["model"], &report["parameters"]["seed"]),
        (&MODEL.into(), &7.into())
    );
    assert_eq!(
        (
            &report["parameters"]["concurrency"],
            &report["parameters"]["prompt_ids"]
        ),
        (&4.into(), &"3..384".into())
    );
    let client = &report["client"];
    assert_eq!(
        (&client["threads"], &client["streams_asked"]),
        (&1.into(), &4.into())
    );

    let lines = std::fs::read_to_string(raw).unwrap();
    let samples = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut indices: Vec<u64> = samples
        .map(|sample| sample["index"].as_u64().unwrap())
        .collect();
    // In the order of the answers.
    indices.sort_unstable();
    assert_eq!(indices, (0..16).collect::<Vec<u64>>());
}

#[tokio::test]
async fn the_embedded_model_in_open_loops() {
    let server = process::Server::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.jsonl");
    let lines = (0..5).map(|i| {
        format!(
            "{{\"timestamp\":{},\"prompt_length\":{},\"output_length\":9}}\n",
            0.01 * f64::from(i),
            4 + i
        )
    });
    std::fs::write(&trace, lines.collect::<String>()).unwrap();
    let tokenizer = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/gates/models/tiny-qwen3/tokenizer.json"
    );
    let shape = [
        "--requests",
        "5",
        "--output-tokens",
        "9",
        "--prompt-tokens",
        "9",
        "--rate",
        "100",
    ];
    for pace in [
        [&shape[..], &["--arrivals", "burst", "--burst-size", "5"]].concat(),
        [&shape[..], &["--arrivals", "constant"]].concat(),
        shape.to_vec(),
        vec!["--trace", trace.to_str().unwrap()],
    ] {
        let mut command = load(server.address, &pace);
        command.args([
            "--tokenizer",
            tokenizer,
            "--no-stream-usage",
            "--return-token-ids",
        ]);
        let output = ended({
            command.args(["--format", "json"]);
            command
        })
        .await;
        let report = json(&output);
        check_ended(&output, &report);
        check_known(&report, "ttft_ms", 5);
        assert_eq!(report["requests"]["ok"], 5, "{report}");
    }
}

/// A proxy that holds an answer back until it is whole.
#[tokio::test]
async fn an_answer_that_came_at_one_moment_has_no_tpot() {
    let whole: Vec<u8> = stream(&plain()).into_iter().flat_map(bytes).collect();
    let server = Server::start(move |_, _| vec![Step::Send(whole.clone())]).await;
    let mut command = load(server.address, &["--concurrency", "1", "--requests", "8"]);
    command.args([
        "--output-tokens",
        "64",
        "--slo-tpot",
        "1000",
        "--format",
        "json",
    ]);
    let output = ended(command).await;
    let report = json(&output);
    check_ended(&output, &report);
    assert_eq!(report["requests"]["ok"], 8, "{report}");
    check_known(&report, "ttft_ms", 8);
    let tpot = &report["tpot_ms"];
    assert_eq!((&tpot["n"], &tpot["p50"]), (&0.into(), &Value::Null));
    check_known(&report, "tpot_ms", 8);
    assert_eq!(report["goodput"]["share"], 0.0);
}

#[tokio::test]
async fn switches_that_were_given_are_named() {
    let server = Server::start(|_, _| stream(&plain())).await;
    let mut command = load(server.address, &["--concurrency", "1", "--requests", "1"]);
    command.args([
        "--output-tokens",
        "64",
        "--no-keep-alive",
        "--format",
        "json",
    ]);
    let parameters = &json(&ended(command).await)["parameters"];
    assert_eq!(parameters["no_keep_alive"], true, "{parameters}");
}

/// RFC 9110, 7.2: a proxy in front of several servers tells them apart by it.
#[tokio::test]
async fn the_host_header_is_the_urls_own() {
    let server = Server::start(|_, _| stream(&plain())).await;
    let name = format!("localhost:{}", server.address.port());
    let mut command = gate(&["load", "--url", &format!("http://{name}"), "--model", MODEL]);
    command.args([
        "--concurrency",
        "1",
        "--requests",
        "1",
        "--output-tokens",
        "64",
    ]);
    let output = ended(command).await;
    let received = server.received();
    let hosts: Vec<&str> = received
        .iter()
        .map(|request| request.host.as_str())
        .collect();
    assert_eq!(hosts, [name], "{output:?}");
}

#[tokio::test]
async fn the_table_fits_its_width() {
    let server = Server::start(|_, _| stream(&plain())).await;
    let output = ended(load(
        server.address,
        &["--concurrency", "2", "--output-tokens", "64"],
    ))
    .await;
    let table = String::from_utf8(output.stdout).unwrap();
    for line in table.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    for part in ["TTFT", "p99", "throughput", "100 sent, 100 valid", "client"] {
        assert!(table.contains(part), "{part} in\n{table}");
    }
}

#[test]
fn the_help_tells_the_unit_of_each_form_of_a_trace() {
    let output = gate(&["load", "--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let help = fixture::unwrapped(&help);
    for part in [
        "`timestamp` (s), `prompt_length`, `output_length`",
        "`timestamp` (ms), `input_length`, `output_length`, `hash_ids`",
    ] {
        assert!(help.contains(part), "{part} in\n{help}");
    }
}

#[tokio::test]
async fn what_cannot_be_asked_is_refused_with_the_way_out() {
    let nowhere = nobody().await;
    let check = async |arguments: &[&str], part: &str| {
        let output = ended(load(nowhere, arguments)).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part), "`{part}` in {said}");
    };
    check(&[], "--concurrency").await;
    check(
        &["--concurrency", "1", "--rate", "1"],
        "cannot be used with",
    )
    .await;
    check(&["--rate", "0"], "must be a number").await;
    for dropped in [
        &["--concurrency", "2", "--arrivals", "constant"][..],
        &["--concurrency", "2", "--burst-size", "3"],
        &["--trace", "no.jsonl", "--prompt-tokens", "9"],
    ] {
        check(dropped, "cannot be used with").await;
    }
    check(
        &["--concurrency", "64", "--requests", "10"],
        "64 streams are never in flight with 10 requests",
    )
    .await;
    check(&["--concurrency", "101"], "--requests 101").await;
    check(
        &["--rate", "2", "--burst-size", "3"],
        "say --arrivals burst",
    )
    .await;
    check(&["--concurrency", "1", "--prompt-ids", "9..3"], "3..384").await;
    check(
        &["--concurrency", "1", "--tokenizer", "no.json"],
        "name a model's tokenizer.json",
    )
    .await;
    check(&["--trace", "no.jsonl"], "a JSON object a line").await;
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.jsonl");
    let line = "{\"timestamp\":0,\"prompt_length\":4,\"output_length\":9}\n";
    std::fs::write(&trace, line).unwrap();
    let trace = trace.to_str().unwrap();
    check(&["--trace", trace, "--warmup", "1"], "lower --warmup").await;
    let lost = folder.path().join("none/raw.jsonl");
    let lost = lost.to_str().unwrap();
    check(&["--concurrency", "1", "--out", lost], "create it").await;
    let taken = folder.path().to_str().unwrap();
    check(&["--concurrency", "1", "--out", taken], "no name of a file").await;
}
