//! A running server's command line: from `/proc`, with a place for its port, and what of the tree it names.

use crate::launch::{Repository, Sockets};
use crate::presets::Seen;
use crate::report::secrets;
use nix::unistd::geteuid;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Fills in how the server was started, and what of the tree the command names.
pub fn started(seen: Seen, words: &[String], (port, folder, root): (u16, &Path, &Path)) -> Seen {
    let command = with_port(&secrets::hidden(words), port);
    let has_cargo = root.join("Cargo.toml").is_file();
    let of_tree = |word: &String| {
        let path = folder
            .join(word)
            .canonicalize()
            .ok()
            .filter(|path| path.is_file())?;
        let path = path
            .strip_prefix(root.canonicalize().ok()?)
            .ok()?
            .to_str()?
            .to_owned();
        Some((word.clone(), path))
    };
    let (built, scripts): (Vec<_>, Vec<_>) = command
        .iter()
        .filter_map(of_tree)
        .partition(|(_, path)| has_cargo && path.starts_with("target/"));
    let cargo_program = built.into_iter().next().and_then(|(word, path)| {
        let name = Path::new(&path).file_name()?.to_str()?.to_owned();
        Some((word, name))
    });
    // The gate starts engines in the root: what lies in another folder is named whole.
    let is_elsewhere = folder.canonicalize().ok() != root.canonicalize().ok();
    let whole = |word: &String| {
        let is_known = scripts.iter().any(|(of, _)| of == word);
        let there = folder.join(word);
        let is_there = is_elsewhere && !is_known && word.contains(['/', '.']) && there.exists();
        let there = is_there.then(|| there.to_str().map(str::to_owned));
        there.flatten().unwrap_or_else(|| word.clone())
    };
    let command: Vec<String> = command.iter().map(whole).collect();
    // What else the command names may be data.
    let program = scripts
        .iter()
        .find(|(word, _)| command.first() == Some(word));
    let program = program.map(|(_, path)| path);
    let compiled = program.filter(|path| is_elf(&root.join(path)) && !is_tracked(root, path));
    let compiled = compiled.map(|path| (path.clone(), compiler(root)));
    Seen {
        command,
        scripts,
        compiled,
        cargo_program,
        ..seen
    }
}

/// True of a compiled program, by its first bytes.
fn is_elf(path: &Path) -> bool {
    let mut first = [0; 4];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut first));
    read.is_ok() && first == *b"\x7fELF"
}

/// True if git tracks a file of this name.
fn is_tracked(root: &Path, path: &str) -> bool {
    let name = Path::new(path).file_name().and_then(OsStr::to_str);
    let repository = Repository::open(root).ok().zip(name);
    repository.is_some_and(|(repository, name)| repository.has_file(name))
}

/// Command that compiles a tree, by the files at its root.
fn compiler(root: &Path) -> Option<&'static str> {
    const COMPILERS: [(&str, &str); 4] = [
        ("Makefile", "make"),
        ("makefile", "make"),
        (
            "CMakeLists.txt",
            "cmake -S . -B build -DCMAKE_BUILD_TYPE=Release && cmake --build build",
        ),
        ("go.mod", "go build ."),
    ];
    let mut compilers = COMPILERS.into_iter();
    compilers.find_map(|(file, command)| root.join(file).is_file().then_some(command))
}

/// The command line of the process that listens on a port, and its folder, as far as this user may see them (proc(5)).
pub fn command_of(port: u16) -> Option<(Vec<String>, PathBuf)> {
    let sockets = Sockets::read();
    let holds = |process: &fs::DirEntry| {
        let pid = process.file_name().to_str().and_then(|it| it.parse().ok());
        pid.is_some_and(|pid| sockets.ports(pid).contains(&port))
    };
    // Another user's words are not to be started by this one.
    let ours = geteuid().as_raw();
    let is_ours = |process: &fs::DirEntry| process.metadata().is_ok_and(|it| it.uid() == ours);
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let process = processes.into_iter().filter(is_ours).find(holds)?;
    let folder = fs::read_link(process.path().join("cwd")).ok()?;
    let words = fs::read(process.path().join("cmdline")).ok()?;
    let words = words
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty());
    let words: Vec<String> = words
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    (!words.is_empty()).then_some((words, folder))
}

/// `{port}` for the port: behind an option for ports or a host of this machine, or else in the one word that is this number and no
/// other option's.
fn with_port(words: &[String], port: u16) -> Vec<String> {
    const NAMES: [&str; 6] = ["port", "p", "listen", "bind", "addr", "address"];
    const HERE: [&str; 6] = ["", "127.0.0.1", "localhost", "0.0.0.0", "[::]", "[::1]"];
    let port = port.to_string();
    let names_port = |name: &str| {
        let parts = name.split(|c: char| !c.is_ascii_alphanumeric());
        let is_one = |part: &str| NAMES.contains(&part.to_ascii_lowercase().as_str());
        parts.into_iter().any(is_one)
    };
    let is_option = |word: &str| word.starts_with('-');
    let before = |at: usize| at.checked_sub(1).map(|at| words[at].as_str());
    let is_named = |at: usize, word: &str| {
        if let Some(name) = word.strip_suffix('=') {
            return names_port(name);
        }
        if let Some(host) = word.strip_suffix(':') {
            let host = host.rsplit(['=', '/']).next().unwrap_or_default();
            return HERE.contains(&host);
        }
        let option = before(at).filter(|option| is_option(option));
        word.is_empty() && option.is_some_and(names_port)
    };
    let is_bare = |at: usize, word: &str| word.is_empty() && !before(at).is_some_and(is_option);
    let replaced = |is_it: &dyn Fn(usize, &str) -> bool| -> (Vec<String>, usize) {
        let mut places = 0;
        let words = words.iter().enumerate();
        let words = words.map(|(at, word)| match word.strip_suffix(&port) {
            Some(before) if is_it(at, before) => {
                places += 1;
                format!("{before}{{port}}")
            }
            _ => word.clone(),
        });
        (words.collect(), places)
    };
    match (replaced(&is_named), replaced(&is_bare)) {
        ((named, places), _) if places > 0 => named,
        (_, (bare, 1)) => bare,
        _ => words.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_gets_a_place_for_its_port() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (command, expect) in [
            ("python s.py --port 8000", "python s.py --port {port}"),
            (
                "s --port=8000 --host 127.0.0.1:8000",
                "s --port={port} --host 127.0.0.1:{port}",
            ),
            ("s --context 18000 -n 80001", "s --context 18000 -n 80001"),
            (
                "s m --port 8000 --max-num-batched-tokens 8000",
                "s m --port {port} --max-num-batched-tokens 8000",
            ),
            ("s m --max-model-len 8000", "s m --max-model-len 8000"),
            ("python s.py 8000", "python s.py {port}"),
            ("python s.py 8000 8000", "python s.py 8000 8000"),
            (
                "s --http_port=8000 --n=8000",
                "s --http_port={port} --n=8000",
            ),
        ] {
            assert_eq!(with_port(&words(command), 8000), words(expect));
        }
    }
}
