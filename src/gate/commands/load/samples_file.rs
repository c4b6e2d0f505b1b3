//! The file of raw samples, one JSON object a line, written while a load runs.
//!
//! Main type: [`SamplesFile`].

use crate::session::files::sync;
use crate::session::{Error, ResultsError};
use std::fs::{File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempPath;
use verdict::record::Sample;

/// A file beside its place until the first step is done.
#[derive(Debug)]
pub struct SamplesFile {
    path: PathBuf,
    folder: PathBuf,
    /// `None` once it has its name.
    partial: Option<TempPath>,
    lines: BufWriter<File>,
    /// The first line that could not be written.
    failed: Option<io::Error>,
}

impl SamplesFile {
    /// Begins a file that can be written: known before anything is sent, since a long run would otherwise be in vain.
    ///
    /// # Errors
    /// What is no name of a file, and a folder in which no file can be made.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let refused = |cause| Error::Usage(format!("--out {}: {cause}", path.display()));
        let name = path.file_name().and_then(|name| name.to_str());
        if name.is_none() || path.is_dir() {
            return Err(refused("that is no name of a file; give one"));
        }
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        if !folder.is_dir() {
            return Err(refused("there is no such folder; create it"));
        }
        let partial = tempfile::Builder::new()
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder);
        let (file, partial) = partial
            .map_err(|source| unwritten(path, source))?
            .into_parts();
        Ok(Self {
            path: path.to_owned(),
            folder: folder.to_owned(),
            partial: Some(partial),
            lines: BufWriter::new(file),
            failed: None,
        })
    }

    /// Adds a line for each. A failure is reported by [`Self::publish`]: the load goes on.
    pub fn write(&mut self, samples: &[Sample]) {
        if self.failed.is_none() {
            self.failed = self.put(samples).err();
        }
    }

    fn put(&mut self, samples: &[Sample]) -> io::Result<()> {
        for sample in samples {
            serde_json::to_writer(&mut self.lines, sample)?;
            self.lines.write_all(b"\n")?;
        }
        Ok(())
    }

    /// Brings what was written to the disk, and the first time gives the file its name, in the place of an older one.
    ///
    /// # Errors
    /// What cannot be written, now or before.
    pub fn publish(&mut self) -> Result<(), Error> {
        let mut publish = || {
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            self.lines.flush()?;
            self.lines.get_ref().sync_all()?;
            if let Some(partial) = self.partial.take() {
                partial.persist(&self.path)?;
                sync(&self.folder)?;
            }
            Ok(())
        };
        publish().map_err(|source| unwritten(&self.path, source))
    }
}

fn unwritten(path: &Path, source: io::Error) -> Error {
    let path = path.to_path_buf();
    ResultsError::Write { path, source }.into()
}

#[cfg(test)]
mod tests {
    use super::SamplesFile;
    use verdict::record::{RunRecord, Sample};

    #[test]
    fn a_file_has_its_name_once_a_step_is_done_and_holds_every_sample() {
        let text = include_str!("../../../../tests/data/run-v1.json");
        let record: RunRecord = serde_json::from_str(text).unwrap();
        let samples = &record.launches[0].samples;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("samples.jsonl");
        std::fs::write(&path, "older").unwrap();
        let held = || std::fs::read_to_string(&path).unwrap();
        drop(SamplesFile::create(&path).unwrap());
        let mut file = SamplesFile::create(&path).unwrap();
        file.write(&samples[..2]);
        assert_eq!(held(), "older");
        file.publish().unwrap();
        file.write(&samples[2..4]);
        file.publish().unwrap();
        let read = |line: &str| serde_json::from_str::<Sample>(line).unwrap();
        let read: Vec<Sample> = held().lines().map(read).collect();
        assert_eq!(read, samples[..4]);
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 1, "nothing else is left in the folder");
    }
}
