//! Verification of a record's bytes: size, form, name and signature.
//!
//! Refuses to know: where they come from.

use super::bounds;
use super::entry::Entry;
use super::format;
use super::name::{Kind, RecordName};
use super::refused::{RefusedRecord, text};
use super::sign_off::{SignOffError, Signer, WorkflowRun};
use super::{note, store};

/// A record that lies under this name in a store, if everything about it is as it should be. `now` in RFC 3339.
pub fn admit(
    name: &RecordName,
    bytes: &[u8],
    signer: &Signer,
    now: &str,
) -> Result<Entry, RefusedRecord> {
    let entry = read(name, bytes, now)?;
    format::check_signed(&entry, signer)??;
    Ok(entry)
}

/// Refuses a session or a note that does not hold.
pub fn hold(
    name: &RecordName,
    bytes: &[u8],
    signer: &Signer,
    now: &str,
) -> Result<(), RefusedRecord> {
    match name.kind() {
        Kind::Note => note::admit(name, bytes, signer, now).map(drop),
        Kind::Session | Kind::Certificate => admit(name, bytes, signer, now).map(drop),
    }
}

/// The run that vouches for an entry, or why nobody does.
pub fn sign_off_of(entry: &Entry, signer: &Signer) -> Result<Option<WorkflowRun>, SignOffError> {
    // An entry that was read can be written again.
    format::check_signed(entry, signer).unwrap_or(Err(SignOffError::Changed))?;
    Ok(entry.sign_off.as_ref().and_then(|signed| signed.run))
}

/// A record of ours, ready to be stored under this name: signed by now, if it was not. One whose sign-off does
/// not hold is refused.
pub fn ready(
    name: &RecordName,
    bytes: &[u8],
    signer: &Signer,
    now: &str,
) -> Result<Vec<u8>, RefusedRecord> {
    if name.kind() == Kind::Note {
        return note::ready(name, bytes, signer, now);
    }
    let entry = read(name, bytes, now)?;
    let signed = format::signed(entry.clone(), signer)?;
    format::check_signed(&signed, signer)??;
    if signed.sign_off == entry.sign_off {
        return Ok(bytes.to_vec());
    }
    Ok(format::write(&signed)?.into_bytes())
}

fn read(name: &RecordName, bytes: &[u8], now: &str) -> Result<Entry, RefusedRecord> {
    let value = text(bytes)?;
    let entry = format::read(value)?;
    bounds::check_entry(&entry, now)?;
    let own = store::name_of(&entry).ok();
    if own.as_ref() != Some(name) || name.kind() != Kind::Session {
        let own = own.map_or_else(|| "no place".to_owned(), |own| own.to_string());
        return Err(RefusedRecord::Name(own));
    }
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::super::Store;
    use super::super::store::tests::entry;
    use super::*;

    const NOW: &str = "2026-11-22T00:00:00Z";

    fn signer() -> Signer {
        Signer {
            tool: "infergate 0.1.0".into(),
            run: None,
            key: None,
        }
    }

    /// A stored record: its name and its bytes.
    fn stored() -> (RecordName, Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let mut entry = entry("s1");
        entry.commit = Some("c0ffee".repeat(7)[..40].to_owned());
        entry.anchor = None;
        let entry = format::signed(entry, &signer()).unwrap();
        let path = Store::open(folder.path()).add(&entry).unwrap();
        (
            store::name_of(&entry).unwrap(),
            std::fs::read(path).unwrap(),
        )
    }

    #[track_caller]
    fn check(change: impl Fn(String) -> String, part: &str) {
        let (name, bytes) = stored();
        let text = change(String::from_utf8(bytes.clone()).unwrap());
        assert_ne!(text.as_bytes(), bytes);
        let refused = admit(&name, text.as_bytes(), &signer(), NOW).unwrap_err();
        assert!(refused.reason().contains(part), "{}", refused.reason());
    }

    fn replace<'a>(from: &'a str, to: &'a str) -> impl Fn(String) -> String + 'a {
        move |text| {
            assert!(text.contains(from), "`{from}` in {text}");
            text.replacen(from, to, 1)
        }
    }

    #[test]
    fn a_sound_record_is_admitted_and_made_no_other() {
        let (name, bytes) = stored();
        assert!(admit(&name, &bytes, &signer(), NOW).is_ok());
        assert_eq!(ready(&name, &bytes, &signer(), NOW).unwrap(), bytes);
    }

    #[test]
    fn what_is_wrong_with_a_record_is_said() {
        check(replace("0.251", "0.249"), "changed after it was signed");
        check(replace("infergate 0.1.0", "infergate 9"), "changed after");
        check(replace("0.251", "1e999"), "number out of range");
        check(replace("0.251", "NaN"), "not JSON");
        check(replace("\"s1\"", "\"s2\""), "belongs at tpot-");
        check(replace("\"abc\"", "\"abd\""), "belongs at tpot-");
        check(replace("\"s1\"", "\"../s1\""), "belongs at no place");
        check(replace("c0ffee", "c0ffe"), "`commit` is not");
        check(replace("2026-11", "2027-11"), "`created` is not");
        check(
            replace("tpot/regression", "ttft/regression"),
            "another gate",
        );
        check(replace("cpu|2", "\\u001b[2Jcpu|2"), "control character");
        check(
            replace("\"gate\"", "\"more\": 1, \"gate\""),
            "not a baseline",
        );
        check(replace("baseline/3", "baseline/9"), "a newer gate wrote it");
        check(
            |text| format!("{}{text}", " ".repeat(1 << 20)),
            "bytes, more than",
        );
        check(|_| "[".repeat(10_000), "recursion limit");
        check(|_| String::new(), "not JSON");
    }
}
