//! Two runners that push at the same moment, many times over: nothing is lost, nothing is half.

use super::moto::Moto;
use super::runner::{Bare, Runner, git};
use fixture::{Ended, is_nightly};
use std::collections::BTreeMap;

fn rounds() -> u32 {
    if is_nightly() { 50 } else { 15 }
}

/// In each round both record a session and push at once; then a third machine pulls.
fn check(runners: [Runner; 2], reader: &Runner) {
    for round in 0..rounds() {
        let pushes: Vec<_> = (0..)
            .zip(&runners)
            .map(|(number, runner)| {
                let minute = round % 60;
                runner.record(
                    &format!("2026-11-20T03:{minute:02}:00Z"),
                    2 * round + number,
                );
                runner.start(&["baseline", "push"])
            })
            .collect();
        for push in pushes {
            let ended = Ended::of(&push.wait_with_output().unwrap()).expect(0);
            assert!(ended.stdout.contains("pushed 1 record"), "{}", ended.stdout);
        }
    }
    reader.run(&["baseline", "pull"]).expect(0);
    let mut expect: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for runner in &runners {
        expect.extend(runner.records());
    }
    assert_eq!(expect.len(), 2 * rounds() as usize);
    // Compared name by name: a difference would print hundreds of numbers.
    let read = reader.records();
    assert!(read.keys().eq(expect.keys()), "{:?}", read.keys());
    for (name, bytes) in &expect {
        assert!(read[name] == *bytes, "{name} is not what was pushed");
    }
    let listed = reader.run(&["baseline", "list"]).expect(0).stdout;
    assert_eq!(listed.matches("run 4711.2").count(), expect.len());
}

#[test]
fn on_a_git_branch() {
    let bare = Bare::new();
    check([Runner::of(&bare), Runner::of(&bare)], &Runner::of(&bare));
    // Each push is one commit on the one before: nobody's was overwritten.
    let commits = git(bare.path(), &["rev-list", "--count", "infergate-baselines"]);
    assert_eq!(commits, (2 * rounds()).to_string());
    git(bare.path(), &["fsck", "--strict"]);
}

#[test]
fn in_a_bucket_of_a_server_that_speaks_s3() {
    let Some(moto) = Moto::start() else { return };
    let runner = || moto.credentials(Runner::new("s3://baselines/some/prefix"));
    check([runner(), runner()], &runner());
}

#[test]
fn in_a_directory() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("file://{}", folder.path().join("shared/store").display());
    let runner = || Runner::new(&store);
    check([runner(), runner()], &runner());
}
