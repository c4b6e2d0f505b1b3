//! A store in a directory: one immutable file an entry, written beside its place and renamed into it.

use super::admit::RefusedRecord;
use super::bounds::MOST_BYTES;
use super::entry::{Entry, Key};
use super::format::{self, FormatError};
use super::name::{Kind, NOTES, NameError, RecordName};
use super::note::{self, Note};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use verdict::digest;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot use the baseline store {}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("the baseline record {} cannot be read", path.display())]
    Format { path: PathBuf, source: FormatError },
    #[error("the note {} cannot be read", path.display())]
    Note {
        path: PathBuf,
        source: Box<RefusedRecord>,
    },
}

/// A directory of entries.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    pub fn open(folder: &Path) -> Self {
        Self {
            folder: folder.to_path_buf(),
        }
    }

    /// Adds an entry; never changes one that is there. Returns its path.
    pub fn add(&self, entry: &Entry) -> Result<PathBuf, StoreError> {
        let folder = self.folder_of(&entry.key);
        let failed = |source| StoreError::Io {
            path: folder.clone(),
            source,
        };
        let text = format::write(entry).map_err(|source| StoreError::Format {
            path: folder.clone(),
            source,
        })?;
        fs::create_dir_all(&folder).map_err(failed)?;
        let path = folder.join(format!("{}.json", entry.session));
        let mut file = readable_by_all().tempfile_in(&folder).map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist_noclobber(&path)
            .map_err(|error| failed(error.error))?;
        Ok(path)
    }

    /// Entries of one key, oldest first.
    pub fn find(&self, key: &Key) -> Result<Vec<Entry>, StoreError> {
        let mut entries = read_folder(&self.folder_of(key))?;
        entries.retain(|(_, entry)| entry.key == *key);
        Ok(entries.into_iter().map(|(_, entry)| entry).collect())
    }

    /// All entries with their paths, oldest first.
    pub fn list(&self) -> Result<Vec<(PathBuf, Entry)>, StoreError> {
        let mut all = Vec::new();
        for folder in folders(&self.folder)? {
            all.extend(read_folder(&folder)?);
        }
        all.sort_by(|a, b| (&a.1.created, &a.1.key.gate).cmp(&(&b.1.created, &b.1.key.gate)));
        Ok(all)
    }

    /// The names of all records, unread; files that no record can be called are passed over.
    pub fn names(&self) -> Result<Vec<RecordName>, StoreError> {
        let mut names = Vec::new();
        // What was downloaded into place may hold links, which would lead out of it.
        let is_link = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|m| m.is_symlink());
        let notes = self.folder.join(NOTES);
        // A link for the folder of notes would lead out of it as well.
        let notes = match is_link(&notes) {
            true => Vec::new(),
            false => folders(&notes)?,
        };
        for folder in folders(&self.folder)?.into_iter().chain(notes) {
            let paths = entries(&folder)?;
            for path in paths
                .iter()
                .filter(|path| !is_link(&folder) && !is_link(path))
            {
                let text = path.strip_prefix(&self.folder).ok().and_then(Path::to_str);
                names.extend(text.and_then(|text| RecordName::parse(text).ok()));
            }
        }
        names.sort();
        Ok(names)
    }

    /// A record as it lies there; no more than `most` bytes of it, and one.
    pub fn bytes(&self, name: &RecordName, most: u64) -> Result<Vec<u8>, StoreError> {
        let path = self.folder.join(name.to_string());
        let read = || {
            let mut bytes = Vec::new();
            fs::File::open(&path)?
                .take(most + 1)
                .read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        read().map_err(|source| StoreError::Io {
            path: path.clone(),
            source,
        })
    }

    /// Adds a note; never changes one that is there. Returns its path.
    pub fn add_note(&self, note: &Note) -> Result<PathBuf, StoreError> {
        let failed = |path: &Path, source: RefusedRecord| StoreError::Note {
            path: path.to_path_buf(),
            source: Box::new(source),
        };
        let text = note.write();
        let text = text.map_err(|error| failed(&self.folder, error.into()))?;
        let name = note.name();
        let name =
            name.map_err(|error| failed(&self.folder, RefusedRecord::Name(error.to_string())))?;
        self.put(&name, text.as_bytes())?;
        Ok(self.folder.join(name.to_string()))
    }

    /// All notes, oldest first. `now` in RFC 3339.
    pub fn notes(&self, now: &str) -> Result<Vec<Note>, StoreError> {
        let names = self.names()?;
        let notes = names.iter().filter(|name| name.kind() == Kind::Note);
        let read = |name: &RecordName| {
            let bytes = self.bytes(name, MOST_BYTES)?;
            note::read(&bytes, now).map_err(|source| StoreError::Note {
                path: self.folder.join(name.to_string()),
                source: Box::new(source),
            })
        };
        let mut notes = notes.map(read).collect::<Result<Vec<Note>, _>>()?;
        notes.sort_by(|a, b| a.created.cmp(&b.created));
        Ok(notes)
    }

    /// Puts these bytes under this name: a record that came from elsewhere, or one that was signed since.
    pub fn put(&self, name: &RecordName, bytes: &[u8]) -> Result<(), StoreError> {
        let path = self.folder.join(name.to_string());
        let folder = path.parent().unwrap_or(&self.folder);
        let write = || {
            fs::create_dir_all(folder)?;
            let mut file = readable_by_all().tempfile_in(folder)?;
            file.write_all(bytes)?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            fs::File::open(folder)?.sync_all()
        };
        write().map_err(|source| StoreError::Io {
            path: folder.to_path_buf(),
            source,
        })
    }

    /// Removes a record, and its folder with the last one.
    pub fn remove(&self, name: &RecordName) -> Result<(), StoreError> {
        let path = self.folder.join(name.to_string());
        fs::remove_file(&path).map_err(|source| StoreError::Io {
            path: path.clone(),
            source,
        })?;
        // Fails while there are others.
        let _ = path.parent().map(fs::remove_dir);
        Ok(())
    }

    fn folder_of(&self, key: &Key) -> PathBuf {
        self.folder.join(folder_name(key))
    }
}

/// The name of an entry's record; none where the gate's or the session's own is no part of a safe one.
pub fn name_of(entry: &Entry) -> Result<RecordName, NameError> {
    RecordName::new(Kind::Session, &folder_name(&entry.key), &entry.session)
}

fn folder_name(key: &Key) -> String {
    let engine = key.engine.join("\0");
    let parts = [&key.fingerprint, &key.model, &key.gate_hash, &engine];
    let hash = digest::of_parts(parts.map(|part| part.as_bytes()));
    format!("{}-{}", key.gate, &hash[..16])
}

/// A store may be shared: the umask alone decides who reads it.
fn readable_by_all() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.permissions(fs::Permissions::from_mode(0o666));
    builder
}

fn folders(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let paths = entries(folder)?;
    Ok(paths.into_iter().filter(|path| path.is_dir()).collect())
}

/// Paths in a folder; none where it does not exist.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let failed = |source| StoreError::Io {
        path: folder.to_path_buf(),
        source,
    };
    match fs::read_dir(folder) {
        Ok(entries) => entries
            .map(|entry| entry.map(|e| e.path()).map_err(failed))
            .collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(failed(error)),
    }
}

fn read_folder(folder: &Path) -> Result<Vec<(PathBuf, Entry)>, StoreError> {
    let mut read = Vec::new();
    for path in entries(folder)? {
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(|source| StoreError::Io {
            path: path.clone(),
            source,
        })?;
        match format::read(&text) {
            Ok(entry) => read.push((path, entry)),
            Err(source) => return Err(StoreError::Format { path, source }),
        }
    }
    read.sort_by(|a, b| a.1.created.cmp(&b.1.created));
    Ok(read)
}

#[cfg(test)]
pub mod tests {
    use super::super::entry::Anchor;
    use super::*;
    use std::collections::BTreeMap;

    pub fn entry(session: &str) -> Entry {
        Entry {
            key: Key {
                fingerprint: "cpu|2|linux".into(),
                model: "tiny".into(),
                gate: "tpot".into(),
                gate_hash: "abc".into(),
                engine: vec!["{artifact}".into(), "serve".into()],
            },
            session: session.into(),
            created: format!("2026-11-21T03:00:0{}Z", session.len() % 10),
            commit: Some("c0ffee".into()),
            profile: Some("full".into()),
            values: BTreeMap::from([("tpot/regression".into(), vec![0.251, 0.1 + 0.2])]),
            anchor: Some(Anchor {
                name: "v0.3.0".into(),
                commit: "0123abcd".into(),
                values: BTreeMap::from([("tpot/regression".into(), vec![0.25])]),
            }),
            spent: None,
            sign_off: None,
        }
    }

    #[test]
    fn what_an_older_gate_wrote_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path());
        let path = store.add(&entry("s1")).unwrap();
        let old = r#"{"format":"infergate-baseline/1","session":"s1","created":"2026-11-21T03:00:02Z",
            "commit":"c0ffee","fingerprint":"cpu|2|linux","model":"tiny","gate":"tpot","gate_hash":"abc",
            "engine":["{artifact}","serve"],"values":{"tpot/regression":[0.251]}}"#;
        fs::write(&path, old).unwrap();
        let read = store.find(&entry("s1").key).unwrap();
        assert_eq!(read.len(), 1);
        assert_eq!((&read[0].profile, &read[0].anchor), (&None, &None));
        assert_eq!(read[0].values["tpot/regression"], [0.251]);
    }

    #[test]
    fn gives_back_what_was_added_bit_for_bit() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path());
        store.add(&entry("s1")).unwrap();
        assert_eq!(store.find(&entry("s1").key).unwrap(), [entry("s1")]);
        assert_eq!(store.list().unwrap().len(), 1);
    }

    #[test]
    fn a_changed_key_finds_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path());
        store.add(&entry("s1")).unwrap();
        let mut key = entry("s1").key;
        key.fingerprint.push_str(" 6.13");
        assert!(store.find(&key).unwrap().is_empty());
    }

    #[test]
    fn two_writers_lose_nothing_and_overwrite_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path());
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let store = &store;
                scope.spawn(move || {
                    for n in 0..10 {
                        store.add(&entry(&format!("w{writer}-{n}"))).unwrap();
                    }
                });
            }
        });
        assert_eq!(store.list().unwrap().len(), 80);
        assert!(store.add(&entry("w0-0")).is_err());
    }

    #[test]
    fn an_unreadable_record_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path());
        let path = store.add(&entry("s1")).unwrap();
        fs::write(&path, r#"{"format":"infergate-baseline/9"}"#).unwrap();
        let error = store.list().unwrap_err().to_string();
        assert!(error.contains("s1.json"), "{error}");
    }

    #[test]
    fn values_that_json_cannot_hold_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut bad = entry("s1");
        bad.values.insert("x/y".into(), vec![f64::NAN]);
        assert!(Store::open(folder.path()).add(&bad).is_err());
        let mut bad = entry("s1");
        let anchor = bad.anchor.as_mut().unwrap();
        anchor.values.insert("x/y".into(), vec![f64::INFINITY]);
        assert!(Store::open(folder.path()).add(&bad).is_err());
    }
}
