//! Nothing passes that was not compared: one build in both arms is refused where there is a change, and never called a
//! pass.

use super::attacks::SLOW;
use fixture::{Ended, Project, START, gate};
use std::process::Command;

/// An engine that is started as it is installed, in a repository with a change.
fn without_build() -> Project {
    let project = Project::without_build();
    project.write("gates/start.toml", START);
    project.shorten();
    project.write(".gitignore", "/result\n");
    project.git(&["init", "--quiet", "--initial-branch=main"]);
    project.commit("first");
    project
}

const CHECK: [&str; 3] = ["check", "--gate", "start"];

#[track_caller]
fn is_refused(project: &Project, change: &str) {
    let ended = project.run(&CHECK).expect(2);
    let ended = ended.says(&[
        "nothing would be compared",
        change,
        "[engine.build]",
        "artifact = ",
        "--same-build",
    ]);
    assert_eq!(ended.stdout, "");
    // Before anything is measured.
    assert!(!ended.stderr.contains("measuring"), "{}", ended.stderr);
}

#[test]
fn a_change_without_a_build_is_refused() {
    let project = without_build();
    project.write("engine.py", "slower = True\n");
    is_refused(&project, "uncommitted changes");
    project.git(&["checkout", "--quiet", "-b", "slow"]);
    project.commit("slower");
    is_refused(&project, "HEAD is ");
    // No main to compare with: whether there is a change cannot be told.
    project.git(&["branch", "--quiet", "-D", "main"]);
    project
        .run(&CHECK)
        .expect(2)
        .says(&["name a base with --base REF"]);
}

/// As a user reads it: the last word is not PASS, in any form.
#[track_caller]
fn is_no_pass(project: &Project, arguments: &[&str]) {
    let ended = project
        .run(&[arguments, &["--out", "result"]].concat())
        .expect(0);
    let mut words = ended.stdout.lines();
    assert!(
        words.any(|line| line.starts_with("A/A ")),
        "{}",
        ended.stdout
    );
    let said = fixture::unwrapped(&ended.stdout);
    for part in [
        "A/A run: base and head ",
        "so this shows noise, not a change",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!ended.stdout.contains("PASS"), "{}", ended.stdout);
    for form in ["markdown", "comment", "html"] {
        let judged = project
            .run(&["report", "result", "--format", form])
            .expect(0)
            .stdout
            .replace("&#x2f;", "/");
        let heading = judged
            .lines()
            .find(|line| line.contains("A/A") && !line.starts_with('|'));
        assert!(heading.is_some(), "{form}: {judged}");
    }
    std::fs::remove_dir_all(project.path("result")).unwrap();
}

#[test]
fn one_build_measured_against_itself_is_no_pass() {
    let project = without_build();
    // Main itself, and a change that is left out on purpose.
    is_no_pass(&project, &CHECK);
    project.write("engine.py", "slower = True\n");
    is_no_pass(&project, &[&CHECK[..], &["--same-build"]].concat());
}

#[test]
fn a_change_that_does_not_reach_the_artifact_is_refused() {
    let project = Project::with_commits();
    project.write("gates/start.toml", START);
    project.shorten();
    project.git(&["checkout", "--quiet", "-b", "elsewhere"]);
    project.write("notes", "nothing that is built\n");
    project.commit("elsewhere");
    let named = [&CHECK[..], &["--head", "elsewhere"]].concat();
    let words = [
        "nothing would be compared",
        "equal to the byte",
        "--same-build",
    ];
    project.run(&named).expect(2).says(&words);
    is_no_pass(&project, &[&CHECK[..], &["--same-build"]].concat());
}

/// A newcomer's way: a tree with an engine, `gate init`, a slower branch, `gate check`. The engine is built by the
/// command that init wrote; what it builds starts the real one.
#[test]
fn what_init_writes_compares_commits() {
    let project = Project::empty();
    std::fs::remove_dir(project.path("gates")).unwrap();
    std::fs::create_dir_all(project.path("src")).unwrap();
    let binary = env!("CARGO_BIN_EXE_gate");
    project.write(
        "Cargo.toml",
        "[package]\nname = \"infergate\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[[bin]]\nname = \"gate\"\npath = \"src/main.rs\"\n",
    );
    project.write(
        "Cargo.lock",
        "version = 4\n\n[[package]]\nname = \"infergate\"\nversion = \"0.1.0\"\n",
    );
    let main = |delay: &str| {
        format!(
            "use std::os::unix::process::CommandExt;\nfn main() {{\n    let error = std::process::Command::new({binary:?})\n        \
             .args(std::env::args().skip(1)).arg(\"--fault=decode-delay={delay}\").exec();\n    panic!(\"{{error}}\");\n}}\n"
        )
    };
    project.write("src/main.rs", &main("2ms"));
    project.write(".gitignore", "/target\n/result\n");
    project.git(&["init", "--quiet", "--initial-branch=main"]);
    let init = project.run(&["init", "--engine", "infergate"]).expect(0);
    assert!(
        !init.stderr.contains("does not look like"),
        "{}",
        init.stderr
    );
    let env = format!("[engine]\nenv = {{ GATE = {binary:?} }}");
    let config = project
        .read("gates/gate.toml")
        .replacen("[engine]", &env, 1);
    project.write("gates/gate.toml", &config);
    project.write("gates/slow.toml", SLOW);
    project.commit("first");
    project.git(&["checkout", "--quiet", "-b", "slow"]);
    project.write("src/main.rs", &main("30ms"));
    project.commit("fifteen times as slow");
    let check = ["check", "--gate", "slow", "--format", "json"];
    let ended = project.run(&check).expect(1);
    assert_eq!(ended.json()["comparison"], "interleaved");
    // Without what init wrote, nothing would be compared.
    let (before, rest) = config.split_once("[engine.build]").unwrap();
    let rest = &rest[rest.find("\n[").unwrap()..];
    let without = format!("{before}{rest}").replace("\"{artifact}\"", &format!("{binary:?}"));
    project.write("gates/gate.toml", &without);
    project
        .run(&check)
        .expect(2)
        .says(&["nothing would be compared", "[engine.build]"]);
}

/// Every preset says how its engine is built.
#[test]
fn every_preset_of_init_builds_its_engine() {
    for engine in [
        "vllm",
        "sglang",
        "llama.cpp",
        "llama-cpp-python",
        "ollama",
        "transformers",
        "infergate",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let git = Command::new("git")
            .arg("init")
            .arg("--quiet")
            .arg(folder.path())
            .status();
        assert!(git.unwrap().success());
        let mut init = gate(&["init", "--engine", engine]);
        Ended::of(&init.current_dir(folder.path()).output().unwrap()).expect(0);
        let config = std::fs::read_to_string(folder.path().join("gates/gate.toml")).unwrap();
        assert!(config.contains("\n[engine.build]\n"), "{engine}");
        let serve = config
            .lines()
            .find(|line| line.starts_with("serve = "))
            .unwrap();
        assert!(serve.contains("{artifact}"), "{engine}: {serve}");
        let mut plan = gate(&["shard", "plan"]);
        Ended::of(&plan.current_dir(folder.path()).output().unwrap()).expect(0);
    }
}

#[test]
fn every_engine_is_started_with_the_same_limit_of_open_files() {
    let project = Project::without_build();
    project.write("gates/start.toml", START);
    project.shorten();
    project.wrap_engine("ulimit -Sn >> limits\nexec \"$@\"\n");
    let mut command = project.command_after("ulimit -Sn 200", &["check", "--gate", "start"]);
    Ended::of(&command.output().unwrap()).expect(0);
    let limits = project.read("limits");
    let limits: Vec<&str> = limits.lines().collect();
    assert!(limits.len() >= 8, "{limits:?}");
    assert!(limits.iter().all(|limit| *limit == limits[0]), "{limits:?}");
}
