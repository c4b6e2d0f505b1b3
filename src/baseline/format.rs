//! The file format `infergate-baseline/1`: one gate, one session of main.

use super::entry::{Entry, Key};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const FORMAT: &str = "infergate-baseline/1";

#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    #[error("it is not a baseline record")]
    Json(#[source] serde_json::Error),
    #[error("its format is `{0}`, not `infergate-baseline/1`: a newer gate wrote it")]
    Version(String),
    #[error("the value {value} of `{check}` is not a finite number")]
    NotFinite { check: String, value: f64 },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct V1 {
    format: String,
    session: String,
    created: String,
    commit: Option<String>,
    fingerprint: String,
    model: String,
    gate: String,
    gate_hash: String,
    engine: Vec<String>,
    values: BTreeMap<String, Vec<f64>>,
}

pub(super) fn write(entry: &Entry) -> Result<String, FormatError> {
    let Entry {
        key,
        session,
        created,
        commit,
        values,
    } = entry.clone();
    let v1 = V1 {
        format: FORMAT.into(),
        session,
        created,
        commit,
        fingerprint: key.fingerprint,
        model: key.model,
        gate: key.gate,
        gate_hash: key.gate_hash,
        engine: key.engine,
        values,
    };
    check_finite(&v1)?;
    serde_json::to_string_pretty(&v1).map_err(FormatError::Json)
}

pub(super) fn read(text: &str) -> Result<Entry, FormatError> {
    #[derive(Deserialize)]
    struct Version {
        format: String,
    }
    let version: Version = serde_json::from_str(text).map_err(FormatError::Json)?;
    if version.format != FORMAT {
        return Err(FormatError::Version(version.format));
    }
    let v1: V1 = serde_json::from_str(text).map_err(FormatError::Json)?;
    check_finite(&v1)?;
    Ok(Entry {
        key: Key {
            fingerprint: v1.fingerprint,
            model: v1.model,
            gate: v1.gate,
            gate_hash: v1.gate_hash,
            engine: v1.engine,
        },
        session: v1.session,
        created: v1.created,
        commit: v1.commit,
        values: v1.values,
    })
}

/// JSON has no NaN: such a value would be written as `null` and lost.
fn check_finite(v1: &V1) -> Result<(), FormatError> {
    for (check, values) in &v1.values {
        if let Some(value) = values.iter().find(|v| !v.is_finite()) {
            return Err(FormatError::NotFinite {
                check: check.clone(),
                value: *value,
            });
        }
    }
    Ok(())
}
