//! Stoplight's Prism before a fake GitHub: it holds GitHub's whole OpenAPI description against every request and every
//! answer, as the fake's own check does with a part of it.
//!
//! Node, npm and its registry are needed, and the packages installed once below `target/`. Where they are missing
//! a test says so in one line and passes; with `INFERGATE_REQUIRE_CLIENTS=1` it fails.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The newest of each that Node 20 runs.
const PACKAGES: [&str; 2] = ["@stoplight/prism-cli@5.14.2", "@octokit/openapi@23.0.2"];

/// The folder with the packages; `None`, and a line that says why, where they cannot be had.
pub(crate) fn packages() -> Option<PathBuf> {
    match installed() {
        Ok(folder) => Some(folder),
        Err(why) => {
            let required =
                std::env::var("INFERGATE_REQUIRE_CLIENTS").is_ok_and(|value| value == "1");
            assert!(!required, "Prism is required and cannot be had: {why}");
            // Not by a macro: those lines are shown of failed tests alone.
            writeln!(std::io::stderr().lock(), "SKIPPED: Prism: {why}").unwrap();
            None
        }
    }
}

/// Prism before the fake. Ends when dropped.
pub(crate) struct Prism {
    pub(crate) url: String,
    child: Child,
}

impl Prism {
    pub(crate) fn start(folder: &Path, upstream: &str) -> Self {
        let port = {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap().port()
        };
        let spec = folder.join("node_modules/@octokit/openapi/generated/api.github.com.json");
        let mut child = Command::new("node")
            .arg(folder.join("node_modules/@stoplight/prism-cli/dist/index.js"))
            .args(["proxy", "--errors", "--port", &port.to_string()])
            .arg(spec)
            .arg(upstream)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let is_up = lines.any(|line| line.is_ok_and(|line| line.contains("is listening")));
        // What it says later must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let url = format!("http://127.0.0.1:{port}");
        let prism = Self { url, child };
        assert!(is_up, "Prism ended before it listened");
        prism
    }
}

impl Drop for Prism {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The folder with the packages, installed unless an earlier run did so to the end.
fn installed() -> Result<PathBuf, String> {
    run(Command::new("node").arg("--version"))?;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("clients/prism");
    fs::create_dir_all(&folder).unwrap();
    let lock = File::create(folder.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    let (mark, content) = (folder.join("installed"), PACKAGES.join("\n"));
    if fs::read_to_string(&mark).is_ok_and(|installed| installed == content) {
        return Ok(folder);
    }
    fs::remove_dir_all(&folder).unwrap();
    fs::create_dir(&folder).unwrap();
    let mut npm = Command::new("npm");
    npm.args([
        "install",
        "--ignore-scripts",
        "--no-save",
        "--no-package-lock",
    ]);
    npm.args(["--no-audit", "--no-fund", "--loglevel=error", "--prefix"]);
    run(npm.arg(&folder).args(PACKAGES))?;
    fs::write(mark, content).unwrap();
    Ok(folder)
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| format!("`{name}`: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("`{name}`: {}", last.unwrap_or("it failed"))),
    }
}
