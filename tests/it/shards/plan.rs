//! `gate shard plan` through the binary.

use super::{alone, three};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

/// Each shard's gates, in no order: the one that takes longest is first, and that is the clock's matter.
fn shards(matrix: &Value) -> BTreeSet<&str> {
    let include = matrix["include"].as_array().unwrap();
    include
        .iter()
        .map(|entry| entry["gates"].as_str().unwrap())
        .collect()
}

const THREE: [&str; 4] = ["shard", "plan", "--gate", "one two three"];

#[test]
fn the_plan_is_told_and_shared() {
    let _alone = alone();
    let project = three();
    let told = project.run(&THREE).expect(0).stdout;
    for part in [
        "profile quick: 3 gates, 3 checks, 2 launches per arm and block",
        "results are tested after 4, 5 blocks; at most",
        "unknown",
    ] {
        assert!(told.contains(part), "`{part}` in\n{told}");
    }
    assert!(
        told.lines().all(|line| line.chars().count() <= 80),
        "{told}"
    );
    let plan = project
        .run(&[&THREE[..], &["--json"]].concat())
        .expect(0)
        .json();
    let launches: Vec<&Value> = plan["gates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|g| &g["launch"])
        .collect();
    for gate in plan["gates"].as_array().unwrap() {
        assert_eq!(gate["known"], "unknown");
        assert!(
            gate["start_s"].is_null() && gate["work_s"].is_null(),
            "{gate}"
        );
    }
    // `one`, `three`, `two`: by name.
    assert_eq!(launches, [1, 1, 2]);

    let split = [&THREE[..], &["--shards", "2"]].concat();
    let json = |arguments: &[&str]| project.run(&[arguments, &["--json"]].concat()).expect(0);
    let guessed = json(&split);
    assert_eq!(
        guessed.stdout.lines().count(),
        1,
        "a step's output is one line"
    );
    let matrix = guessed.json();
    assert_eq!(shards(&matrix).len(), 2);
    let entry = &matrix["include"][0];
    assert_eq!((&entry["shard"], &entry["of"]), (&1.into(), &2.into()));
    assert_eq!(entry["together"], "one three two");
    let minutes = plan["budget_s"].as_f64().unwrap() / 60.0;
    let told = entry["minutes"].as_f64().unwrap();
    assert!((told - minutes).abs() < 0.06, "{told} of {minutes} minutes");
    let told = project.run(&split).expect(0).stdout;
    assert!(told.contains("0 estimated, 3 unknown"), "{told}");

    // What was measured is known: the engine's start outweighs a request, so those that share it stay together.
    project
        .run(&[
            "check",
            "--gate",
            "one two three",
            "--out",
            ".gate/runs/measured",
        ])
        .expect(0);
    let told = project.run(&THREE).expect(0).stdout;
    assert_eq!(told.matches("a run here").count(), 3, "{told}");
    assert_eq!(shards(&json(&split).json()), ["one three", "two"].into());
    let told = project.run(&split).expect(0).stdout;
    assert!(
        told.contains("durations: 3 measured, 0 estimated"),
        "{told}"
    );
    let many = project
        .run(&[&THREE[..], &["--shards", "9"]].concat())
        .expect(0);
    many.says(&["of the 9 shards are used: a gate is never taken apart"]);

    // A machine that never measured knows it from main's records.
    project
        .run(&["baseline", "record", "--gate", "one two three"])
        .expect(0);
    fs::remove_dir_all(project.path(".gate/runs")).unwrap();
    let told = project.run(&THREE).expect(0).stdout;
    assert_eq!(told.matches("main's record").count(), 3, "{told}");
    assert_eq!(shards(&json(&split).json()), ["one three", "two"].into());
}

#[test]
fn a_split_into_nothing_is_refused() {
    let project = three();
    for shards in ["0", "257", "x"] {
        project
            .run(&["shard", "plan", "--shards", shards])
            .expect(2);
    }
    project
        .run(&["shard", "plan", "--gate", "four"])
        .expect(2)
        .says(&["unknown gate `four`"]);
}
