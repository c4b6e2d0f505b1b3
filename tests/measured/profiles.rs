//! Every profile that ships decides its gates: each gate fits into each profile's budget, and the gates that a profile
//! runs come to a verdict.
//!
//! Clocks are scaled ([`scale`]). Where a profile compares arms by the clock, the embedded engine is slowed so that its
//! times stand out from a machine's noise. Four blocks of each profile are measured. Comparisons by the clock, and growth
//! over a session of seconds, may be open after them; nothing else may. At night all profiles are run.

use super::scaled::scale;
use fixture::{Project, alone, is_nightly, repository};
use serde_json::Value;
use std::fs;
use toml::{Table, Value as Toml};
use verdict::plan::{self, Gate, Selection};

fn config() -> Table {
    let text = fs::read_to_string(repository().join("gates/gate.toml")).unwrap();
    text.parse().unwrap()
}

/// Names of the profiles that ship.
fn profiles() -> Vec<String> {
    let config = config();
    config["profile"]
        .as_table()
        .unwrap()
        .keys()
        .cloned()
        .collect()
}

/// Gates that the profiles run where none is named.
pub fn run_by_profiles() -> Vec<String> {
    let plans = profiles().into_iter().map(|profile| planned(&profile, &[]));
    plans
        .flat_map(|plan| plan.gates.into_iter().map(|gate| gate.name))
        .collect()
}

fn planned(profile: &str, gates: &[&str]) -> plan::Plan {
    let selection = Selection {
        profile: profile.to_owned(),
        gates: gates.iter().map(|&gate| gate.to_owned()).collect(),
    };
    plan::from_directory(repository(), &selection).unwrap().0
}

#[test]
fn every_gate_fits_into_every_profile() {
    let project = Project::without_build();
    let files = fs::read_dir(project.path("gates")).unwrap();
    let names = files.filter_map(|file| {
        let name = file.unwrap().file_name().into_string().unwrap();
        let name = name.strip_suffix(".toml")?;
        (name != "gate").then(|| name.to_owned())
    });
    let names: Vec<String> = names.collect();
    assert!(names.len() > 10, "{names:?}");
    for profile in profiles() {
        project
            .run(&["shard", "plan", "--profile", &profile])
            .expect(0);
        for name in &names {
            let plan = ["shard", "plan", "--profile", &profile, "--gate", name];
            project.run(&plan).expect(0);
        }
    }
}

/// Seconds of one launch's requests on an engine that takes 10 ms a token, one after another.
fn on_a_gpu_s(gate: &Gate) -> f64 {
    plan::effort(gate) * 0.010
}

#[test]
fn a_gpu_engine_reaches_eight_blocks_of_a_pull_request() {
    const START_S: f64 = 30.0;
    const BLOCKS: u32 = 8;
    let plan = planned("full", &[]);
    let names: Vec<&str> = plan.gates.iter().map(|gate| gate.name.as_str()).collect();
    assert_eq!(names, ["e2e", "e2e-hybrid", "prefill-drift", "tpot"]);
    let of_arm = |launches: u32| {
        let works = plan.gates.iter().map(|gate| {
            let limit = gate.workloads.iter().map(|work| work.launches).max();
            let runs = limit
                .flatten()
                .map_or(launches, |limit| limit.min(launches));
            f64::from(runs) * on_a_gpu_s(gate)
        });
        works.sum::<f64>() + f64::from(launches) * START_S
    };
    let minutes = 2.0 * of_arm(BLOCKS) / 60.0;
    assert!(minutes <= 30.0, "{minutes} min");
    assert!(plan.design.budget.as_secs() <= 30 * 60);
}

/// Looks after at most four blocks, and minutes in which they are reached on a machine that does much else.
fn scale_profiles(project: &Project) {
    let mut config: Table = project.read("gates/gate.toml").parse().unwrap();
    for (_, profile) in config["profile"].as_table_mut().unwrap().iter_mut() {
        let looks = profile["looks"].as_array_mut().unwrap();
        looks.retain(|look| look.as_integer().unwrap() <= 4);
        profile["budget"] = Toml::String("6 min".into());
    }
    project.write("gates/gate.toml", &config.to_string());
}

fn compares_by_the_clock(gate: &Gate) -> bool {
    let is_regression = |check: &plan::Check| matches!(check.rule, plan::Rule::Regression { .. });
    gate.checks.iter().any(is_regression)
}

/// A change by the clock that launches differ too much for, after the last look, or one of the scaled session, of whose
/// memory there are too few readings.
fn blames_the_machine(check: &Value) -> bool {
    if check["rule"] == "growth-by-chance" {
        return true;
    }
    let is_compared = [
        "prefill-drift/vs-main",
        "prefill-drift/e2e",
        "tpot/regression",
        "tpot/e2e",
    ];
    let reason = check["reason"].as_str().unwrap();
    is_compared.iter().any(|id| check["id"] == *id) && !reason.contains("budget")
}

#[test]
fn every_profile_decides_the_gates_that_it_runs() {
    let _alone = alone();
    // By day what pull requests run.
    let by_day = |profile: &String| is_nightly() || profile == "full";
    let chosen: Vec<String> = profiles().into_iter().filter(by_day).collect();
    assert!(!chosen.is_empty());
    for profile in chosen {
        let project = Project::without_build();
        project.copy_hybrid();
        let gates = planned(&profile, &[]).gates;
        for gate in &gates {
            scale(&project, &gate.name);
        }
        if gates.iter().any(compares_by_the_clock) {
            let slow =
                "\"--fault=decode-delay=1ms\", \"--fault=prefill-delay=20us\", \"--threads\"";
            project.edit("gates/gate.toml", "\"--threads\"", slow);
        }
        scale_profiles(&project);
        let ended = project.run(&["check", "--profile", &profile, "--format", "json"]);
        let verdict = ended.json();
        let gates = verdict["gates"].as_array().unwrap();
        let checks = gates
            .iter()
            .flat_map(|gate| gate["checks"].as_array().unwrap());
        let (passed, open): (Vec<_>, Vec<_>) = checks.partition(|check| check["verdict"] == "pass");
        for check in &open {
            assert_eq!(
                check["verdict"], "inconclusive",
                "{profile}: {check}\n{}",
                ended.stderr
            );
            assert!(
                blames_the_machine(check),
                "{profile}: {check}\n{}",
                ended.stderr
            );
        }
        assert!(passed.len() > open.len(), "{profile}: {verdict}");
        ended.expect(if open.is_empty() { 0 } else { 3 });
        assert_eq!(project.leftovers(), [0; 0]);
    }
}
