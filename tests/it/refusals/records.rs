//! Run records: the frozen one still judges to the same verdict, and those that are none are refused.

use fixture::{Ended, Project, gate, repository};
use serde_json::Value;
use std::fs::{self, File};
use std::path::Path;

/// A record of format `infergate-run/1`, as a session of 2026-11-21 wrote it (its machine's name removed).
fn frozen(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    fs::copy(
        repository().join("tests/data/run-v1.json"),
        folder.join("run.json"),
    )
    .unwrap();
}

#[test]
fn the_first_format_reads_to_the_verdict_that_it_had() {
    let folder = tempfile::tempdir().unwrap();
    frozen(folder.path());
    let output = gate(&["report", ".", "--format", "json"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let now = Ended::of(&output).json();
    let text = fs::read_to_string(repository().join("tests/data/verdict-v1.json")).unwrap();
    let then: Value = serde_json::from_str(&text).unwrap();
    // Sentences may be put better one day, and a failure may have to be surer (`p_fail`); what was decided, why and from
    // which numbers may not change.
    let decided = |verdict: &Value| -> Vec<Value> {
        let gates = verdict["gates"].as_array().unwrap();
        let checks = gates
            .iter()
            .flat_map(|gate| gate["checks"].as_array().unwrap());
        let keys = [
            "id", "verdict", "rule", "base", "head", "change", "interval", "p_pass",
        ];
        checks
            .map(|check| keys.iter().map(|key| check[key].clone()).collect())
            .collect()
    };
    assert_eq!(now["verdict"], then["verdict"]);
    assert_eq!(decided(&now), decided(&then));
}

/// Waits were used up, and launches were measured on a hot machine all the same.
#[test]
fn launches_measured_hot_are_named() {
    let folder = tempfile::tempdir().unwrap();
    frozen(folder.path());
    let path = folder.path().join("run.json");
    let mut record: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let launches = record["launches"].as_array_mut().unwrap();
    for (launch, last_ms) in launches.iter_mut().zip([10.0, 10.2, 12.6, 11.0]) {
        launch["rest"] = serde_json::json!({
            "waited_ms": 1500.0, "probes_ms": [13.0, last_ms], "reference_ms": 10.0, "within": 0.03,
            "budget_left_ms": 0.0,
        });
    }
    fs::write(&path, record.to_string()).unwrap();
    let output = gate(&["report", "."]).current_dir(folder.path()).output();
    let text = Ended::of(&output.unwrap()).stdout;
    let text = fixture::unwrapped(&text);
    let named = "waited 6 s of 6 s for cooling; 2 of 4 launches measured hot: launch 2 (head) 26.0 % above its \
                 reference, launch 3 (base) 10.0 % above its reference";
    assert!(text.contains(named), "{text}");
}

#[test]
fn a_record_reads_back_to_the_bit() {
    let folder = tempfile::tempdir().unwrap();
    frozen(folder.path());
    let record = fs::read_to_string(folder.path().join("run.json")).unwrap();
    let mut value: Value = serde_json::from_str(&record).unwrap();
    // A number with 17 digits that a careless reader rounds to its neighbour.
    let odd = 0.845_512_408_225_570_3_f64;
    value["elapsed_s"] = odd.into();
    fs::write(folder.path().join("run.json"), value.to_string()).unwrap();
    let output = gate(&["report", ".", "--format", "json"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let read = Ended::of(&output).json()["elapsed_s"].as_f64().unwrap();
    assert_eq!(read.to_bits(), odd.to_bits());
}

#[test]
fn records_that_are_none() {
    let project = Project::without_build();
    fs::create_dir(project.path("r")).unwrap();
    for (text, part) in [
        ("not json", "is not a run record"),
        (
            "{\"format\": \"infergate-run/9\"}",
            "has the format `infergate-run/9`",
        ),
        ("{\"format\": \"infergate-run/1\"}", "missing field"),
    ] {
        project.write("r/run.json", text);
        project.run(&["report", "r"]).expect(2).says(&[part]);
    }
    project
        .run(&["check", "--out", "r"])
        .expect(2)
        .says(&["holds a run.json already"]);
}

#[test]
fn output_that_cannot_be_written_is_an_error_and_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    frozen(folder.path());
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let output = gate(&["report", "."])
        .current_dir(folder.path())
        .stdout(full())
        .output()
        .unwrap();
    Ended::of(&output)
        .expect(5)
        .says(&["standard output", "No space left"]);
    let output = gate(&["report", "nowhere"])
        .current_dir(folder.path())
        .stderr(full())
        .output()
        .unwrap();
    Ended::of(&output).expect(2);
}
