//! The clients' packages, installed once below `target/`, one folder for each pinned version.
//!
//! Main type: [`Client`], how to start one. Other tests take packages of their own the same way ([`python_with`],
//! [`node_with`]). Refuses to know: what is done with them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "../common/skip.rs"]
mod skip;

/// Of the Node client; the Python one's is in requirements.txt, with what it needs. Majors from 7 on want
/// Node 22.
const NODE_PACKAGE: &str = "openai@6.30.1";
const REQUIREMENTS: &str = include_str!("requirements.txt");

pub(crate) struct Client {
    pub(crate) program: PathBuf,
    /// What the script wants before the addresses.
    pub(crate) arguments: Vec<PathBuf>,
}

/// Why a client cannot be had on this machine.
#[derive(Debug)]
pub(crate) struct Missing(String);

pub(crate) fn python() -> Result<Client, Missing> {
    python_with("openai", REQUIREMENTS)
}

/// A Python with these pinned packages, of which `package` names the folder.
pub(crate) fn python_with(package: &str, pinned: &str) -> Result<Client, Missing> {
    let interpreter = run(Command::new("python3").arg("--version"))?;
    let version = pinned
        .lines()
        .find_map(|line| line.strip_prefix(package)?.strip_prefix("=="))
        .unwrap();
    let name = format!(
        "{}-{package}-{version}",
        interpreter.trim().replace(' ', "-")
    );
    let folder = once(&name, pinned, |folder| {
        let requirements = folder.join("requirements.txt");
        fs::write(&requirements, pinned).unwrap();
        run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
        let mut pip = Command::new(folder.join("bin/python"));
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--requirement",
        ]);
        run(pip.arg(requirements)).map(drop)
    })?;
    Ok(Client {
        program: folder.join("bin/python"),
        arguments: Vec::new(),
    })
}

pub(crate) fn node() -> Result<Client, Missing> {
    let folder = node_with(&NODE_PACKAGE.replace('@', "-node-"), &[NODE_PACKAGE])?;
    Ok(Client {
        program: PathBuf::from("node"),
        arguments: vec![folder],
    })
}

/// The folder `name` with these pinned packages of npm.
pub(crate) fn node_with(name: &str, packages: &[&str]) -> Result<PathBuf, Missing> {
    run(Command::new("node").arg("--version"))?;
    once(name, &packages.join("\n"), |folder| {
        let mut npm = Command::new("npm");
        npm.args([
            "install",
            "--ignore-scripts",
            "--no-save",
            "--no-package-lock",
        ]);
        npm.args(["--no-audit", "--no-fund", "--loglevel=error", "--prefix"]);
        run(npm.arg(folder).args(packages)).map(drop)
    })
}

/// What was installed; `None`, and a line that says why, where it cannot be had. With
/// `INFERGATE_REQUIRE_CLIENTS=1` that is a failure.
pub(crate) fn or_skip<T>(what: &str, installed: Result<T, Missing>) -> Option<T> {
    match installed {
        Ok(installed) => Some(installed),
        Err(Missing(why)) => {
            skip::skip(&format!("{what}: {why}"));
            None
        }
    }
}

/// The folder of this name, filled by `install` unless an earlier run did so to the end with the same
/// `content`. Other processes that want it wait meanwhile.
fn once(
    name: &str,
    content: &str,
    install: impl FnOnce(&Path) -> Result<(), Missing>,
) -> Result<PathBuf, Missing> {
    let clients = Path::new(env!("CARGO_TARGET_TMPDIR")).join("clients");
    fs::create_dir_all(&clients).unwrap();
    let lock = File::create(clients.join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    let folder = clients.join(name);
    let mark = folder.join("installed");
    if fs::read_to_string(&mark).is_ok_and(|installed| installed == content) {
        return Ok(folder);
    }
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir(&folder).unwrap();
    install(&folder)?;
    fs::write(mark, content).unwrap();
    Ok(folder)
}

/// What a command prints; the end of its complaint where it fails.
fn run(command: &mut Command) -> Result<String, Missing> {
    let name = command.get_program().to_string_lossy().into_owned();
    let missing = |why: &str| Missing(format!("`{name}`: {why}"));
    let output = command
        .output()
        .map_err(|error| missing(&error.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    Err(missing(
        said.lines()
            .rfind(|line| !line.trim().is_empty())
            .unwrap_or("it failed"),
    ))
}
