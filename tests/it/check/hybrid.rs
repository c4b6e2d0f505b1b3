//! The engine with a hybrid model, whose layers keep recurrent states: what is planted is caught by the gate that it should be.

use fixture::{Ended, Project, gates_that};
use serde_json::Value;

fn project() -> Project {
    let project = Project::without_build();
    project.copy_hybrid();
    project.shorten();
    project.edit(
        "gates/answers-hybrid.toml",
        "passes = { quick = 2,",
        "passes = { quick = 1,",
    );
    project
}

/// The two gates about answers, once.
fn check(project: &Project, fault: Option<&str>) -> (Ended, Value) {
    let fault = fault.map(|fault| format!("--head-arg=--fault={fault}"));
    let arguments = [
        "check",
        "--gate",
        "e2e-hybrid",
        "--gate",
        "answers-hybrid",
        "--format",
        "json",
        "--seed",
        "1",
    ];
    let arguments = [&arguments[..], fault.as_deref().as_slice()].concat();
    let ended = project.run(&arguments);
    let verdict = ended.json();
    (ended, verdict)
}

#[test]
fn answers_of_a_hybrid_model_pass() {
    let (ended, verdict) = check(&project(), None);
    assert_eq!(verdict["verdict"], "pass", "{}", ended.stdout);
    ended.expect(0);
}

#[test]
fn a_wrong_token_of_a_hybrid_model_fails_its_goldens() {
    let (ended, verdict) = check(&project(), Some("wrong-token=50"));
    let failed = gates_that(&verdict, "fail");
    let expected = failed.iter().any(|gate| gate == "e2e-hybrid");
    assert!(expected, "{}", ended.stdout);
    ended.expect(1);
}

/// The state of one user reaches another, with pages that are its own: goldens, each of which is new to the engine, do not see
/// that; answers from a cache do.
#[test]
fn another_users_state_fails_the_gate_that_compares_answers() {
    let (ended, verdict) = check(&project(), Some("swap-state"));
    let failed = gates_that(&verdict, "fail");
    assert_eq!(failed, ["answers-hybrid"], "{}", ended.stdout);
    ended.expect(1);
}
