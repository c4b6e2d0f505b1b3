//! A real session, in which an engine answers wrongly.

use fixture::Project;

#[test]
fn a_wrong_token_of_a_real_engine_is_explained() {
    let project = Project::without_build();
    let fault = "--head-arg=--fault=wrong-token=50";
    project
        .run(&["check", "--gate", "e2e", fault, "--out", "result"])
        .expect(1);
    let before = project.read("result/report.md");
    let ended = project.run(&["explain", "result"]).expect(0);
    for part in [
        "e2e/greedy: fail",
        "answered wrongly by head",
        "right in base",
        "expected \"",
        "launches in order",
    ] {
        assert!(
            ended.stdout.contains(part),
            "`{part}` is missing in\n{}",
            ended.stdout
        );
    }
    let explained = project
        .run(&["explain", "result", "--format", "json"])
        .json();
    assert_eq!(explained["format"], "infergate-explanation/1");
    let markdown = project
        .run(&["explain", "result", "--format", "markdown"])
        .expect(0);
    assert!(
        markdown.stdout.starts_with("# e2e/greedy\n"),
        "{}",
        markdown.stdout
    );
    // It reads, and writes nothing.
    assert_eq!(project.read("result/report.md"), before);
}
