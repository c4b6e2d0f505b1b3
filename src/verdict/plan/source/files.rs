//! Files of a plan: from a directory, or from those that a record kept.

#![expect(clippy::disallowed_methods, reason = "reads a project's gate files")]

use crate::record::Input;
use std::fs;
use std::io;
use std::path::Path;

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
        let text = fs::read_to_string(self.root.join(path))?;
        self.read.push(Input {
            path: path.to_owned(),
            text: text.clone(),
        });
        Ok(text)
    }
}

impl Files for &[Input] {
    fn read(&mut self, path: &str) -> io::Result<String> {
        let known = self.iter().find(|input| input.path == path);
        known
            .map(|input| input.text.clone())
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the record does not hold it"))
    }
}
