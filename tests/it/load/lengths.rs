//! `gate load` with lengths of a range or a distribution, with a load that rises, and several times over.

use super::command::{ended, json, load};
use super::server::{Server, Step, stream};
use super::{done, event};
use serde_json::{Value, json as object};
use std::collections::BTreeSet;

/// Lengths of prompts as they came, in the order of arrival.
async fn lengths(arguments: &[&str]) -> (Vec<usize>, Vec<u64>, Value) {
    let server = Server::start(|_, request| of_length(&request.json)).await;
    let mut command = load(server.address, &["--concurrency", "1", "--requests", "20"]);
    command.args(["--prompt-ids", "3..300", "--format", "json"]);
    command.args(arguments);
    let output = ended(command).await;
    let report = json(&output);
    assert_eq!(report["requests"]["ok"], 20, "{output:?}");
    let received = server.received();
    let prompts = received
        .iter()
        .map(|request| request.json["prompt"].as_array().unwrap().len());
    let outputs = received
        .iter()
        .map(|request| request.json["max_tokens"].as_u64().unwrap());
    (prompts.collect(), outputs.collect(), report)
}

/// A stream of as many tokens as are asked for.
fn of_length(request: &Value) -> Vec<Step> {
    let tokens = request["max_tokens"].as_u64().unwrap();
    let prompt = request["prompt"].as_array().unwrap().len();
    let mut events: Vec<String> = (0..tokens)
        .map(|number| event(&object!({"choices": [{"index": 0, "text": format!(" t{number}")}]})))
        .collect();
    events.push(event(
        &object!({"choices": [{"index": 0, "text": "", "finish_reason": "length"}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": tokens}}),
    ));
    events.push(done());
    stream(&events)
}

#[tokio::test]
async fn lengths_of_a_range_or_a_distribution_are_the_seeds() {
    let ranges = [
        "--prompt-tokens",
        "10-30",
        "--output-tokens",
        "4-9",
        "--seed",
        "5",
    ];
    let (prompts, outputs, report) = lengths(&ranges).await;
    assert!(
        prompts.iter().all(|length| (10..=30).contains(length)),
        "{prompts:?}"
    );
    assert!(
        outputs.iter().all(|length| (4..=9).contains(length)),
        "{outputs:?}"
    );
    assert!(
        prompts.iter().collect::<BTreeSet<_>>().len() > 5,
        "{prompts:?}"
    );
    let parameters = &report["parameters"];
    assert_eq!(parameters["prompt_tokens"], "10-30");
    assert_eq!(parameters["output_tokens"], "4-9");
    assert_eq!(
        report["prompt_tokens"]["max"],
        *prompts.iter().max().unwrap() as f64
    );
    assert_eq!(
        report["output_tokens"]["min"],
        *outputs.iter().min().unwrap() as f64
    );
    let (again, others, _) = lengths(&ranges).await;
    assert_eq!((&prompts, &outputs), (&again, &others));
    let (other, _, _) = lengths(&[
        "--prompt-tokens",
        "10-30",
        "--output-tokens",
        "4",
        "--seed",
        "6",
    ])
    .await;
    assert_ne!(prompts, other);

    let normal = [
        "--prompt-tokens",
        "40",
        "--prompt-tokens-stddev",
        "8",
        "--output-tokens",
        "4",
    ];
    let (prompts, outputs, report) = lengths(&normal).await;
    assert!(
        prompts.iter().collect::<BTreeSet<_>>().len() > 5,
        "{prompts:?}"
    );
    // Ten standard deviations.
    assert!(
        prompts.iter().all(|length| (1..120).contains(length)),
        "{prompts:?}"
    );
    assert_eq!(outputs, [4; 20]);
    assert_eq!(report["parameters"]["prompt_tokens_stddev"], 8.0);
}

#[tokio::test]
async fn a_length_that_cannot_be_is_refused() {
    let nowhere = super::nobody().await;
    for (arguments, part) in [
        (
            &["--prompt-tokens", "9-3"][..],
            "two rising ones as in 100-200",
        ),
        (&["--prompt-tokens", "0"], "a number from 1"),
        (
            &["--prompt-tokens", "3-9", "--prompt-tokens-stddev", "2"],
            "--prompt-tokens-stddev goes with one length",
        ),
        (
            &["--output-tokens", "3-9", "--output-tokens-stddev", "2"],
            "--output-tokens-stddev goes with one length",
        ),
    ] {
        let mut command = load(nowhere, &["--concurrency", "1"]);
        command.args(arguments);
        let output = ended(command).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part), "`{part}` in {said}");
    }
}

#[tokio::test]
async fn repeats_show_each_run_and_what_lies_between_them() {
    let server = Server::start(|_, request| of_length(&request.json)).await;
    let repeated = |format: &'static str| {
        let mut command = load(server.address, &["--concurrency", "1", "--requests", "5"]);
        command.args([
            "--prompt-ids",
            "3..300",
            "--prompt-tokens",
            "9",
            "--output-tokens",
            "6",
        ]);
        command.args(["--repeats", "3", "--format", format]);
        ended(command)
    };
    let report = json(&repeated("json").await);
    let runs = report["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3, "{report}");
    let of_runs: Vec<f64> = runs
        .iter()
        .filter(|run| run["client_beyond_limit"] == object!([]))
        .filter_map(|run| run["throughput"]["output_tokens_per_s"].as_f64())
        .collect();
    let between = &report["between_runs"]["output_tokens_per_s"];
    if of_runs.len() > 1 {
        let mean = of_runs.iter().sum::<f64>() / of_runs.len() as f64;
        assert!(
            (between["mean"].as_f64().unwrap() / mean - 1.0).abs() < 1e-9,
            "{report}"
        );
        assert!(between["low"].as_f64() < Some(mean) && between["high"].as_f64() > Some(mean));
    }
    let table = String::from_utf8(repeated("table").await.stdout).unwrap();
    for part in ["\nmean ", "95 % from", "Times in ms. "] {
        assert!(table.contains(part), "{part} in\n{table}");
    }
    assert!(
        table.lines().all(|line| line.chars().count() <= 80),
        "{table}"
    );
    let csv = String::from_utf8(repeated("csv").await.stdout).unwrap();
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), 4, "{csv}");
    // A late client's sentence, in the column `invalid`, may hold commas: these stand before it.
    for (name, value) in [("ask_requests", "5"), ("complete", "true")] {
        let column = lines[0].iter().position(|column| *column == name).unwrap();
        let cells = lines[1..].iter().map(|line| line[column]);
        assert!(cells.eq([value; 3]), "{name} in\n{csv}");
    }
    assert!(lines[0].contains(&"tpot_ms_p99") && lines[0].contains(&"output_tokens_per_s"));
    // No run sends what one before it sent.
    let received = server.received();
    let prompts: BTreeSet<String> = received
        .iter()
        .map(|request| request.json["prompt"].to_string())
        .collect();
    assert_eq!((prompts.len(), received.len()), (45, 45));
}

/// A load that rises over 300 ms is what is kept out, whoever comes when.
#[tokio::test]
async fn what_is_sent_while_the_load_rises_is_warm_up() {
    let folder = tempfile::tempdir().unwrap();
    for pace in [
        &["--concurrency", "3"][..],
        &["--rate", "100", "--arrivals", "constant"],
    ] {
        let server = Server::start(|_, request| {
            let mut script = of_length(&request.json);
            script.insert(1, Step::Pause(10));
            script
        })
        .await;
        let samples = folder.path().join("samples.jsonl");
        let mut command = load(server.address, pace);
        command.args([
            "--prompt-ids",
            "3..300",
            "--output-tokens",
            "4",
            "--requests",
            "150",
        ]);
        command
            .args(["--ramp-up", "0.3", "--format", "json", "--out"])
            .arg(&samples);
        let report = json(&ended(command).await);
        let requests = &report["requests"];
        let (warmup, sent) = (
            requests["warmup"].as_u64().unwrap(),
            requests["sent"].as_u64().unwrap(),
        );
        assert_eq!(warmup + sent, 150, "{report}");
        assert!(warmup > 0 && sent > 0, "{report}");
        let samples = std::fs::read_to_string(&samples).unwrap();
        let samples: Vec<Value> = samples
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let is_warmup = |sample: &Value| sample["phase"] == "warmup";
        assert!(is_warmup(&samples[0]) && !is_warmup(&samples[149]));
        let at = |sample: &Value| sample["stamps"]["intended_ns"].as_u64().unwrap();
        if pace[0] == "--rate" {
            for sample in &samples {
                let after = at(sample) - at(&samples[0]);
                assert_eq!(is_warmup(sample), after < 300_000_000, "{after}");
            }
            // 100 a second times half of 0.3 s.
            assert_eq!(warmup, 15);
        } else {
            let connected = samples
                .iter()
                .filter_map(|sample| sample["stamps"]["connect_ns"][0].as_u64());
            let mut connected: Vec<u64> = connected.collect();
            connected.sort_unstable();
            // The third user comes 200 ms after the start, and never earlier.
            assert!(connected[2] - connected[0] > 100_000_000, "{connected:?}");
        }
    }
    let nowhere = super::nobody().await;
    for (arguments, part) in [
        (
            &["--concurrency", "1", "--ramp-up", "2", "--duration", "2"][..],
            "still rises when it ends",
        ),
        (
            &["--concurrency", "1,2", "--repeats", "2"],
            "--repeats is of one load",
        ),
    ] {
        let output = ended(load(nowhere, arguments)).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part), "`{part}` in {said}");
    }
}
