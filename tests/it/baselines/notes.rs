//! Notes on main's history travel with its records, and are believed no more than these.

use super::runner::{Bare, KEY, Runner, git};
use fixture::Ended;
use std::fs;

/// Bytes of the only note that lies here, under its name.
fn note_of(runner: &Runner) -> (String, Vec<u8>) {
    let folder = runner.project.path(".gate/baseline/notes");
    let session = fs::read_dir(&folder).unwrap().next().unwrap().unwrap();
    let mut files = fs::read_dir(session.path()).unwrap();
    let file = files.next().unwrap().unwrap();
    assert!(files.next().is_none());
    let name = format!(
        "notes/{}/{}",
        session.file_name().display(),
        file.file_name().display()
    );
    (name, fs::read(file.path()).unwrap())
}

fn write_note(runner: &Runner) -> Ended {
    let note = [
        "history",
        "note",
        "--commit",
        "c0ffee00c0ffee00",
        "--by",
        "Ada",
        "the sampler costs it",
    ];
    runner.run(&note).expect(0)
}

#[test]
fn a_note_reaches_every_machine_through_the_store() {
    let bare = Bare::new();
    let runner = Runner::of(&bare);
    runner.record("2026-11-20T03:00:00Z", 1);
    write_note(&runner);
    runner.run(&["baseline", "push"]).expect(0);
    let (name, bytes) = note_of(&runner);
    let other = Runner::of(&bare);
    other.run(&["baseline", "pull"]).expect(0);
    assert_eq!(note_of(&other), (name, bytes));
    // It is there on both sides now.
    runner.run(&["baseline", "push"]).expect(0);
    let files = git(
        bare.path(),
        &["ls-tree", "-r", "--name-only", "infergate-baselines"],
    );
    assert_eq!(files.lines().count(), 2, "{files}");
}

#[test]
fn a_note_that_does_not_hold_is_refused_by_name() {
    let store = tempfile::tempdir().unwrap();
    let address = format!("file://{}", store.path().display());
    let runner = Runner::new(&address).with("INFERGATE_BASELINE_KEY", KEY);
    runner.record("2026-11-20T03:00:00Z", 1);
    write_note(&runner);
    runner.run(&["baseline", "push"]).expect(0);
    let (name, bytes) = note_of(&runner);
    let text = String::from_utf8(bytes).unwrap();
    for (forged, why) in [
        (text.replace("the sampler", "nobody"), "belongs at"),
        (text.replace("Ada", "Eve"), "belongs at"),
        (
            text.replace("\"commit\": \"c0", "\"commit\": \"c1"),
            "changed after it was signed",
        ),
        (
            text.replace("the sampler", "\\u001b[2J"),
            "control character",
        ),
        (format!("{text}{}", " ".repeat(1 << 20)), "bytes, more than"),
        (text.replace("note/1", "note/9"), "a newer gate wrote it"),
        ("{}".to_owned(), "it is not a note"),
    ] {
        fs::write(store.path().join(&name), forged).unwrap();
        let other = Runner::new(&address).with("INFERGATE_BASELINE_KEY", KEY);
        other
            .run(&["baseline", "pull"])
            .expect(0)
            .says(&[&name, why]);
        assert!(
            !other.project.path(".gate/baseline/notes").exists(),
            "{why}"
        );
        // The session beside it is used.
        assert_eq!(other.store().list().unwrap().len(), 1);
    }
    // Without the key nobody writes a note that is believed.
    fs::remove_file(store.path().join(&name)).unwrap();
    let stranger = Runner::new(&address);
    stranger.record("2026-11-20T03:00:00Z", 1);
    write_note(&stranger);
    stranger.run(&["baseline", "push"]).expect(0);
    let other = Runner::new(&address).with("INFERGATE_BASELINE_KEY", KEY);
    other
        .run(&["baseline", "pull"])
        .expect(0)
        .says(&["it has no HMAC"]);
}
