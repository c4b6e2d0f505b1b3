//! A store that somebody else wrote to: what does not hold is named and not used, and the rest is.

use super::runner::{Bare, KEY, Runner, entry, git, signer};
use infergate::baseline::{Entry, Store, signed};
use std::fs;
use std::path::Path;

/// A clone of the store's branch, to write whatever one likes.
struct Writer(tempfile::TempDir);

impl Writer {
    fn of(bare: &Bare) -> Self {
        let writer = Self(tempfile::tempdir().unwrap());
        let path = bare.path().to_str().unwrap();
        git(
            writer.0.path(),
            &[
                "clone",
                "--quiet",
                "--branch=infergate-baselines",
                path,
                ".",
            ],
        );
        writer
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn push(&self) {
        git(self.path(), &["add", "--all"]);
        git(self.path(), &["commit", "--quiet", "--message", "hostile"]);
        git(self.path(), &["push", "--quiet"]);
    }
}

/// A store with one sound record.
fn store() -> (Bare, Runner) {
    let bare = Bare::new();
    let runner = Runner::of(&bare);
    runner.record("2026-11-20T03:00:00Z", 1);
    runner.run(&["baseline", "push"]).expect(0);
    (bare, runner)
}

#[test]
fn what_is_no_record_is_refused_by_name_and_the_rest_is_used() {
    let (bare, runner) = store();
    let sound = runner.records();
    let (name, bytes) = sound.first_key_value().unwrap();
    let text = String::from_utf8(bytes.clone()).unwrap();
    let folder = name.split('/').next().unwrap();
    let writer = Writer::of(&bare);
    let write = |name: &str, text: &str| {
        let path = writer.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let own = |stem: &str| format!("{folder}/{stem}.json");
    let session = name
        .split('/')
        .nth(1)
        .unwrap()
        .strip_suffix(".json")
        .unwrap();
    let renamed = |stem: &str| text.replace(session, stem);
    write("README.md", "hello");
    write("deep/er/tpot-0123456789abcdef/s.json", "{}");
    write(
        &own("20261120T040000Z-forged"),
        &renamed("20261120T040000Z-forged"),
    );
    write(&own("20261120T050000Z-nan"), &text.replace("0.25", "NaN"));
    write(&own("20261120T060000Z-deep"), &"[".repeat(200_000));
    write(&own("20261120T070000Z-huge"), &" ".repeat((1 << 20) + 1));
    write(&own("20261120T080000Z-copy"), &text);
    let unsigned = renamed("20261120T100000Z-unsigned");
    let (unsigned, _) = unsigned.split_once(",\n  \"sign_off\"").unwrap();
    write(&own("20261120T100000Z-unsigned"), &format!("{unsigned}}}"));
    std::os::unix::fs::symlink(
        "/etc/passwd",
        writer.path().join(own("20261120T090000Z-link")),
    )
    .unwrap();
    writer.push();
    let reader = Runner::of(&bare);
    let ended = reader.run(&["baseline", "pull"]).expect(0).says(&[
        "refused: README.md: it is not named as a record is",
        "refused: deep/er/tpot-0123456789abcdef/s.json: it is not named",
        "-forged.json: its content is not what its SHA-256 was made of",
        "-nan.json: it is not JSON",
        "-deep.json: it is not JSON",
        "-huge.json: it has 1048577 bytes",
        "-copy.json: it holds another record",
        "-link.json: it is a symbolic link",
        "-unsigned.json: it is not signed off",
    ]);
    assert!(
        ended.stdout.contains("pulled 1 record (9 refused)"),
        "{}",
        ended.stdout
    );
    assert!(!ended.stderr.contains("root:"), "{}", ended.stderr);
    assert_eq!(reader.records(), sound);
}

#[test]
fn with_a_key_only_those_who_have_it_are_believed() {
    let (bare, _) = store();
    let keyed = Runner::of(&bare).with("INFERGATE_BASELINE_KEY", KEY);
    keyed
        .run(&["baseline", "pull"])
        .expect(0)
        .says(&["it has no HMAC, and INFERGATE_BASELINE_KEY is set"]);
    assert!(keyed.records().is_empty());
    // The job that measured had no key; the one that pushes signs with it, and keeps what it signed.
    keyed.record("2026-11-20T04:00:00Z", 2);
    keyed.run(&["baseline", "push"]).expect(0);
    let pushed = keyed.records();
    let reader = Runner::of(&bare).with("INFERGATE_BASELINE_KEY", KEY);
    reader.run(&["baseline", "pull"]).expect(0);
    assert_eq!(reader.records(), pushed);
    let other = Runner::of(&bare).with("INFERGATE_BASELINE_KEY", "another key that is long enough");
    other
        .run(&["baseline", "pull"])
        .expect(0)
        .says(&["made with another key"]);
    assert!(other.records().is_empty());
    // Without a key the digest alone is looked at.
    let without = Runner::of(&bare);
    without.run(&["baseline", "pull"]).expect(0);
    assert_eq!(without.records().len(), 2);
}

#[test]
fn a_record_that_was_changed_here_is_not_pushed_and_the_others_are() {
    let bare = Bare::new();
    let runner = Runner::of(&bare);
    let changed = runner.record("2026-11-20T03:00:00Z", 1);
    runner.record("2026-11-20T04:00:00Z", 2);
    let text = fs::read_to_string(&changed).unwrap();
    fs::write(&changed, text.replace("0.25", "0.24")).unwrap();
    let ended = runner
        .run(&["baseline", "push"])
        .expect(5)
        .says(&["refused: tpot-", "was changed after"]);
    assert!(
        ended.stdout.contains("pushed 1 record (1 refused)"),
        "{}",
        ended.stdout
    );
    let listed = runner.run(&["baseline", "list"]).expect(0).stdout;
    assert!(
        listed.contains("BROKEN") && listed.contains("run 4711.2"),
        "{listed}"
    );
}

#[test]
fn an_older_record_is_signed_by_the_run_that_pushes_it() {
    let bare = Bare::new();
    let runner = Runner::of(&bare)
        .with("GITHUB_RUN_ID", "99")
        .with("GITHUB_RUN_ATTEMPT", "3");
    let unsigned: Entry = entry("2026-11-20T03:00:00Z", 1);
    let path = runner.store().add(&unsigned).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("baseline/3", "baseline/2")).unwrap();
    let listed = runner.run(&["baseline", "list"]).expect(0).stdout;
    assert!(listed.lines().any(|line| line.ends_with(" no")), "{listed}");
    runner.run(&["baseline", "push"]).expect(0);
    let listed = runner.run(&["baseline", "list"]).expect(0).stdout;
    assert!(listed.contains("run 99.3"), "{listed}");
    let reader = Runner::of(&bare);
    reader.run(&["baseline", "pull"]).expect(0);
    assert_eq!(reader.records(), runner.records());
}

#[test]
fn a_link_in_a_downloaded_folder_is_not_followed() {
    let bare = Bare::new();
    let runner = Runner::of(&bare);
    let elsewhere = tempfile::tempdir().unwrap();
    let outside = signed(entry("2026-11-20T03:00:00Z", 1), &signer(None)).unwrap();
    let target = Store::open(elsewhere.path()).add(&outside).unwrap();
    let name = target.strip_prefix(elsewhere.path()).unwrap();
    let link = runner.project.path(".gate/baseline").join(name);
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let told = runner.run(&["baseline", "push"]).expect(0).stdout;
    assert!(told.contains("pushed 0 records"), "{told}");
}
