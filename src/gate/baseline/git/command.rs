//! The `git` command, asked for one thing at a time: no prompt, no hook, no trace that would print a credential,
//! and an error that holds none.

use super::super::redact::redact;
use super::super::sign_off::KEY_VARIABLE;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Settings for every call: no setting of a repository starts a program, and objects that come from elsewhere are
/// checked.
const SETTINGS: [&str; 12] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "diff.external=",
    "protocol.ext.allow=never",
    "fetch.fsckObjects=true",
    "gc.auto=0",
    "maintenance.auto=false",
    "push.gpgSign=false",
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=60",
    "advice.pushUpdateRejected=false",
];

/// Whom the store's commits name. They are found by the run that each record names.
const IDENTITY: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "infergate"),
    ("GIT_AUTHOR_EMAIL", "infergate@users.noreply.github.com"),
    ("GIT_COMMITTER_NAME", "infergate"),
    ("GIT_COMMITTER_EMAIL", "infergate@users.noreply.github.com"),
];

/// What git is told of us and must not be: a hook's or a caller's redirection to another repository.
const REDIRECTIONS: [&str; 7] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
];

#[derive(Debug)]
pub enum Failure {
    /// There is no git.
    Missing(io::Error),
    /// What git said, without credentials.
    Said(String),
}

/// How ssh is started where nobody says otherwise: it asks nothing, and waits for no machine without end.
const SSH: &str = "ssh -oBatchMode=yes -oConnectTimeout=30";

#[derive(Debug)]
pub struct Git {
    root: PathBuf,
    /// Nobody chose how ssh is started.
    is_plain_ssh: bool,
}

impl Git {
    pub fn new(root: &Path) -> Self {
        let mut git = Self {
            root: root.to_path_buf(),
            is_plain_ssh: false,
        };
        let is_set = |name| std::env::var_os(name).is_some();
        git.is_plain_ssh = !is_set("GIT_SSH_COMMAND")
            && !is_set("GIT_SSH")
            && git.run(&["config", "core.sshCommand"]).is_err();
        git
    }

    /// What the command prints.
    pub fn run(&self, arguments: &[&str]) -> Result<Vec<u8>, Failure> {
        self.feed(arguments, None, &[])
    }

    /// The same with another index, and with `input` on its standard input.
    pub fn feed(
        &self,
        arguments: &[&str],
        index: Option<&Path>,
        input: &[u8],
    ) -> Result<Vec<u8>, Failure> {
        let mut command = self.command();
        command.args(arguments);
        if let Some(index) = index {
            command.env("GIT_INDEX_FILE", index);
        }
        let mut child = command.spawn().map_err(Failure::Missing)?;
        let mut pipe = child.stdin.take();
        // On a thread of its own: git may answer before it has read everything.
        let output = std::thread::scope(|scope| {
            scope.spawn(move || pipe.as_mut().map(|pipe| pipe.write_all(input)));
            child.wait_with_output()
        });
        let output = output.map_err(Failure::Missing)?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let said = redact(&String::from_utf8_lossy(&output.stderr));
        Err(Failure::Said(match said.is_empty() {
            true => format!("git {} failed ({})", arguments[0], output.status),
            false => said,
        }))
    }

    fn command(&self) -> Command {
        let mut command = Command::new("git");
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        command.arg("-C").arg(&self.root);
        for name in REDIRECTIONS
            .into_iter()
            .chain([KEY_VARIABLE, "GIT_CURL_VERBOSE"])
        {
            command.env_remove(name);
        }
        for (name, _) in std::env::vars_os() {
            // Traces print headers and addresses with all that they hold.
            if name.to_string_lossy().starts_with("GIT_TRACE") {
                command.env_remove(name);
            }
        }
        if self.is_plain_ssh {
            command.env("GIT_SSH_COMMAND", SSH);
        }
        command
            .envs(IDENTITY)
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}
