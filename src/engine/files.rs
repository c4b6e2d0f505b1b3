//! Files of a model: a Hugging Face directory on disk, or the copy inside the binary.
//!
//! Main type: [`Files`]. Everything above it reads a model by file name, so that both sources go through
//! one loading path. Refuses to know: what is in the files.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::Mmap;

use super::synthetic::Synthetic;

/// The file that every model directory has.
const CONFIG: &str = "config.json";

/// Which model to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelSource {
    /// A Hugging Face model directory.
    Directory(PathBuf),
    /// The small trained model inside the binary.
    Embedded,
    /// Random weights of a true shape.
    Synthetic(Synthetic),
}

/// A file of the model could not be had.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error(
        "model directory {} does not exist; give a directory on this machine: nothing is downloaded by a hub's name",
        path.display()
    )]
    NoDirectory { path: PathBuf },
    #[error("{} is a file; give the model directory that holds config.json", path.display())]
    IsFile { path: PathBuf },
    #[error("{} is no model directory: it has no config.json; give the folder that holds it", path.display())]
    NoModel { path: PathBuf },
    #[error("{} is missing; download the whole model directory again", path.display())]
    Missing { path: PathBuf },
    #[error("{} is no regular file; download the whole model directory again", path.display())]
    NotRegular { path: PathBuf },
    #[error("{} cannot be read", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} is not valid UTF-8", path.display())]
    NotText { path: PathBuf },
}

/// A model's files by name.
#[derive(Clone, Debug)]
pub enum Files {
    Directory(PathBuf),
    Embedded(&'static [(&'static str, &'static [u8])]),
}

/// A whole file's bytes, cheap to clone and to keep.
#[derive(Clone)]
pub enum Bytes {
    Mapped(Arc<Mmap>),
    Static(&'static [u8]),
}

impl Bytes {
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Static(bytes) => bytes,
        }
    }
}

impl Files {
    pub fn open(source: &ModelSource) -> Result<Self, FileError> {
        match source {
            ModelSource::Directory(path) => Self::in_directory(path.clone()),
            ModelSource::Embedded => Ok(Self::Embedded(super::embedded::FILES)),
            ModelSource::Synthetic(model) => Ok(Self::Embedded(model.files())),
        }
    }

    fn in_directory(path: PathBuf) -> Result<Self, FileError> {
        match path.metadata() {
            Ok(it) if it.is_dir() && !path.join(CONFIG).exists() => {
                Err(FileError::NoModel { path })
            }
            Ok(it) if it.is_dir() => Ok(Self::Directory(path)),
            Ok(_) => Err(FileError::IsFile { path }),
            Err(_) => Err(FileError::NoDirectory { path }),
        }
    }

    /// The file's place as messages name it.
    pub fn path(&self, name: &str) -> PathBuf {
        match self {
            Self::Directory(directory) => directory.join(name),
            Self::Embedded(_) => Path::new("(embedded model)").join(name),
        }
    }

    pub fn has(&self, name: &str) -> bool {
        match self {
            Self::Directory(directory) => directory.join(name).is_file(),
            Self::Embedded(files) => files.iter().any(|(file, _)| *file == name),
        }
    }

    /// A small file, read whole.
    pub fn read(&self, name: &str) -> Result<Cow<'static, [u8]>, FileError> {
        match self {
            Self::Directory(_) => {
                let path = self.regular(name)?;
                let bytes = std::fs::read(path).map_err(|source| self.error(name, source))?;
                Ok(Cow::Owned(bytes))
            }
            Self::Embedded(_) => self.embedded(name).map(Cow::Borrowed),
        }
    }

    pub fn read_text(&self, name: &str) -> Result<String, FileError> {
        String::from_utf8(self.read(name)?.into_owned()).map_err(|_| FileError::NotText {
            path: self.path(name),
        })
    }

    /// A large file, memory-mapped where it is on disk.
    pub fn map(&self, name: &str) -> Result<Bytes, FileError> {
        let Self::Directory(_) = self else {
            return self.embedded(name).map(Bytes::Static);
        };
        let file = File::open(self.regular(name)?).map_err(|source| self.error(name, source))?;
        #[expect(
            unsafe_code,
            reason = "a memory map is the only way to read weights without a copy"
        )]
        // SAFETY: the map is private and read-only. The one hazard, another process that truncates the
        // file while it is mapped, is confined to start-up: the backend copies every tensor it keeps.
        let map = unsafe { Mmap::map(&file) }.map_err(|source| self.error(name, source))?;
        Ok(Bytes::Mapped(Arc::new(map)))
    }

    /// The path of what can be opened: a pipe that nobody writes to would hold the start for ever.
    fn regular(&self, name: &str) -> Result<PathBuf, FileError> {
        let path = self.path(name);
        let found = std::fs::metadata(&path).map_err(|source| self.error(name, source))?;
        match found.is_file() {
            true => Ok(path),
            false => Err(FileError::NotRegular { path }),
        }
    }

    fn embedded(&self, name: &str) -> Result<&'static [u8], FileError> {
        let Self::Embedded(files) = self else {
            return Err(FileError::Missing {
                path: self.path(name),
            });
        };
        files
            .iter()
            .find(|(file, _)| *file == name)
            .map(|(_, bytes)| *bytes)
            .ok_or_else(|| FileError::Missing {
                path: self.path(name),
            })
    }

    fn error(&self, name: &str, source: io::Error) -> FileError {
        let path = self.path(name);
        match source.kind() {
            io::ErrorKind::NotFound => FileError::Missing { path },
            _ => FileError::Unreadable { path, source },
        }
    }
}
