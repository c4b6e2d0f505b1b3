//! `gate bisect` through the binary: which commit is named, what survives on the way, and what is refused.
//!
//! Faults are large and margins wide: other work on the machine must not decide a step.

mod found;
mod refused;
mod resumed;

use fixture::Project;
use serde_json::Value;
use std::process::Command;

/// Small and fast: a launch of it takes less than a second. Its metric is one that no disturbance makes impossible, its
/// warm-up long enough that a busy machine's start of a process is over. Of one shape, but `mixed`: other work that comes or
/// goes within a launch of 70 ms makes a `steady` workload invalid.
const SPEED: &str = r#"
title = "Speed"

[workload.decode]
kind = "mixed"
requests = 30
warmup = 20
shapes = [{ prompt_tokens = 16, output_tokens = 16, weight = 1 }]
concurrency = 1

[[check]]
name = "e2e"
metric = "e2e"
rule = "regression"
margin = "50 %"
ceiling = "150 %"
"#;

/// A count, the same in every launch.
const LEAK: &str = r#"
title = "Leak"

[workload.talk]
kind = "session"
turns = 6
warmup_turns = 1
message_words = 8
reply_tokens = 8

[[check]]
name = "excess"
metric = "prefill_excess"
rule = "ceiling"
limit = "16 tokens"
min_samples = 3
"#;

const SLOW: &str = "--fault=decode-delay=1ms";
const LEAKING: &str = "--fault=prefill-leak";

/// One commit of a history.
#[derive(Clone, Copy)]
enum Made {
    With(&'static str),
    /// Its build fails.
    Broken,
    /// Its build waits until the project's file `hold` is a plain one.
    Held(&'static str),
}

/// A repository whose commit N is called `commit N` and tagged `cN`; engines of two commits always differ.
fn history(commits: &[Made]) -> Project {
    let project = Project::with_commits();
    project.write("gates/speed.toml", SPEED);
    project.write("gates/leak.toml", LEAK);
    let build = format!(
        "set -e\ntest ! -e broken || {{ echo does not compile; exit 1; }}\ntest ! -e held || cat {:?}\nmkdir -p \"$1\"\n\
         printf '#!/bin/sh\\n# %s\\nexec {} \"$@\" %s\\n' \"$(cat number)\" \"$(cat flags)\" > \"$1/engine\"\n\
         chmod +x \"$1/engine\"\n",
        project.path("hold"),
        env!("CARGO_BIN_EXE_gate"),
    );
    project.write("build.sh", &build);
    project.write(".gitignore", "/target\n/hold\n/result\n");
    for (number, made) in commits.iter().enumerate() {
        project.write("number", &number.to_string());
        for name in ["broken", "held"] {
            let _ = std::fs::remove_file(project.path(name));
        }
        match made {
            Made::With(flags) => project.write("flags", flags),
            Made::Broken => project.write("broken", ""),
            Made::Held(flags) => {
                project.write("flags", flags);
                project.write("held", "");
            }
        }
        project.commit(&format!("commit {number}"));
        project.git(&["tag", &format!("c{number}")]);
    }
    project
}

/// Full id of a tagged commit.
fn id(project: &Project, tag: &str) -> String {
    let mut git = Command::new("git");
    let output = git
        .args(["rev-parse", tag])
        .current_dir(project.path(""))
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Numbers of the tried commits with what was found of them.
fn trials(found: &Value) -> Vec<(u64, String, String)> {
    let trials = found["trials"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    trials
        .map(|t| {
            (
                t["commit"].as_u64().unwrap(),
                text(&t["step"]),
                text(&t["finding"]),
            )
        })
        .collect()
}

fn tried(commit: u64, step: &str, finding: &str) -> (u64, String, String) {
    (commit, step.to_owned(), finding.to_owned())
}
