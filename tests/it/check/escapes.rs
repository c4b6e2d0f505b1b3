//! A pull request's code against the sandbox itself: what it leaves running, what it moves, and the settings that it would have
//! another program run.

use super::attacks::{CHECK, with_attack};
use fixture::skip::skip;
use fixture::{Ended, Project, START};
use std::fs;
use std::process::Command;

/// Runs the check under one layer; `None` where this machine has none of it.
fn checked(project: &Project, layer: &str) -> Option<Ended> {
    project.with_sandbox(layer);
    let ended = project.run(&CHECK);
    if ended.code == Some(2) && ended.stderr.contains("cannot be had here") {
        skip(&format!("this machine has no {layer}"));
        return None;
    }
    Some(ended)
}

/// A gate that is decided by one launch of each arm.
const ONE_BLOCK: &str = r#"
title = "One block"

[workload.cells]
kind = "matrix"
batches = [1]
caches = ["cold"]
contexts = [16]
output_tokens = 4
passes = 1
warmup = 0
launches = 1

[[check]]
name = "answered"
metric = "failed_cells"
rule = "ceiling"
limit = "0 cases"
"#;

/// A process that starts its successor and ends is never the one that was looked up.
#[test]
fn what_forks_onwards_ends_with_the_engine() {
    let onwards = "cat > \"$1/lines\" <<END\n\
                   on=\\${TMPDIR:-.}/onwards\n\
                   touch $ROOT/forked 2> /dev/null\n\
                   echo \"[ -d $ROOT/gates ] && sh \\$on &\" > \\$on\n\
                   setsid sh \\$on &\n\
                   END\n\
                   sed -i \"1r $1/lines\" \"$1/engine\"";
    for layer in ["landlock", "namespaces", "none"] {
        let project = with_attack(onwards);
        // It starts processes as fast as a processor can: one block of a short gate is enough.
        project.write("gates/slow.toml", ONE_BLOCK);
        if let Some(ended) = checked(&project, layer) {
            ended.expect(0);
            // Each look may miss one that is just being started.
            let seen = (0..50).flat_map(|_| project.leftovers()).next();
            assert_eq!(seen, None, "{layer}");
            // Where nothing hinders it, it leaves a trace.
            assert!(layer != "none" || project.path("forked").exists());
        }
    }
}

#[test]
fn the_projects_folder_stays_where_it_is() {
    let moves = "mv \"$ROOT\" \"$ROOT.moved\" && mkdir \"$ROOT\"; chmod 777 \"$ROOT\"; touch \"$ROOT/gates/planted\"; true";
    for layer in ["landlock", "namespaces"] {
        let project = with_attack(moves);
        if let Some(ended) = checked(&project, layer) {
            let ended = ended.expect(1);
            assert!(ended.stdout.contains("slow/regression"), "{}", ended.stdout);
            assert!(!project.path("gates/planted").exists(), "{layer}");
        }
    }
}

/// Joins the group of the session's leader, stops there, and leaves the group orphaned: the kernel hangs such a group up
/// (setpgid(2)), whatever signals the build may send.
const HANGS_UP: &str = "python3 - <<'END'
import os, signal, time
leader = os.getsid(0)
def join():
    try: os.setpgid(0, leader)
    except OSError: os._exit(0)
if os.fork() == 0:
    if os.fork() == 0:
        join()
        os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(0.2)
    os.setsid()
    time.sleep(1)
    os._exit(0)
time.sleep(0.6)
if os.fork() == 0:
    join()
    os._exit(0)
time.sleep(0.5)
END
true";

#[test]
fn a_build_cannot_hang_up_the_gate() {
    for layer in ["landlock", "namespaces", "auto"] {
        let project = with_attack(HANGS_UP);
        project.with_sandbox(layer);
        // The gate leads a session.
        let mut check = project.command_after("exec setsid --wait \"$0\" \"$@\"", &CHECK);
        let ended = Ended::of(&check.output().unwrap());
        if ended.code == Some(2) && ended.stderr.contains("cannot be had here") {
            skip(&format!("this machine has no {layer}"));
            continue;
        }
        ended.expect(1);
    }
}

/// A folder with these files, to be a home.
fn home(files: &[(&str, &str)]) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = home.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    home
}

fn in_home(project: &Project, home: &tempfile::TempDir, arguments: &[&str]) -> Ended {
    let mut check = project.command(arguments);
    check.env("HOME", home.path()).env_remove("CARGO_HOME");
    Ended::of(&check.output().unwrap())
}

/// Git and Cargo work in a build, and their tokens are not there.
#[test]
fn tokens_in_settings_do_not_reach_a_build() {
    let home = home(&[
        (
            ".gitconfig",
            "[url \"https://secret-1@a/\"]\n\tinsteadOf = https://a/\n[user]\n\tname = t\n\temail = t@a\n",
        ),
        (".config/git/config", "[http]\n\textraHeader = secret-2\n"),
        (
            ".cargo/config.toml",
            "[registries.ours]\nindex = \"sparse+https://known/\"\ntoken = \"secret-3\"\n",
        ),
    ]);
    let reads = "git status > /dev/null && echo git works; cat ~/.gitconfig ~/.config/git/config ~/.cargo/config.toml\n\
                 git config --list; cat \"$CARGO_HOME/config.toml\"; exit 1";
    let project = with_attack(reads);
    let ended = in_home(&project, &home, &CHECK).expect(5);
    for known in ["git works", "sparse+https://known/"] {
        assert!(ended.stderr.contains(known), "{known}: {}", ended.stderr);
    }
    assert!(!ended.stderr.contains("secret-"), "{}", ended.stderr);
    // A build of the working tree uses the user's own Cargo home.
    project.write("flags", "--fault=decode-delay=6ms");
    let of_tree = in_home(&project, &home, &["check", "--gate", "slow"]);
    of_tree.expect(5).says(&[
        ".cargo/config.toml holds a registry's token",
        "credentials.toml",
    ]);
}

/// Git runs what a submodule's own settings name when it is asked what has changed.
#[test]
fn a_build_of_the_tree_writes_no_submodules_settings() {
    let project = Project::with_commits();
    let other = Project::with_commits();
    let from = other.path("").display().to_string();
    for name in ["there", "empty"] {
        let file = ["-c", "protocol.file.allow=always"];
        project.git(&[&file[..], &["submodule", "--quiet", "add", &from, name]].concat());
    }
    project.shorten();
    project.commit("submodules");
    project.git(&["submodule", "--quiet", "deinit", "--force", "empty"]);
    project.write("gates/start.toml", START);
    let before = project.read("there/.git");
    let attack = "echo gitdir: /evil > there/.git; mkdir empty/.git; echo x > there/flags; true";
    let build = project.read("build.sh");
    project.write("build.sh", &format!("{build}set +e\n{attack}\n"));
    project.write("flags", "--fault=decode-delay=1ms");
    project.run(&["check", "--gate", "start"]).expect(0);
    assert_eq!(project.read("there/.git"), before);
    assert!(!project.path("empty/.git").exists());
    // The attack ran, and the submodule's files are the build's to write.
    assert_eq!(project.read("there/flags"), "x\n");
}

/// What a program writes into the terminal's input, the user's shell runs.
#[test]
fn a_build_has_no_terminal() {
    let probe = |with: &str| {
        format!(
            "( : > /dev/tty ) 2> /dev/null && echo terminal {with}; ls /dev/pts/0 && ( : > /dev/pts/0 ) && echo opened {with}"
        )
    };
    let project = with_attack(&format!("{}; exit 1", probe("reached")));
    let check = project.command(&CHECK);
    let command = format!("{} {}", check.get_program().display(), CHECK.join(" "));
    // script(1) gives it a terminal.
    let mut script = Command::new("script");
    script.args(["--quiet", "--command", &command, "/dev/null"]);
    script.current_dir(project.path(""));
    let Ok(output) = script.output() else {
        return skip("there is no script(1) here");
    };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("the build of commit"), "{said}");
    for reached in ["terminal reached", "opened reached"] {
        assert!(!said.contains(reached), "{said}");
    }
}

/// An engine that reads the session's seed knows every prompt before it is sent, and base's answers by their launches.
#[test]
fn an_engine_cannot_read_the_sessions_results() {
    let reads = "printf '#!/bin/sh\\nslow=8ms; grep -qs seed %s/result/run.json && slow=1ms\\n\
                 grep -qs . %s/result/launches/* && slow=1ms\\nexec %s \"$@\" --fault=decode-delay=$slow\\n' \
                 \"$ROOT\" \"$ROOT\" \"$(sed -n 's/^exec \\([^ ]*\\) .*/\\1/p' \"$1/engine\")\" > \"$1/engine\"";
    // What is tried works where nothing hinders it.
    let free = with_attack(reads);
    let ended = checked(&free, "none").unwrap();
    assert_ne!(ended.code, Some(1), "{}", ended.stdout);
    for layer in ["landlock", "namespaces"] {
        let project = with_attack(reads);
        if let Some(ended) = checked(&project, layer) {
            let ended = ended.expect(1);
            assert!(
                ended.stdout.contains("slow/regression"),
                "{layer}: {}",
                ended.stdout
            );
        }
    }
}

/// Wherever they are: the rest of the machine may be read.
#[test]
fn results_outside_of_the_project_are_hidden_too() {
    let elsewhere = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let out = elsewhere.path().join("result");
    let (out, run) = (out.display().to_string(), out.join("run.json"));
    let reads = format!(
        "printf '#!/bin/sh\\nslow=8ms; grep -qs seed {} && slow=1ms\\n\
         grep -qs . {out}/launches/* && slow=1ms\\nexec %s \"$@\" --fault=decode-delay=$slow\\n' \
         \"$(sed -n 's/^exec \\([^ ]*\\) .*/\\1/p' \"$1/engine\")\" > \"$1/engine\"",
        run.display()
    );
    for layer in ["none", "landlock", "namespaces"] {
        let project = with_attack(&reads);
        project.with_sandbox(layer);
        let ended = project.run(&["check", "--head", "evil", "--gate", "slow", "--out", &out]);
        let is_had = !(ended.code == Some(2) && ended.stderr.contains("cannot be had here"));
        assert!(
            !is_had || (ended.code == Some(1)) == (layer != "none"),
            "{layer}: {}",
            ended.stdout
        );
        let _ = fs::remove_dir_all(&out);
    }
}

/// System V's shared memory belongs to no process: it would outlive the session.
#[test]
fn shared_memory_of_an_engine_ends_with_it() {
    const BYTES: &str = "123457";
    let left = || {
        let all = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
        let mut all = all
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<&str>>());
        let found = all.find(|words| words.contains(&BYTES));
        found.map(|words| words[1].to_owned())
    };
    let makes = format!("sed -i '1a ipcmk -M {BYTES} > /dev/null' \"$1/engine\"");
    // What is tried works where nothing hinders it.
    checked(&with_attack(&makes), "none").unwrap();
    assert!(left().is_some(), "ipcmk makes none");
    while let Some(id) = left() {
        assert!(
            Command::new("ipcrm")
                .args(["-m", &id])
                .status()
                .unwrap()
                .success()
        );
    }
    if checked(&with_attack(&makes), "namespaces").is_some() {
        assert_eq!(left(), None);
    }
}
