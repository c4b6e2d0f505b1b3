//! `gate dev proxy --record`: what passes is written down, without what was said, and reads as any other result.

use super::running::Proxy;
use super::upstream::Upstream;
use fixture::http::{self, DEADLINE, post};
use fixture::process::{Server, gate};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;
use tempfile::TempDir;

/// Two tokens, counted.
const STREAM: &[&str] = &[
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nSet-Cookie: hidden-cookie\r\nContent-Length: 249\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"text\":\"hidden-a\",\"finish_reason\":null}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"text\":\"hidden-b\",\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2,\"total_tokens\":7}}\n\n",
    "data: [DONE]\n\n",
];

/// A request with a key, a prompt and counts asked for.
fn ask(proxy: &Proxy) -> String {
    let body = json!({"prompt": "hidden-prompt", "stream": true, "max_tokens": 9, "stream_options": {"include_usage": true}});
    let body = body.to_string();
    let request = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: a\r\nauthorization: Bearer hidden-key\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut answer = String::new();
    let mut stream = http::send(proxy.address, request.as_bytes());
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn recording(upstream: &Upstream, more: &[&str]) -> (TempDir, PathBuf, Proxy) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/recording");
    let upstream = upstream.address.to_string();
    let record = path.to_str().unwrap().to_owned();
    let arguments = ["--upstream", &upstream, "--record", &record];
    let proxy = Proxy::start(&[&arguments, more].concat());
    (folder, path, proxy)
}

/// The lines of a file once there are so many.
fn lines(path: &Path, wanted: usize) -> Vec<Value> {
    let begun = Instant::now();
    loop {
        let text = fs::read_to_string(path).unwrap_or_default();
        if text.lines().count() >= wanted && text.ends_with('\n') {
            return text
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
        }
        assert!(
            begun.elapsed() < DEADLINE,
            "{wanted} lines never came:\n{text}"
        );
        std::thread::sleep(fixture::TICK);
    }
}

#[track_caller]
fn succeeded(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn times_and_counts_are_recorded_and_nothing_that_was_said() {
    let upstream = Upstream::of(STREAM);
    let (_folder, path, proxy) = recording(&upstream, &[]);
    let answer = ask(&proxy);
    assert!(
        answer.contains("hidden-a") && answer.contains("[DONE]"),
        "{answer}"
    );
    let samples = lines(&path.join("samples.jsonl"), 1);
    let sample = &samples[0];
    assert_eq!(sample["void"], Value::Null, "{sample}");
    assert_eq!(
        (&sample["tokens"]["prompt"], &sample["tokens"]["completion"]),
        (&json!(5), &json!(2))
    );
    assert_eq!(sample["stamps"]["events_ns"].as_array().unwrap().len(), 2);
    assert_eq!(sample["finish_reason"], "stop");
    let trace = lines(&path.join("trace.jsonl"), 1);
    assert_eq!(
        (&trace[0]["input_length"], &trace[0]["output_length"]),
        (&json!(5), &json!(2))
    );
    for name in ["samples.jsonl", "trace.jsonl"] {
        let text = fs::read_to_string(path.join(name)).unwrap();
        assert!(!text.contains("hidden"), "{text}");
        let mode = fs::metadata(path.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    // Where they are asked for, the texts of answers are there; keys and prompts never are.
    let (_folder, path, proxy) = recording(&upstream, &["--texts"]);
    ask(&proxy);
    let samples = lines(&path.join("samples.jsonl"), 1);
    assert_eq!(samples[0]["text"], "hidden-ahidden-b");
    assert!(
        !samples[0].to_string().contains("hidden-key")
            && !samples[0].to_string().contains("hidden-prompt")
    );
    // What generates nothing is no sample.
    http::get(proxy.address, "/v1/models").text();
    ask(&proxy);
    assert_eq!(lines(&path.join("samples.jsonl"), 2).len(), 2);
}

#[test]
fn a_recording_is_compared_judged_and_replayed() {
    // Tokens that are apart: on a busy machine faster ones arrive at one moment, and are no measurement.
    let server = Server::start(&["--fault", "decode-delay=2ms"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording");
    let upstream = server.address.to_string();
    let proxy = Proxy::start(&["--upstream", &upstream, "--record", path.to_str().unwrap()]);
    let load = |address: String, more: &[&str]| {
        let mut load = gate(&[
            "load",
            "--url",
            &format!("http://{address}"),
            "--model",
            "tiny-qwen3",
            "--format",
            "json",
        ]);
        load.args(more).output().unwrap()
    };
    let shape = [
        "--concurrency",
        "2",
        "--requests",
        "40",
        "--warmup",
        "0",
        "--prompt-tokens",
        "8",
        "--output-tokens",
        "8",
    ];
    let own = load(proxy.address.to_string(), &shape);
    assert!(own.status.success(), "{own:?}");
    let samples = path.join("samples.jsonl");
    let recorded = lines(&samples, 40);
    assert!(
        recorded.iter().all(|sample| sample["void"].is_null()),
        "{recorded:?}"
    );
    proxy.signal(Signal::SIGTERM);
    assert_eq!(proxy.ended().0, Some(0));

    let samples = samples.to_str().unwrap();
    let table = gate(&["compare", samples, samples, "--format", "json"])
        .output()
        .unwrap();
    let table: Value = serde_json::from_str(&succeeded(&table)).unwrap();
    assert!(table.to_string().contains("\"ttft"), "{table}");
    let session = folder.path().join("session");
    for arm in ["base", "head"] {
        let mut import = gate(&[
            "dev",
            "import",
            "--as",
            arm,
            "--out",
            session.to_str().unwrap(),
        ]);
        // One file a launch.
        import.args([samples; 4]);
        import.output().unwrap();
    }
    let judged = gate(&["report", session.to_str().unwrap()])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&judged.stdout);
    // What it says of a server that was just started is the machine's matter.
    assert!(text.contains("imported/tpot"), "{text}");

    let trace = path.join("trace.jsonl");
    let replayed = load(
        upstream,
        &["--trace", trace.to_str().unwrap(), "--warmup", "0"],
    );
    let report: Value = serde_json::from_slice(&replayed.stdout).unwrap();
    assert_eq!(report["requests"]["sent"], 40, "{report}");
    assert_eq!(report["requests"]["ok"], 40, "{report}");
}

#[test]
fn a_killed_proxy_leaves_every_finished_request() {
    let (upstream, _release) = Upstream::holding(STREAM, 2);
    let (_folder, path, proxy) = recording(&upstream, &[]);
    // The first answer is held within its stream; the second one passes.
    let held = post(
        proxy.address,
        "/v1/completions",
        &json!({"prompt": "x", "stream": true}),
    );
    ask(&proxy);
    let samples = lines(&path.join("samples.jsonl"), 1);
    proxy.signal(Signal::SIGKILL);
    proxy.ended();
    drop(held);
    let after = lines(&path.join("samples.jsonl"), 1);
    assert_eq!(after, samples);
    assert_eq!(after[0]["index"], 1);
}

/// Five requests one after another: 70 tokens of prompt in 1,004 ms, then 64 tokens at 7,660 a second.
#[test]
fn impossible_speeds_in_a_recording_are_told() {
    let upstream = Upstream::of(STREAM);
    let (folder, path, proxy) = recording(&upstream, &[]);
    ask(&proxy);
    let recorded = lines(&path.join("samples.jsonl"), 1);
    let impossible = |turn: u64| {
        let mut sample = recorded[0].clone();
        let send = 10_000_000_000 * turn;
        let events: Vec<u64> = (0..64)
            .map(|i| send + 1_004_000_000 + 130_500 * i)
            .collect();
        sample["index"] = turn.into();
        sample["tokens"]["prompt"] = 70.into();
        sample["tokens"]["completion"] = 64.into();
        sample["tokens"]["events"] = 64.into();
        sample["stamps"]["intended_ns"] = send.into();
        sample["stamps"]["send_ns"] = send.into();
        sample["stamps"]["headers_ns"] = events[0].into();
        sample["stamps"]["first_byte_ns"] = events[0].into();
        sample["stamps"]["done_ns"] = events[63].into();
        sample["stamps"]["events_ns"] = events.into();
        format!("{sample}\n")
    };
    let file = folder.path().join("impossible.jsonl");
    fs::write(&file, (0..5).map(impossible).collect::<String>()).unwrap();
    let file = file.to_str().unwrap();
    let compared = gate(&["compare", file, file]).output().unwrap();
    let text = String::from_utf8_lossy(&compared.stdout);
    let text = fixture::unwrapped(&text);
    assert!(text.contains("no engine generates"), "{text}{compared:?}");
}

#[test]
fn an_answer_that_the_client_left_is_void() {
    let (upstream, _release) = Upstream::holding(STREAM, 2);
    let (_folder, path, proxy) = recording(&upstream, &[]);
    drop(post(
        proxy.address,
        "/v1/completions",
        &json!({"prompt": "x", "stream": true}),
    ));
    let samples = lines(&path.join("samples.jsonl"), 1);
    assert_eq!(samples[0]["void"]["rule"], "cut-stream", "{samples:?}");
}

#[test]
fn traffic_goes_on_where_nothing_can_be_written() {
    let upstream = Upstream::of(STREAM);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording");
    // A file may have 512 or 1,024 bytes, as the shell counts; a signal would end whoever writes more.
    let mut shell = Command::new("sh");
    shell.args([
        "-c",
        "trap '' XFSZ; ulimit -f 1; exec \"$0\" \"$@\"",
        env!("CARGO_BIN_EXE_gate"),
        "proxy",
        "--port",
        "0",
    ]);
    shell.args([
        "--upstream",
        &upstream.address.to_string(),
        "--record",
        path.to_str().unwrap(),
    ]);
    let proxy = Proxy::of(shell);
    for _ in 0..5 {
        assert!(ask(&proxy).contains("[DONE]"));
    }
    proxy.signal(Signal::SIGTERM);
    let (code, said) = proxy.ended();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(
        said.matches("the recording ends here: cannot write samples.jsonl")
            .count(),
        1,
        "{said}"
    );
    let text = fs::read_to_string(path.join("samples.jsonl")).unwrap();
    assert!(
        text.lines().count() < 5 && (text.is_empty() || text.ends_with('\n')),
        "{text}"
    );
}

#[test]
fn what_cannot_be_recorded_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().to_str().unwrap();
    fs::write(folder.path().join("samples.jsonl"), "").unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let file = folder.path().join("file");
    for (arguments, code, told) in [
        (
            vec!["--record", there],
            2,
            "holds a recording already; name another folder",
        ),
        (
            vec!["--record", file.to_str().unwrap()],
            5,
            "cannot record to",
        ),
        (vec!["--texts"], 2, "--record"),
        (
            vec!["--record", "new", "--fault", "merge=2"],
            2,
            "cannot be used with",
        ),
    ] {
        let mut command = gate(&["dev", "proxy", "--port", "0", "--upstream", "127.0.0.1:1"]);
        let output = command.args(&arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(told), "{told} is missing in:\n{said}");
    }
}
