//! What is printed at start, and starts that fail.

use fixture::process::{Server, refusal, run_to_end};
use fixture::{Project, http};
use serde_json::json;

#[test]
fn each_stage_is_printed_and_then_the_address() {
    let server = Server::start(&["--served-model-name", "mine"]);
    let (listening, before) = server.start.split_last().unwrap();
    assert_eq!(
        *listening,
        format!("listening on http://{}  model mine", server.address)
    );
    let (stages, properties): (Vec<_>, Vec<_>) =
        before.iter().partition(|line| line.ends_with(" ms"));
    let names: Vec<_> = stages
        .iter()
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "config",
            "tokenizer",
            "weights_map",
            "weights_upload",
            "warm_up",
            "listening"
        ]
    );
    let widths: Vec<_> = stages.iter().map(|line| line.len()).collect();
    assert!(
        widths.iter().all(|width| *width == widths[0]),
        "{stages:#?}"
    );
    let [batch] = properties[..] else {
        panic!("{properties:#?}");
    };
    assert!(
        batch.starts_with("greedy answers do not depend on the batch (cpu, "),
        "{batch}"
    );
}

#[test]
fn a_window_is_told() {
    let server = Server::start(&["--window", "64"]);
    let told = "attention to the first 4 and the last 64 positions";
    assert!(
        server.start.iter().any(|line| line == told),
        "{:#?}",
        server.start
    );
}

#[test]
fn a_port_in_use_is_infrastructure() {
    let server = Server::start(&[]);
    let port = server.address.port().to_string();
    let (code, stderr) = run_to_end(&["--port", &port]);
    assert_eq!(code, Some(5));
    assert!(
        stderr.contains(&format!("cannot listen on 127.0.0.1:{port}")),
        "{stderr}"
    );
    // Known before the model is loaded.
    assert!(!stderr.contains("tokenizer"), "{stderr}");
}

#[test]
fn a_missing_model_is_named() {
    let (code, stderr) = run_to_end(&["--port", "0", "--model", "no/such/model"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("no/such/model"), "{stderr}");
}

#[test]
fn a_directory_that_is_no_model_names_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let (code, stderr) = run_to_end(&["--port", "0", "--model", path]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("config.json"), "{stderr}");
}

#[test]
fn a_planted_death_is_told() {
    let (code, stderr) = run_to_end(&["--port", "0", "--fault", "die-at-start"]);
    assert_eq!(code, Some(5));
    assert!(stderr.contains("planted fault"), "{stderr}");
}

#[test]
fn wrong_flags_are_usage_errors() {
    let (code, stderr) = run_to_end(&["--fault", "slow"]);
    assert_eq!(code, Some(2));
    for form in [
        "decode-delay=20us",
        "wrong-token=50",
        "prefill-leak",
        "hang-after=100",
    ] {
        assert!(stderr.contains(form), "{form} is not in {stderr}");
    }
    let (code, stderr) = run_to_end(&["--port", "0", "--max-context", "1000000000"]);
    assert_eq!(code, Some(2), "{stderr}");
    for tokens in ["15", "1000000000000", "18446744073709551615"] {
        let (code, stderr) = run_to_end(&["--port", "0", "--kv-tokens", tokens]);
        assert_eq!(code, Some(2), "{stderr}");
        assert!(stderr.contains(&format!("{tokens} tokens")), "{stderr}");
    }
    let (code, stderr) = run_to_end(&["--port", "0", "--threads", "100000"]);
    assert_eq!(code, Some(2), "{stderr}");
    for arguments in [
        ["--queue", "0"],
        ["--max-running", "0"],
        ["--step-tokens", "0"],
        ["--chunk-tokens", "0"],
        ["--window", "0"],
        ["--sink", "4"],
        ["--memory-limit", "1.5G"],
        ["--max-body", "0"],
        ["--stall-after", "0"],
        ["--read-timeout", "0"],
        ["--max-connections", "0"],
    ] {
        let (code, stderr) = run_to_end(&arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {stderr}");
    }
    assert_eq!(run_to_end(&["--host", "nowhere"]).0, Some(2));
    assert_eq!(run_to_end(&["--port", "70000"]).0, Some(2));
}

/// The generation before the first request computes no more at once than a step may.
#[test]
fn a_step_of_few_tokens() {
    let server = Server::start(&["--step-tokens", "2", "--max-running", "1"]);
    let body = json!({"prompt": "One two three four five", "max_tokens": 4, "temperature": 0});
    let answer = http::post(server.address, "/v1/completions", &body);
    assert_eq!(answer.json()["usage"]["completion_tokens"], 4);
}

#[test]
fn too_few_open_files_are_one_line() {
    let project = Project::empty();
    let mut command = project.command_after("ulimit -n 8", &["serve", "--port", "0"]);
    let said = refusal(&command.output().unwrap());
    assert!(
        said.contains("8 open files") && said.contains("ulimit -n"),
        "{said}"
    );
}
