//! Nothing changed: no gate may fail.

use fixture::{Project, alone, gates_that};
use std::fs;

#[test]
fn an_unchanged_engine_does_not_fail_and_its_record_judges_to_the_same_bytes() {
    let _alone = alone();
    let project = Project::without_build();
    let ended = project.run(&["check", "--format", "json", "--out", "result"]);
    let verdict = ended.json();
    assert_eq!(verdict["comparison"], "same-build");
    assert_eq!(gates_that(&verdict, "fail"), [""; 0], "{}", ended.stdout);
    assert_eq!(gates_that(&verdict, "invalid"), [""; 0], "{}", ended.stdout);
    // Correctness does not depend on how busy the machine is; timing may stay undecided.
    assert!(
        gates_that(&verdict, "pass").contains(&"e2e".to_owned()),
        "{}",
        ended.stdout
    );
    let expected = if verdict["verdict"] == "pass" { 0 } else { 3 };
    let ended = ended.expect(expected);
    assert_eq!(project.leftovers(), [0; 0]);
    for file in ["run.json", "verdict.json", "report.md"] {
        assert!(project.path("result").join(file).is_file(), "{file}");
    }

    // The record alone gives the same bytes again, in another place, with no gates beside it.
    fs::create_dir(project.path("copy")).unwrap();
    fs::copy(
        project.path("result/run.json"),
        project.path("copy/run.json"),
    )
    .unwrap();
    fs::remove_dir_all(project.path("gates")).unwrap();
    let again = project
        .run(&["report", "copy", "--format", "json"])
        .expect(expected);
    assert_eq!(again.stdout, ended.stdout);
    for file in ["verdict.json", "report.md"] {
        let first = project.read(&format!("result/{file}"));
        assert_eq!(first, project.read(&format!("copy/{file}")), "{file}");
    }
}
