//! `gate compare --engines`: the in-tree engine against itself in another configuration, by gates/engines.toml
//! alone.

use fixture::{Ended, gate};
use serde_json::Value;
use std::fs;
use std::path::Path;

const WORK: &str = r#"
title = "A little work"

[workload.work]
kind = "steady"
requests = 6
warmup = 1
prompt_tokens = 8
output_tokens = 12
concurrency = 1

[[check]]
name = "tpot"
metric = "tpot"
rule = "ceiling"
limit = "10 s"
min_samples = 1
"#;

fn project(folder: &Path, engines: &str) {
    let dir = folder.to_str().unwrap();
    let arguments = ["init", "--engine", "infergate", "--dir", dir];
    Ended::of(&gate(&arguments).output().unwrap()).expect(0);
    // This gate in place of those that `init` writes.
    let config = fs::read_to_string(folder.join("gates/gate.toml")).unwrap();
    fs::remove_dir_all(folder.join("gates")).unwrap();
    fs::create_dir(folder.join("gates")).unwrap();
    let all = config.lines().filter(|line| !line.starts_with("gates = "));
    let config: String = all.map(|line| format!("{line}\n")).collect();
    fs::write(folder.join("gates/gate.toml"), config).unwrap();
    fs::write(folder.join("gates/work.toml"), WORK).unwrap();
    let engines = engines.replace("GATE", &format!("{:?}", env!("CARGO_BIN_EXE_gate")));
    fs::write(folder.join("gates/engines.toml"), engines).unwrap();
}

fn compare(folder: &Path, arguments: &[&str]) -> Ended {
    let out = folder.join("out");
    let common = [
        "compare",
        "--format",
        "json",
        "--out",
        out.to_str().unwrap(),
    ];
    let all: Vec<&str> = common.iter().chain(arguments).copied().collect();
    Ended::of(&gate(&all).current_dir(folder).output().unwrap())
}

const ENGINES: &str = r#"
[engines.plain]
serve = [GATE, "serve", "--port", "{port}", "--threads", "1"]
model = "tiny-qwen3"
ready_timeout = "60 s"
request_timeout = "20 s"
prompt_ids = { from = 3, to = 384 }
return_token_ids = true

[engines.windowed]
serve = [GATE, "serve", "--port", "{port}", "--threads", "1", "--window", "64"]
model = "tiny-qwen3"
ready_timeout = "60 s"
request_timeout = "20 s"
prompt_ids = { from = 3, to = 384 }
return_token_ids = true
precision = "f32"
tags = ["sees the last 64 tokens alone"]

# Answers end where the model ends them, and to words it has little to say.
[engines.unforced]
serve = [GATE, "serve", "--port", "{port}", "--threads", "1"]
model = "tiny-qwen3"
ready_timeout = "60 s"
request_timeout = "20 s"
forces_length = false
"#;

#[test]
fn engines_are_launched_in_turn_and_stand_in_one_table() {
    let folder = tempfile::tempdir().unwrap();
    project(folder.path(), ENGINES);
    let ended = compare(
        folder.path(),
        &[
            "--engines",
            "plain,windowed",
            "--rounds",
            "2",
            "--seed",
            "5",
        ],
    )
    .expect(0);
    let table = ended.json();
    let rows: Vec<&str> = table["rows"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|row| row["name"].as_str())
        .collect();
    for name in [
        "port_open_ms",
        "ready_ms",
        "cold_total_first_token_ms",
        "ttft_ms_p50",
        "tpot_ms_p50",
    ] {
        assert!(rows.contains(&name), "{name}: {rows:?}");
    }
    assert_eq!(table["results"][0]["name"], "plain");
    let caveats = table["results"][1]["caveats"].to_string();
    assert!(
        caveats.contains("sees the last 64") && caveats.contains("different precision (f32"),
        "{caveats}"
    );
    // The order rotates, so that none is always the first.
    let order: Vec<&str> = ended
        .stderr
        .lines()
        .filter_map(|line| line.split_once("launching "))
        .map(|(_, name)| name)
        .collect();
    assert_eq!(order, ["plain", "windowed", "windowed", "plain"]);
    for name in ["plain", "windowed"] {
        let run = fs::read(folder.path().join("out").join(name).join("run.json")).unwrap();
        let run: Value = serde_json::from_slice(&run).unwrap();
        assert_eq!(run["launches"].as_array().unwrap().len(), 2, "{name}");
        assert_eq!(run["comparison"], "alone");
    }
}

/// Incident 5, through real HTTP servers: one side does not make the tokens that were asked for.
#[test]
fn an_engine_that_makes_fewer_tokens_is_no_comparison() {
    let folder = tempfile::tempdir().unwrap();
    project(folder.path(), ENGINES);
    // Long enough that the model's own end comes first.
    let work = WORK.replace("output_tokens = 12", "output_tokens = 400");
    fs::write(folder.path().join("gates/work.toml"), work).unwrap();
    let ended = compare(
        folder.path(),
        &[
            "--engines",
            "plain,unforced",
            "--rounds",
            "1",
            "--seed",
            "5",
        ],
    )
    .expect(4);
    let reason = ended.json()["invalid"].to_string();
    assert!(
        reason.contains("unforced: an answer has") && reason.contains("in plain 400"),
        "{reason}"
    );
}

#[test]
fn what_cannot_be_compared_is_refused_before_anything_is_launched() {
    let folder = tempfile::tempdir().unwrap();
    project(folder.path(), ENGINES);
    compare(folder.path(), &["--engines", "plain,plane"])
        .expect(2)
        .says(&["no engine `plane`", "engines.toml"]);
    assert!(!folder.path().join("out").exists());
    fs::remove_file(folder.path().join("gates/engines.toml")).unwrap();
    compare(folder.path(), &["--engines", "plain"])
        .expect(2)
        .says(&["gates/engines.toml"]);
}
