//! Main's stored sessions through the binary.

use fixture::{Project, START};
use std::fs;
use std::path::PathBuf;

/// The one stored session of the one gate.
fn stored_file(project: &Project) -> PathBuf {
    let only = |folder: PathBuf| {
        fs::read_dir(folder)
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path()
    };
    only(only(project.path(".gate/baseline")))
}

#[test]
fn a_stored_session_is_listed_and_too_few_of_them_carry_no_verdict() {
    let project = Project::with_commits();
    project.shorten();
    project.commit("short sessions");
    let none = project
        .run(&["check", "--base", "stored", "--gate", "tpot"])
        .expect(3);
    let said = fixture::unwrapped(&none.stdout);
    assert!(said.contains("`gate baseline record`"), "{said}");
    project.run(&["baseline", "list"]).expect(0);
    assert!(!none.stdout.contains("last look"), "{}", none.stdout);
    let recorded = project
        .run(&["baseline", "record", "--gate", "tpot"])
        .expect(0)
        .says(&["stored: "]);
    let said = &recorded.stdout;
    assert!(said.contains("4 launches in 4 blocks,"), "{said}");
    assert!(said.contains("\nMEASURED  "), "{said}");
    let list = project.run(&["baseline", "list"]).expect(0).stdout;
    let session = list
        .lines()
        .find(|line| line.contains("tpot"))
        .and_then(|line| line.split_whitespace().next())
        .unwrap_or_else(|| panic!("no session in:\n{list}"));
    let shown = project.run(&["baseline", "show", session]).expect(0).stdout;
    assert!(shown.contains("tpot/regression"), "{shown}");
    let one = project
        .run(&["check", "--base", "stored", "--gate", "tpot"])
        .expect(3);
    assert!(one.stdout.contains("1 stored session"), "{}", one.stdout);
    // The machine that measured it had more processors.
    let file = stored_file(&project);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replacen(" cores |", "000 cores |", 1)).unwrap();
    let elsewhere = project
        .run(&["check", "--base", "stored", "--gate", "tpot"])
        .expect(3);
    let words: Vec<&str> = elsewhere.stdout.split_whitespace().collect();
    let told = words.join(" ");
    assert!(told.contains("base: 0 stored sessions"), "{told}");
    assert!(
        told.contains("a new series starts, since the machine has changed: processors"),
        "{told}"
    );
}

/// As `gate init --github` writes for engines in Python.
#[test]
fn what_a_build_script_of_several_lines_made_can_be_stored() {
    let project = Project::with_commits();
    project.edit(
        "gates/gate.toml",
        r#"command = ["sh", "build.sh", "{target}"]"#,
        r#"command = ["sh", "-ec", "true\nsh build.sh {target}"]"#,
    );
    project.shorten();
    let elsewhere = tempfile::tempdir().unwrap();
    let store = format!("store = \"file://{}\"", elsewhere.path().display());
    let branch = "store = \"git:infergate-baselines\"";
    project.edit("gates/gate.toml", branch, &store);
    project.write("gates/start.toml", START);
    project.commit("a script");
    let record = ["baseline", "record", "--gate", "start"];
    project.run(&record).expect(0).says(&["stored: "]);
    let pushed = project.run(&["baseline", "push"]).expect(0).stdout;
    assert!(pushed.contains("pushed 1 record"), "{pushed}");
    let key = fs::read_to_string(stored_file(&project)).unwrap();
    assert!(
        key.contains(r"built by: sh -ec true\\nsh build.sh"),
        "{key}"
    );
}

#[test]
fn what_is_not_main_is_not_recorded() {
    let project = Project::with_commits();
    project.write("flags", " ");
    project
        .run(&["baseline", "record"])
        .expect(2)
        .says(&["uncommitted changes", "let git ignore them: flags"]);
    project.git(&["checkout", "--quiet", "-b", "change"]);
    project.commit("a change");
    project
        .run(&["baseline", "record"])
        .expect(2)
        .says(&["not on main"]);
    project
        .run(&["baseline", "show", "2001"])
        .expect(2)
        .says(&["no stored session"]);
}

/// Tokens that each turn of a conversation computes: one number in every launch of a build.
const PREFILL: &str = r#"
title = "Prefilled tokens"
[workload.chat]
kind = "session"
turns = 10
warmup_turns = 2
message_words = 8
reply_tokens = 8
spacing = "1 ms"
[[check]]
name = "tokens"
metric = "prefilled_tokens"
statistic = "mean"
rule = "regression"
margin = "1 %"
ceiling = "5 %"
min_samples = 8
"#;

#[test]
fn main_is_recorded_beside_its_anchor() {
    let project = Project::with_commits();
    project.write("gates/prefill.toml", PREFILL);
    project.commit("a gate that reads no clock, so that a busy machine changes nothing");
    project.git(&["tag", "v0.1.0"]);
    // Main computes more tokens than the release did: that is its history, and no reason to refuse the session.
    project.write("flags", "--fault=prefill-leak");
    project.commit("leaky");
    let record = ["baseline", "record", "--gate", "prefill"];
    project
        .run(&[&record[..], &["--anchor", "v0.1.0"]].concat())
        .expect(0)
        .says(&["building base", "stored: "]);
    let shown = project.run(&["baseline", "show", "2"]).expect(0).stdout;
    assert!(shown.contains("beside its anchor v0.1.0 ("), "{shown}");
    let json = project
        .run(&["history", "--format", "json", "--check", "prefill/tokens"])
        .expect(3)
        .json();
    let series = &json["checks"][0]["series"][0];
    assert_eq!(series["anchor"]["name"], "v0.1.0");
    let ratio = series["points"][0]["value"].as_f64().unwrap();
    assert!(ratio > 0.5, "{series}");
    let text = project.run(&["history"]).expect(3).stdout;
    assert!(text.contains("1 of the 10 sessions"), "{text}");
}

#[test]
fn an_anchor_that_is_none_is_refused_before_anything_is_built() {
    let project = Project::with_commits();
    let record = ["baseline", "record", "--anchor"];
    for name in ["v9", "-x=1"] {
        let ended = project.run(&[&record[..], &[name]].concat()).expect(2);
        assert!(!ended.stderr.contains("building"), "{}", ended.stderr);
    }
    let config = "max_age = \"14 days\"";
    project.edit(
        "gates/gate.toml",
        config,
        &format!("{config}\nanchor = \"v9\""),
    );
    project.commit("an anchor that nobody tagged");
    project
        .run(&["baseline", "record"])
        .expect(2)
        .says(&["unknown commit `v9`", "git fetch --tags"]);
    project.edit("gates/gate.toml", "anchor = \"v9\"", "anchor = \"--x\"");
    project
        .run(&["baseline", "record"])
        .expect(2)
        .says(&["`baseline.anchor` must be a git ref", "^^^"]);
    Project::without_build()
        .run(&["baseline", "record", "--anchor", "v1"])
        .expect(2)
        .says(&["--anchor", "no table `engine.build`"]);
}
