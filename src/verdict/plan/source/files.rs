//! Files of a plan: from a directory, or from those that a record kept.

#![expect(clippy::disallowed_methods, reason = "reads a project's gate files")]

use crate::record::Input;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where the plan's files come from: a directory, or an earlier record.
pub trait Files {
    /// Text of a file, by path relative to the project's root.
    fn read(&mut self, path: &str) -> io::Result<String>;
}

/// Reads from disk and keeps what it read, for the record.
pub struct Disk<'a> {
    root: &'a Path,
    read: Vec<Input>,
}

impl<'a> Disk<'a> {
    pub fn new(root: &'a Path) -> Self {
        Self {
            root,
            read: Vec::new(),
        }
    }

    /// Every file that was read, in that order.
    pub fn into_inputs(self) -> Vec<Input> {
        self.read
    }
}

impl Files for Disk<'_> {
    fn read(&mut self, path: &str) -> io::Result<String> {
        if let Some(known) = self.read.iter().find(|input| input.path == path) {
            return Ok(known.text.clone());
        }
        let text = fs::read_to_string(regular(self.root, path)?)?;
        self.read.push(Input {
            path: path.to_owned(),
            text: text.clone(),
        });
        Ok(text)
    }
}

/// The place of a regular file of the project. A link may lead to one; a pipe would be waited for, and what lies outside
/// the project is not its own to show.
fn regular(root: &Path, path: &str) -> io::Result<PathBuf> {
    let place = root.join(path).canonicalize()?;
    if !place.starts_with(root.canonicalize()?) {
        let text = "it is a link that leads out of the project: put the file itself there";
        return Err(io::Error::other(text));
    }
    if !fs::metadata(&place)?.is_file() {
        let text = "it is no regular file: put a file of text there";
        return Err(io::Error::other(text));
    }
    Ok(place)
}

impl Files for &[Input] {
    fn read(&mut self, path: &str) -> io::Result<String> {
        let known = self.iter().find(|input| input.path == path);
        known
            .map(|input| input.text.clone())
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the record does not hold it"))
    }
}
