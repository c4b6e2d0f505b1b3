//! Pushes that do not arrive: what is lost (nothing), what is half (nothing), and what is said.

use super::runner::{Bare, KEY, Runner, git};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

/// What nobody may read in a message.
const SECRET: &str = "hunter2";

#[test]
fn a_push_that_is_killed_leaves_nothing_half() {
    let bare = Bare::new();
    let hook = bare.path().join("hooks/pre-receive");
    let reached = bare.path().join("reached");
    // The server has every object and waits for good before it moves the branch.
    let fifo = bare.path().join("fifo");
    let script = format!(
        "#!/bin/sh\nmkfifo {f:?}\ntouch {r:?}\nread _ < {f:?}\nexit 1\n",
        f = fifo,
        r = reached
    );
    fs::write(&hook, script).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let runner = Runner::of(&bare);
    runner.record("2026-11-20T03:00:00Z", 1);
    let before = runner.records();
    let mut push = runner.start(&["baseline", "push"]);
    let begun = Instant::now();
    while !reached.exists() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "the push never came"
        );
        std::thread::park_timeout(Duration::from_millis(5));
    }
    push.kill().unwrap();
    push.wait().unwrap();
    fs::remove_file(&hook).unwrap();
    fs::write(&fifo, "\n").unwrap();
    assert_eq!(git(bare.path(), &["for-each-ref"]), "");
    assert_eq!(runner.records(), before);
    runner.run(&["baseline", "push"]).expect(0);
    let reader = Runner::of(&bare);
    reader.run(&["baseline", "pull"]).expect(0);
    assert_eq!(reader.records(), before);
}

/// The push ends with 5, says these, keeps what is here and shows no credential.
#[track_caller]
fn cannot(runner: &Runner, parts: &[&str]) {
    runner.record("2026-11-20T03:00:00Z", 1);
    let before = runner.records();
    for command in ["push", "pull"] {
        let ended = runner.run(&["baseline", command]).expect(5).says(parts);
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert!(!said.contains(SECRET) && !said.contains(KEY), "{said}");
        assert!(said.contains("stays here"), "{said}");
    }
    assert_eq!(runner.records(), before);
}

#[test]
fn a_remote_that_is_not_there_is_said_without_its_password() {
    let bare = Bare::new();
    let runner = Runner::of(&bare).with("INFERGATE_BASELINE_KEY", KEY);
    runner.record("2026-11-20T03:00:00Z", 2);
    runner.run(&["baseline", "push"]).expect(0);
    let gone = format!("https://ada:{SECRET}@127.0.0.1:1/o/r.git");
    runner.project.git(&["remote", "set-url", "origin", &gone]);
    cannot(
        &runner,
        &[
            "cannot reach the store git:infergate-baselines@origin",
            "127.0.0.1",
        ],
    );
}

#[test]
fn a_remote_that_refuses_is_not_tried_again_and_again() {
    let bare = Bare::new();
    let hook = bare.path().join("hooks/pre-receive");
    fs::write(
        &hook,
        "#!/bin/sh\necho \"no entry for https://ada:hunter2@host/\" >&2\nexit 1\n",
    )
    .unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let runner = Runner::of(&bare);
    runner.record("2026-11-20T03:00:00Z", 1);
    let ended = runner
        .run(&["baseline", "push"])
        .expect(5)
        .says(&["cannot push to the store", "no entry for https://…@host/"]);
    assert!(!ended.stderr.contains(SECRET), "{}", ended.stderr);
}

#[test]
fn a_bucket_that_is_not_there_is_said() {
    let runner = Runner::new("s3://baselines/prefix")
        .with("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        .with("AWS_ALLOW_HTTP", "true")
        .with("AWS_REGION", "us-east-1")
        .with("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
        .with("AWS_SECRET_ACCESS_KEY", SECRET);
    cannot(&runner, &["cannot list the store s3://baselines/prefix"]);
}

#[test]
fn a_directory_that_cannot_be_made_is_said() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let runner = Runner::new(&format!("file://{}/store", file.path().display()));
    cannot(
        &runner,
        &["cannot open the store file://", "Not a directory"],
    );
    Runner::new("file:///two words")
        .run(&["baseline", "pull"])
        .expect(2)
        .says(&["letters, digits and . _ - / alone"]);
}

#[test]
fn credentials_in_a_file_and_short_keys_are_refused() {
    let runner = Runner::new("git:b@https://ada:hunter2@host/o/r.git");
    let ended = runner
        .run(&["baseline", "push"])
        .expect(2)
        .says(&["credentials"]);
    assert!(!ended.stderr.contains(SECRET), "{}", ended.stderr);
    let runner = Runner::new("file:///nowhere").with("INFERGATE_BASELINE_KEY", SECRET);
    let ended = runner
        .run(&["baseline", "push"])
        .expect(2)
        .says(&["too short"]);
    assert!(!ended.stderr.contains(SECRET), "{}", ended.stderr);
}
