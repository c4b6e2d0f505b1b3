//! What all tests through the binary share: `gate` in a scrubbed environment, and projects to run it in.

#![allow(dead_code, reason = "each test binary uses its part of this")]

pub(crate) mod workflow;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

/// `gate` with these arguments and nothing of a CI's or a terminal's environment. The engine computes on the CPU,
/// so that a machine with a GPU tests the same.
pub(crate) fn gate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gate"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name == "CI" || name.starts_with("GITHUB_") || name.starts_with("GIT_") {
            command.env_remove(name);
        }
    }
    command
        .args(arguments)
        .env("NO_COLOR", "1")
        .env("INFERGATE_BACKEND", "cpu")
        .stdin(Stdio::null());
    command
}

/// A gate whose limit every start keeps: however busy the machine is, it passes at the first look.
pub(crate) const START: &str = r#"
title = "Start"

[workload.first]
kind = "first-request"
prompt_tokens = 32
output_tokens = 8

[[check]]
name = "ceiling"
metric = "port_open"
rule = "ceiling"
limit = "60 s"
"#;

/// Held while a test measures: those of one binary run one at a time, whatever the number of test threads.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static MEASURING: Mutex<()> = Mutex::new(());
    // A test that failed has ended its engines all the same.
    MEASURING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a finished `gate` left.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    pub(crate) fn of(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Panics with everything that was printed unless the exit code is this one.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "\n{}\n{}", self.stdout, self.stderr);
        self
    }

    /// Standard error must hold all of these.
    #[track_caller]
    pub(crate) fn says(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(
                self.stderr.contains(part),
                "`{part}` is missing in:\n{}",
                self.stderr
            );
        }
        self
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("{e}\n{}\n{}", self.stdout, self.stderr))
    }
}

/// A project directory with this repository's own gates.
pub(crate) struct Project {
    folder: TempDir,
}

impl Project {
    /// Nothing but an empty folder for gates.
    pub(crate) fn empty() -> Self {
        let project = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(project.path("gates")).unwrap();
        project
    }

    /// The engine is this very binary, started without a build: no repository needed.
    pub(crate) fn without_build() -> Self {
        Self::without_build_in(std::env::temp_dir())
    }

    /// The same in a folder of its own within this one.
    pub(crate) fn without_build_in(place: impl AsRef<Path>) -> Self {
        let project = Self {
            folder: tempfile::tempdir_in(place).unwrap(),
        };
        copy_folder(&repository().join("gates"), &project.path("gates"));
        let config = project.read("gates/gate.toml");
        let build = config.find("[engine.build]").unwrap();
        let rest = config[build..].find("[profile.quick]").unwrap() + build;
        let binary = format!("{:?}", env!("CARGO_BIN_EXE_gate"));
        let without = format!("{}{}", &config[..build], &config[rest..]);
        project.write(
            "gates/gate.toml",
            &without.replace("\"{artifact}\"", &binary),
        );
        project
    }

    /// A git repository whose build makes a script that starts this binary with the arguments that the
    /// committed file `flags` holds: commits can differ in behaviour without a compiler.
    pub(crate) fn with_commits() -> Self {
        let project = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        copy_folder(&repository().join("gates"), &project.path("gates"));
        let config = project.read("gates/gate.toml");
        let command = config
            .lines()
            .find(|l| l.starts_with("command = "))
            .unwrap()
            .to_owned();
        // What an engine reads outside of its tree is named in its configuration.
        let env = format!(
            "[engine]\nenv = {{ GATE = {:?} }}",
            env!("CARGO_BIN_EXE_gate")
        );
        let config = config
            .replace(&command, r#"command = ["sh", "build.sh", "{target}"]"#)
            .replace("{target}/release/gate", "{target}/engine")
            .replacen("[engine]", &env, 1);
        project.write("gates/gate.toml", &config);
        project.write("flags", "");
        let script = format!(
            "set -e\nmkdir -p \"$1\"\nprintf '#!/bin/sh\\nexec {} \"$@\" %s\\n' \"$(cat flags)\" > \"$1/engine\"\n\
             chmod +x \"$1/engine\"\necho built\n",
            env!("CARGO_BIN_EXE_gate")
        );
        project.write("build.sh", &script);
        project.write(".gitignore", "/target\n");
        project.git(&["init", "--quiet", "--initial-branch=main"]);
        project.commit("first");
        project
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Waives a check until this day.
    pub(crate) fn waive(&self, check: &str, expires: &str) {
        let text = format!(
            "[[waiver]]\ncheck = \"{check}\"\nreason = \"agreed\"\nowner = \"@ada\"\n\
             issue = \"https://example.org/issues/1\"\nexpires = {expires}\n"
        );
        self.write("gates/waivers.toml", &text);
    }

    /// Replaces the one place where `from` stands.
    #[track_caller]
    pub(crate) fn edit(&self, name: &str, from: &str, to: &str) {
        let text = self.read(name);
        assert_eq!(text.matches(from).count(), 1, "`{from}` in {name}");
        self.write(name, &text.replace(from, to));
    }

    /// Lets builds and engines write where the test looks.
    pub(crate) fn without_sandbox(&self) {
        self.with_sandbox("none");
    }

    pub(crate) fn with_sandbox(&self, layer: &str) {
        let config = self.read("gates/gate.toml");
        let host = format!("\n[host]\nsandbox = \"{layer}\"\n");
        self.write("gates/gate.toml", &(config + &host));
    }

    /// Puts a script before the engine's command, in which `"$@"` is the engine. It may write to the project's folder.
    pub(crate) fn wrap_engine(&self, script: &str) {
        self.without_sandbox();
        self.write("engine.sh", script);
        let serve = r#"serve = ["sh", "engine.sh", "#;
        self.edit("gates/gate.toml", "serve = [", serve);
    }

    pub(crate) fn git(&self, arguments: &[&str]) {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"];
        let output = Command::new("git")
            .args(identity)
            .args(arguments)
            .current_dir(self.folder.path())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    pub(crate) fn commit(&self, message: &str) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", message]);
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = gate(arguments);
        command.current_dir(self.folder.path());
        command
    }

    /// `gate` as a shell becomes it after this script.
    pub(crate) fn command_after(&self, script: &str, arguments: &[&str]) -> Command {
        let gate = self.command(arguments);
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("{script}\nexec \"$0\" \"$@\"")])
            .arg(gate.get_program())
            .args(gate.get_args())
            .stdin(Stdio::null());
        set_up_like(&mut shell, &gate);
        shell
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        Ended::of(&self.command(arguments).output().unwrap())
    }

    /// Process numbers of whatever still runs in this project's folder: engines start there.
    pub(crate) fn leftovers(&self) -> Vec<u32> {
        let here = self.folder.path().canonicalize().unwrap();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            // A zombie has no working directory any more.
            if fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(&here)) {
                found.push(pid);
            }
        }
        found
    }
}

/// Gives a command the folder and the environment of another one.
fn set_up_like(command: &mut Command, like: &Command) {
    command.current_dir(like.get_current_dir().unwrap());
    for (name, value) in like.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
}

pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
