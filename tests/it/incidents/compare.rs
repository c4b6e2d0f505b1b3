//! Engines beside one another, each of them this program with knobs of its own: what a cold start is made of, what is
//! kept in saved results, and limits of one engine against another.

use fixture::{Ended, Project};
use serde_json::{Value, json};

const GATE: &str = r#"
[profile.quick]
looks = [4]
budget = "10 min"
[errors]
false_alarm = "2 %"
false_pass = "5 %"
[baseline]
directory = ".gate/baseline"
max_age = "14 days"
"#;

const FIRST: &str = r#"
title = "The first request"
[workload.first]
kind = "first-request"
prompt_tokens = 8
output_tokens = 4
[[check]]
name = "ready"
metric = "ready"
rule = "ceiling"
limit = "60 s"
"#;

const WORK: &str = r#"
title = "Some work"
[workload.work]
kind = "steady"
requests = 4
warmup = 1
prompt_tokens = 8
output_tokens = 6
concurrency = 1
[[check]]
name = "tpot"
metric = "tpot"
rule = "ceiling"
limit = "10 s"
min_samples = 1
"#;

/// An engine of gates/engines.toml: name, knobs, further keys.
type Engine<'a> = (&'a str, &'a [&'a str], &'a str);

fn table(engine: &Engine<'_>) -> String {
    let (name, knobs, further) = engine;
    let program = std::env::current_exe().unwrap();
    let mut serve = vec![
        program.to_str().unwrap(),
        super::ENGINE,
        "--exact",
        "port={port}",
    ];
    serve.extend(*knobs);
    format!(
        "[engines.{name}]\nserve = {serve:?}\nmodel = \"scripted\"\nready_timeout = \"60 s\"\n\
         request_timeout = \"60 s\"\nprompt_ids = {{ from = 3, to = 60000 }}\n{further}\n"
    )
}

/// A project with these engines and gates `first` and `work`.
fn project(engines: &[Engine<'_>]) -> Project {
    let project = Project::empty();
    let own = table(&engines[0]).replace(&format!("[engines.{}]", engines[0].0), "[engine]");
    let own: Vec<&str> = own
        .lines()
        .filter(|line| !line.starts_with("quantised"))
        .collect();
    project.write("gates/gate.toml", &format!("{}\n{GATE}", own.join("\n")));
    project.write("gates/first.toml", FIRST);
    project.write("gates/work.toml", WORK);
    let engines: String = engines.iter().map(table).collect();
    project.write("gates/engines.toml", &engines);
    project
}

fn compare(project: &Project, arguments: &[&str]) -> Ended {
    let common = ["compare", "--seed", "5", "--out", "out"];
    let ended = project.run(&[&common, arguments].concat());
    assert_eq!(project.leftovers(), [0; 0]);
    ended
}

fn row<'a>(table: &'a Value, name: &str) -> &'a Value {
    let rows = table["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == name);
    row.unwrap_or_else(|| panic!("no row {name} in {table:#}"))
}

/// An engine that loads at its first request: its first request seemed to take 15 ms.
#[test]
fn a_lazy_loader_pays_in_the_row_of_its_first_generation() {
    let project = project(&[("eager", &["boot=300"], ""), ("lazy", &["lazy=900"], "")]);
    let arguments = [
        "--engines",
        "eager,lazy",
        "--gate",
        "first",
        "--rounds",
        "2",
    ];
    let table = compare(&project, &[&arguments[..], &["--format", "json"]].concat());
    let table = table.expect(0).json();
    let values = |name: &str| -> Vec<f64> {
        let values = row(&table, name)["values"].as_array().unwrap();
        values.iter().map(|value| value.as_f64().unwrap()).collect()
    };
    let generation = values("first_generation_ms");
    assert!(
        generation[1] > 900.0 && generation[0] < generation[1],
        "{generation:?}"
    );
    let ready = values("ready_ms");
    assert!(ready[1] > generation[1], "{ready:?} {generation:?}");
    let told = "its first generation, the readiness probe, took";
    let caveats = |at: usize| table["results"][at]["caveats"].to_string();
    assert!(
        caveats(1).contains(told) && !caveats(0).contains(told),
        "{table:#}"
    );
}

#[test]
fn a_comparison_of_starts_alone_prints_its_table() {
    let project = project(&[("a", &[], ""), ("b", &["boot=200"], "")]);
    let arguments = ["--engines", "a,b", "--gate", "first", "--rounds", "1"];
    let ended = compare(&project, &arguments).expect(0);
    assert!(
        ended.stdout.contains("start to first token"),
        "{}",
        ended.stdout
    );
    assert!(!ended.stdout.contains("TPOT"), "{}", ended.stdout);
    // The saved results are compared again as well.
    let again = project.run(&["compare", "out/a", "out/b"]).expect(0);
    assert_eq!(again.stdout, ended.stdout);
}

#[test]
fn which_workload_is_meant_is_asked_before_anything_is_launched() {
    let project = project(&[("a", &[], ""), ("b", &[], "")]);
    project.write("gates/more.toml", WORK);
    compare(&project, &["--engines", "a,b"]).expect(2).says(&[
        "--workload",
        "more/work",
        "work/work",
    ]);
    let check = |at_most: &[&str], parts: &[&str]| {
        let arguments = [&["--engines", "a,b", "--gate", "first"], at_most].concat();
        compare(&project, &arguments).expect(2).says(parts);
    };
    check(
        &["--at-most", "tpot=1.1"],
        &["--at-most tpot=1.1", "--gate"],
    );
    check(
        &["--at-most", "ready=1.1", "--rounds", "3"],
        &["3 rounds decide nothing", "--rounds 4"],
    );
    check(&["--at-most", "speed=1.1"], &["unknown time", "ttft, tpot"]);
    compare(
        &project,
        &["--engines", "a", "--gate", "first", "--at-most", "ready=2"],
    )
    .expect(2)
    .says(&["two or more in --engines"]);
    assert!(!project.path("out").exists());
}

#[test]
fn saved_results_keep_caveats_and_stages() {
    let further = "startup_metric = \"startup_seconds\"\nquantised = \"q4_0\"\nprecision = \"f16\"\ntags = [\"one slot\"]";
    let project = project(&[
        ("a", &["boot=20"], "startup_metric = \"startup_seconds\""),
        ("b", &["boot=300"], further),
    ]);
    let arguments = ["--engines", "a,b", "--rounds", "1", "--format", "json"];
    let first = compare(&project, &arguments).expect(0).json();
    let again = project.run(&["compare", "out/a", "out/b", "--format", "json"]);
    let again = again.expect(0).json();
    for table in [&first, &again] {
        let caveats = table["results"][1]["caveats"].to_string();
        for part in ["quantised (q4_0)", "different precision (f16", "one slot"] {
            assert!(caveats.contains(part), "{part} in {caveats}");
        }
        assert_eq!(table["stages"][0]["name"], "upload", "{table:#}");
        let upload = table["stages"][0]["values"][1].as_f64().unwrap();
        assert!(upload >= 300.0, "{upload}");
        assert_eq!(table["results"][1]["longest_stage"], "upload");
    }
    assert_eq!(first["rows"], again["rows"]);
    let text = project.run(&["compare", "out/a", "out/b"]).expect(0);
    for part in [
        "stages",
        "upload",
        "longest stage",
        "upload (100 %)",
        "quantised (q4_0)",
    ] {
        assert!(text.stdout.contains(part), "{part} in {}", text.stdout);
    }
}

#[test]
fn rounds_show_their_spread_and_direction() {
    let project = project(&[("fast", &["tpot=4"], ""), ("slow", &["tpot=40"], "")]);
    let arguments = ["--engines", "fast,slow", "--gate", "work", "--rounds", "3"];
    let ended = compare(&project, &arguments).expect(0);
    for part in ["± ", "3/3"] {
        let shown = ended.stdout.replace('±', "± ");
        assert!(shown.contains(part), "{part} in {}", ended.stdout);
    }
    let again = project.run(&["compare", "out/fast", "out/slow", "--format", "json"]);
    let table = again.expect(0).json();
    let tpot = row(&table, "tpot_ms_p50");
    // Both were sent the same prompts: four requests in each of three rounds.
    let paired = &tpot["paired"][1];
    assert_eq!(paired["pairs"], 12, "{tpot:#}");
    assert!(paired["ratio"].as_f64().unwrap() > 2.0, "{paired:#}");
    let told = "slow, against the same prompt in fast: TTFT";
    assert!(ended.stdout.contains(told), "{}", ended.stdout);
    let expect = json!([null, {"same": 3, "rounds": 3}]);
    assert_eq!(tpot["same_direction"], expect, "{tpot:#}");
    let spread = |at: usize, end: usize| tpot["spreads"][at][end].as_f64().unwrap();
    let value = tpot["values"][1].as_f64().unwrap();
    assert!(
        (spread(1, 0)..=spread(1, 1)).contains(&value) && spread(1, 0) >= 40.0,
        "{tpot:#}"
    );
}

/// "TPOT at most 1.5 times the other engine's", by the judge of every gate.
#[test]
fn a_limit_against_another_engine_passes_and_fails() {
    let project = project(&[
        ("ours", &["tpot=8"], ""),
        ("slow", &["tpot=24"], ""),
        ("fast", &["tpot=2"], ""),
    ]);
    let hold = |engines: &str| {
        let arguments = [
            "--engines",
            engines,
            "--gate",
            "work",
            "--at-most",
            "tpot=1.5",
        ];
        let ended = compare(&project, &[&arguments[..], &["--format", "json"]].concat());
        std::fs::remove_dir_all(project.path("out")).unwrap();
        ended
    };
    let passed = hold("ours,slow").expect(0).json();
    let held = &passed["at_most"][0];
    assert_eq!(
        (&held["verdict"], &held["against"]),
        (&"pass".into(), &"slow".into()),
        "{held:#}"
    );
    assert!(
        held["reason"]
            .as_str()
            .unwrap()
            .contains("below the ceiling of 50 %"),
        "{held:#}"
    );
    let failed = hold("ours,slow,fast").expect(1).json();
    let verdicts: Vec<&Value> = failed["at_most"]
        .as_array()
        .unwrap()
        .iter()
        .map(|held| &held["verdict"])
        .collect();
    assert_eq!(verdicts, ["pass", "fail"], "{failed:#}");
    let reason = failed["at_most"][1]["reason"].as_str().unwrap();
    assert!(reason.contains("beyond the margin of 50 %"), "{reason}");
}

/// A limit on answers of unequal length is no verdict on speed.
#[test]
fn a_limit_between_unequal_answers_is_invalid() {
    let unforced = "forces_length = false";
    let project = project(&[("ours", &["stop_at=3"], unforced), ("other", &[], unforced)]);
    let arguments = [
        "--engines",
        "ours,other",
        "--gate",
        "work",
        "--at-most",
        "e2e=1.5",
    ];
    let ended = compare(&project, &[&arguments[..], &["--format", "json"]].concat()).expect(4);
    let table = ended.json();
    let held = &table["at_most"][0];
    assert_eq!(
        (&held["verdict"], &held["rule"]),
        (&"invalid".into(), &"token-parity".into())
    );
}
