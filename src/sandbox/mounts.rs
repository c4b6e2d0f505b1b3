//! Mounts of a child's own: read-only folders, hidden ones, a `/proc` that shows its own processes alone.
//!
//! Called by the first process of the new pid namespace, with the rights of a root in its user namespace.

use super::policy::Policy;
use nix::mount::{MsFlags, mount};
use nix::sys::statvfs::{FsFlags, statvfs};
use std::io;
use std::path::Path;

const NONE: Option<&str> = None;

/// Arranges the mounts of this process and all below it.
pub(super) fn arrange(policy: &Policy) -> io::Result<()> {
    let root = Path::new("/");
    mount(
        NONE,
        root,
        NONE,
        MsFlags::MS_REC | MsFlags::MS_PRIVATE,
        NONE,
    )?;
    for path in &policy.read_only {
        bind(path, MsFlags::MS_RDONLY)?;
    }
    let is_beneath = |path: &Path| policy.read_only.iter().any(|ro| path.starts_with(ro));
    for path in policy.write.iter().filter(|path| is_beneath(path)) {
        bind(path, MsFlags::empty())?;
    }
    for path in &policy.hidden {
        hide(path)?;
    }
    let shm = Path::new("/dev/shm");
    if shm.is_dir() {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("tmpfs"), shm, Some("tmpfs"), flags, Some("mode=1777"))?;
    }
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), flags, NONE)?;
    Ok(())
}

/// Mounts a path over itself with these flags; a path that is not there has nothing to protect.
fn bind(path: &Path, flags: MsFlags) -> io::Result<()> {
    if !path.exists() {
        return Ok(());
    }
    mount(Some(path), path, NONE, MsFlags::MS_BIND, NONE)?;
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | flags | kept(path)?;
    Ok(mount(NONE, path, NONE, flags, NONE)?)
}

/// Flags of the path's file system that a user namespace may not take away.
fn kept(path: &Path) -> io::Result<MsFlags> {
    let flags = statvfs(path)?.flags();
    let both = [
        (FsFlags::ST_NOSUID, MsFlags::MS_NOSUID),
        (FsFlags::ST_NODEV, MsFlags::MS_NODEV),
        (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
        (FsFlags::ST_NOATIME, MsFlags::MS_NOATIME),
        (FsFlags::ST_RELATIME, MsFlags::MS_RELATIME),
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
