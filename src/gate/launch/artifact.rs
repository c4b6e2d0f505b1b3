//! A built engine: taken out of where it was built, known by its content from then on.
//!
//! Main type: [`Artifact`]. A build is not trusted: links in what it made are never followed, so that none leads the
//! gate to a file that the build itself may not read.

use nix::fcntl::OFlag;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use verdict::digest;

/// A built engine, a file or a folder, copied to where no later build overwrites it.
#[derive(Clone, Debug, PartialEq)]
pub struct Artifact {
    pub path: PathBuf,
    /// Hex SHA-256 of the file, or of the names, modes and contents of all in the folder.
    pub sha256: String,
    /// 0 where an earlier build was reused.
    pub build_s: f64,
    /// True if CI built it, in this session or an earlier one.
    pub on_ci: bool,
}

/// Digest of what is there now.
pub fn sha256(path: &Path) -> io::Result<String> {
    if fs::symlink_metadata(path)?.is_file() {
        return digest::of_reader(&mut open_plain(path)?);
    }
    let mut lines = Vec::new();
    walk(path, &mut |entry| {
        let name = entry.path.strip_prefix(path).unwrap_or(&entry.path);
        let content = match &entry.kind {
            Kind::Folder => "folder".to_owned(),
            Kind::Link(target) => format!("link {}", target.display()),
            Kind::Other => return Err(no_file(&entry.path)),
            Kind::File { is_program } => {
                let sha256 = digest::of_reader(&mut open_plain(&entry.path)?)?;
                format!("{sha256} {is_program}")
            }
        };
        lines.push(format!("{}\0{content}\n", name.display()));
        Ok(())
    })?;
    lines.sort_unstable();
    Ok(digest::of_parts(lines.iter().map(String::as_bytes)))
}

/// Refuses a folder with a link that leads out of it, which who starts the engine would follow; or with what is
/// neither file nor folder.
pub fn refuse_links_out(path: &Path) -> io::Result<()> {
    walk(path, &mut |entry| {
        let target = match &entry.kind {
            Kind::Link(target) => target,
            Kind::Other => return Err(no_file(&entry.path)),
            Kind::Folder | Kind::File { .. } => return Ok(()),
        };
        let mut depth = entry
            .path
            .strip_prefix(path)
            .unwrap_or(&entry.path)
            .components()
            .count() as i64
            - 1;
        let stays = target.components().all(|part| {
            depth += match part {
                Component::Normal(_) => 1,
                Component::CurDir => 0,
                Component::ParentDir => -1,
                Component::RootDir | Component::Prefix(_) => i64::MIN / 2,
            };
            depth >= 0
        });
        match stays {
            true => Ok(()),
            false => Err(io::Error::other(format!(
                "{:?} is a link that leads out of it",
                entry.path
            ))),
        }
    })
}

/// Copies a file or a folder: links as links, no sockets and pipes.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    walk(from, &mut |entry| {
        let name = entry.path.strip_prefix(from).unwrap_or(&entry.path);
        let to = match name.as_os_str().is_empty() {
            true => to.to_path_buf(),
            false => to.join(name),
        };
        match &entry.kind {
            Kind::Folder => fs::create_dir(&to),
            Kind::Link(target) => symlink(target, &to),
            Kind::File { .. } => {
                // Keeps the times: build tools compare them.
                let mut file = open_plain(&entry.path)?;
                let found = file.metadata()?;
                let mut copy = File::create_new(&to)?;
                io::copy(&mut file, &mut copy)?;
                copy.set_permissions(found.permissions())?;
                copy.set_modified(found.modified()?)
            }
            // A socket or a pipe of a tool is nothing without the process behind it.
            Kind::Other => Ok(()),
        }
    })
}

/// Makes every file read-only: what is measured is not written to by mistake.
pub fn freeze(path: &Path) -> io::Result<()> {
    walk(path, &mut |entry| match entry.kind {
        Kind::File { is_program } => {
            let mode = if is_program { 0o555 } else { 0o444 };
            fs::set_permissions(&entry.path, Permissions::from_mode(mode))
        }
        Kind::Folder | Kind::Link(_) | Kind::Other => Ok(()),
    })
}

struct HashedEntry {
    path: PathBuf,
    kind: Kind,
}

enum Kind {
    Folder,
    Link(PathBuf),
    File {
        is_program: bool,
    },
    /// A socket, a pipe, a device.
    Other,
}

fn no_file(path: &Path) -> io::Error {
    io::Error::other(format!("{path:?} is neither a file nor a folder"))
}

/// Opens a file. What has taken its place since it was looked at is not followed or waited for.
pub fn open_plain(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let mut options = File::options();
    let file = options.read(true).custom_flags(flags.bits()).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(no_file(path)),
    }
}

/// Calls for a path and, if it is a folder, everything in it, folders before what they hold.
fn walk(path: &Path, call: &mut dyn FnMut(&HashedEntry) -> io::Result<()>) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    let kind = match found.file_type() {
        kind if kind.is_dir() => Kind::Folder,
        kind if kind.is_symlink() => Kind::Link(fs::read_link(path)?),
        kind if kind.is_file() => Kind::File {
            is_program: found.permissions().mode() & 0o111 != 0,
        },
        _ => Kind::Other,
    };
    let is_folder = matches!(kind, Kind::Folder);
    call(&HashedEntry {
        path: path.to_path_buf(),
        kind,
    })?;
    if is_folder {
        for entry in fs::read_dir(path)? {
            walk(&entry?.path(), call)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_known_by_names_modes_and_contents() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir_all(from.join("deep")).unwrap();
        fs::write(from.join("deep/lib.so"), "code").unwrap();
        fs::write(from.join("run"), "#!/bin/sh").unwrap();
        symlink("deep/lib.so", from.join("link")).unwrap();
        copy(&from, &to).unwrap();
        let first = sha256(&from).unwrap();
        assert_eq!(sha256(&to).unwrap(), first);
        // A tool's pipe is not copied, and no artifact.
        let pipe = from.join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        copy(&from, &folder.path().join("without")).unwrap();
        assert!(!folder.path().join("without/pipe").exists());
        assert!(
            refuse_links_out(&from).is_err()
                && sha256(&from).is_err()
                && open_plain(&pipe).is_err()
        );
        fs::remove_file(&pipe).unwrap();
        assert_eq!(
            fs::read_link(to.join("link")).unwrap(),
            Path::new("deep/lib.so")
        );
        let mut seen = vec![first];
        let mut changed = |what: &str| {
            let now = sha256(&to).unwrap();
            assert!(!seen.contains(&now), "{what}");
            seen.push(now);
        };
        for (target, stays) in [
            ("lib.so", true),
            ("../run", true),
            ("../../run", false),
            ("/etc/passwd", false),
        ] {
            let link = from.join("deep/out");
            symlink(target, &link).unwrap();
            assert_eq!(refuse_links_out(&from).is_ok(), stays, "{target}");
            fs::remove_file(&link).unwrap();
        }
        fs::write(to.join("deep/lib.so"), "c0de").unwrap();
        changed("a content");
        fs::set_permissions(to.join("run"), Permissions::from_mode(0o755)).unwrap();
        changed("a mode");
        fs::rename(to.join("run"), to.join("ran")).unwrap();
        changed("a name");
        fs::remove_file(to.join("link")).unwrap();
        changed("a link");
    }
}
