//! `gate dev import`: by definition and not by name, what is missing is said, and enough of it is judged.

use fixture::{Ended, gate, repository};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn import(arguments: &[&str]) -> Ended {
    let all: Vec<&str> = ["dev", "import"].iter().chain(arguments).copied().collect();
    Ended::of(&gate(&all).output().unwrap())
}

fn sample(name: &str) -> String {
    let path = repository().join("tests/data/import").join(name);
    path.to_str().unwrap().to_owned()
}

fn near(value: &Value, expect: f64) -> bool {
    value
        .as_f64()
        .is_some_and(|value| (value - expect).abs() < 1e-3)
}

/// All files tell of one server: first token after 50 ms, 10 ms a token, 5 tokens for prompts of 16.
#[test]
fn every_tool_says_the_same_of_the_same_server() {
    // (file, E2E, void requests, what must be said to be missing)
    let table = [
        ("vllm.json", None, 1, "--save-detailed"),
        ("vllm-detailed.json", Some(90.0), 1, "no launches"),
        ("guidellm.json", Some(90.0), 1, "no times of single chunks"),
        ("aiperf.json", Some(90.0), 1, "profile_export.jsonl"),
        ("aiperf.jsonl", Some(90.0), 1, "AIPerf's tokenizer"),
    ];
    for (file, e2e, void, missing) in table {
        let ended = import(&[&sample(file)]).expect(0).says(&[missing]);
        let got = ended.json();
        assert!(near(&got["ttft_ms"]["p50"], 50.0), "{file}: {got}");
        assert!(near(&got["tpot_ms"]["p50"], 10.0), "{file}: {got}");
        match e2e {
            Some(e2e) => assert!(near(&got["e2e_ms"]["p50"], e2e), "{file}: {got}"),
            None => assert!(got["e2e_ms"]["p50"].is_null(), "{file}: {got}"),
        }
        assert!(near(&got["output_tokens"]["mean"], 5.0), "{file}: {got}");
        assert!(near(&got["prompt_tokens"]["mean"], 16.0), "{file}: {got}");
        let requests = &got["requests"];
        let lost = requests["sent"].as_u64().unwrap() - requests["ok"].as_u64().unwrap();
        assert_eq!((requests["ok"].as_u64(), lost), (Some(3), void), "{file}");
    }
}

/// guidellm's fixture, changed.
fn guidellm(folder: &Path, change: impl FnOnce(&mut Value)) -> String {
    let text = std::fs::read_to_string(sample("guidellm.json")).unwrap();
    let mut file: Value = serde_json::from_str(&text).unwrap();
    change(&mut file["benchmarks"][0]);
    let path = folder.join("changed.json");
    std::fs::write(&path, file.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// `--sample-requests`: what only all requests together tell is guidellm's own.
#[test]
fn a_sample_of_the_requests_is_not_taken_for_all() {
    let folder = tempfile::tempdir().unwrap();
    let file = guidellm(folder.path(), |benchmark| {
        let metrics = &mut benchmark["metrics"];
        metrics["request_totals"]["successful"] = json!(1000);
        metrics["output_token_count"]["successful"]["mean"] = json!(7.0);
    });
    let ended = import(&[&file]).expect(0).says(&["4 of 1001 requests"]);
    let got = ended.json();
    let requests = &got["requests"];
    assert_eq!(
        (&requests["sent"], &requests["ok"]),
        (&1001.into(), &1000.into())
    );
    assert!(
        near(&got["throughput"]["output_tokens_per_s"], 50.0),
        "{got}"
    );
    assert!(near(&got["output_tokens"]["mean"], 7.0), "{got}");
    assert!(near(&got["e2e_ms"]["p50"], 90.0), "{got}");
    assert_eq!(got["ttft_ms"]["n"], 3, "{got}");
    let out = folder.path().join("session");
    import(&[&file, "--as", "head", "--out", out.to_str().unwrap()])
        .expect(2)
        .says(&["cannot be judged", "4 of 1001 requests"]);
}

/// The first request ends before guidellm measures and the failed one begins after; neither is in its totals.
#[test]
fn warm_up_and_cool_down_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let file = guidellm(folder.path(), |benchmark| {
        benchmark["scheduler_metrics"] =
            json!({"measure_start_time": 1000.096, "measure_end_time": 1000.25});
        benchmark["metrics"]["request_totals"] =
            json!({"successful": 2, "incomplete": 0, "errored": 0, "total": 2});
    });
    let ended = import(&[&file]).expect(0);
    assert!(!ended.stderr.contains("singly"), "{}", ended.stderr);
    let got = ended.json();
    assert_eq!(
        (&got["ttft_ms"]["n"], &got["requests"]["sent"]),
        (&2.into(), &2.into())
    );
    // Ten tokens from 1000.1 to 1000.29 s.
    assert!(
        near(&got["throughput"]["output_tokens_per_s"], 10.0 / 0.19),
        "{got}"
    );
}

/// guidellm writes zeros for the tokens' times, which nobody saw.
#[test]
fn answers_that_came_whole_keep_the_time_that_guidellm_has() {
    let folder = tempfile::tempdir().unwrap();
    let file = guidellm(folder.path(), |benchmark| {
        for name in ["time_to_first_token_ms", "inter_token_latency_ms"] {
            for key in ["mean", "median", "min", "max"] {
                benchmark["metrics"][name]["successful"][key] = json!(0.0);
            }
        }
        let requests = benchmark["requests"]["successful"].as_array_mut().unwrap();
        for request in requests {
            for name in ["first_token_iteration", "last_token_iteration"] {
                request["info"]["timings"][name] = Value::Null;
            }
        }
    });
    let ended = import(&[&file]).expect(0).says(&["not streamed"]);
    let got = ended.json();
    assert!(near(&got["e2e_ms"]["p50"], 95.0), "{got}");
    for name in ["ttft_ms", "tpot_ms"] {
        assert_eq!(got[name]["p50"], Value::Null, "{got}");
    }
}

/// vLLM's "ITL" is between chunks; where a chunk held two tokens it is no time between tokens.
#[test]
fn times_between_chunks_are_not_called_times_between_tokens() {
    let got = import(&[&sample("vllm-detailed.json")]).expect(0).json();
    assert!(near(&got["icl_ms"]["max"], 20.0), "{got}");
    assert_eq!(got["itl_ms"]["n"], 0, "{got}");
    let got = import(&[&sample("aiperf.jsonl")]).expect(0).json();
    assert_eq!(got["itl_ms"]["n"], 12, "{got}");
}

/// A goodbye that is late is no decoding: with single requests E2E ends at the last token.
#[test]
fn a_sweep_needs_a_choice_and_its_own_quantiles_are_taken() {
    import(&[&sample("guidellm-sweep.json")]).expect(2).says(&[
        "2 benchmarks",
        "`gate dev import --benchmark N`, N from 0 to 1,",
    ]);
    let ended = import(&[&sample("guidellm-sweep.json"), "--benchmark", "1"]).expect(0);
    let got = ended.says(&["end of the answer"]).json();
    assert!(near(&got["e2e_ms"]["p50"], 95.0), "{got}");
    import(&[&sample("guidellm-sweep.json"), "--benchmark", "2"]).expect(2);
    import(&[&sample("guidellm.json"), "--benchmark", "1"])
        .expect(2)
        .says(&["it holds one benchmark: leave --benchmark out"]);
}

/// `vllm bench serve --append-result` writes one benchmark a line.
#[test]
fn one_of_several_appended_results_is_chosen_and_never_the_first_taken() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(sample("vllm.json")).unwrap();
    let mut file: Value = serde_json::from_str(&text).unwrap();
    let first = file.to_string();
    file["median_ttft_ms"] = json!(80.0);
    let path = folder.path().join("appended.json");
    std::fs::write(&path, format!("{first}\n{file}")).unwrap();
    let path = path.to_str().unwrap();
    import(&[path])
        .expect(2)
        .says(&["2 benchmarks", "--benchmark N`, N from 0 to 1,"]);
    let got = import(&[path, "--benchmark", "1"]).expect(0).json();
    assert!(near(&got["ttft_ms"]["p50"], 80.0), "{got}");
    import(&[path, "--benchmark", "2"]).expect(2);
    // Two commands that have no --benchmark name the one that has.
    let compared = gate(&["compare", path]).output().unwrap();
    Ended::of(&compared)
        .expect(2)
        .says(&["`gate dev import --benchmark N`, N from 0 to 1,"]);
    let out = folder.path().join("session");
    import(&[path, "--as", "head", "--out", out.to_str().unwrap()])
        .expect(2)
        .says(&["files of one benchmark each"]);
}

/// `gate load --out` of a sweep or of repeats, and files that were put behind one another.
#[test]
fn requests_of_several_runs_in_one_file_need_a_choice() {
    let folder = tempfile::tempdir().unwrap();
    let record = std::fs::read_to_string(repository().join("tests/data/run-v1.json")).unwrap();
    let record: verdict::record::RunRecord = serde_json::from_str(&record).unwrap();
    let samples = record.launches[0].samples.iter();
    let first = samples.clone().next().unwrap().workload.clone();
    let samples = samples.filter(|sample| sample.workload == first);
    let own: Vec<String> = samples
        .map(|sample| serde_json::to_string(sample).unwrap() + "\n")
        .collect();
    let aiperf = std::fs::read_to_string(repository().join("tests/data/import/aiperf.jsonl"));
    for run in [own.concat(), aiperf.unwrap().trim().to_owned() + "\n"] {
        let path = folder.path().join("requests.jsonl");
        std::fs::write(&path, &run).unwrap();
        let path = path.to_str().unwrap();
        let once = import(&[path]);
        assert!(matches!(once.code, Some(0 | 4)), "{once:?}");
        std::fs::write(path, run.repeat(3)).unwrap();
        let parts = ["3 benchmarks (runs)", "--benchmark N`, N from 0 to 2"];
        import(&[path]).expect(2).says(&parts);
        let compared = gate(&["compare", path]).output().unwrap();
        Ended::of(&compared).expect(2).says(&parts);
        let chosen = import(&[path, "--benchmark", "2"]);
        assert_eq!((chosen.code, &chosen.stdout), (once.code, &once.stdout));
        import(&[path, "--benchmark", "3"]).expect(2);
    }
    let path = folder.path().join("requests.jsonl");
    std::fs::write(&path, own[0].repeat(1_001)).unwrap();
    import(&[path.to_str().unwrap()])
        .expect(2)
        .says(&["1001 benchmarks", "at most 1000"]);
}

#[test]
fn the_wrong_tool_is_told() {
    import(&[&sample("vllm.json"), "--from", "guidellm"])
        .expect(2)
        .says(&["no result of guidellm", "`benchmarks`"]);
    import(&["nowhere.json"]).expect(2).says(&["nowhere.json"]);
}

/// One launch of 40 requests.
fn launch(folder: &Path, name: &str, tpot_ms: f64, ttft_ms: f64) -> PathBuf {
    launch_of(40, folder, name, tpot_ms, ttft_ms)
}

/// One launch by `vllm bench serve --save-detailed`, with a TPOT around `tpot_ms` and a TTFT around `ttft_ms`.
fn launch_of(n: u32, folder: &Path, name: &str, tpot_ms: f64, ttft_ms: f64) -> PathBuf {
    const TOKENS: u32 = 9;
    let requests = 0..n;
    let wobble = |i: u32| 1.0 + (f64::from((i * 7) % 15) - 7.0) * 1e-3;
    let gap = |i: u32| tpot_ms * wobble(i) / 1e3;
    let itls: Vec<Vec<f64>> = requests
        .clone()
        .map(|i| vec![gap(i); TOKENS as usize - 1])
        .collect();
    let ttfts: Vec<f64> = requests
        .clone()
        .map(|i| ttft_ms / 1e3 * wobble(i))
        .collect();
    let starts: Vec<f64> = requests.clone().map(|i| 7.0 + f64::from(i)).collect();
    let file = json!({
        "model_id": "m", "completed": n, "failed": 0, "duration": f64::from(n),
        "total_input_tokens": 16 * n, "total_output_tokens": TOKENS * n,
        "input_lens": vec![16; n as usize], "output_lens": vec![TOKENS; n as usize],
        "ttfts": ttfts, "itls": itls, "start_times": starts, "errors": vec![""; n as usize],
    });
    let path = folder.join(name);
    std::fs::write(&path, file.to_string()).unwrap();
    path
}

/// Files of four launches an arm, and the verdict on them.
fn judged(head_tpot_ms: f64) -> Ended {
    let folder = tempfile::tempdir().unwrap();
    let noise = [0.998, 1.003, 1.001, 0.999, 1.002, 0.997];
    let files = |arm: &str, tpot: f64| -> Vec<String> {
        let files = noise.iter().enumerate();
        files
            .map(|(i, noise)| {
                launch(
                    folder.path(),
                    &format!("{arm}{i}.json"),
                    tpot * noise,
                    50.0 * noise,
                )
            })
            .map(|path| path.to_str().unwrap().to_owned())
            .collect()
    };
    let out = folder.path().join("session");
    let add = |arm: &str, files: &[String]| {
        let common = ["--as", arm, "--out", out.to_str().unwrap()];
        let files = files.iter().map(String::as_str);
        let all: Vec<&str> = common.into_iter().chain(files).collect();
        import(&all)
    };
    add("base", &files("base", 10.0)).expect(0);
    let first = add("head", &files("head", head_tpot_ms));
    // The record judges alone, to the same verdict.
    let again = Ended::of(&gate(&["report", out.to_str().unwrap()]).output().unwrap());
    assert_eq!((first.code, &first.stdout), (again.code, &again.stdout));
    again
}

/// No gate started its engine: there is no spawn to count from.
#[test]
fn an_imported_session_has_no_cold_half() {
    let folder = tempfile::tempdir().unwrap();
    let file = launch(folder.path(), "a.json", 10.0, 50.0);
    let session = folder.path().join("session");
    let (file, session) = (file.to_str().unwrap(), session.to_str().unwrap());
    import(&[file, "--as", "head", "--out", session]).expect(0);
    let compared = gate(&["compare", session, "--format", "json"])
        .output()
        .unwrap();
    let table = Ended::of(&compared).expect(0).json();
    let rows = table["rows"].as_array().unwrap();
    let names: Vec<&str> = rows
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    let warm = [
        "ttft_ms_p50",
        "tpot_ms_p50",
        "itl_ms_p99",
        "e2e_ms_p50",
        "throughput",
    ];
    assert_eq!(names, warm);
}

#[test]
fn launches_under_different_loads_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("session");
    let add = |arm: &str, streams: u32, rate: Value| {
        let path = launch(folder.path(), &format!("{arm}.json"), 10.0, 50.0);
        let text = std::fs::read_to_string(&path).unwrap();
        let mut file: Value = serde_json::from_str(&text).unwrap();
        file["max_concurrency"] = json!(streams);
        file["request_rate"] = rate;
        std::fs::write(&path, file.to_string()).unwrap();
        let out = out.to_str().unwrap();
        import(&[path.to_str().unwrap(), "--as", arm, "--out", out])
    };
    add("base", 20, json!("inf")).expect(0);
    let told = "head.json was measured with max_concurrency 1, request_rate inf";
    let parts = [told, "the other arm with max_concurrency 20"];
    add("head", 1, json!("inf")).expect(2).says(&parts);
    let told = ["request_rate 4"];
    add("head", 20, json!(4.0)).expect(2).says(&told);
    let judged = add("head", 20, json!("inf"));
    assert_ne!(judged.code, Some(2), "{}", judged.stderr);
    let record = std::fs::read_to_string(out.join("run.json")).unwrap();
    assert!(record.contains("concurrency = 20"), "{record}");
}

#[test]
fn a_slower_head_fails_by_imported_launches() {
    let ended = judged(12.0).expect(1);
    assert!(ended.stdout.contains("imported/tpot"), "{}", ended.stdout);
}

#[test]
fn an_equal_head_passes_by_imported_launches() {
    judged(10.0).expect(0);
}

/// A client that was 130 ms late would look the same.
#[test]
fn a_verdict_on_imported_launches_says_what_nobody_knows() {
    let ended = judged(10.0);
    for part in ["imported: how late", "missing: no server's start"] {
        assert_eq!(ended.stdout.matches(part).count(), 1, "{}", ended.stdout);
    }
    assert!(!ended.stdout.contains("no launches"), "{}", ended.stdout);
    // But for the addresses at its end.
    let (said, _) = ended.stdout.rsplit_once("\n\n").unwrap();
    assert!(
        said.lines().all(|line| line.chars().count() <= 80),
        "{said}"
    );
}

/// In either order, and with more launches than the other arm will have.
#[test]
fn an_arm_alone_has_a_line_and_no_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<PathBuf> = (0..4)
        .map(|i| launch(folder.path(), &format!("{i}.json"), 10.0, 50.0))
        .collect();
    let files: Vec<&str> = files.iter().map(|path| path.to_str().unwrap()).collect();
    for (arm, other) in [("base", "head"), ("head", "base")] {
        let out = folder.path().join(arm);
        let common = ["--as", arm, "--out", out.to_str().unwrap()];
        let ended = import(&[&common[..], &files[..]].concat()).expect(0);
        let line = format!(
            "{arm}: 4 launches put in {}; none of {other} yet",
            out.display()
        );
        assert!(ended.stdout.starts_with(&line), "{}", ended.stdout);
        assert_eq!(ended.stdout.lines().count(), 1, "{}", ended.stdout);
        assert!(!out.join("verdict.json").exists());
        let common = ["--as", other, "--out", out.to_str().unwrap()];
        let ended = import(&[&common[..], &files[..1]].concat());
        assert!(!ended.stdout.contains("in a row"), "{}", ended.stdout);
    }
}

#[test]
fn too_few_requests_for_a_median_are_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let enough = launch(folder.path(), "base0.json", 10.0, 50.0);
    let few = launch_of(29, folder.path(), "base1.json", 10.0, 50.0);
    let out = folder.path().join("session");
    let (enough, few) = (enough.to_str().unwrap(), few.to_str().unwrap());
    import(&[enough, few, "--as", "base", "--out", out.to_str().unwrap()])
        .expect(2)
        .says(&["base1.json holds 29 of the 30 requests"]);
    assert!(!out.exists());
}

#[test]
fn what_cannot_be_judged_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("session");
    let out = out.to_str().unwrap();
    import(&[&sample("vllm.json"), "--as", "head", "--out", out])
        .expect(2)
        .says(&["cannot be judged, only compared", "--save-detailed"]);
    // A session that was measured stays what it is.
    std::fs::create_dir(folder.path().join("run")).unwrap();
    let run = folder.path().join("run/run.json");
    std::fs::copy(repository().join("tests/data/run-v1.json"), &run).unwrap();
    let before = std::fs::read(&run).unwrap();
    let run = folder.path().join("run");
    let file = launch(folder.path(), "a.json", 10.0, 50.0);
    let (file, out) = (file.to_str().unwrap(), run.to_str().unwrap());
    import(&[file, "--as", "head", "--out", out])
        .expect(2)
        .says(&["holds a run.json already"]);
    assert_eq!(before, std::fs::read(run.join("run.json")).unwrap());
}
