//! Wrong arguments: each gives a message that names the place, the cause and the remedy, and starts nothing.

use super::{LEAKING, Made, history};
use fixture::Project;

#[track_caller]
fn refuses(project: &Project, arguments: &[&str], parts: &[&str]) {
    let mut all = vec!["bisect"];
    all.extend(arguments);
    project.run(&all).expect(2).says(parts);
    assert_eq!(project.leftovers(), [0; 0]);
}

#[test]
fn a_range_that_is_none() {
    let project = history(&[Made::With(""), Made::With(LEAKING)]);
    let gate = ["--gate", "leak"];
    let with = |range: [&'static str; 2]| [range, gate].concat();
    refuses(
        &project,
        &with(["c1", "c0"]),
        &["`c1` is no ancestor of `c0`", "GOOD comes first"],
    );
    refuses(
        &project,
        &with(["c1", "c1"]),
        &["one commit", "nothing between them"],
    );
    refuses(
        &project,
        &with(["c0", "c9"]),
        &["unknown commit `c9`", "git fetch"],
    );
    refuses(&project, &with(["-x", "c1"]), &["-x"]);
    refuses(&project, &["c0", "c1", "--gate", "lek"], &["lek", "leak"]);
    refuses(&project, &["c0", "c1"], &["--gate"]);
    refuses(&project, &["c0", "--gate", "leak"], &["BAD"]);
    // No empty result directory is left either.
    let results = std::fs::read_dir(project.path(".gate/runs")).unwrap();
    assert_eq!(results.count(), 0);
}

#[test]
fn a_good_commit_beside_the_line_is_refused_with_one_on_it() {
    let project = history(&[Made::With("")]);
    project.git(&["checkout", "--quiet", "-b", "side"]);
    project.write("number", "side");
    project.commit("beside");
    project.git(&["tag", "beside"]);
    project.git(&["checkout", "--quiet", "main"]);
    project.write("other", "");
    project.commit("main goes on");
    project.git(&["merge", "--quiet", "--no-edit", "side"]);
    refuses(
        &project,
        &["beside", "HEAD", "--gate", "leak"],
        &["`beside` lies beside the line of first parents", "such as"],
    );
}

#[test]
fn an_engine_that_is_not_built_has_no_commits() {
    let project = Project::without_build();
    project.git(&["init", "--quiet", "--initial-branch=main"]);
    project.commit("one");
    project.write("note", "");
    project.commit("two");
    refuses(
        &project,
        &["HEAD~1", "HEAD", "--gate", "tpot"],
        &["no [engine.build]", "gates/gate.toml"],
    );
}

#[test]
fn an_engine_of_good_that_does_not_build_is_infrastructure() {
    let project = history(&[Made::Broken, Made::With(LEAKING)]);
    let arguments = ["bisect", "c0", "c1", "--gate", "leak"];
    project
        .run(&arguments)
        .expect(5)
        .says(&["the build of commit ", "does not compile"]);
}
