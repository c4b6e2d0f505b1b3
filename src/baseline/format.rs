//! The file format `infergate-baseline/2`: one gate, one session of main. Format 1, without profile and anchor,
//! is read as well.

use super::entry::{Anchor, Entry, Key};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is written. An older gate names this number when it refuses such a file.
const FORMAT: &str = "infergate-baseline/2";

/// What is read.
const FORMATS: [&str; 2] = ["infergate-baseline/1", FORMAT];

#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    #[error("it is not a baseline record")]
    Json(#[source] serde_json::Error),
    #[error("its format is `{0}`, not `infergate-baseline/1` or `/2`: a newer gate wrote it")]
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
    anchor: Option<FileAnchor>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileAnchor {
    name: String,
    commit: String,
    values: BTreeMap<String, Vec<f64>>,
}

pub(super) fn write(entry: &Entry) -> Result<String, FormatError> {
    let Entry {
        key,
        session,
        created,
        commit,
        profile,
        values,
        anchor,
    } = entry.clone();
    let file = File {
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
        anchor: anchor.map(|anchor| FileAnchor {
            name: anchor.name,
            commit: anchor.commit,
            values: anchor.values,
        }),
    };
    check_finite(&file)?;
    serde_json::to_string_pretty(&file).map_err(FormatError::Json)
}

pub(super) fn read(text: &str) -> Result<Entry, FormatError> {
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
        anchor: file.anchor.map(|anchor| Anchor {
            name: anchor.name,
            commit: anchor.commit,
            values: anchor.values,
        }),
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
    Ok(())
}
