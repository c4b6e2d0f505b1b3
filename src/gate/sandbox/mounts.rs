//! Mounts of a child's own: everything read-only but its own folders, hidden places, a `/proc` that shows its own
//! processes alone.
//!
//! Called by the first process of the new pid namespace, with the rights of a root in its user namespace.

use super::policy::Policy;
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sys::statvfs::{FsFlags, statvfs};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

const NONE: Option<&str> = None;

/// Arranges the mounts of this process and all below it.
pub fn arrange(policy: &Policy) -> io::Result<()> {
    let root = Path::new("/");
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(NONE, root, NONE, private, NONE)?;
    // Devices need no mount: they are written to on read-only ones too.
    let own: Vec<PathBuf> = policy
        .write
        .iter()
        .filter_map(|path| path.canonicalize().ok())
        .filter(|path| path.is_dir() || !path.starts_with("/dev"))
        .collect();
    for path in &own {
        let bind = MsFlags::MS_BIND | MsFlags::MS_REC;
        mount(Some(path), path, NONE, bind, NONE)?;
    }
    for place in mounted()? {
        if !own.iter().any(|path| place.starts_with(path)) {
            protect(&place)?;
        }
    }
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    for (place, options) in [("/dev/shm", "mode=1777"), ("/dev/pts", "size=4k")] {
        let place = Path::new(place);
        if place.is_dir() {
            mount(Some("tmpfs"), place, Some("tmpfs"), flags, Some(options))?;
        }
    }
    for path in &policy.hidden {
        hide(path)?;
    }
    let flags = flags | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), flags, NONE)?;
    Ok(())
}

/// Where something is mounted.
fn mounted() -> io::Result<Vec<PathBuf>> {
    let table = fs::read("/proc/self/mountinfo")?;
    let places = table
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    Ok(places.map(unescaped).collect())
}

/// Blanks and backslashes stand in the table of mounts as three octal digits behind a backslash (proc(5)).
fn unescaped(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits = rest.get(1..4).filter(|_| *first == b'\\');
        let number = digits.and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        bytes.push(number.unwrap_or(*first));
        rest = if number.is_some() { &rest[4..] } else { after };
    }
    OsString::from_vec(bytes).into()
}

/// Makes what is mounted at a path read-only, for this process and those below it.
fn protect(path: &Path) -> io::Result<()> {
    let done = kept(path).and_then(|kept| {
        let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
        mount(NONE, path, NONE, flags | kept, NONE)
    });
    match done {
        // What cannot be reached cannot be written to.
        Ok(()) | Err(Errno::ENOENT | Errno::EACCES) => Ok(()),
        // Covered by a later mount at a folder above it.
        Err(Errno::EINVAL) if path != Path::new("/") => Ok(()),
        Err(error) => {
            let what = format!("cannot make {} read-only: {error}", path.display());
            Err(io::Error::other(what))
        }
    }
}

/// Flags of the path's file system that a user namespace may not take away.
fn kept(path: &Path) -> nix::Result<MsFlags> {
    let flags = statvfs(path)?.flags();
    let both = [
        (FsFlags::ST_NOSUID, MsFlags::MS_NOSUID),
        (FsFlags::ST_NODEV, MsFlags::MS_NODEV),
        (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
    ];
    let kept = both.into_iter().filter(|(of, _)| flags.contains(*of));
    Ok(kept.map(|(_, flag)| flag).collect())
}

fn hide(path: &Path) -> io::Result<()> {
    let Ok(found) = path.symlink_metadata() else {
        return Ok(());
    };
    if found.is_dir() {
        let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        return Ok(mount(
            Some("tmpfs"),
            path,
            Some("tmpfs"),
            flags,
            Some("size=4k"),
        )?);
    }
    let null = Path::new("/dev/null");
    Ok(mount(Some(null), path, NONE, MsFlags::MS_BIND, NONE)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_in_the_table_of_mounts_are_read() {
        for (text, expect) in [
            ("/mnt/a\\040b", "/mnt/a b"),
            ("/mnt/back\\134slash", "/mnt/back\\slash"),
            ("/", "/"),
            ("/odd\\9", "/odd\\9"),
        ] {
            assert_eq!(unescaped(text.as_bytes()), Path::new(expect));
        }
    }
}
