//! What `--resume` refuses: another configuration, other sources, a session that lacks nothing.

use super::{interrupt, judge, launches, shorten};
use fixture::Project;
use std::fs;

#[test]
fn an_interrupted_session_goes_on_only_as_it_was() {
    let project = Project::without_build();
    shorten(&project);
    project.write("weights", "7");
    let files = format!("files = [{:?}]", env!("CARGO_BIN_EXE_gate"));
    project.edit("gates/gate.toml", &files, "files = [\"weights\"]");
    let record = interrupt(&project, 2);
    assert_eq!(record["ending"]["why"], "interrupted");
    assert!(launches(&record).len() >= 3);
    judge(&project, "; interrupted");

    project.edit("gates/tpot.toml", "limit = \"60 s\"", "limit = \"61 s\"");
    project
        .run(&["check", "--resume", "result"])
        .expect(2)
        .says(&[
            "cannot go on",
            "--- gates/tpot.toml (then)",
            "-limit = \"60 s\"\n+limit = \"61 s\"",
            "put it back as it was",
        ]);
    project.edit("gates/tpot.toml", "limit = \"61 s\"", "limit = \"60 s\"");

    let changed = project.read("result/run.json").replacen(
        "\"tool\":\"infergate ",
        "\"tool\":\"infergate 0.0.0-",
        1,
    );
    let right = project.read("result/run.json");
    project.write("result/run.json", &changed);
    project
        .run(&["check", "--resume", "result"])
        .expect(2)
        .says(&["tool: infergate 0.0.0-"]);
    project.write("result/run.json", &right);

    project.write("weights", "8");
    project
        .run(&["check", "--resume", "result"])
        .expect(2)
        .says(&["head's weights (size, SHA-256): 1 bytes, "]);
    project.write("weights", "7");

    let ended = project.run(&["check", "--resume", "result"]);
    assert!(ended.stderr.contains("resuming after "), "{ended:?}");
    project
        .run(&["check", "--resume", "result"])
        .expect(2)
        .says(&["is finished"]);
    for arguments in [["--seed", "1"], ["--out", "x"], ["--gate", "tpot"]] {
        let mut command = vec!["check", "--resume", "result"];
        command.extend(arguments);
        project
            .run(&command)
            .expect(2)
            .says(&["cannot be used with"]);
    }
}

#[test]
fn other_sources_are_named_before_they_are_built() {
    let project = Project::with_commits();
    shorten(&project);
    project.commit("shorter");
    interrupt(&project, 0);
    project.write("build.sh", "exit 1\n");
    project.commit("a build that fails");
    project
        .run(&["check", "--resume", "result"])
        .expect(2)
        .says(&["head's commit: ", " → "]);
}

#[test]
fn a_recording_of_main_is_not_continued() {
    let project = Project::without_build();
    shorten(&project);
    interrupt(&project, 0);
    let record = project.read("result/run.json");
    project.write(
        "result/run.json",
        &record.replace("\"same-build\"", "\"alone\""),
    );
    project
        .run(&["check", "--resume", "result"])
        .expect(2)
        .says(&["recording of main"]);
}

#[test]
fn a_build_that_fails_leaves_no_empty_results() {
    let project = Project::with_commits();
    project.write("build.sh", "exit 1\n");
    project.run(&["check", "--gate", "tpot"]).expect(5);
    assert_eq!(fs::read_dir(project.path(".gate/runs")).unwrap().count(), 0);
    project
        .run(&["check", "--gate", "tpot", "--out", "result"])
        .expect(5);
    // A directory that somebody named holds the reason, and nothing else that git would see.
    let left = fs::read_dir(project.path("result")).unwrap();
    let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, [".gitignore", "failure.txt"]);
}
