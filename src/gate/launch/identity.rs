//! Digest of an engine's files, so that a resumed session is known to measure the same
//! engine.
//!
//! Main function: [`identify`]. A file of up to 64 MiB is told by all of its bytes. Of a larger one, weights most
//! of all, reading everything would take longer than a session may wait: it is told by its size, the time of its
//! last change, and its first and last MiB.
//!
//! Refuses to know: which of its files matter to an engine.

use super::page_cache::collect;
use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use verdict::digest;
use verdict::record::EngineFile;

/// Files up to this size are read whole, …
const WHOLE: u64 = 64 << 20;
/// … and of larger ones so much at either end.
const END: u64 = 1 << 20;

/// The file at `path`, or all files below the folder. `None` where not all of it can be read: then nothing is
/// known of it.
pub fn identify(name: &str, path: &Path) -> Option<EngineFile> {
    let mut files = Vec::new();
    collect(path, &mut files).ok()?;
    files.sort_unstable();
    let mut bytes = 0;
    let mut lines = Vec::new();
    for file in &files {
        let (size, content) = content(file).ok()?;
        bytes += size;
        let place = file.strip_prefix(path).unwrap_or(file);
        lines.push(format!("{}\0{content}\n", place.display()));
    }
    Some(EngineFile {
        name: name.to_owned(),
        bytes,
        sha256: digest::of_parts(lines.iter().map(String::as_bytes)),
    })
}

/// Size and digest of one file.
fn content(path: &Path) -> io::Result<(u64, String)> {
    let metadata = fs::metadata(path)?;
    let size = metadata.len();
    // A pipe would be waited for.
    if !metadata.is_file() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut file = File::open(path)?;
    if size <= WHOLE {
        return Ok((size, digest::of_reader(&mut file)?));
    }
    let changed = metadata.modified()?.duration_since(UNIX_EPOCH);
    let changed_ns = changed.unwrap_or_default().as_nanos();
    let first = digest::of_reader(&mut (&file).take(END))?;
    file.seek(SeekFrom::End(-(END as i64)))?;
    let last = digest::of_reader(&mut file)?;
    let told = format!("{size} {changed_ns} {first} {last}");
    Ok((size, digest::of_parts([told.as_bytes()])))
}

/// Where a command's first word leads for a child that is started in `folder` with this environment beside ours;
/// `None` where nothing is there that can be run.
pub fn program(word: &str, folder: &Path, env: &[(String, String)]) -> Option<PathBuf> {
    if word.contains('/') {
        return Some(folder.join(word)).filter(|path| is_program(path));
    }
    let own = env.iter().rev().find(|(name, _)| name == "PATH");
    let paths: OsString = match own {
        Some((_, paths)) => paths.into(),
        None => env::var_os("PATH")?,
    };
    let mut places = env::split_paths(&paths).map(|place| folder.join(place).join(word));
    places.find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    let found = fs::metadata(path);
    found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    /// What one change after another does to a folder's identity.
    #[test]
    fn a_change_of_any_file_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        fs::create_dir_all(path.join("deeper")).unwrap();
        let large = path.join("deeper/weights");
        let changed = |file: &File, seconds| {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            file.set_modified(time).unwrap();
        };
        let write_at = |at: u64| {
            let mut file = File::options()
                .write(true)
                .create(true)
                .truncate(false)
                .open(&large)
                .unwrap();
            file.seek(SeekFrom::Start(at)).unwrap();
            io::Write::write_all(&mut file, b"7").unwrap();
            changed(&file, 1_000);
        };
        let set_size = || File::options().write(true).open(&large).unwrap();
        write_at(0);
        // It has no blocks but those that are written to.
        set_size().set_len(WHOLE + 3 * END).unwrap();
        write_at(0);
        fs::write(path.join("config.json"), "{}").unwrap();
        let now = || identify("model", &path).unwrap();
        let first = now();
        assert_eq!(
            (first.name.as_str(), first.bytes),
            ("model", WHOLE + 3 * END + 2)
        );
        let mut seen = vec![first.sha256];
        let mut check = |is_seen: bool, what: &str| {
            let sha256 = now().sha256;
            assert_eq!(!seen.contains(&sha256), is_seen, "{what}");
            seen.push(sha256);
        };
        check(false, "nothing");
        fs::write(path.join("config.json"), "[]").unwrap();
        check(true, "a small file's content");
        write_at(WHOLE + 3 * END - 1);
        check(true, "a large file's end");
        write_at(WHOLE / 2);
        check(false, "a large file's middle, its time put back");
        changed(&set_size(), 2_000);
        check(true, "a large file's time");
        fs::rename(path.join("config.json"), path.join("other.json")).unwrap();
        check(true, "a name");
        assert_eq!(identify("gone", &folder.path().join("gone")), None);
    }

    #[test]
    fn a_program_is_found_as_a_shell_finds_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::write(root.join("bin/serve"), "").unwrap();
        fs::write(root.join("bin/notes"), "").unwrap();
        fs::set_permissions(root.join("bin/serve"), fs::Permissions::from_mode(0o755)).unwrap();
        let env = [("PATH".to_owned(), "/nowhere:bin".to_owned())];
        let here = Some(root.join("bin/serve"));
        for (word, env, expect) in [
            ("bin/serve", &[][..], &here),
            ("serve", &env[..], &here),
            ("serve", &[], &None),
            ("bin/other", &env, &None),
            ("bin/notes", &env, &None),
            ("notes", &env, &None),
            ("bin", &env, &None),
        ] {
            assert_eq!(program(word, root, env), *expect, "{word}");
        }
        assert!(program("sh", root, &[]).is_some());
    }
}
