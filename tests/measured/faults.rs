//! Faults of timing planted in the embedded engine: each is caught by the gate that should catch it, and passes nowhere.
//!
//! The embedded engine takes a tenth of a millisecond a token, so a busy machine can hide such a fault: the gate must say
//! then that its launches differ too much. That a token a tenth slower is found, and a history prefilled again, the
//! scripted engine of `tests/it/incidents` shows on any machine.

use fixture::{Project, alone, gates_that};
use serde_json::Value;

/// Runs the default gates, head with a fault against base without: this gate alone fails, or noise hides what it sees.
#[track_caller]
fn check(fault: &str, gate: &str) {
    let _alone = alone();
    let project = Project::without_build();
    // A budget that is never reached: a test that ends by it says nothing.
    project.edit("gates/gate.toml", "budget = \"75 s\"", "budget = \"5 min\"");
    let fault = format!("--fault={fault}");
    let ended = project.run(&["check", "--format", "json", "--head-arg", &fault]);
    let verdict = ended.json();
    assert_eq!(project.leftovers(), [0; 0]);
    let passes = gates_that(&verdict, "pass");
    assert!(
        passes.iter().all(|passed| passed != gate),
        "{}",
        ended.stdout
    );
    if is_hidden_by_noise(&verdict) {
        ended.expect(3);
        return;
    }
    let ended = ended.expect(1);
    assert_eq!(verdict["verdict"], "fail");
    assert_eq!(gates_that(&verdict, "fail"), [gate], "{}", ended.stdout);
}

/// An inconclusive session that says that its launches differ too much for a change of this size, below the margin or
/// above it.
fn is_hidden_by_noise(verdict: &Value) -> bool {
    let summary = verdict["summary"].as_str().unwrap();
    let reasons = ["too noisy to decide", "not shown well enough to fail"];
    let hidden = reasons.iter().any(|reason| summary.contains(reason));
    verdict["verdict"] == "inconclusive" && hidden
}

#[test]
fn decoding_that_is_a_tenth_slower_never_passes() {
    check("decode-delay=10%", "tpot");
}

#[test]
fn history_that_is_prefilled_again_never_passes() {
    check("prefill-leak", "prefill-drift");
}
