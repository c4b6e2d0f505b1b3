//! Where commits are built: what another session left there, and what is the user's own.

use super::common::Project;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use std::fs::{self, File, TryLockError};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

/// A commit whose build says why it fails: all that comes before it has been done then.
fn with_broken_commit() -> Project {
    let project = Project::with_commits();
    project.git(&["checkout", "--quiet", "-b", "broken"]);
    project.write("build.sh", "echo does not compile; exit 1\n");
    project.commit("broken");
    project.git(&["checkout", "--quiet", "main"]);
    project
}

#[track_caller]
fn builds(project: &Project) {
    project
        .run(&["check", "--gate", "e2e", "--head", "broken"])
        .expect(5)
        .says(&["does not compile"]);
}

#[test]
fn an_artifact_of_another_commit_is_not_taken_for_one_that_was_not_made() {
    let project = Project::with_commits();
    let build = project.read("build.sh");
    project.write("build.sh", "echo makes nothing\n");
    project.commit("makes nothing");
    project.git(&["checkout", "--quiet", "-b", "mended"]);
    project.write("build.sh", &build);
    project.commit("makes its engine");
    project.git(&["checkout", "--quiet", "main"]);
    let head = ["check", "--gate", "e2e", "--head", "mended"];
    project.run(&head).expect(5).says(&[
        "built head",
        "the build succeeded, but",
        "engine.build.artifact",
    ]);
    // What stands in the tree itself may be its source.
    project.edit("gates/gate.toml", "{target}/engine", "engine");
    project.write("engine", "#!/bin/sh\nexit 1\n");
    project.commit("the engine is a script");
    project.run(&["check", "--gate", "e2e"]).expect(5);
    assert!(project.path("engine").is_file());
}

#[test]
fn a_worktree_that_a_dead_session_left_is_made_anew() {
    let project = with_broken_commit();
    builds(&project);
    let worktrees = fs::read_dir(project.path(".gate/worktrees")).unwrap();
    let worktree = worktrees.flatten().next().unwrap().path();
    let path = worktree.to_str().unwrap();
    // As it is where git was killed in the middle of making it.
    project.git(&["worktree", "lock", path]);
    fs::remove_file(worktree.join("build.sh")).unwrap();
    builds(&project);
    project.git(&["worktree", "lock", path]);
    fs::remove_dir_all(&worktree).unwrap();
    builds(&project);
    // As it is where the project was moved.
    fs::write(worktree.join(".git"), "gitdir: /nowhere/worktrees/it\n").unwrap();
    builds(&project);
}

#[test]
fn a_worktree_of_the_users_that_is_not_there_now_is_kept() {
    let project = with_broken_commit();
    let elsewhere = tempfile::tempdir().unwrap();
    let (theirs, hidden) = (elsewhere.path().join("tree"), elsewhere.path().join("away"));
    let path = theirs.to_str().unwrap();
    project.git(&["worktree", "add", "--quiet", "--detach", path, "main"]);
    fs::rename(&theirs, &hidden).unwrap();
    builds(&project);
    fs::rename(&hidden, &theirs).unwrap();
    project.git(&["-C", path, "status"]);
}

/// Nobody ends it, so it would go on writing into what the next session makes.
#[test]
fn a_git_that_a_killed_session_left_is_waited_for() {
    let project = with_broken_commit();
    let (begun, hold) = (project.path("begun"), project.path("hold"));
    mkfifo(&hold, Mode::S_IRWXU).unwrap();
    let smudge = format!(
        "echo >> {}; test -p {hold} && read _ < {hold}; cat",
        begun.display(),
        hold = hold.display()
    );
    project.git(&["config", "filter.slow.smudge", &smudge]);
    project.write(".git/info/attributes", "build.sh filter=slow\n");

    let mut killed = project
        .command(&["check", "--gate", "e2e", "--head", "broken"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !begun.exists() {
        assert!(killed.try_wait().unwrap().is_none(), "it ended");
        thread::sleep(Duration::from_millis(5));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let lock = File::open(project.path(".gate/lock")).unwrap();
    assert!(matches!(lock.try_lock(), Err(TryLockError::WouldBlock)));
    drop(lock);

    fs::write(&hold, "\n").unwrap();
    fs::remove_file(&hold).unwrap();
    builds(&project);
    assert_eq!(fs::read(&begun).unwrap(), b"\n", "it was made twice");
}
