//! Main's stored sessions through the binary.

use super::alone;
use super::common::Project;

#[test]
fn a_stored_session_is_listed_and_too_few_of_them_carry_no_verdict() {
    let _alone = alone();
    let project = Project::with_commits();
    let none = project
        .run(&["check", "--base", "stored", "--gate", "tpot"])
        .expect(3);
    assert!(
        none.stdout.contains("gate baseline record"),
        "{}",
        none.stdout
    );
    project.run(&["baseline", "list"]).expect(0);
    project
        .run(&["baseline", "record", "--gate", "tpot"])
        .expect(0)
        .says(&["stored: "]);
    let list = project.run(&["baseline", "list"]).expect(0).stdout;
    let session = list
        .lines()
        .find(|line| line.contains("tpot"))
        .and_then(|line| line.split_whitespace().next())
        .unwrap_or_else(|| panic!("no session in:\n{list}"));
    let shown = project.run(&["baseline", "show", session]).expect(0).stdout;
    assert!(shown.contains("tpot/regression"), "{shown}");
    let one = project
        .run(&["check", "--base", "stored", "--gate", "tpot"])
        .expect(3);
    assert!(one.stdout.contains("1 stored session"), "{}", one.stdout);
}

#[test]
fn what_is_not_main_is_not_recorded() {
    let _alone = alone();
    let project = Project::with_commits();
    project.write("flags", " ");
    project
        .run(&["baseline", "record"])
        .expect(2)
        .says(&["uncommitted changes"]);
    project.git(&["checkout", "--quiet", "-b", "change"]);
    project.commit("a change");
    project
        .run(&["baseline", "record"])
        .expect(2)
        .says(&["not on main"]);
    project
        .run(&["baseline", "show", "2001"])
        .expect(2)
        .says(&["no stored session"]);
}
