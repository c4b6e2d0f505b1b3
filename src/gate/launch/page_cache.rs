//! The page cache before a start: an engine's files put out of memory, or into it, and how many of their
//! pages are there.
//!
//! Residency is asked of util-linux's `fincore`: the system calls behind it (`cachestat`, `mincore`) have
//! no safe binding, and a read that must not block (`RWF_NOWAIT`) starts the read-ahead that it is to
//! detect. Files below a folder count one by one.

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use verdict::record::PageCache;

#[derive(Debug, thiserror::Error)]
#[error("cannot make {} {}: is it one of the engine's files (engine.files)?", path.display(), state.name())]
pub struct PageCacheError {
    state: PageCache,
    path: PathBuf,
    source: io::Error,
}

/// Files that one `fincore` is asked of: with the longest paths they stay within what a command line may hold.
const AT_ONCE: usize = 256;

/// Brings `files` into the state and gives the share of their pages in memory then, 0 to 1; `None` where
/// that cannot be told (no `fincore`, no bytes). Pages that a running process maps stay where they are.
pub fn prepare(state: PageCache, files: &[PathBuf]) -> Result<Option<f64>, PageCacheError> {
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |source| PageCacheError {
            state,
            path,
            source,
        }
    };
    let mut all = Vec::new();
    for path in files {
        collect(path, &mut all).map_err(failed(path))?;
    }
    for path in &all {
        let bring = match state {
            PageCache::Cold => evict,
            PageCache::Warm => read,
        };
        bring(path).map_err(failed(path))?;
    }
    Ok(resident_share(&all))
}

/// The file, or every file below the folder.
pub fn collect(path: &Path, into: &mut Vec<PathBuf>) -> io::Result<()> {
    if !fs::metadata(path)?.is_dir() {
        into.push(path.to_path_buf());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        collect(&entry?.path(), into)?;
    }
    Ok(())
}

fn evict(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    // Pages that were not written yet cannot be dropped.
    file.sync_all()?;
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
    Ok(())
}

fn read(path: &Path) -> io::Result<()> {
    io::copy(&mut File::open(path)?, &mut io::sink())?;
    Ok(())
}

fn resident_share(files: &[PathBuf]) -> Option<f64> {
    let tables = files.chunks(AT_ONCE).map(residency);
    share(&tables.collect::<Option<String>>()?)
}

/// A line a file, as [`share`] reads them.
fn residency(files: &[PathBuf]) -> Option<String> {
    let mut command = Command::new("fincore");
    command
        .args(["--bytes", "--raw", "--noheadings", "--output", "RES,SIZE"])
        .arg("--")
        .args(files)
        .env("LC_ALL", "C");
    let output = command.output().ok().filter(|o| o.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Lines of resident bytes, whole pages, and the file's size.
fn share(table: &str) -> Option<f64> {
    let (mut resident, mut size) = (0_u64, 0_u64);
    for line in table.lines() {
        let (in_memory, whole) = line.split_once(' ')?;
        let whole: u64 = whole.trim().parse().ok()?;
        // The last page counts whole.
        resident += in_memory.parse::<u64>().ok()?.min(whole);
        size += whole;
    }
    (size > 0).then(|| resident as f64 / size as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn shares_are_summed_over_files() {
        for (table, expect) in [
            ("4096 8192\n8192 8192\n", Some(0.75)),
            ("4096 100\n", Some(1.0)),
            ("0 8192\n0 0\n", Some(0.0)),
            ("", None),
            ("0 0\n", None),
            ("fincore: x\n", None),
        ] {
            let found = share(table);
            assert_eq!(found.map(f64::to_bits), expect.map(f64::to_bits), "{table}");
        }
    }

    /// Their names together are more than one command line can hold.
    #[test]
    fn many_files_are_told_as_few_are() {
        let folder = tempfile::tempdir().unwrap();
        let deep = (0..12).fold(folder.path().to_path_buf(), |path, _| {
            path.join("x".repeat(250))
        });
        fs::create_dir_all(&deep).unwrap();
        for number in 0..1_000 {
            fs::write(deep.join(number.to_string()), "7").unwrap();
        }
        let mut files = Vec::new();
        collect(folder.path(), &mut files).unwrap();
        assert_eq!(resident_share(&files), resident_share(&files[..1]));
    }

    #[test]
    fn files_go_out_of_memory_and_come_back() {
        // Not on a file system that lives in memory: its pages have nowhere to go.
        let folder = tempfile::tempdir_in(fixture::repository()).unwrap();
        fs::create_dir(folder.path().join("deeper")).unwrap();
        let mut file = File::create(folder.path().join("deeper/weights")).unwrap();
        file.write_all(&vec![7; 4 << 20]).unwrap();
        drop(file);
        let files = [folder.path().to_path_buf()];
        let warm = prepare(PageCache::Warm, &files).unwrap();
        let cold = prepare(PageCache::Cold, &files).unwrap();
        let Some((warm, cold)) = warm.zip(cold) else {
            return crate::skip::skip("there is no fincore here");
        };
        assert!(warm > 0.95 && cold < 0.05, "{warm} {cold}");
        let gone = [folder.path().join("gone")];
        let error = prepare(PageCache::Cold, &gone).unwrap_err().to_string();
        assert!(error.contains("gone cold"), "{error}");
    }
}
