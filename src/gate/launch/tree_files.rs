//! Watches which files of a tree are read, by inotify(7).

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

/// Python's folder of compiled modules, which it reads in place of the sources.
const PYTHON_CACHE: &str = "__pycache__";
/// Files that are watched at most. All processes of a user share the kernel's own limit, and editors use much of it.
const MOST_WATCHED: usize = 65_536;
/// Files that [`TreeFiles::read`] names at most.
const MOST: usize = 100;

/// Watched files. inotify does not tell which process reads one.
pub struct TreeFiles<'a> {
    files: &'a [(String, PathBuf)],
    inotify: Inotify,
    /// Place in `files`.
    watches: HashMap<WatchDescriptor, usize>,
}

impl<'a> TreeFiles<'a> {
    /// Watches files that have these names: those that are not there are not missed.
    ///
    /// # Errors
    /// The user has no watch left, or there are too many files.
    pub fn watch(files: &'a [(String, PathBuf)]) -> nix::Result<Self> {
        if files.len() > MOST_WATCHED {
            return Err(Errno::E2BIG);
        }
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        let mut watches = HashMap::new();
        // Once: an engine may read a file a million times.
        let events = AddWatchFlags::IN_ACCESS | AddWatchFlags::IN_ONESHOT;
        for (at, (_, path)) in files.iter().enumerate() {
            for path in compiled(path).into_iter().chain([path.clone()]) {
                match inotify.add_watch(&path, events) {
                    Ok(watch) => drop(watches.insert(watch, at)),
                    Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(Self {
            files,
            inotify,
            watches,
        })
    }

    /// Names of those that were read since, a hundred at most.
    pub fn read(self) -> Vec<String> {
        let mut read = BTreeSet::new();
        // It ends with `EAGAIN`.
        while let Ok(events) = self.inotify.read_events() {
            let places = events
                .iter()
                .map(|event| self.watches.get(&event.wd).copied());
            read.extend(places.flatten());
        }
        let named = read.into_iter().map(|at: usize| self.files[at].0.clone());
        named.take(MOST).collect()
    }
}

/// Compiled forms of a Python module: `__pycache__/NAME.cpython-311.pyc`.
fn compiled(source: &Path) -> Vec<PathBuf> {
    let folder = source.parent().map(|folder| folder.join(PYTHON_CACHE));
    let is_python = source.extension().is_some_and(|it| it == "py");
    let (Some(folder), Some(name), true) = (folder, source.file_stem(), is_python) else {
        return Vec::new();
    };
    let begin = format!("{}.", name.to_string_lossy());
    let listed = fs::read_dir(folder).into_iter().flatten().flatten();
    let of_it = listed.filter(|entry| entry.file_name().to_string_lossy().starts_with(&begin));
    of_it.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
