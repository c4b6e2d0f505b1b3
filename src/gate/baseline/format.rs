//! The file format `infergate-baseline/3`: one gate, one session of main. Format 1, without profile and anchor,
//! and format 2, without sign-off, are read as well.

use super::entry::{Anchor, Entry, Key, Spent};
use super::sign_off::{SignOff, SignOffError, Signer};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is written. An older gate names this number when it refuses such a file.
const FORMAT: &str = "infergate-baseline/3";

/// What is read.
const FORMATS: [&str; 3] = ["infergate-baseline/1", "infergate-baseline/2", FORMAT];

#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    #[error("it is not a baseline record")]
    Json(#[source] serde_json::Error),
    #[error("it is not a note on main's history")]
    Note(#[source] serde_json::Error),
    #[error("its format is `{0}`, not `infergate-baseline/1`, `/2` or `/3`: a newer gate wrote it")]
    Version(String),
    #[error("the value {value} of `{check}` is not a finite number")]
    NotFinite { check: String, value: f64 },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: String,
    session: String,
    created: String,
    commit: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    profile: Option<String>,
    fingerprint: String,
    model: String,
    gate: String,
    gate_hash: String,
    engine: Vec<String>,
    values: BTreeMap<String, Vec<f64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    anchor: Option<Anchor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spent: Option<Spent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sign_off: Option<SignOff>,
}

pub fn write(entry: &Entry) -> Result<String, FormatError> {
    let file = File::of(entry)?;
    serde_json::to_string_pretty(&file).map_err(FormatError::Json)
}

/// The entry as this signer vouches for it. One that somebody vouched for already keeps his sign-off; where the
/// signer has a key and the sign-off no HMAC, it gets one.
pub fn signed(mut entry: Entry, signer: &Signer) -> Result<Entry, FormatError> {
    let content = |sign_off: &SignOff| content(&entry, sign_off);
    entry.sign_off = Some(match entry.sign_off.clone() {
        None => signer.sign(content)?,
        Some(there) => signer.countersign(there, content)?,
    });
    Ok(entry)
}

/// Whether the entry is what was signed.
pub fn check_signed(
    entry: &Entry,
    signer: &Signer,
) -> Result<Result<(), SignOffError>, FormatError> {
    signer.check(entry.sign_off.as_ref(), |sign_off| content(entry, sign_off))
}

/// What is signed: the record as compact JSON, the sign-off's own digests left out.
fn content(entry: &Entry, sign_off: &SignOff) -> Result<Vec<u8>, FormatError> {
    let mut file = File::of(entry)?;
    file.sign_off = Some(sign_off.clone());
    serde_json::to_vec(&file).map_err(FormatError::Json)
}

impl File {
    fn of(entry: &Entry) -> Result<Self, FormatError> {
        let Entry {
            key,
            session,
            created,
            commit,
            profile,
            values,
            anchor,
            spent,
            sign_off,
        } = entry.clone();
        let file = Self {
            format: FORMAT.into(),
            session,
            created,
            commit,
            profile,
            fingerprint: key.fingerprint,
            model: key.model,
            gate: key.gate,
            gate_hash: key.gate_hash,
            engine: key.engine,
            values,
            anchor,
            spent,
            sign_off,
        };
        check_finite(&file)?;
        Ok(file)
    }
}

pub fn read(text: &str) -> Result<Entry, FormatError> {
    #[derive(Deserialize)]
    struct Version {
        format: String,
    }
    let version: Version = serde_json::from_str(text).map_err(FormatError::Json)?;
    if !FORMATS.contains(&version.format.as_str()) {
        return Err(FormatError::Version(version.format));
    }
    let file: File = serde_json::from_str(text).map_err(FormatError::Json)?;
    check_finite(&file)?;
    Ok(Entry {
        key: Key {
            fingerprint: file.fingerprint,
            model: file.model,
            gate: file.gate,
            gate_hash: file.gate_hash,
            engine: file.engine,
        },
        session: file.session,
        created: file.created,
        commit: file.commit,
        profile: file.profile,
        values: file.values,
        anchor: file.anchor,
        spent: file.spent,
        sign_off: file.sign_off,
    })
}

/// JSON has no NaN: such a value would be written as `null` and lost.
fn check_finite(file: &File) -> Result<(), FormatError> {
    let anchor = file.anchor.iter().flat_map(|anchor| &anchor.values);
    for (check, values) in file.values.iter().chain(anchor) {
        if let Some(value) = values.iter().find(|v| !v.is_finite()) {
            return Err(FormatError::NotFinite {
                check: check.clone(),
                value: *value,
            });
        }
    }
    let spent = file
        .spent
        .iter()
        .flat_map(|spent| [spent.start_s, spent.work_s]);
    match spent.into_iter().find(|value| !value.is_finite()) {
        Some(value) => Err(FormatError::NotFinite {
            check: "spent".to_owned(),
            value,
        }),
        None => Ok(()),
    }
}
