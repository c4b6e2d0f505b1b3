//! A pull request's code against the measurement: what it plants, rewrites, reads and prints. Each attack made head
//! pass, took a secret or wrote to the job's log before there was a sandbox.

use fixture::{Ended, Project};
use std::fs;
use std::path::Path;

/// A gate that a change of a token's time by half cannot pass, whatever else the machine does. Of one shape, but `mixed`: a
/// busy machine that drifts makes a `steady` workload invalid.
pub(super) const SLOW: &str = r#"
title = "Slow"

[workload.decode]
kind = "mixed"
requests = 8
warmup = 1
shapes = [{ prompt_tokens = 4, output_tokens = 8, weight = 1 }]
concurrency = 1

[[check]]
name = "regression"
metric = "e2e"
rule = "regression"
margin = "20 %"
ceiling = "60 %"
min_samples = 5
"#;

/// Main answers with a token each 2 ms, the branch `evil` each 10 ms, which no busy machine hides; `attack` is added to the
/// branch's build, in which `$1` is the build directory and `$ROOT` the project.
pub(super) fn with_attack(attack: &str) -> Project {
    let project = Project::with_commits();
    project.write("gates/slow.toml", SLOW);
    project.edit(
        "gates/gate.toml",
        "looks = [3, 4, 5, 6, 7, 8, 10]",
        "looks = [4]",
    );
    project.write("flags", "--fault=decode-delay=2ms");
    project.commit("decodes steadily");
    project.git(&["checkout", "--quiet", "-b", "evil"]);
    project.write("flags", "--fault=decode-delay=10ms");
    let root = project.path("").canonicalize().unwrap();
    let build = project.read("build.sh");
    project.write(
        "build.sh",
        &format!("{build}set +e\nROOT={}\n{attack}\n", root.display()),
    );
    project.commit("slower, and an attack");
    project.git(&["checkout", "--quiet", "main"]);
    project
}

pub(super) const CHECK: [&str; 7] = [
    "check", "--head", "evil", "--gate", "slow", "--out", "result",
];

/// The slowdown is found, as without the attack.
#[track_caller]
fn is_found(project: &Project) {
    let ended = project.run(&CHECK).expect(1);
    assert!(ended.stdout.contains("slow/regression"), "{}", ended.stdout);
    assert_eq!(project.leftovers(), [0; 0]);
}

/// R1: head's build put its own engine where base's is kept.
#[test]
fn a_planted_base_artifact_is_not_measured() {
    let project = with_attack(
        "cd \"$OLDPWD\" 2>/dev/null; base=$(git rev-parse HEAD^)\n\
         for at in ../../artifacts \"$ROOT/.gate/artifacts\"; do for key in $(ls $at 2>/dev/null) $base-*; do\n\
         mkdir -p \"$at/$key\"; rm -f \"$at/$key/engine\"; cp \"$1/engine\" \"$at/$key/engine\"; done; done 2>/dev/null\n\
         rm -rf \"$ROOT/.gate/ledger\" \"$ROOT/.gate/clean\" 2>/dev/null; true",
    );
    // Base's artifact is there from an earlier session, and known by name.
    project.git(&["branch", "honest", "main"]);
    project.git(&["checkout", "--quiet", "honest"]);
    project.write("flags", "--fault=decode-delay=10ms --threads 1");
    project.commit("slower without an attack");
    project.git(&["checkout", "--quiet", "main"]);
    let honest = ["check", "--head", "honest", "--gate", "slow"];
    project.run(&honest).expect(1);
    is_found(&project);
}

/// R2: head's engine rewrote the kept engine of base at its first launch.
const REWRITES: &str = "printf '#!/bin/sh\\nfor f in %s/.gate/artifacts/*/engine; do case $f in $0) ;; *) chmod u+w $f; \
                        sed -i s/=2ms/=30ms/ $f;; esac; done 2>/dev/null\\nexec %s \"$@\" --fault=decode-delay=10ms\\n' \
                        \"$ROOT\" \"$(sed -n 's/^exec \\([^ ]*\\) .*/\\1/p' \"$1/engine\")\" > \"$1/engine\"";

#[test]
fn an_engine_cannot_rewrite_bases() {
    is_found(&with_attack(REWRITES));
}

#[test]
fn an_engine_that_was_rewritten_is_not_started() {
    let project = with_attack(REWRITES);
    project.without_sandbox();
    let mut check = project.command_after("ulimit -Sn 1000", &CHECK);
    // What the doctor would have said of the machine is said where there is no answer.
    let ended = Ended::of(&check.output().unwrap())
        .expect(4)
        .says(&["warning: when the session began, open files: 1000"]);
    assert!(
        ended.stdout.contains("its artifact was written to since"),
        "{}",
        ended.stdout
    );
}

/// R4, R5: the runner's own files.
#[test]
fn a_build_reaches_no_file_of_the_runner() {
    // Where nothing else is hidden.
    let runner = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let commands = runner.path().join("_work/_temp/_runner_file_commands");
    fs::create_dir_all(&commands).unwrap();
    fs::write(runner.path().join(".runner"), "{}").unwrap();
    fs::write(
        runner.path().join(".credentials_rsaparams"),
        "the runner's key",
    )
    .unwrap();
    fs::write(commands.join("set_env_1"), "").unwrap();
    let at = runner.path().display();
    let project = with_attack(&format!(
        "echo LD_PRELOAD=/tmp/x.so >> {at}/_work/_temp/_runner_file_commands/set_env_1\n\
         cat {at}/.credentials_rsaparams; exit 1"
    ));
    let mut check = project.command(&CHECK);
    check.env("RUNNER_TEMP", runner.path().join("_work/_temp"));
    let ended = Ended::of(&check.output().unwrap()).expect(5);
    assert!(
        !ended.stderr.contains("the runner's key"),
        "{}",
        ended.stderr
    );
    assert_eq!(fs::read_to_string(commands.join("set_env_1")).unwrap(), "");
}

/// R6: a build set a program that the gate's own git then ran with all of the gate's environment.
#[track_caller]
fn git_runs_nothing(prepare: impl Fn(&Project)) {
    let project = with_attack(
        "printf '#!/bin/sh\\nenv > %s/taken\\n' \"$ROOT\" > \"$1/spy\"; chmod +x \"$1/spy\"\n\
         for at in . ../../.. \"$ROOT\"; do for key in core.fsmonitor core.pager diff.external core.sshCommand; do\n\
         git -C $at config $key \"$1/spy\" 2>/dev/null; done; done; true",
    );
    prepare(&project);
    for _ in 0..2 {
        let mut check = project.command(&[
            "check", "--head", "evil", "--gate", "start", "--base", "main",
        ]);
        project.write("gates/start.toml", fixture::START);
        check
            .env("GITHUB_TOKEN", "ghs_taken")
            .env("AWS_SECRET_ACCESS_KEY", "taken");
        Ended::of(&check.output().unwrap()).expect(0);
    }
    assert!(!project.path("taken").exists(), "{}", project.read("taken"));
}

#[test]
fn the_gates_own_git_runs_nothing_of_a_build() {
    git_runs_nothing(|_| {});
    git_runs_nothing(Project::without_sandbox);
}

/// A build's outcome that is a link out of its tree would be copied with the gate's rights.
#[test]
fn a_link_is_no_artifact() {
    let secret = tempfile::tempdir().unwrap();
    let secret = secret.path().join("key");
    let _ = fs::write(&secret, "a secret");
    let project = with_attack(&format!(
        "rm \"$1/engine\"; ln -s /etc/hostname \"$1/engine\" # {}",
        secret.display()
    ));
    project.run(&CHECK).expect(5).says(&[
        "a link that leads out of where it was built",
        "engine.build.artifact",
    ]);
}

/// What was built is known by its content, not by its place.
#[test]
fn a_kept_artifact_that_was_changed_is_built_anew() {
    let project = with_attack("");
    project.run(&CHECK).expect(1).says(&["built base"]);
    for entry in fs::read_dir(project.path(".gate/artifacts"))
        .unwrap()
        .flatten()
    {
        let engine = entry.path().join("engine");
        let text = fs::read_to_string(&engine).unwrap();
        if text.contains("=2ms") {
            fs::remove_file(&engine).unwrap();
            fs::write(&engine, text.replace("=2ms", "=30ms")).unwrap();
        }
    }
    let again = ["check", "--head", "evil", "--gate", "slow"];
    let ended = project.run(&again).expect(1);
    assert!(ended.stderr.contains("built base"), "{}", ended.stderr);
    assert!(
        !ended.stderr.contains("using the earlier build of base"),
        "{}",
        ended.stderr
    );
}

/// A line that GitHub's runner would take for a command.
const FORGED: &str =
    "::error title=Pass: ::all gates passed\\n::add-mask::pass\\n::stop-commands::x\\n\\033[2J";

/// R7: every place that prints what a child said.
#[test]
fn text_of_children_begins_no_line() {
    let is_harmless = |what: &str, text: &str| {
        assert!(
            text.contains("add-mask"),
            "{what} does not show it:\n{text}"
        );
        let forged = text
            .lines()
            .find(|line| line.trim_start().starts_with("::") || line.contains('\u{1b}'));
        assert_eq!(forged, None, "{what}");
    };
    // A build that fails: the error, and the file that the job which publishes reads.
    let build = with_attack(&format!("printf '{FORGED}'; exit 1"));
    is_harmless("a failed build", &build.run(&CHECK).expect(5).stderr);
    is_harmless("failure.txt", &build.read("result/failure.txt"));
    // An engine that does not start: each report, and what takes a red check apart.
    let engine = with_attack(&format!(
        "printf '#!/bin/sh\\nprintf \"{FORGED}\"\\nexit 1\\n' > \"$1/engine\"",
        FORGED = FORGED.replace('\\', "\\\\\\\\")
    ));
    let ended = engine.run(&CHECK).expect(1);
    is_harmless("the terminal's report", &ended.stdout);
    for form in ["text", "markdown", "comment", "html"] {
        let judged = engine
            .run(&["report", "result", "--format", form])
            .expect(1);
        is_harmless(form, &judged.stdout);
    }
    let explained = engine.run(&["explain", "result"]);
    is_harmless(
        "explain",
        &format!("{}{}", explained.stdout, explained.stderr),
    );
    // git's own words, of a repository whose settings it refuses.
    let git = with_attack("");
    fs::write(
        Path::new(&git.path(".git/config")),
        "[core]\n\trepositoryformatversion = 99\n",
    )
    .unwrap();
    let ended = git.run(&CHECK);
    assert!(
        ended.stderr.contains("\n  | ") || ended.code == Some(2),
        "{}",
        ended.stderr
    );
}
