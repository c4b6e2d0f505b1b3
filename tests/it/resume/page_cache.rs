//! A gate's state of the page cache, from its file to the record.

use super::{cut_off, json, launches, shorten};
use fixture::Project;
use nix::sys::signal::Signal;
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Stdio;

#[test]
fn launches_are_shared_by_page_cache_and_say_what_was_resident() {
    // Beside what cargo built: where temporary folders live in memory, files cannot be evicted.
    let project = Project::without_build_in(env!("CARGO_TARGET_TMPDIR"));
    if statfs(&project.path("")).unwrap().filesystem_type() == TMPFS_MAGIC {
        return fixture::skip::skip(
            "cargo's target folder lives in memory, whose files cannot be evicted",
        );
    }
    shorten(&project);
    project.write("weights", &"7".repeat(8 << 20));
    let files = format!("files = [{:?}]", env!("CARGO_BIN_EXE_gate"));
    project.edit("gates/gate.toml", &files, "files = [\"weights\"]");
    let gate = project.read("gates/tpot.toml");
    for state in ["cold", "warm"] {
        let text = gate.replace(
            "[workload.decode]",
            &format!("page_cache = \"{state}\"\n[workload.decode]"),
        );
        project.write(&format!("gates/{state}.toml"), &text);
    }
    let usual = "gates = [\"e2e\", \"prefill-drift\", \"tpot\"]\nlooks";
    let gates = "gates = [\"tpot\", \"cold\", \"warm\"]\nlooks";
    project.edit("gates/gate.toml", usual, gates);
    let record = interrupt_all(&project);
    let mut seen = BTreeSet::new();
    for launch in launches(&record) {
        let share = launch["startup"]["resident_share"].as_f64();
        let workload = launch["samples"][0]["workload"].as_str().unwrap();
        let (state, expected) = match launch["page_cache"].as_str() {
            None => ("none", share.is_none() && workload == "tpot/decode"),
            Some("cold") => (
                "cold",
                share.is_none_or(|s| s < 0.05) && workload == "cold/decode",
            ),
            Some(_) => (
                "warm",
                share.is_none_or(|s| s > 0.95) && workload == "warm/decode",
            ),
        };
        assert!(expected, "{state}: {share:?} {workload}");
        seen.insert(state);
    }
    assert_eq!(seen, BTreeSet::from(["none", "cold", "warm"]));
}

/// One whole block of every configuration.
fn interrupt_all(project: &Project) -> Value {
    let mut command = project.command(&["check", "--same-build", "--out", "result"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    cut_off(project, child, 5, Signal::SIGINT).expect(130);
    json(project, "result/run.json")
}
