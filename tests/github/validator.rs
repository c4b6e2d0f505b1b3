//! Stoplight's Prism before a fake GitHub: it holds GitHub's whole OpenAPI description against every request and every
//! answer, as the fake's own check does with a part of it.
//!
//! Node, npm and its registry are needed, and the packages installed once below `target/`. Where they are missing
//! a test says so in one line and passes; with `INFERGATE_REQUIRE_CLIENTS=1` it fails.

use super::install;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The newest of each that Node 20 runs.
const PACKAGES: [&str; 2] = ["@stoplight/prism-cli@5.14.2", "@octokit/openapi@23.0.2"];

/// The folder with the packages; `None`, and a line that says why, where they cannot be had.
pub(crate) fn packages() -> Option<PathBuf> {
    install::or_skip("Prism", install::node_with("prism", &PACKAGES))
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
