//! Base and head as commits: worktrees, builds that are kept, and what is compared with what.

use super::common::Project;
use super::{alone, gates_that};

#[test]
fn a_regression_between_commits_is_found_and_the_base_build_is_kept() {
    let _alone = alone();
    let project = Project::with_commits();
    project.git(&["checkout", "--quiet", "-b", "slow"]);
    project.write("flags", "--fault=wrong-token=50");
    project.commit("a planted fault");
    let arguments = ["check", "--format", "json", "--gate", "e2e"];
    let ended = project
        .run(&arguments)
        .expect(1)
        .says(&["building base", "built base"]);
    assert_eq!(ended.json()["comparison"], "interleaved");
    assert_eq!(gates_that(&ended.json(), "fail"), ["e2e"]);
    // The second time, main's engine is there already.
    project
        .run(&arguments)
        .expect(1)
        .says(&["was built by an earlier run"]);
}

#[test]
fn a_clean_tree_at_main_is_measured_against_itself_with_one_build() {
    let _alone = alone();
    let project = Project::with_commits();
    let ended = project
        .run(&["check", "--format", "json", "--gate", "e2e"])
        .expect(0);
    assert_eq!(ended.json()["comparison"], "same-build");
    assert!(!ended.stderr.contains("building base"), "{}", ended.stderr);
    let text = project.run(&["check", "--gate", "e2e"]).expect(0).stdout;
    assert!(text.contains("an A/A run"), "{text}");
}

#[test]
fn uncommitted_changes_are_measured_against_their_commit() {
    let _alone = alone();
    let project = Project::with_commits();
    project.write("flags", "--fault=wrong-token=50");
    let ended = project
        .run(&["check", "--format", "json", "--gate", "e2e"])
        .expect(1);
    let commits = &ended.json()["commits"];
    assert_eq!(commits[0]["commit"], commits[1]["commit"]);
    assert_eq!(commits[1]["dirty"], true);
}
