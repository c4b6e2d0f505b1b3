//! Planted faults: each is caught by the gate that should catch it.

use super::common::Project;
use super::{alone, gates_that};
use serde_json::Value;

/// Runs head with a fault against base without; the gates that fail must be `expected`.
#[track_caller]
fn check(fault: &str, expected: &[&str]) {
    let _alone = alone();
    let project = Project::without_build();
    // Other work on this machine makes launches differ: more of them may then be needed, and are taken
    // only then.
    project.edit(
        "gates/gate.toml",
        "looks = [4, 6, 8, 10]",
        "looks = [4, 6, 8, 12, 16, 24]",
    );
    project.edit("gates/gate.toml", "budget = \"75 s\"", "budget = \"5 min\"");
    let fault = format!("--fault={fault}");
    let ended = project.run(&["check", "--format", "json", "--head-arg", &fault]);
    let verdict = ended.json();
    if let Some(noise) = too_noisy(&verdict) {
        // What the gate promises on such a machine is that it does not pass.
        println!("skipped: this machine is too busy for the fault to be found: {noise}");
        return;
    }
    let ended = ended.expect(1);
    assert_eq!(verdict["verdict"], "fail");
    assert_eq!(gates_that(&verdict, "fail"), expected, "{}", ended.stdout);
    assert_eq!(project.leftovers(), [0; 0]);
}

/// The sentence of an inconclusive session that blames the machine.
fn too_noisy(verdict: &Value) -> Option<&str> {
    let summary = verdict["summary"].as_str()?;
    let blamed = summary.contains("this runner is too noisy for this gate");
    (verdict["verdict"] == "inconclusive" && blamed).then_some(summary)
}

#[test]
fn decoding_that_is_a_tenth_slower_fails_tpot() {
    check("decode-delay=10%", &["tpot"]);
}

#[test]
fn a_wrong_token_fails_e2e() {
    check("wrong-token=50", &["e2e"]);
}

#[test]
fn history_that_is_prefilled_again_fails_prefill_drift() {
    check("prefill-leak", &["prefill-drift"]);
}
