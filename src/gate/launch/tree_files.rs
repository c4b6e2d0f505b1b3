//! Which files of a tree are read meanwhile, as inotify(7) tells.

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Where Python keeps what it compiled: it then reads that, and not the source.
const PYTHON_CACHE: &str = "__pycache__";
/// So many are named.
const MOST: usize = 100;

/// Files that are watched from now on. By whom one is read is not known.
pub struct TreeFiles<'a> {
    files: &'a [(String, PathBuf)],
    inotify: Inotify,
    folders: HashMap<WatchDescriptor, PathBuf>,
}

impl<'a> TreeFiles<'a> {
    /// Watches files that have these names, by the folders that hold them: those that are not there are not missed.
    pub fn watch(files: &'a [(String, PathBuf)]) -> nix::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        let holding: BTreeSet<&Path> = files.iter().filter_map(|(_, path)| path.parent()).collect();
        let mut folders = HashMap::new();
        for folder in holding {
            for folder in [folder.to_path_buf(), folder.join(PYTHON_CACHE)] {
                let events = AddWatchFlags::IN_ACCESS | AddWatchFlags::IN_ONLYDIR;
                match inotify.add_watch(&folder, events) {
                    Ok(watch) => drop(folders.insert(watch, folder)),
                    Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(Self {
            files,
            inotify,
            folders,
        })
    }

    /// Names of those that were read since, a hundred at most.
    pub fn read(self) -> Vec<String> {
        let mut read = BTreeSet::new();
        // It ends with `EAGAIN`.
        while let Ok(events) = self.inotify.read_events() {
            let named = events
                .iter()
                .filter_map(|event| Some((self.folders.get(&event.wd)?, event.name.as_deref()?)));
            read.extend(named.filter_map(|(folder, name)| source(folder, name)));
        }
        let files = self.files.iter().filter(|(_, path)| read.contains(path));
        files.take(MOST).map(|(name, _)| name.clone()).collect()
    }
}

/// The file of this name; of a compiled module its source.
fn source(folder: &Path, name: &OsStr) -> Option<PathBuf> {
    if folder.file_name()? != PYTHON_CACHE {
        return Some(folder.join(name));
    }
    let (module, _) = name.to_str()?.split_once('.')?;
    Some(folder.parent()?.join(format!("{module}.py")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_read_is_known_and_nothing_else() {
        let tree = tempfile::tempdir().unwrap();
        let path = |name: &str| tree.path().join(name);
        fs::create_dir_all(path("pkg/__pycache__")).unwrap();
        for name in [
            "pkg/a.py",
            "pkg/b.py",
            "pkg/__pycache__/b.cpython-311.pyc",
            "c.cu",
            "d.cu",
        ] {
            fs::write(path(name), "text").unwrap();
        }
        let files =
            ["pkg/a.py", "pkg/b.py", "c.cu", "gone/e.cu"].map(|name| (name.to_owned(), path(name)));
        let read = |reader: &dyn Fn()| {
            let watch = TreeFiles::watch(&files).unwrap();
            reader();
            watch.read()
        };
        let look = |name: &'static str| drop(fs::read(path(name)).unwrap());
        let none: [&str; 0] = [];
        assert_eq!(read(&|| look("d.cu")), none);
        assert_eq!(read(&|| drop(fs::File::open(path("c.cu")))), none);
        assert_eq!(read(&|| look("c.cu")), ["c.cu"]);
        let both = || {
            look("pkg/__pycache__/b.cpython-311.pyc");
            look("pkg/a.py");
        };
        assert_eq!(read(&both), ["pkg/a.py", "pkg/b.py"]);
    }
}
