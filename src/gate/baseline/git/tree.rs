//! Trees and commits of the store, by plumbing: what a commit holds, and a new one on top of it.
//!
//! Refuses to know: remotes.

use super::super::name::RecordName;
use super::super::remote::Record;
use super::command::{Failure, Git};
use std::fmt::Write as _;

/// Mode of an ordinary file; everything else (a link, a program, a submodule) is no record.
const FILE: &str = "100644";

/// The newest commit of a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tip(pub String);

/// What a commit is to add to the tree and to take from it.
#[derive(Default)]
pub struct Change<'a> {
    pub add: Vec<&'a Record>,
    /// Under names that are there.
    pub replace: Vec<&'a Record>,
    pub remove: Vec<&'a RecordName>,
}

impl Change<'_> {
    pub fn is_empty(&self) -> bool {
        self.add.is_empty() && self.replace.is_empty() && self.remove.is_empty()
    }

    /// The commit's subject.
    fn says(&self) -> String {
        let count = |n: usize| match n {
            1 => "1 record".to_owned(),
            n => format!("{n} records"),
        };
        let parts = [
            ("Add", self.add.len()),
            ("Sign", self.replace.len()),
            ("Remove", self.remove.len()),
        ];
        let parts = parts.iter().filter(|(_, n)| *n > 0);
        let parts: Vec<String> = parts
            .map(|(verb, n)| format!("{verb} {}", count(*n)))
            .collect();
        parts.join(", ")
    }
}

/// A file of a commit's tree.
pub struct TreeFile {
    mode: String,
    pub id: String,
    pub bytes: u64,
    pub path: String,
}

impl TreeFile {
    /// Why it is no record, whatever its name.
    pub fn why_not(&self) -> Option<&'static str> {
        match self.mode.as_str() {
            FILE => None,
            "120000" => Some("it is a symbolic link"),
            "160000" => Some("it is a submodule"),
            _ => Some("it is no ordinary file"),
        }
    }
}

/// Whether the commit's objects are in the repository.
pub fn is_here(git: &Git, tip: &Tip) -> bool {
    git.run(&["cat-file", "-e", &format!("{}^{{tree}}", tip.0)])
        .is_ok()
}

pub fn files(git: &Git, tip: &Tip) -> Result<Vec<TreeFile>, Failure> {
    let listed = git.run(&["ls-tree", "-r", "-l", "-z", "--full-tree", &tip.0])?;
    let lines = listed
        .split(|byte| *byte == 0)
        .filter(|line| !line.is_empty());
    Ok(lines.filter_map(file).collect())
}

/// `MODE TYPE ID SIZE<tab>PATH`.
fn file(line: &[u8]) -> Option<TreeFile> {
    let line = String::from_utf8_lossy(line);
    let (facts, path) = line.split_once('\t')?;
    let mut facts = facts.split_ascii_whitespace();
    let (mode, _, id, bytes) = (facts.next()?, facts.next()?, facts.next()?, facts.next()?);
    Some(TreeFile {
        mode: mode.to_owned(),
        id: id.to_owned(),
        // A submodule has none.
        bytes: bytes.parse().unwrap_or(0),
        path: path.to_owned(),
    })
}

/// The contents of these objects, by one git for all of them.
pub fn read(git: &Git, ids: &[(RecordName, String)]) -> Result<Vec<Record>, Failure> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let asked: String = ids.iter().fold(String::new(), |mut text, (_, id)| {
        let _ = writeln!(text, "{id}");
        text
    });
    let answer = git.feed(&["cat-file", "--batch"], None, asked.as_bytes())?;
    let mut rest = answer.as_slice();
    let mut records = Vec::new();
    for (name, id) in ids {
        let (content, after) =
            object(rest, id).ok_or_else(|| Failure::Said(format!("git has no object {id}")))?;
        records.push((name.clone(), content.to_vec()));
        rest = after;
    }
    Ok(records)
}

/// `ID TYPE SIZE<newline>CONTENT<newline>`, and what follows.
fn object<'a>(answer: &'a [u8], id: &str) -> Option<(&'a [u8], &'a [u8])> {
    let end = answer.iter().position(|byte| *byte == b'\n')?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let mut facts = head.split(' ');
    if facts.next() != Some(id) || facts.next() != Some("blob") {
        return None;
    }
    let size: usize = facts.next()?.parse().ok()?;
    let body = &answer[end + 1..];
    Some((body.get(..size)?, body.get(size + 1..)?))
}

/// A commit on `tip` with the change made; the first of its branch where there is none. Nothing but objects is
/// written.
pub fn commit(git: &Git, tip: Option<&Tip>, change: &Change<'_>) -> Result<String, Failure> {
    let folder = tempfile::tempdir().map_err(Failure::Missing)?;
    let index = folder.path().join("index");
    let index = Some(index.as_path());
    if let Some(tip) = tip {
        git.feed(&["read-tree", &tip.0], index, &[])?;
    }
    let mut entries = Vec::new();
    for (name, bytes) in change.add.iter().chain(&change.replace) {
        let id = git.feed(&["hash-object", "-w", "--stdin"], None, bytes)?;
        let id = line(&id);
        entries.extend_from_slice(format!("{FILE} {id}\t{name}\0").as_bytes());
    }
    for name in &change.remove {
        let zero = "0".repeat(40);
        entries.extend_from_slice(format!("0 {zero}\t{name}\0").as_bytes());
    }
    git.feed(&["update-index", "-z", "--index-info"], index, &entries)?;
    let tree = line(&git.feed(&["write-tree"], index, &[])?);
    let mut arguments = vec!["commit-tree", tree.as_str()];
    if let Some(tip) = tip {
        arguments.extend(["-p", tip.0.as_str()]);
    }
    let made = git.feed(&arguments, None, change.says().as_bytes())?;
    Ok(line(&made))
}

fn line(output: &[u8]) -> String {
    String::from_utf8_lossy(output).trim().to_owned()
}
