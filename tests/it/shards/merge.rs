//! `gate check --together` and `gate shard merge` through the binary: one verdict, and what is not one run.

use super::{alone, three};
use fixture::{Ended, Project};
use serde_json::Value;
use std::fs;

/// The three gates measured as two shards.
fn measured() -> Project {
    let project = three();
    for (gates, out) in [("one three", "a"), ("two", "b")] {
        project
            .run(&[
                "check",
                "--gate",
                gates,
                "--together",
                "one two three",
                "--out",
                out,
            ])
            .expect(0);
    }
    project
}

fn merge(project: &Project, arguments: &[&str]) -> Ended {
    let _ = fs::remove_dir_all(project.path("all"));
    project.run(&[&["shard", "merge"], arguments, &["--out", "all"]].concat())
}

/// Writes a copy of shard `b` with its record changed.
fn changed(project: &Project, change: impl Fn(&mut Value)) {
    let mut record: Value = serde_json::from_str(&project.read("b/run.json")).unwrap();
    change(&mut record);
    let _ = fs::create_dir(project.path("c"));
    project.write("c/run.json", &record.to_string());
}

#[test]
fn shards_become_one_verdict_that_can_be_computed_again() {
    let _alone = alone();
    let project = measured();
    // The second machine is another one.
    changed(&project, |record| {
        record["machine"]["fingerprint"] = "another | machine".into();
        for launch in record["launches"].as_array_mut().unwrap() {
            launch["fingerprint"] = "another | machine".into();
        }
    });
    let merged = merge(&project, &["a", "c", "--format", "json"])
        .expect(0)
        .json();
    let gates = merged["gates"].as_array().unwrap();
    let names: Vec<&str> = gates
        .iter()
        .map(|gate| gate["gate"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["one", "three", "two"]);
    assert!(
        gates.iter().all(|gate| gate["verdict"] == "pass"),
        "{merged}"
    );
    let record: Value = serde_json::from_str(&project.read("all/run.json")).unwrap();
    assert_eq!(record["format"], "infergate-run/2");
    let machine = record["machine"]["fingerprint"].as_str().unwrap();
    assert!(machine.ends_with(" + another | machine"), "{machine}");
    assert_eq!(merged["shards"][1]["gates"], serde_json::json!(["two"]));
    assert_eq!(merged["shards"][1]["machine"], "another | machine");
    let told = project.run(&["report", "a"]).expect(0).stdout;
    assert!(
        told.contains("a shard of a run of 3 gates, whose 3 checks share"),
        "{told}"
    );
    let told = project.run(&["report", "all"]).expect(0).stdout;
    assert!(told.contains("two: on another | machine"), "{told}");
    assert!(
        told.lines().all(|line| line.chars().count() <= 80),
        "{told}"
    );
    let told = project
        .run(&["explain", "all", "--check", "two/ceiling"])
        .expect(0)
        .stdout;
    assert!(told.contains("two/ceiling"), "{told}");
    let before = project.read("all/verdict.json");
    project.run(&["report", "all"]).expect(0);
    assert_eq!(project.read("all/verdict.json"), before);
    // The shards' own numbers are there.
    let count = |name: &str| {
        let record: Value = serde_json::from_str(&project.read(name)).unwrap();
        record["launches"].as_array().unwrap().len()
    };
    assert_eq!(
        count("all/run.json"),
        count("a/run.json") + count("b/run.json")
    );
    unfinished(&project);
    refusals(&project);
}

/// A shard whose machine went down: the verdict is the same when the merged record is judged again.
fn unfinished(project: &Project) {
    changed(project, |record| {
        record["ending"] = serde_json::json!({"why": "unfinished"});
    });
    merge(project, &["a", "c"]);
    let before = project.read("all/verdict.json");
    project.run(&["report", "all"]);
    assert_eq!(project.read("all/verdict.json"), before);
}

/// On what was measured once: what cannot be merged, and why.
fn refusals(project: &Project) {
    let refused = |arguments: &[&str], parts: &[&str]| {
        merge(project, arguments).expect(2).says(parts);
        assert!(!project.path("all").exists());
    };
    refused(
        &["a"],
        &["no shard has measured two:", "name the directory"],
    );
    refused(
        &["a", "b", "b"],
        &["the gate two is in two shards, b and b"],
    );
    refused(&["a", "nowhere"], &["cannot read nowhere/run.json"]);
    let mixed = |change: &dyn Fn(&mut Value), part: &str| {
        changed(project, change);
        refused(&["a", "c"], &[part]);
    };
    mixed(
        &|record| record["profile"] = "full".into(),
        "their profile differs, `quick` and `full`",
    );
    mixed(
        &|record| record["tool"] = "infergate 9".into(),
        "their version of gate differs",
    );
    mixed(
        &|record| record["builds"][1]["commit"] = "c0ffee".into(),
        "their head is no commit and c0ffee",
    );
    mixed(
        &|record| {
            let command = record["builds"][1]["command"].as_array_mut().unwrap();
            command.push("--fault=decode-delay=1ms".into());
        },
        "the arguments of their head differ",
    );
    mixed(
        &|record| {
            let inputs = record["inputs"].as_array_mut().unwrap();
            let config = inputs
                .iter_mut()
                .find(|i| i["path"] == "gates/gate.toml")
                .unwrap();
            let text = config["text"]
                .as_str()
                .unwrap()
                .replace("[4, 5]", "[4, 5, 6]");
            config["text"] = text.into();
        },
        "their gates/gate.toml differs",
    );
    mixed(
        // It would hold for what the other shard measured, too.
        &|record| {
            let inputs = record["inputs"].as_array_mut().unwrap();
            let text = "[[waiver]]\ncheck = \"one/answered\"\nreason = \"known\"\nby = \"ada\"\nuntil = \"2099-01-01\"\n";
            inputs.push(serde_json::json!({"path": "gates/waivers.toml", "text": text}));
        },
        "one has no gates/waivers.toml",
    );
    mixed(
        &|record| record["extent"]["checks"] = 1.into(),
        "counts 1 tested checks in the run, its files say 3",
    );
    mixed(
        &|record| record["extent"]["checks"] = 4_000_000.into(),
        "counts 4000000 tested checks",
    );
    mixed(
        &|record| record["extent"]["together"] = serde_json::json!(["one", "two"]),
        "list of the run's gates differs",
    );
    mixed(
        &|record| record["gates"] = serde_json::json!(["two", "four"]),
        "the gate four, which is not one",
    );
    mixed(
        &|record| drop(record.as_object_mut().unwrap().remove("extent")),
        "as a run of its own",
    );
    mixed(
        &|record| record["comparison"] = "alone".into(),
        "recording of main",
    );
    merge(project, &["a", "b"]).expect(0);
    let again = project
        .run(&["shard", "merge", "a", "b", "--out", "all"])
        .expect(2);
    assert!(!again.stderr.contains("--resume"), "{}", again.stderr);
    again.says(&["holds a run.json already"]);
    project
        .run(&["shard", "merge", "all", "--out", "again"])
        .expect(2)
        .says(&["is merged already"]);
    project
        .run(&["check", "--resume", "all"])
        .expect(2)
        .says(&["go on with a shard"]);
}

#[test]
fn a_shard_names_gates_of_its_run() {
    let project = three();
    project
        .run(&["check", "--gate", "one", "--together", "two three"])
        .expect(2)
        .says(&["one is not among those of --together"]);
    project
        .run(&["check", "--gate", "one", "--together", "one four"])
        .expect(2)
        .says(&["unknown gate `four`"]);
    project
        .run(&["check", "--together", "one two"])
        .expect(2)
        .says(&["--gate"]);
}
