//! What `gate load` prints, compared by `gate compare`: one program writes it and the other reads it.

use fixture::process::Server;
use fixture::{Ended, gate};
use serde_json::{Value, json};
use std::path::Path;

/// `gate load --format json` with answers of this many tokens, kept in a file.
fn load(server: &Server, folder: &Path, output_tokens: &str) -> String {
    let url = format!("http://{}", server.address);
    let mut command = gate(&["load", "--url", &url, "--model", "tiny-qwen3"]);
    command
        .args(["--concurrency", "1", "--requests", "12", "--warmup", "1"])
        .args(["--prompt-tokens", "8", "--output-tokens", output_tokens])
        .args(["--prompt-ids", "3..384", "--return-token-ids"])
        .args(["--seed", "7", "--format", "json"]);
    let ended = Ended::of(&command.output().unwrap());
    // 4: the machine was too busy for the client's own limit; the figures are there and marked.
    assert!(matches!(ended.code, Some(0 | 4)), "{ended:?}");
    let path = folder.join(format!("load-{output_tokens}.json"));
    std::fs::write(&path, &ended.stdout).unwrap();
    path.to_str().unwrap().to_owned()
}

fn read(path: &str) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn every_figure_of_a_load_run_is_read_and_unequal_answers_are_seen() {
    // Tokens so far apart that two seldom arrive together.
    let server = Server::start(&["--fault", "decode-delay=2ms"]);
    let folder = tempfile::tempdir().unwrap();
    let long = load(&server, folder.path(), "24");
    let short = load(&server, folder.path(), "4");
    let compare = ["compare", &long, &short, "--format", "json"];
    let table = Ended::of(&gate(&compare).output().unwrap())
        .expect(4)
        .json();
    let (first, second) = (read(&long), read(&short));
    // (row, where `gate load` says it, whether it depends on the answers' length)
    let rows = [
        ("ttft_ms_p50", "/ttft_ms/p50", false),
        ("tpot_ms_p50", "/tpot_ms/p50", true),
        ("e2e_ms_p50", "/e2e_ms/p50", true),
        ("throughput", "/throughput/output_tokens_per_s", true),
    ];
    for (name, pointer, follows_length) in rows {
        let values = [first.pointer(pointer), second.pointer(pointer)];
        let is_known = |value: &Option<&Value>| {
            let number = value.and_then(Value::as_f64);
            number.is_some_and(|number| number > 0.0)
        };
        let rows = table["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["name"] == name);
        // On a busy machine all of a short answer may arrive at once, and then its tokens took no time. A number that was
        // withheld, since some answers had none, keeps its row.
        let n = pointer.replace("/p50", "/n");
        let is_withheld = |load: &Value| load.pointer(&n).is_some_and(|n| n.as_u64() > Some(0));
        let all_known = values.iter().all(is_known);
        let mut loads = [&first, &second].into_iter().zip(&values);
        let is_shown = values.iter().any(is_known)
            && loads.all(|(load, value)| is_known(value) || is_withheld(load));
        assert_eq!(row.is_some(), is_shown, "{name}");
        let Some(row) = row else { continue };
        assert_eq!(row["values"], json!(values), "{name}");
        let is_sound = |load: &Value| {
            let late = load["client_beyond_limit"].as_array();
            let is_late = late.is_some_and(|late| !late.is_empty());
            !is_late && load["server_contradicts"].is_null() && load["implausible"].is_null()
        };
        let is_invalid = follows_length || !all_known || !is_sound(&first) || !is_sound(&second);
        assert_eq!(row["ratios"][1].is_null(), is_invalid, "{name}: {row}");
    }
    let invalid = table["invalid"].to_string();
    assert!(
        invalid.contains("load-4: an answer has 4 output tokens, in load-24 24"),
        "{invalid}"
    );
}
