//! `gate baseline prune`: what is old goes, the newest of each key stays, and no push brings it back.

use super::runner::{Bare, Runner, git};

/// Ten sessions of a year ago.
fn store() -> (Bare, Runner) {
    let bare = Bare::new();
    let runner = Runner::of(&bare);
    for day in 1..=10 {
        runner.record(&format!("2025-01-{day:02}T03:00:00Z"), day);
    }
    // Each push looks at the whole: the two oldest are beyond the newest eight, and stay here.
    let told = runner.run(&["baseline", "push"]).expect(0).stdout;
    assert!(
        told.contains("pushed 8 records") && told.contains("; 2 older than"),
        "{told}"
    );
    (bare, runner)
}

#[test]
fn what_is_old_goes_but_for_the_newest() {
    let (bare, runner) = store();
    let told = runner.run(&["baseline", "prune"]).expect(0).says(&[
        "old: tpot-",
        "20250101T030000Z",
        "20250102T030000Z",
    ]);
    assert!(
        told.stdout.contains("would remove 2 records"),
        "{}",
        told.stdout
    );
    assert_eq!(runner.records().len(), 10);
    let told = runner
        .run(&["baseline", "prune", "--delete"])
        .expect(0)
        .stdout;
    assert!(
        told.contains("removed 2 records") && told.contains("kept 8"),
        "{told}"
    );
    assert_eq!(runner.records().len(), 8);
    let told = runner.run(&["baseline", "prune"]).expect(0).stdout;
    assert!(told.contains("nothing in git:"), "{told}");
    // Eight new sessions put the old ones out of the store as well.
    let now = jiff::Timestamp::now();
    for hour in 1..=8 {
        let created = now - jiff::Span::new().hours(i64::from(hour));
        let created = created.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        runner.record(&created, 100 + hour);
    }
    runner.run(&["baseline", "push"]).expect(0);
    runner.run(&["baseline", "prune", "--delete"]).expect(0);
    let files = git(
        bare.path(),
        &["ls-tree", "-r", "--name-only", "infergate-baselines"],
    );
    assert_eq!(files.lines().count(), 8, "{files}");
    assert!(!files.contains("/2025"), "{files}");
    let reader = Runner::of(&bare);
    reader.run(&["baseline", "pull"]).expect(0);
    assert_eq!(reader.records(), runner.records());
}

#[test]
fn without_an_age_nothing_is_old() {
    let (_bare, runner) = store();
    runner
        .project
        .edit("gates/gate.toml", "keep = \"30 days\"\n", "");
    runner
        .run(&["baseline", "prune", "--delete"])
        .expect(2)
        .says(&["keep = \"180 days\""]);
    let told = runner.run(&["baseline", "push"]).expect(0).stdout;
    assert!(told.contains("pushed 2 records"), "{told}");
}
