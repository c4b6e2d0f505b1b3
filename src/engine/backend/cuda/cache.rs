//! Compiled kernels on disk, so that only the first start compiles.
//!
//! Main type: [`KernelCache`]. An entry's name holds what it was made of; its first lines hold the digest
//! of the rest, so that a damaged entry is seen and made anew. An entry is written beside its place and
//! renamed into it: readers see a whole one or none. Refuses to know: the compiler.

use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::compiler::CompilerVersion;
use super::sources::{Arch, Element};
use super::usage::KernelUsage;
use crate::digest;

/// Names the cache's directory, and comes before XDG_CACHE_HOME.
const DIRECTORY_VARIABLE: &str = "INFERGATE_KERNEL_CACHE";

/// An entry's first line. Another number is another format.
const FORMAT: &str = "infergate-kernels 1";

/// Enough of a SHA-256 to tell the few hundred entries of a cache apart.
const DIGEST_DIGITS: usize = 24;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelCache {
    /// `None`: nothing is kept.
    directory: Option<PathBuf>,
}

/// What one entry is made of.
pub(super) struct Key<'a> {
    pub(super) source: &'a str,
    pub(super) element: Element,
    pub(super) arch: Arch,
    /// The source with its headers, and the options.
    pub(super) made_of: Vec<&'a [u8]>,
}

pub(super) struct Entry {
    pub(super) cubin: Vec<u8>,
    pub(super) usage: Vec<KernelUsage>,
}

impl KernelCache {
    pub fn at(directory: PathBuf) -> Self {
        Self {
            directory: Some(directory),
        }
    }

    /// Nothing is read and nothing is kept.
    pub fn none() -> Self {
        Self { directory: None }
    }

    /// The directory of INFERGATE_KERNEL_CACHE, or infergate/kernels of XDG_CACHE_HOME or ~/.cache.
    pub fn from_environment() -> Self {
        let folder = |name: &str| {
            env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let standard = || {
            let home = || Some(folder("HOME")?.join(".cache"));
            // A relative XDG path must be passed over, as its specification says.
            let xdg = folder("XDG_CACHE_HOME").filter(|path| path.is_absolute());
            Some(xdg.or_else(home)?.join("infergate").join("kernels"))
        };
        Self {
            directory: folder(DIRECTORY_VARIABLE).or_else(standard),
        }
    }

    pub fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// The entry of this very compiler.
    pub(super) fn find(&self, key: &Key<'_>, version: CompilerVersion) -> Option<Entry> {
        let path = self.directory.as_ref()?.join(key.file_name(version));
        Entry::parse(&fs::read(path).ok()?)
    }

    /// The entry of the newest compiler that made one, of those up to this major version of CUDA: for a machine that
    /// has none itself.
    pub(super) fn find_any(&self, key: &Key<'_>, most_major: u32) -> Option<Entry> {
        let directory = self.directory.as_ref()?;
        let stem = key.stem();
        let version = |name: &str| CompilerVersion::parse(name.strip_prefix(&stem)?);
        let mut versions: Vec<CompilerVersion> = fs::read_dir(directory)
            .ok()?
            .filter_map(|entry| version(entry.ok()?.file_name().to_str()?.strip_suffix(ENDING)?))
            .filter(|version| version.major <= most_major)
            .collect();
        versions.sort();
        let mut newest_first = versions.into_iter().rev();
        newest_first.find_map(|version| self.find(key, version))
    }

    /// Keeps an entry; true where it is kept.
    pub(super) fn keep(
        &self,
        key: &Key<'_>,
        version: CompilerVersion,
        entry: &Entry,
    ) -> io::Result<bool> {
        let Some(directory) = &self.directory else {
            return Ok(false);
        };
        fs::create_dir_all(directory)?;
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(&entry.bytes()?)?;
        file.persist(directory.join(key.file_name(version)))
            .map_err(|error| error.error)?;
        Ok(true)
    }
}

const ENDING: &str = ".kernels";

impl Key<'_> {
    fn file_name(&self, version: CompilerVersion) -> String {
        format!("{}{version}{ENDING}", self.stem())
    }

    /// The name up to the compiler's version.
    fn stem(&self) -> String {
        // Lengths first: else the end of one part could pass for the beginning of the next.
        let lengths: Vec<[u8; 8]> = self
            .made_of
            .iter()
            .map(|part| (part.len() as u64).to_le_bytes())
            .collect();
        let lengths = lengths.iter().map(<[u8; 8]>::as_slice);
        let digest = digest::of_parts(lengths.chain(self.made_of.iter().copied()));
        let (source, element, arch) = (self.source, self.element, self.arch);
        let digest = &digest[..DIGEST_DIGITS];
        format!("{source}-{element}-{arch}-{digest}-nvrtc")
    }
}

impl Entry {
    /// Format, digest of what follows, usage as JSON, each a line; then the machine code.
    fn bytes(&self) -> io::Result<Vec<u8>> {
        let mut body = serde_json::to_vec(&self.usage)?;
        body.push(b'\n');
        body.extend_from_slice(&self.cubin);
        let digest = digest::of_parts([body.as_slice()]);
        let mut bytes = format!("{FORMAT}\n{digest}\n").into_bytes();
        bytes.extend_from_slice(&body);
        Ok(bytes)
    }

    /// `None` where it is damaged or of another format.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (format, rest) = line(bytes)?;
        let (claimed, body) = line(rest)?;
        if format != FORMAT.as_bytes() || claimed != digest::of_parts([body]).as_bytes() {
            return None;
        }
        let (usage, cubin) = line(body)?;
        Some(Self {
            usage: serde_json::from_slice(usage).ok()?,
            cubin: cubin.to_vec(),
        })
    }
}

fn line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    const VERSION: CompilerVersion = CompilerVersion {
        major: 12,
        minor: 9,
    };

    fn key<'a>(made_of: &[&'a str]) -> Key<'a> {
        Key {
            source: "rms_norm",
            element: Element::Bf16,
            arch: Arch { major: 9, minor: 0 },
            made_of: made_of.iter().map(|part| part.as_bytes()).collect(),
        }
    }

    fn entry() -> Entry {
        let usage = KernelUsage {
            kernel: "rms_norm".to_owned(),
            registers: 32,
            ..KernelUsage::default()
        };
        Entry {
            cubin: b"\x7fELF\nmachine\ncode".to_vec(),
            usage: vec![usage],
        }
    }

    #[test]
    fn an_entry_is_found_by_all_that_it_was_made_of() {
        let folder = tempfile::tempdir().unwrap();
        let cache = KernelCache::at(folder.path().join("new"));
        let made = key(&["source", "options"]);
        assert!(cache.find(&made, VERSION).is_none());
        assert!(cache.keep(&made, VERSION, &entry()).unwrap());
        let found = cache.find(&made, VERSION).unwrap();
        assert_eq!((found.cubin, found.usage), (entry().cubin, entry().usage));
        for other in [key(&["source", "option"]), key(&["sourceo", "ptions"])] {
            assert!(cache.find(&other, VERSION).is_none());
        }
        let newer = CompilerVersion {
            major: 13,
            ..VERSION
        };
        assert!(cache.find(&made, newer).is_none());
    }

    #[test]
    fn a_damaged_entry_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let cache = KernelCache::at(folder.path().to_owned());
        let made = key(&["source"]);
        let path = folder.path().join(made.file_name(VERSION));
        cache.keep(&made, VERSION, &entry()).unwrap();
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&path, &damaged).unwrap();
            assert!(cache.find(&made, VERSION).is_none(), "byte {at}");
            fs::write(&path, &whole[..at]).unwrap();
            assert!(cache.find(&made, VERSION).is_none(), "cut at {at}");
        }
        cache.keep(&made, VERSION, &entry()).unwrap();
        assert!(cache.find(&made, VERSION).is_some());
    }

    #[test]
    fn without_a_compiler_the_newest_ones_entry_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let cache = KernelCache::at(folder.path().to_owned());
        let made = key(&["source"]);
        assert!(cache.find_any(&made, 13).is_none());
        for (major, minor) in [(12, 10), (12, 9), (13, 0)] {
            let made_by = CompilerVersion { major, minor };
            let cubin = vec![u8::try_from(minor).unwrap()];
            let entry = Entry { cubin, ..entry() };
            cache.keep(&made, made_by, &entry).unwrap();
        }
        let cubin = |most_major| cache.find_any(&made, most_major).map(|entry| entry.cubin);
        assert_eq!(cubin(14), Some(vec![0]));
        // A driver of CUDA 12 does not load what was compiled for 13.
        assert_eq!(cubin(12), Some(vec![10]));
        assert_eq!(cubin(11), None);
        assert!(cache.find_any(&key(&["other"]), 14).is_none());
    }

    #[test]
    fn no_directory_keeps_nothing() {
        let cache = KernelCache::none();
        let made = key(&["source"]);
        assert!(!cache.keep(&made, VERSION, &entry()).unwrap());
        assert!(cache.find_any(&made, 12).is_none());
    }
}
