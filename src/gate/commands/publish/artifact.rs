//! A result directory that another machine handed back, read as hostile input.
//!
//! That machine ran a pull request's code. Of its directory only files of known names are read, none through a link,
//! none beyond its bound, and `run.json` must be a record of ours to the last key. Main function: [`read`]. Refuses to
//! know: what is believed of it (`trusted.rs`).

use super::form::{self, Fault};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use verdict::record::{Ending, Extent, MERGED_FORMAT, RUN_FORMAT, RunRecord};

/// Bytes of `run.json`: a streamed token takes up to 14 in a session of an hour, so that this is 18 million.
const RECORD: u64 = 256 << 20;
const VERDICT: u64 = 8 << 20;
/// Of what standard error said the end is read.
const FAILURE: u64 = 1 << 20;
/// Bytes of any file, and of all.
const FILE: u64 = 512 << 20;
const ALL: u64 = 2 << 30;
const FILES: usize = 25_000;

const FILES_KNOWN: [&str; 7] = [
    ".gitignore",
    "run.json",
    "verdict.json",
    "report.md",
    "report.html",
    "junit.xml",
    "failure.txt",
];
const FOLDERS_KNOWN: [&str; 2] = ["logs", "launches"];

/// Why an artifact is not believed. `Display` is a clause that may hold names from the artifact, cleaned and cut.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("`{0}` is no name that a result directory has")]
    UnknownName(String),
    #[error("`{0}` is a link or no plain file")]
    NotPlain(String),
    #[error("`{name}` has {bytes} bytes, more than {most}")]
    TooLarge { name: String, bytes: u64, most: u64 },
    #[error("it has more than {FILES} files")]
    TooMany,
    #[error("run.json is no run record: {0}")]
    NoRecord(String),
    #[error("run.json has the format `{0}`, this gate reads `{RUN_FORMAT}` and `{MERGED_FORMAT}`")]
    Format(String),
    #[error("{0}, which no record of this gate has")]
    UnknownKey(String),
    #[error("{0}")]
    Unsound(String),
}

/// What stood in the directory.
#[derive(Debug, Default)]
pub struct Artifact {
    pub record: Option<RunRecord>,
    /// What standard error said where nothing was measured.
    pub failure: Option<String>,
    pub claim: Option<Claim>,
}

/// What the artifact says that its verdict is. Nothing depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    pub verdict: String,
    /// Check id → verdict.
    pub checks: BTreeMap<String, String>,
}

/// Reads it. A directory that is not there is an artifact with nothing in it. `scrub` takes our own secret out of a
/// text, before anything is made of it.
pub fn read(directory: &Path, scrub: &dyn Fn(&str) -> String) -> Result<Artifact, Refusal> {
    if !directory.exists() {
        return Ok(Artifact::default());
    }
    names(directory)?;
    let text = |name: &str, most| {
        let text = bounded_text(directory, name, most)?;
        Ok::<_, Refusal>(text.map(|text| scrub(&text)))
    };
    let record = match text("run.json", RECORD)? {
        Some(text) => Some(record(&text)?),
        None => None,
    };
    Ok(Artifact {
        // Who died before the end has judged nothing, and other files of it are not read for more.
        record: record.filter(|record| record.ending != Ending::Unfinished),
        failure: text("failure.txt", FAILURE)?,
        claim: text("verdict.json", VERDICT)?.map(|text| claim(&text)),
    })
}

/// Walks the directory: names, kinds, sizes, numbers.
fn names(directory: &Path) -> Result<(), Refusal> {
    let (mut count, mut bytes) = (0, 0);
    for (name, path) in entries(directory)? {
        let kind = kind(&path)?;
        if kind.is_dir() && FOLDERS_KNOWN.contains(&name.as_str()) {
            for (inner, path) in entries(&path)? {
                take(&format!("{name}/{inner}"), &path, &mut count, &mut bytes)?;
            }
        } else if FILES_KNOWN.contains(&name.as_str()) {
            take(&name, &path, &mut count, &mut bytes)?;
        } else {
            return Err(Refusal::UnknownName(name));
        }
    }
    Ok(())
}

fn take(name: &str, path: &Path, count: &mut usize, bytes: &mut u64) -> Result<(), Refusal> {
    let kind = kind(path)?;
    if !kind.is_file() {
        return Err(Refusal::NotPlain(name.to_owned()));
    }
    *count += 1;
    *bytes += kind.len();
    if *count > FILES {
        return Err(Refusal::TooMany);
    }
    let too_large = |bytes, most| Refusal::TooLarge {
        name: name.to_owned(),
        bytes,
        most,
    };
    if kind.len() > FILE {
        return Err(too_large(kind.len(), FILE));
    }
    if *bytes > ALL {
        return Err(too_large(*bytes, ALL));
    }
    Ok(())
}

/// What an entry itself is; no link is followed.
fn kind(path: &Path) -> Result<fs::Metadata, Refusal> {
    path.symlink_metadata()
        .map_err(|source| Refusal::Unreadable {
            path: path.to_path_buf(),
            source,
        })
}

/// Names, cleaned for a sentence, and paths.
fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>, Refusal> {
    let failed = |source| Refusal::Unreadable {
        path: folder.to_path_buf(),
        source,
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.chars().filter(|c| !c.is_control()).take(80).collect();
        found.push((name, path));
        if found.len() > FILES {
            return Err(Refusal::TooMany);
        }
    }
    found.sort();
    Ok(found)
}

/// A file's text; `None` where there is none. Its size is held while it is read, not only before.
fn bounded_text(directory: &Path, name: &str, most: u64) -> Result<Option<String>, Refusal> {
    let path = directory.join(name);
    let failed = |source| Refusal::Unreadable {
        path: path.clone(),
        source,
    };
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut bytes = Vec::new();
    file.take(most + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > most {
        let bytes = kind(&path)?.len();
        return Err(Refusal::TooLarge {
            name: name.to_owned(),
            bytes,
            most,
        });
    }
    // A log is bytes; a record that is no UTF-8 is no record, and says so when it is read.
    let text = String::from_utf8(bytes);
    Ok(Some(text.unwrap_or_else(|error| {
        String::from_utf8_lossy(error.as_bytes()).into_owned()
    })))
}

fn record(text: &str) -> Result<RunRecord, Refusal> {
    let no_record = |error: serde_json::Error| Refusal::NoRecord(error.to_string());
    // Before anything is built of it: a text of this length can be read to gigabytes.
    form::bounded(text)?;
    let format = format(text)?;
    if format != RUN_FORMAT && format != MERGED_FORMAT {
        let format = format
            .chars()
            .filter(|c| !c.is_control())
            .take(60)
            .collect();
        return Err(Refusal::Format(format));
    }
    let mut record: RunRecord = serde_json::from_str(text).map_err(no_record)?;
    // A format says what a record is of; one that is of something else was made up.
    let is_merged = matches!(record.extent, Extent::Merged { .. });
    if is_merged != (format == MERGED_FORMAT) {
        let why = format!("its format {format} is not that of what it holds");
        return Err(Refusal::Unsound(why));
    }
    let launches = std::mem::take(&mut record.launches);
    let frame = serde_json::to_value(&record).map_err(no_record)?;
    form::unknown_key(
        text,
        &form::Read {
            frame: &frame,
            list: "launches",
            item: &|i| serde_json::to_value(launches.get(i)?).ok(),
        },
    )?;
    record.launches = launches;
    Ok(record)
}

/// The format that a record says it has; `none` where it says nothing.
fn format(text: &str) -> Result<String, Refusal> {
    #[derive(Deserialize)]
    struct Named {
        format: Option<String>,
    }
    let named: Named =
        serde_json::from_str(text).map_err(|error| Refusal::NoRecord(error.to_string()))?;
    Ok(named.format.unwrap_or_else(|| "none".to_owned()))
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        match fault {
            // serde_json itself refuses numbers that no f64 holds.
            Fault::NotJson(error) => Self::NoRecord(error.to_string()),
            Fault::Beyond(what) => Self::Unsound(what),
            Fault::UnknownKey(place) => Self::UnknownKey(place),
        }
    }
}

/// The claimed verdict; whatever cannot be read is the claim of nothing.
fn claim(text: &str) -> Claim {
    #[derive(Default, Deserialize)]
    struct WorkflowRun {
        #[serde(default)]
        verdict: String,
        #[serde(default)]
        gates: Vec<Gate>,
    }
    #[derive(Deserialize)]
    struct Gate {
        #[serde(default)]
        checks: Vec<Check>,
    }
    #[derive(Deserialize)]
    struct Check {
        id: String,
        verdict: String,
    }
    let run: WorkflowRun = serde_json::from_str(text).unwrap_or_default();
    let checks = run.gates.into_iter().flat_map(|gate| gate.checks);
    Claim {
        verdict: run.verdict,
        checks: checks.map(|check| (check.id, check.verdict)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const RUN: &str = include_str!("../../../../tests/data/run-v1.json");

    fn refused(prepare: impl Fn(&Path)) -> String {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("run.json"), RUN).unwrap();
        fs::write(folder.path().join(".gitignore"), "*\n").unwrap();
        prepare(folder.path());
        read(folder.path(), &str::to_owned)
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    }

    #[test]
    fn a_record_of_ours_is_read() {
        assert_eq!(refused(|_| ()), "");
        let nothing = read(Path::new("no such folder"), &str::to_owned).unwrap();
        assert!(nothing.record.is_none() && nothing.failure.is_none());
    }

    #[test]
    fn what_does_not_belong_is_refused_by_name() {
        let check = |prepare: &dyn Fn(&Path), expect: &str| assert_eq!(refused(prepare), expect);
        check(
            &|dir| fs::write(dir.join(".bashrc"), "").unwrap(),
            "`.bashrc` is no name that a result directory has",
        );
        check(
            &|dir| fs::create_dir(dir.join("more")).unwrap(),
            "`more` is no name that a result directory has",
        );
        check(
            &|dir| symlink("/etc/passwd", dir.join("failure.txt")).unwrap(),
            "`failure.txt` is a link or no plain file",
        );
        check(
            &|dir| symlink("/etc", dir.join("logs")).unwrap(),
            "`logs` is no name that a result directory has",
        );
        check(
            &|dir| {
                fs::create_dir(dir.join("logs")).unwrap();
                symlink("/etc/passwd", dir.join("logs/engine.log")).unwrap();
            },
            "`logs/engine.log` is a link or no plain file",
        );
        check(
            &|dir| {
                let file = File::create(dir.join("report.md")).unwrap();
                file.set_len(FILE + 1).unwrap();
            },
            "`report.md` has 536870913 bytes, more than 536870912",
        );
        check(
            &|dir| {
                File::create(dir.join("run.json"))
                    .unwrap()
                    .set_len(RECORD + 1)
                    .unwrap()
            },
            "`run.json` has 268435457 bytes, more than 268435456",
        );
    }

    #[test]
    fn a_record_of_another_form_is_refused() {
        let check = |text: &str, expect: &str| {
            let said = refused(|dir| fs::write(dir.join("run.json"), text).unwrap());
            assert!(said.contains(expect) && said.len() < 400, "{said}");
        };
        check("", "EOF while parsing");
        check(&"[".repeat(100_000), "is nested too deeply");
        let flood = format!("[{}0]", "{\"\":0},".repeat(2_000_000));
        check(&flood, "`1000000` is one object too many");
        check(
            "{\"format\": \"infergate-run/9\"}",
            "`infergate-run/9`, this gate reads `infergate-run/1`",
        );
        check(
            &RUN.replace("\"elapsed_s\":0.528496494", "\"elapsed_s\":1e999"),
            "number out of range",
        );
        check(
            &RUN.replace("\"elapsed_s\":0.528496494", "\"elapsed_s\":NaN"),
            "expected value",
        );
        check(
            &RUN.replace("\"elapsed_s\":0.528496494", "\"elapsed_s\":1e30"),
            "`elapsed_s` is no number",
        );
        check(
            &RUN.replacen("\"seed\":7", "\"seed\":7,\"seeds\":8", 1),
            "`seeds`, which no record",
        );
        check(
            &RUN.replacen("\"seed\":7", "\"seed\":7,\"seed\":8", 1),
            "duplicate field",
        );
    }

    #[test]
    fn a_claim_is_read_as_far_as_it_goes() {
        let text = r#"{"verdict":"pass","gates":[{"checks":[{"id":"a/b","verdict":"pass"}]}]}"#;
        assert_eq!(claim(text).checks["a/b"], "pass");
        assert_eq!(claim("nonsense"), Claim::default());
    }
}
