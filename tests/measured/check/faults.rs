//! Faults planted in the embedded engine: each is caught by the gate that should catch it, and passes nowhere.
//!
//! The embedded engine takes a tenth of a millisecond a token, so a busy machine can hide a fault of timing: the gate
//! must say then that the machine is too noisy. That a token a tenth slower is found, and a history prefilled again,
//! the scripted engine of `tests/it/incidents` shows on any machine.

use super::{alone, gates_that};
use fixture::Project;
use serde_json::Value;

/// Whether a busy machine can hide the fault.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Correctness,
    Timing,
}

/// Runs head with a fault against base without; the gates that fail must be `expected`.
#[track_caller]
fn check(fault: &str, of: Of, expected: &[&str]) {
    let _alone = alone();
    let project = Project::without_build();
    // A budget that is never reached: a test that ends by it says nothing.
    project.edit("gates/gate.toml", "budget = \"75 s\"", "budget = \"5 min\"");
    let fault = format!("--fault={fault}");
    let ended = project.run(&["check", "--format", "json", "--head-arg", &fault]);
    let verdict = ended.json();
    if of == Of::Timing && blames_the_machine(&verdict) {
        ended.expect(3);
        assert_eq!(project.leftovers(), [0; 0]);
        return;
    }
    let ended = ended.expect(1);
    assert_eq!(verdict["verdict"], "fail");
    assert_eq!(gates_that(&verdict, "fail"), expected, "{}", ended.stdout);
    assert_eq!(project.leftovers(), [0; 0]);
}

/// An inconclusive session that says that the machine is the reason.
fn blames_the_machine(verdict: &Value) -> bool {
    let summary = verdict["summary"].as_str().unwrap();
    let blamed = summary.contains("this runner is too noisy for this gate");
    verdict["verdict"] == "inconclusive" && blamed
}

#[test]
fn decoding_that_is_a_tenth_slower_never_passes() {
    check("decode-delay=10%", Of::Timing, &["tpot"]);
}

#[test]
fn a_wrong_token_fails_e2e() {
    check("wrong-token=50", Of::Correctness, &["e2e"]);
}

#[test]
fn history_that_is_prefilled_again_never_passes() {
    check("prefill-leak", Of::Timing, &["prefill-drift"]);
}

/// Blanks under load, the answer of another user, the cache of another prompt: with log-probabilities and without.
#[test]
fn wrong_answers_under_load_fail_the_gate_that_compares_answers() {
    let _alone = alone();
    let faults = [
        ("blank-beside=1", "nothing but white space came"),
        ("swap-answers", " for "),
        ("swap-cache", " alone"),
    ];
    for (fault, part) in faults {
        for has_logprobs in [true, false] {
            let project = Project::without_build();
            project.shorten();
            project.edit(
                "gates/answers.toml",
                "passes = { quick = 2,",
                "passes = { quick = 1,",
            );
            if !has_logprobs {
                let scored = "top_k = 5\nnear_tie = \"0.01 nats\"\n";
                project.edit("gates/answers.toml", scored, "");
            }
            let fault = format!("--fault={fault}");
            let arguments = ["check", "--gate", "answers", "--format", "json"];
            let ended = project.run(&[&arguments[..], &["--head-arg", &fault]].concat());
            let check = ended.json()["gates"][0]["checks"][0].clone();
            let reason = check["reason"].as_str().unwrap();
            assert_eq!(check["verdict"], "fail", "{fault} {has_logprobs}: {reason}");
            assert!(reason.contains(part), "{fault} {has_logprobs}: {reason}");
            ended.expect(1);
        }
    }
}
