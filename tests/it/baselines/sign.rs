//! `gate baseline sign`: records from before the key get its HMAC, and what does not hold gets none.

use super::certificates::certify;
use super::moto::Moto;
use super::runner::{Bare, KEY, Runner, entry, git, signer};
use infergate::baseline::{Store, signed};
use std::fs;

const VARIABLE: &str = "INFERGATE_BASELINE_KEY";

/// Two sessions and a certificate from before the key in the store of this runner, and what a machine with the
/// key gets of them before and after they are signed.
fn check(runner: impl Fn() -> Runner) {
    let before = runner();
    before.record("2026-11-20T03:00:00Z", 1);
    before.record("2026-11-20T04:00:00Z", 2);
    certify(&before, "2026-11-20T05:00:00Z");
    before.run(&["baseline", "push"]).expect(0);
    let keyed = || runner().with(VARIABLE, KEY);
    let refused = ["it has no HMAC", "`gate baseline sign`"];
    let reader = keyed();
    reader.run(&["baseline", "pull"]).expect(0).says(&refused);
    assert!(reader.records().is_empty());
    // Without --write nothing changes.
    let signs = keyed();
    let listed = signs.run(&["baseline", "sign"]).expect(0);
    let listed = listed.says(&["unsigned: tpot-", "unsigned: calibration/"]);
    assert!(
        listed.stdout.contains("would sign 3 records"),
        "{}",
        listed.stdout
    );
    reader.run(&["baseline", "pull"]).expect(0).says(&refused);
    let told = signs.run(&["baseline", "sign", "--write"]).expect(0);
    let told = told.says(&["signed: tpot-", "20261120T030000Z", "signed: calibration/"]);
    assert!(told.stdout.contains("signed 3 records"), "{}", told.stdout);
    let pulled = reader.run(&["baseline", "pull"]).expect(0);
    assert!(
        pulled.stdout.contains("pulled 3 records"),
        "{}",
        pulled.stdout
    );
    assert_eq!(reader.records().len(), 2);
    // They are what they were, but for the HMAC; without the key they are read as before.
    let keyless = runner();
    keyless.run(&["baseline", "pull"]).expect(0);
    assert_eq!(keyless.records(), reader.records());
    for (name, was) in before.records() {
        let without = |bytes: &[u8]| {
            let mut value: serde_json::Value = serde_json::from_slice(bytes).unwrap();
            value["sign_off"]
                .as_object_mut()
                .unwrap()
                .remove("hmac_sha256");
            value
        };
        assert_eq!(without(&was), without(&reader.records()[&name]));
    }
    let again = signs.run(&["baseline", "sign", "--write"]).expect(0).stdout;
    assert!(again.contains("left to sign: 3 were signed"), "{again}");
}

#[test]
fn a_branch_is_signed() {
    let bare = Bare::new();
    check(|| Runner::of(&bare));
    let log = git(bare.path(), &["log", "--format=%s", "infergate-baselines"]);
    assert_eq!(log, "Sign 3 records\nAdd 3 records");
}

#[test]
fn a_directory_is_signed() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("file://{}", folder.path().join("store").display());
    check(|| Runner::new(&store));
}

#[test]
fn a_bucket_is_signed() {
    if let Some(moto) = Moto::start() {
        check(|| moto.credentials(Runner::new("s3://baselines/signed")));
    }
}

#[test]
fn what_does_not_hold_is_refused_and_stays_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("store");
    let store = format!("file://{}", place.display());
    let runner = Runner::new(&store).with(VARIABLE, KEY);
    let there = Store::open(&place);
    let add = |created: &str, seed: u32, key: Option<&str>| {
        let entry = signed(entry(created, seed), &signer(key)).unwrap();
        there.add(&entry).unwrap()
    };
    let changed = add("2026-11-20T03:00:00Z", 1, None);
    let text = fs::read_to_string(&changed).unwrap();
    fs::write(&changed, text.replace("0.25", "0.24")).unwrap();
    add(
        "2026-11-20T04:00:00Z",
        2,
        Some("another key that is long enough"),
    );
    let old = add("2026-11-20T05:00:00Z", 3, None);
    let (changed_was, old_was) = (fs::read(&changed).unwrap(), fs::read(&old).unwrap());
    let ended = runner
        .run(&["baseline", "sign", "--write"])
        .expect(5)
        .says(&[
            "was changed after it was signed off",
            "made with another key",
            "signed: tpot-",
            "20261120T050000Z",
        ]);
    assert!(ended.stdout.contains("signed 1 record"), "{}", ended.stdout);
    assert_eq!(fs::read(&changed).unwrap(), changed_was);
    assert_ne!(fs::read(&old).unwrap(), old_was);
    let keyless = Runner::new(&store).run(&["baseline", "sign"]).expect(2);
    keyless.says(&["INFERGATE_BASELINE_KEY is not set"]);
}
