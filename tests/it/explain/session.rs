//! A real session, in which an engine answers wrongly.

use fixture::{Ended, Project};
use std::fs;

#[test]
fn a_wrong_token_of_a_real_engine_is_explained() {
    let project = Project::without_build();
    let fault = "--head-arg=--fault=wrong-token=50";
    project
        .run(&["check", "--gate", "e2e", fault, "--out", "result"])
        .expect(1);
    // Without a directory it takes the newest result.
    let nothing = "no results in";
    project.run(&["explain"]).expect(2).says(&[nothing]);
    for name in ["20260101-000000-quick-1", "20260102-000000-quick-1"] {
        fs::create_dir_all(project.path(".gate/runs").join(name)).unwrap();
    }
    let newest = project.path(".gate/runs/20260101-000000-quick-1/run.json");
    fs::copy(project.path("result/run.json"), newest).unwrap();
    let ended = project.run(&["explain"]).expect(0);
    assert!(
        ended.stdout.contains("e2e/greedy: fail"),
        "{}",
        ended.stdout
    );
    let named = project.run(&["explain", "e2e/greedy"]).expect(0);
    assert_eq!(named.stdout, ended.stdout);
    // What a pull request commits is no newest result of this machine, also in a folder of the repository.
    let engine = project.path("engine");
    let committed = engine.join(".gate/runs/99990101-000000-quick-1");
    for folder in [&committed, &engine.join("gates")] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::copy(project.path("result/run.json"), committed.join("run.json")).unwrap();
    fs::copy(
        project.path("gates/gate.toml"),
        engine.join("gates/gate.toml"),
    )
    .unwrap();
    project.git(&["init", "--quiet"]);
    project.git(&["add", "--force", "engine"]);
    for command in ["explain", "report"] {
        let mut command = project.command(&[command]);
        let output = command.current_dir(&engine).output().unwrap();
        let ended = Ended::of(&output).expect(2);
        ended.says(&["git tracks files in", "name the result directory"]);
    }
    project.run(&["explain"]).expect(0);
    // Nor where a commit also brings what looks like a bare repository.
    for folder in ["objects", "refs"] {
        fs::create_dir(engine.join(folder)).unwrap();
    }
    fs::write(engine.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    let bare = "[core]\n\tbare = false\n\tworktree = .\n";
    fs::write(engine.join("config"), bare).unwrap();
    let mut command = project.command(&["explain"]);
    let output = command.current_dir(&engine).output().unwrap();
    let code = Ended::of(&output).code;
    assert!(code.is_some_and(|code| code > 1), "{code:?}");
    fs::remove_dir_all(project.path(".git")).unwrap();
    let before = project.read("result/report.md");
    let ended = project.run(&["explain", "result"]).expect(0);
    for part in [
        "e2e/greedy: fail",
        "wrong answers of head",
        "right in base",
        "expected \"",
    ] {
        assert!(
            ended.stdout.contains(part),
            "`{part}` is missing in\n{}",
            ended.stdout
        );
    }
    let explained = project
        .run(&["explain", "result", "--format", "json"])
        .json();
    assert_eq!(explained["format"], "infergate-explanation/1");
    let markdown = project
        .run(&["explain", "result", "--format", "markdown"])
        .expect(0);
    assert!(
        markdown.stdout.starts_with("# e2e/greedy\n"),
        "{}",
        markdown.stdout
    );
    // It reads, and writes nothing.
    assert_eq!(project.read("result/report.md"), before);
}
