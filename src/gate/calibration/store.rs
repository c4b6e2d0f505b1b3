//! Certificates in a directory: one file a machine, engine and gate, replaced whole by a newer one.

use super::{CALIBRATION_FORMAT, Certificate};
use crate::baseline::Key;
use serde::Deserialize;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use verdict::digest;

/// Hex digits of a key in a file's name.
const DIGITS: usize = 16;

#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("cannot use the calibration directory {}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is not a certificate of `gate calibrate`", path.display())]
    Json {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("{} has the format `{format}`, this gate reads `{CALIBRATION_FORMAT}`", path.display())]
    Format { path: PathBuf, format: String },
}

/// The certificates of a project.
#[derive(Clone, Debug)]
pub struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    pub fn open(folder: &Path) -> Self {
        Self {
            folder: folder.to_path_buf(),
        }
    }

    /// Stores a certificate; an older one of the same key and profile is replaced. Returns its path.
    pub fn put(&self, certificate: &Certificate) -> Result<PathBuf, CertificateError> {
        let path = self.path_of(&certificate.key, &certificate.profile);
        let failed = |source| CertificateError::Io {
            path: path.clone(),
            source,
        };
        let text = serde_json::to_string_pretty(certificate).map_err(|e| failed(e.into()))?;
        (|| {
            fs::create_dir_all(&self.folder)?;
            let mut file = tempfile::Builder::new()
                .permissions(fs::Permissions::from_mode(0o666))
                .tempfile_in(&self.folder)?;
            file.write_all(text.as_bytes())?;
            file.write_all(b"\n")?;
            file.as_file().sync_all()?;
            file.persist(&path).map_err(|error| error.error)?;
            fs::File::open(&self.folder)?.sync_all()
        })()
        .map_err(failed)?;
        Ok(path)
    }

    /// Every certificate of a gate, of whatever machine, oldest first.
    pub fn of_gate(&self, gate: &str) -> Result<Vec<Certificate>, CertificateError> {
        self.those(|path| is_of(path, gate))
    }

    fn those(
        &self,
        is_wanted: impl Fn(&Path) -> bool,
    ) -> Result<Vec<Certificate>, CertificateError> {
        let failed = |source| CertificateError::Io {
            path: self.folder.clone(),
            source,
        };
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            if is_wanted(&path) {
                found.push(read(&path)?);
            }
        }
        found.sort_by(|a, b| a.created.cmp(&b.created));
        Ok(found)
    }

    fn path_of(&self, key: &Key, profile: &str) -> PathBuf {
        self.folder
            .join(format!("{}.json", folder_name(key, profile)))
    }

    /// Every certificate, of whatever gate and machine, oldest first.
    pub fn all(&self) -> Result<Vec<Certificate>, CertificateError> {
        self.those(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
    }

    /// When the certificate of this key and profile was made, where there is one.
    pub fn created(&self, key: &Key, profile: &str) -> Result<Option<String>, CertificateError> {
        let path = self.path_of(key, profile);
        if !path.exists() {
            return Ok(None);
        }
        Ok(Some(read(&path)?.created))
    }
}

/// `GATE-0123456789abcdef`: what a certificate is known by.
pub fn folder_name(key: &Key, profile: &str) -> String {
    let engine = key.engine.join("\0");
    let parts = [
        &key.fingerprint,
        &key.model,
        &key.gate_hash,
        &engine,
        profile,
    ];
    let hash = digest::of_parts(parts.map(str::as_bytes));
    format!("{}-{}", key.gate, &hash[..DIGITS])
}

/// `GATE-0123456789abcdef.json`: a gate's name may begin like another's.
fn is_of(path: &Path, gate: &str) -> bool {
    let digits = path
        .file_name()
        .and_then(|name| name.to_str())
        .and_then(|name| {
            name.strip_prefix(gate)?
                .strip_prefix('-')?
                .strip_suffix(".json")
        });
    digits.is_some_and(|digits| {
        digits.len() == DIGITS && digits.bytes().all(|b| b.is_ascii_hexdigit())
    })
}

fn read(path: &Path) -> Result<Certificate, CertificateError> {
    #[derive(Deserialize)]
    struct Version {
        format: String,
    }
    let path = path.to_path_buf();
    let text = fs::read_to_string(&path).map_err(|source| CertificateError::Io {
        path: path.clone(),
        source,
    })?;
    let not_json = |source| CertificateError::Json {
        path: path.clone(),
        source,
    };
    let version: Version = serde_json::from_str(&text).map_err(not_json)?;
    if version.format != CALIBRATION_FORMAT {
        let format = version.format;
        return Err(CertificateError::Format { path, format });
    }
    serde_json::from_str(&text).map_err(not_json)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate() -> Certificate {
        serde_json::from_str(include_str!("../../../tests/data/calibration-v1.json")).unwrap()
    }

    #[test]
    fn the_frozen_format_reads_and_writes_to_the_byte() {
        let folder = tempfile::tempdir().unwrap();
        let path = Certificates::open(folder.path())
            .put(&certificate())
            .unwrap();
        let frozen = include_str!("../../../tests/data/calibration-v1.json");
        assert_eq!(fs::read_to_string(path).unwrap(), frozen);
    }

    #[test]
    fn a_newer_certificate_takes_the_place_of_the_older() {
        let folder = tempfile::tempdir().unwrap();
        let store = Certificates::open(folder.path());
        let mut newer = certificate();
        newer.created = "2099-01-01T00:00:00Z".into();
        let paths = [&certificate(), &newer].map(|c| store.put(c).unwrap());
        assert_eq!(paths[0], paths[1]);
        assert_eq!(store.of_gate("tpot").unwrap(), [newer]);
    }

    #[test]
    fn another_machine_and_another_gate_have_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let store = Certificates::open(folder.path());
        store.put(&certificate()).unwrap();
        let mut other = certificate();
        other.key.fingerprint.push('!');
        store.put(&other).unwrap();
        other.key.gate = "tpot-curve".into();
        store.put(&other).unwrap();
        assert_eq!(store.of_gate("tpot").unwrap().len(), 2);
        assert_eq!(store.of_gate("tpot-curve").unwrap(), [other]);
        assert_eq!(store.of_gate("e2e").unwrap(), []);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let store = Certificates::open(folder.path());
        let path = store.put(&certificate()).unwrap();
        for (text, part) in [
            ("{", "is not a certificate"),
            (r#"{"format":"infergate-calibration/9"}"#, "calibration/9"),
            (
                r#"{"format":"infergate-calibration/1"}"#,
                "is not a certificate",
            ),
        ] {
            fs::write(&path, text).unwrap();
            let error = store.of_gate("tpot").unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("tpot-"), "{error}");
        }
    }
}
