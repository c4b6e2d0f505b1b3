//! `gate golden make --engine`, and the gate `e2e` that `gate init` writes: engines that tell log-probabilities and
//! engines that do not, that take token ids and that take text, against one that says a wrong word.

use super::session::Story;
use fixture::{Ended, Project};

const E2E: &str = include_str!("../../../src/gate/presets/gates/e2e.toml");

/// A project whose engine has these knobs, without goldens.
fn project(knobs: &[&str], takes_ids: bool) -> Project {
    let project = Project::empty();
    let knobs = [&["ttft=1", "tpot=0.2", "stop_at=10"], knobs].concat();
    let config = Story {
        knobs: &knobs,
        engine: "forces_length = false",
        ..Story::default()
    }
    .config();
    let ids = "prompt_ids = { from = 3, to = 60000 }\n";
    assert!(config.contains(ids));
    let config = match takes_ids {
        true => config,
        false => config.replace(ids, ""),
    };
    project.write("gates/gate.toml", &config);
    project.write("gates/e2e.toml", E2E);
    project
}

fn make(project: &Project) -> Ended {
    project.run(&["golden", "make", "--engine", "--tokens", "12"])
}

/// Runs the gate with knobs of base and head; the check must have this verdict by this rule and say these words.
#[track_caller]
fn check(project: &Project, base: &[&str], head: &[&str], expect: (i32, &str), parts: &[&str]) {
    let mut arguments = vec!["check", "--gate", "e2e", "--seed", "1", "--format", "json"];
    for (flag, knobs) in [("--base-arg", base), ("--head-arg", head)] {
        arguments.extend(knobs.iter().flat_map(|knob| [flag, knob]));
    }
    let ended = project.run(&arguments);
    let verdict = ended.json();
    let check = &verdict["gates"][0]["checks"][0];
    let (code, rule) = expect;
    assert_eq!(ended.code, Some(code), "{check:#}\n{}", ended.stderr);
    assert_eq!(check["rule"], rule, "{check:#}");
    let reason = check["reason"].as_str().unwrap();
    for part in parts {
        assert!(reason.contains(part), "`{part}` is missing in: {reason}");
    }
    assert_eq!(project.leftovers(), [0; 0]);
}

#[test]
fn a_gate_without_goldens_names_the_command_that_makes_them() {
    let project = project(&[], true);
    project
        .run(&["shard", "plan", "--gate", "e2e"])
        .expect(2)
        .says(&["gates/data/goldens.json", "gate golden make --engine"]);
}

#[test]
fn without_log_probabilities_main_is_the_second_witness() {
    for takes_ids in [true, false] {
        let project = project(&["logprobs=0"], takes_ids);
        make(&project).expect(0).says(&["24 cases, text alone"]);
        let file = project.read("gates/data/goldens.json");
        assert_eq!(file.contains("prompt_ids"), takes_ids);
        assert!(file.contains("\"messages\"") && !file.contains("\"tokens\""));
        check(&project, &[], &[], (0, "ceiling"), &[]);
        let wrong = ["case text-word, from character", " instead of "];
        check(&project, &[], &["wrong=1"], (1, "ceiling"), &wrong);
        // One case may be a near-tie that nobody tells.
        let one = [
            "1 case",
            "these may be near-ties",
            "gate golden make --model",
        ];
        check(&project, &[], &["wrong=33"], (3, "answers-differ"), &one);
        // Main says the same word there: it is nothing that head changed.
        let both = (&["wrong=33"], &["wrong=33"]);
        check(&project, both.0, both.1, (0, "ceiling"), &[]);
        // Unless main has left its goldens altogether.
        let old = ["not main's any more"];
        check(
            &project,
            &["wrong=1"],
            &["wrong=1"],
            (3, "answers-differ"),
            &old,
        );
    }
}

#[test]
fn log_probabilities_of_the_reference_tell_although_main_is_wrong_too() {
    // Of the engine under test, or of the reference alone.
    for told in ["logprobs=1", "logprobs=0"] {
        let project = project(&[], true);
        make(&project).expect(0).says(&["with log-probabilities"]);
        if told == "logprobs=1" {
            project.edit("gates/e2e.toml", "# top_k = 5", "top_k = 5");
        }
        check(&project, &[told], &[told], (0, "ceiling"), &[]);
        let wrong = ["1 case", "case ids-33"];
        check(
            &project,
            &[told],
            &[told, "wrong=33"],
            (1, "ceiling"),
            &wrong,
        );
        let both = &[told, "wrong=33"];
        check(&project, both, both, (1, "ceiling"), &wrong);
    }
}

#[test]
fn an_engine_that_gives_no_usable_answer_makes_no_goldens() {
    let project = project(&["dead=1"], true);
    project.edit(
        "gates/gate.toml",
        "ready_timeout = \"60 s\"",
        "ready_timeout = \"1 s\"",
    );
    make(&project)
        .expect(5)
        .says(&["the engine did not start", "the worker is dead"]);
    // Two answers to one prompt are no golden.
    let project = self::project(&["moody=1"], true);
    make(&project)
        .expect(5)
        .says(&["none of 24 prompts", "two different answers to one prompt"]);
    assert!(!project.path("gates/data/goldens.json").exists());
    assert_eq!(project.leftovers(), [0; 0]);
}

/// The tokens that an engine lists are not what its users read.
#[test]
fn a_text_that_is_not_its_tokens_is_wrong() {
    let project = project(&[], true);
    make(&project).expect(0).says(&["with log-probabilities"]);
    project.edit("gates/e2e.toml", "# top_k = 5", "top_k = 5");
    let parts = ["from character 1 on \" garbled"];
    check(&project, &[], &["garbled=1"], (1, "ceiling"), &parts);
    // Where main writes its tokens so too, nothing tells how they are to be written.
    let both = &["garbled=1"];
    check(&project, both, both, (0, "ceiling"), &[]);
}
