//! Where commits are built: what another session left there, and what git still does for it.

use fixture::Project;
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
    project
        .run(&head)
        .expect(5)
        .says(&["the build succeeded, but", "engine.build.artifact"]);
    // What stands in the tree itself may be its source.
    project.edit("gates/gate.toml", "{target}/engine", "engine");
    project.write("engine", "#!/bin/sh\nexit 1\n");
    project.commit("the engine is a script");
    project.run(&["check", "--gate", "e2e"]).expect(5);
    assert!(project.path("engine").is_file());
    // What git ignores was made: now the build makes nothing, and what was there stays.
    project.write(".gitignore", "/target\n/engine\n");
    project.git(&["rm", "--quiet", "--cached", "engine"]);
    project.commit("the engine is made");
    let ended = project.run(&["check", "--gate", "e2e"]);
    ended.expect(5).says(&["the build succeeded, but"]);
    assert!(project.path("engine").is_file());
}

/// A build that fails where CMake's cache of an earlier build is left in this folder; head has a planted fault.
fn with_cmake(folder: &str, further: &[&str]) -> Project {
    let project = Project::with_commits();
    let left = format!(
        "mkdir -p \"{folder}\"\ntest ! -e \"{folder}/CMakeCache.txt\" || {{ echo left over; exit 1; }}\n\
         touch \"{folder}/CMakeCache.txt\" \"{folder}/object\"\n"
    );
    project.write("build.sh", &(left + &project.read("build.sh")));
    for file in further {
        project.write(file, "");
    }
    project.commit("an option's value is kept");
    project.git(&["checkout", "--quiet", "-b", "change"]);
    project.write("flags", "--fault=wrong-token=50");
    project.commit("a planted fault");
    project.git(&["checkout", "--quiet", "main"]);
    project
}

#[test]
fn what_cmake_remembers_of_main_says_nothing_of_head() {
    // Cargo's build directory is kept from build to build; a build script has its own folder in it.
    let of_cargo = with_cmake("$1/release/build/sys-0a/out/build", &["Cargo.toml"]);
    for project in [with_cmake("$1", &[]), of_cargo] {
        let head = ["check", "--gate", "e2e", "--head", "change"];
        project.run(&head).expect(1);
        // The working tree's own build directory stays, and an option's value does not.
        project.git(&["checkout", "--quiet", "change"]);
        for _ in 0..2 {
            project.run(&["check", "--gate", "e2e"]).expect(1);
        }
    }
}

/// The folder in which a child starts is of its own mounts: the one of before is read-only there.
#[test]
fn a_build_writes_into_its_tree_by_relative_paths() {
    let project = with_broken_commit();
    project.git(&["checkout", "--quiet", "broken"]);
    let build = "mkdir -p .gate/made && cp build.sh .gate/made/ && echo made it; exit 1\n";
    project.write("build.sh", build);
    project.commit("writes");
    project.git(&["checkout", "--quiet", "main"]);
    let head = ["check", "--gate", "e2e", "--head", "broken"];
    project.run(&head).expect(5).says(&["made it"]);
}

#[test]
fn what_a_dead_session_left_is_made_anew() {
    let project = with_broken_commit();
    builds(&project);
    for half in [".gate/build/tree", ".gate/clean/tree"] {
        fs::create_dir_all(project.path(half)).unwrap();
        let _ = fs::remove_file(project.path(half).join("build.sh"));
        let _ = fs::remove_dir_all(project.path(half).join(".git"));
        builds(&project);
    }
    // Private folders of a session that was killed end with the next one.
    let left = tempfile::Builder::new()
        .prefix("infergate-")
        .tempdir()
        .unwrap()
        .keep();
    std::os::unix::fs::symlink(&left, project.path(".gate/scratch")).unwrap();
    builds(&project);
    assert!(!left.exists());
    assert!(project.path(".gate/scratch").symlink_metadata().is_err());
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
    // The user's own settings count in a clone too.
    fs::create_dir(project.path("home")).unwrap();
    project.write("attributes", "build.sh filter=slow\n");
    let attributes = project.path("attributes").display().to_string();
    for (key, value) in [
        ("filter.slow.smudge", &smudge),
        ("core.attributesFile", &attributes),
    ] {
        project.git(&["config", "--file", "home/.gitconfig", key, value]);
    }

    let mut killed = project
        .command(&["check", "--gate", "e2e", "--head", "broken"])
        .env("HOME", project.path("home"))
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
}
