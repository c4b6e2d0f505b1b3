//! A branch as a store: what of the clone is touched, and what is no store.

use super::runner::{Bare, Runner, git};

#[test]
fn nothing_of_the_clone_but_objects_is_touched_and_no_hook_runs() {
    let bare = Bare::new();
    let runner = Runner::of(&bare);
    runner.project.write(".gitignore", "/.gate\n");
    runner.project.commit("first");
    runner.project.write("staged", "1");
    runner.project.git(&["add", "staged"]);
    runner.project.write("untracked", "2");
    for hook in [
        "pre-push",
        "reference-transaction",
        "post-index-change",
        "post-commit",
    ] {
        let hook = format!(".git/hooks/{hook}");
        runner.project.write(
            &hook,
            "#!/bin/sh\necho ran >> \"$(git rev-parse --show-toplevel)/hook\"\n",
        );
        make_executable(&runner.project.path(&hook));
    }
    let root = runner.project.path(".");
    let state = || {
        let asked: [&[&str]; 4] = [
            &["status", "--porcelain"],
            &["rev-parse", "HEAD"],
            &["branch"],
            &["stash", "list"],
        ];
        asked.map(|arguments| git(&root, arguments))
    };
    let before = state();
    // The hooks that these calls ran themselves are forgotten.
    let _ = std::fs::remove_file(runner.project.path("hook"));
    runner.record("2026-11-20T03:00:00Z", 1);
    runner.run(&["baseline", "push"]).expect(0);
    runner.run(&["baseline", "pull"]).expect(0);
    assert!(!runner.project.path("hook").exists(), "a hook ran");
    assert_eq!(state(), before);
    // The branch stands by itself.
    let parents = git(bare.path(), &["log", "--format=%P", "infergate-baselines"]);
    assert_eq!(parents, "");
    let files = git(bare.path(), &["ls-tree", "-r", "infergate-baselines"]);
    assert!(
        files.starts_with("100644 blob ") && files.lines().count() == 1,
        "{files}"
    );
}

fn make_executable(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_branch_that_holds_anything_else_is_not_written() {
    let bare = Bare::new();
    let runner = Runner::of(&bare);
    runner.project.write(".gitignore", "/.gate\n");
    runner.project.commit("sources");
    runner
        .project
        .git(&["push", "--quiet", "origin", "HEAD:infergate-baselines"]);
    let before = git(bare.path(), &["rev-parse", "infergate-baselines"]);
    runner.record("2026-11-20T03:00:00Z", 1);
    runner
        .run(&["baseline", "push"])
        .expect(2)
        .says(&["is no store: it holds .gitignore", "baseline.store"]);
    assert_eq!(
        git(bare.path(), &["rev-parse", "infergate-baselines"]),
        before
    );
}

#[test]
fn what_is_pushed_twice_is_stored_once() {
    let bare = Bare::new();
    let runner = Runner::of(&bare);
    assert!(
        runner
            .run(&["baseline", "push"])
            .expect(0)
            .stdout
            .contains("pushed 0 records")
    );
    assert!(
        runner
            .run(&["baseline", "pull"])
            .expect(0)
            .stdout
            .contains("pulled 0 records")
    );
    runner.record("2026-11-20T03:00:00Z", 1);
    runner.run(&["baseline", "push"]).expect(0);
    let again = runner.run(&["baseline", "push"]).expect(0).stdout;
    assert!(
        again.contains("pushed 0 records (1 were there) to git:infergate-baselines@origin"),
        "{again}"
    );
    assert_eq!(
        git(bare.path(), &["rev-list", "--count", "infergate-baselines"]),
        "1"
    );
    let pulled = runner.run(&["baseline", "pull"]).expect(0).stdout;
    assert!(
        pulled.contains("pulled 0 records (1 were there)"),
        "{pulled}"
    );
}

#[test]
fn outside_a_repository_and_without_a_store_it_says_what_to_write() {
    let nowhere = Runner::new("git:infergate-baselines");
    nowhere
        .run(&["baseline", "push"])
        .expect(2)
        .says(&["needs a git repository"]);
    let config = nowhere.project.read("gates/gate.toml");
    let without: Vec<&str> = config.lines().filter(|l| !l.starts_with("store")).collect();
    nowhere
        .project
        .write("gates/gate.toml", &without.join("\n"));
    for command in ["push", "pull", "prune"] {
        nowhere
            .run(&["baseline", command])
            .expect(2)
            .says(&["names no store", "git:infergate-baselines"]);
    }
    nowhere.project.write(
        "gates/gate.toml",
        &config.replace("git:infergate", "svn:infergate"),
    );
    nowhere
        .run(&["baseline", "pull"])
        .expect(2)
        .says(&["gates/gate.toml:4", "^^^", "s3://bucket"]);
}
