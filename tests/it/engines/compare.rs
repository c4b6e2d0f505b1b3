//! `gate compare` of files: ratios, caveats, token parity.

use fixture::{Ended, MARKUP, check_sheet, gate, repository};
use serde_json::{Value, json};
use std::path::Path;

fn compare(arguments: &[&str]) -> Ended {
    let all: Vec<&str> = ["compare"].iter().chain(arguments).copied().collect();
    Ended::of(&gate(&all).output().unwrap())
}

/// The JSON of `gate load` with these medians.
fn load(folder: &Path, name: &str, ttft: f64, tpot: f64, output_tokens: f64) -> String {
    let of = |value: f64| json!({"mean": value, "p50": value, "p90": value, "p99": value, "min": value, "max": value, "n": 100});
    let result = json!({
        "tool": "infergate 0.1.0",
        "date": "2026-11-21T00:00:00Z",
        "model": "m",
        "ttft_ms": of(ttft), "tpot_ms": of(tpot), "itl_ms": of(tpot), "icl_ms": of(tpot),
        "e2e_ms": of(ttft + tpot * (output_tokens - 1.0)),
        "throughput": {"output_tokens_per_s": 1e3 / tpot},
        "requests": {"sent": 100, "ok": 100, "void": {}},
        "prompt_tokens": of(32.0), "output_tokens": of(output_tokens),
        "a_later_field": true,
    });
    let path = folder.join(name);
    std::fs::write(&path, result.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

fn row<'a>(table: &'a Value, name: &str) -> &'a Value {
    let rows = table["rows"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap()
}

#[test]
fn everything_is_a_ratio_to_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let a = load(folder.path(), "a.json", 50.0, 10.0, 48.0);
    let b = load(folder.path(), "b.json", 75.0, 5.0, 48.0);
    let table = compare(&[&a, &b, "--format", "json"]).expect(0).json();
    assert_eq!(table["verdict"], "valid");
    assert_eq!(row(&table, "ttft_ms_p50")["ratios"], json!([null, 1.5]));
    assert_eq!(row(&table, "tpot_ms_p50")["ratios"], json!([null, 0.5]));
    assert_eq!(row(&table, "throughput")["values"], json!([100.0, 200.0]));
    for (name, higher) in [("throughput", true), ("ttft_ms_p50", false)] {
        assert_eq!(row(&table, name)["higher_is_better"], higher, "{name}");
    }
    let text = compare(&[&a, &b, "--name", "ours", "--tag", "2=quantised q4_0"]).expect(0);
    for part in ["ours", "TTFT median", "75 ms  1.50 ×", "b: quantised q4_0"] {
        assert!(text.stdout.contains(part), "{part}\n{}", text.stdout);
    }
    assert!(
        text.stdout.lines().all(|line| line.chars().count() <= 80),
        "{}",
        text.stdout
    );
    let markdown = compare(&[&a, &b, "--format", "markdown"]).expect(0);
    assert!(
        markdown
            .stdout
            .contains("| TTFT median | 50 ms | 75 ms  1.50 × |"),
        "{}",
        markdown.stdout
    );
}

/// Changes the JSON of `gate load` in a file.
fn change(path: &str, change: impl FnOnce(&mut Value)) {
    let mut json: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    change(&mut json);
    std::fs::write(path, json.to_string()).unwrap();
}

/// On either side: the ratio would be to the first.
#[test]
fn a_result_that_calls_itself_unsound_makes_the_comparison_invalid() {
    let check = |key: &str, value: Value, part: &str| {
        for at in [0, 1] {
            let folder = tempfile::tempdir().unwrap();
            let files =
                ["a.json", "b.json"].map(|name| load(folder.path(), name, 50.0, 10.0, 48.0));
            change(&files[at], |json| json[key] = value.clone());
            let arguments = [files[0].as_str(), &files[1], "--format", "json"];
            let table = compare(&arguments).expect(4).json();
            let reason = table["invalid"].to_string();
            assert!(reason.contains(part), "{part}: {reason}");
            for row in table["rows"].as_array().unwrap() {
                assert_eq!(row["ratios"], json!([null, null]), "{row}");
            }
            let text = compare(&arguments[..2]).expect(4);
            let text = fixture::unwrapped(&text.stdout);
            assert!(
                text.contains(&format!("INVALID {}: ", ["a", "b"][at])),
                "{text}"
            );
        }
    };
    check("complete", json!(false), "interrupted");
    let late = json!(["the client sent late"]);
    check("client_beyond_limit", late, "the client sent late");
    check(
        "server_contradicts",
        json!("its timings differ"),
        "its timings differ",
    );
    check("implausible", json!("held back"), "held back");
    let none = json!({"sent": 100, "ok": 0, "void": {"status": 100}});
    check("requests", none, "every request failed");
}

/// What `gate load` prints of several runs, made of the JSON of one: each with its concurrency and its TPOT.
fn several(folder: &Path, key: &str, runs: &[(u32, f64)]) -> String {
    let runs = runs.iter().map(|(concurrency, tpot)| {
        let one = load(folder, "one.json", 50.0, *tpot, 48.0);
        let mut one: Value = serde_json::from_slice(&std::fs::read(one).unwrap()).unwrap();
        one["parameters"] = json!({"concurrency": concurrency, "seed": 1});
        one
    });
    let runs: Vec<Value> = runs.collect();
    let path = folder.join(format!("{key}.json"));
    std::fs::write(&path, json!({key: runs}).to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn each_step_of_a_sweep_has_a_column() {
    let folder = tempfile::tempdir().unwrap();
    let sweep = several(folder.path(), "steps", &[(1, 10.0), (2, 12.0), (4, 20.0)]);
    let one = load(folder.path(), "one.json", 50.0, 5.0, 48.0);
    let arguments = [sweep.as_str(), &one, "--tag", "1=x", "--format", "json"];
    let table = compare(&arguments).expect(0).json();
    let names = table["results"].as_array().unwrap().iter();
    let names: Vec<&str> = names.map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["steps c=1", "steps c=2", "steps c=4", "one"]);
    let tpot = row(&table, "tpot_ms_p50");
    assert_eq!(tpot["values"], json!([10.0, 12.0, 20.0, 5.0]));
    assert_eq!(tpot["ratios"], json!([null, 1.2, 2.0, 0.5]));
    change(&sweep, |json| json["steps"][1]["complete"] = false.into());
    let table = compare(&arguments).expect(4).json();
    let invalid = table["invalid"].to_string();
    assert!(invalid.contains("steps c=2: interrupted"), "{invalid}");
    let tpot = row(&table, "tpot_ms_p50");
    assert_eq!(tpot["ratios"], json!([null, null, 2.0, 0.5]));
    change(&sweep, |json| json["steps"] = json!([]));
    compare(&[&sweep]).expect(2).says(&["steps.json", "0 runs"]);
}

#[test]
fn repeats_are_the_rounds_of_one_column() {
    let folder = tempfile::tempdir().unwrap();
    let runs = several(folder.path(), "runs", &[(2, 10.0), (2, 12.0), (2, 11.0)]);
    let (fast, slow) = (
        folder.path().join("fast.json"),
        folder.path().join("slow.json"),
    );
    std::fs::copy(&runs, &fast).unwrap();
    let runs = several(folder.path(), "runs", &[(2, 20.0), (2, 24.0), (2, 22.0)]);
    std::fs::copy(&runs, &slow).unwrap();
    let (fast, slow) = (fast.to_str().unwrap(), slow.to_str().unwrap());
    let arguments = [fast, slow, "--format", "json"];
    let table = compare(&arguments).expect(0).json();
    let tpot = row(&table, "tpot_ms_p50");
    assert_eq!(tpot["values"], json!([11.0, 22.0]));
    assert_eq!(tpot["spreads"], json!([[10.0, 12.0], [20.0, 24.0]]));
    let same = json!([null, {"same": 3, "rounds": 3}]);
    assert_eq!(tpot["same_direction"], same);
    let check = |spoil: &dyn Fn(&mut Value), part: &str| {
        let whole = std::fs::read(slow).unwrap();
        change(slow, |json| spoil(json));
        let table = compare(&arguments).expect(4).json();
        let invalid = table["invalid"].to_string();
        assert!(invalid.contains(part), "{part}: {invalid}");
        assert_eq!(row(&table, "tpot_ms_p50")["ratios"], json!([null, null]));
        std::fs::write(slow, whole).unwrap();
    };
    let late = |json: &mut Value| json["runs"][1]["implausible"] = "held back".into();
    check(&late, "slow: run 2: held back");
    let other = |json: &mut Value| json["runs"][2]["parameters"]["concurrency"] = 4.into();
    check(
        &other,
        "slow: its runs are not of one load: `concurrency` differs",
    );
    let short = |json: &mut Value| json["runs"][0]["output_tokens"]["mean"] = 4.into();
    check(&short, "slow: its runs did different work");
}

#[test]
fn a_file_of_more_than_a_thousand_runs_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let runs = several(folder.path(), "steps", &[(1, 10.0)]);
    change(&runs, |json| {
        json["steps"] = vec![json["steps"][0].clone(); 1_001].into();
    });
    compare(&[&runs]).expect(2).says(&["1001 runs", "1000"]);
}

/// Text of another tool's file steers nothing, and shows no secret, in any format.
#[test]
fn foreign_text_is_cut_and_made_visible() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["a.json", "b.json"].map(|name| load(folder.path(), name, 50.0, 10.0, 48.0));
    let hostile = format!(
        "m\u{1b}[2J\u{202e}\u{2066}\u{200b}\u{feff}{}",
        "x".repeat(600)
    );
    let secret = format!("ghp_{}", "a1B2".repeat(9));
    change(&files[1], |json| {
        json["model"] = hostile.clone().into();
        json["notes"] = json!([format!("its key is {secret}")]);
    });
    let theirs = repository().join("tests/data/import/vllm.json");
    let theirs = std::fs::read_to_string(theirs).unwrap();
    let vllm = folder.path().join("vllm.json");
    std::fs::write(&vllm, theirs).unwrap();
    let vllm = vllm.to_str().unwrap();
    change(vllm, |json| json["model_id"] = hostile.into());
    let mut printed = vec![Ended::of(&gate(&["dev", "import", vllm]).output().unwrap()).expect(0)];
    for format in ["text", "json", "markdown"] {
        let all = [
            &files[0],
            &files[1],
            "--name",
            "a\u{202e}",
            "--format",
            format,
        ];
        let ended = compare(&all).expect(0);
        assert!(ended.stdout.contains("redacted"), "{}", ended.stdout);
        printed.push(ended);
    }
    for Ended { stdout, .. } in printed {
        let is_hidden = |c: char| c != '\n' && verdict::record::is_unseen(c);
        assert!(
            !stdout.contains(is_hidden) && !stdout.contains(&secret),
            "{stdout}"
        );
        assert!(
            stdout.contains("u{202e}") && stdout.contains("u{feff}"),
            "{stdout}"
        );
        assert!(
            (400..=520).contains(&stdout.matches('x').count()),
            "{stdout}"
        );
    }
}

#[test]
fn results_without_a_common_row_are_no_comparison() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["a.json", "b.json"].map(|name| load(folder.path(), name, 50.0, 10.0, 48.0));
    let none = json!({"n": 0});
    for name in ["ttft_ms", "tpot_ms", "itl_ms", "e2e_ms"] {
        change(&files[1], |json| json[name] = none.clone());
    }
    change(&files[0], |json| json["throughput"] = json!({}));
    let ended = compare(&[&files[0], &files[1]]).expect(4);
    let part = "b and a have no row in common";
    assert!(ended.stdout.contains(part), "{}", ended.stdout);
    change(&files[1], |json| json["throughput"] = json!({}));
    compare(&[&files[1]]).expect(4);
}

#[test]
fn a_session_that_was_interrupted_is_no_comparison() {
    let text = std::fs::read_to_string(repository().join("tests/data/run-v1.json")).unwrap();
    let mut record: verdict::record::RunRecord = serde_json::from_str(&text).unwrap();
    record.ending = verdict::record::Ending::Interrupted;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.json");
    std::fs::write(&path, serde_json::to_string(&record).unwrap()).unwrap();
    let ended = compare(&[path.to_str().unwrap()]).expect(4);
    assert!(
        ended.stdout.contains("cut: it was interrupted"),
        "{}",
        ended.stdout
    );
}

#[test]
fn what_is_for_launched_engines_is_refused_beside_results() {
    let folder = tempfile::tempdir().unwrap();
    let a = load(folder.path(), "a.json", 50.0, 10.0, 48.0);
    for (option, value) in [
        ("--at-most", "tpot=1.1"),
        ("--rounds", "3"),
        ("--gate", "latency"),
        ("--profile", "quick"),
        ("--out", "nowhere"),
        ("--seed", "1"),
    ] {
        compare(&[&a, &a, option, value])
            .expect(2)
            .says(&[option, "--engines"]);
    }
}

/// Incident 5: `max_tokens` was not wired through, and one side made 4 tokens instead of 48.
#[test]
fn unequal_answers_are_invalid_and_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let a = load(folder.path(), "a.json", 50.0, 10.0, 48.0);
    let b = load(folder.path(), "b.json", 50.0, 10.0, 4.0);
    let ended = compare(&[&a, &b, "--format", "json"]).expect(4);
    let table = ended.json();
    assert_eq!(table["verdict"], "invalid");
    assert_eq!(row(&table, "e2e_ms_p50")["ratios"], json!([null, null]));
    assert_eq!(row(&table, "ttft_ms_p50")["ratios"], json!([null, 1.0]));
    let reason = table["invalid"][0].as_str().unwrap();
    assert!(reason.contains("4 output tokens, in a 48"), "{reason}");
}

#[test]
fn a_session_gives_its_cold_half_too() {
    let run = repository().join("tests/data/run-v1.json");
    let run = run.to_str().unwrap();
    let table = compare(&[run, run, "--name", "a", "--name", "b", "--format", "json"])
        .expect(0)
        .json();
    for name in [
        "port_open_ms",
        "ready_ms",
        "cold_total_first_token_ms",
        "tpot_ms_p50",
    ] {
        assert_eq!(row(&table, name)["ratios"], json!([null, 1.0]), "{name}");
    }
    let wrong = compare(&[run, run, "--workload", "tpot/other"]).expect(2);
    wrong.says(&["--workload", "tpot/decode"]);
}

#[test]
fn another_tools_result_stands_beside_ours_with_what_it_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let ours = load(folder.path(), "ours.json", 50.0, 10.0, 5.0);
    let theirs = repository().join("tests/data/import/guidellm.json");
    let table = compare(&[&ours, theirs.to_str().unwrap(), "--format", "json"])
        .expect(0)
        .json();
    // Not its "TPOT", which is 18.
    let ratio = row(&table, "tpot_ms_p50")["ratios"][1].as_f64().unwrap();
    assert!((ratio - 1.0).abs() < 1e-6, "{ratio}");
    let caveats = table["results"][1]["caveats"].to_string();
    for part in [
        "imported from guidellm",
        "different prompt tokens (16 against 32)",
        "no launches",
    ] {
        assert!(caveats.contains(part), "{part}: {caveats}");
    }
}

#[test]
fn wrong_questions_are_refused() {
    compare(&[]).expect(2);
    let folder = tempfile::tempdir().unwrap();
    let a = load(folder.path(), "a.json", 50.0, 10.0, 48.0);
    compare(&[&a, "--tag", "2=x"])
        .expect(2)
        .says(&["--tag names result 2"]);
    compare(&[&a, "--tag", "x"]).expect(2);
    compare(&[&a, "--name", "a", "--name", "b"]).expect(2);
    let other = folder.path().join("other.json");
    std::fs::write(&other, "{}").unwrap();
    compare(&[&a, other.to_str().unwrap()])
        .expect(2)
        .says(&["other.json", "no tool that is known"]);
}

#[test]
fn a_page_shows_ratios_and_what_must_not_be_compared() {
    let folder = tempfile::tempdir().unwrap();
    let a = load(folder.path(), "a.json", 50.0, 10.0, 48.0);
    let b = load(folder.path(), "b.json", 75.0, 5.0, 48.0);
    let c = load(folder.path(), "c.json", 50.0, 10.0, 4.0);
    let page = |others: &[&str], code| {
        let arguments = [&[a.as_str()], others, &["--format", "html"]].concat();
        compare(&[&arguments[..], &["--name", MARKUP]].concat())
            .expect(code)
            .stdout
    };
    let pair = page(&[&b], 0);
    check_sheet(
        &pair,
        &["TTFT median 1.50 ×", "throughput 2.00 ×", "1.50 ×"],
    );
    assert!(!pair.contains("tone-invalid\""), "{pair}");
    let three = page(&[&b, &c], 4);
    check_sheet(&three, &["tone-invalid\"", "Invalid: c: an answer has 4"]);
}
