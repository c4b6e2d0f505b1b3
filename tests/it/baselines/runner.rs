//! A machine that records main: a project with a store, and records as `gate baseline record` leaves them.

use fixture::{Ended, Project};
use infergate::baseline::{Entry, Key, Signer, SigningKey, Store, WorkflowRun, signed};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use tempfile::TempDir;

/// An empty repository that takes pushes.
pub(crate) struct Bare(TempDir);

impl Bare {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bare = Self(folder);
        git(
            bare.path(),
            &["init", "--quiet", "--bare", "--initial-branch=main"],
        );
        bare
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// What git prints, without the last line's end.
pub(crate) fn git(folder: &Path, arguments: &[&str]) -> String {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"];
    let mut command = std::process::Command::new("git");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") {
            command.env_remove(name);
        }
    }
    let output = command
        .args(identity)
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8(output.stdout)
        .unwrap()
        .trim_end()
        .to_owned()
}

pub(crate) struct Runner {
    pub(crate) project: Project,
    environment: Vec<(&'static str, String)>,
}

impl Runner {
    /// A project whose gate.toml names this store.
    pub(crate) fn new(store: &str) -> Self {
        let project = Project::empty();
        let config = format!(
            "[baseline]\ndirectory = \".gate/baseline\"\nmax_age = \"14 days\"\nstore = {store:?}\nkeep = \"30 days\"\n"
        );
        project.write("gates/gate.toml", &config);
        Self {
            project,
            environment: Vec::new(),
        }
    }

    /// A clone whose remote `origin` is this repository, and whose store is a branch of it.
    pub(crate) fn of(bare: &Bare) -> Self {
        let runner = Self::new("git:infergate-baselines");
        runner
            .project
            .git(&["init", "--quiet", "--initial-branch=main"]);
        let path = bare.path().to_str().unwrap();
        runner.project.git(&["remote", "add", "origin", path]);
        runner
    }

    /// In a session with this variable.
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.environment.push((name, value.to_owned()));
        self
    }

    /// A record as a session of main at this time leaves it, signed without a key.
    pub(crate) fn record(&self, created: &str, seed: u32) -> PathBuf {
        self.store()
            .add(&signed(entry(created, seed), &signer(None)).unwrap())
            .unwrap()
    }

    pub(crate) fn store(&self) -> Store {
        Store::open(&self.project.path(".gate/baseline"))
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        command.spawn().unwrap()
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        Ended::of(&self.command(arguments).output().unwrap())
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = self.project.command(arguments);
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            let is_credential = ["AWS_", "GOOGLE_", "AZURE_", "INFERGATE_BASELINE"]
                .iter()
                .any(|start| name.starts_with(start));
            if is_credential || name.to_ascii_lowercase().ends_with("_proxy") {
                command.env_remove(name);
            }
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Name → bytes of every record that lies here.
    pub(crate) fn records(&self) -> BTreeMap<String, Vec<u8>> {
        let folder = self.project.path(".gate/baseline");
        let mut found = BTreeMap::new();
        for key in fs::read_dir(&folder).into_iter().flatten() {
            let key = key.unwrap().path();
            for file in fs::read_dir(&key).unwrap() {
                let path = file.unwrap().path();
                let name = path.strip_prefix(&folder).unwrap().to_str().unwrap();
                found.insert(name.to_owned(), fs::read(&path).unwrap());
            }
        }
        found
    }
}

pub(crate) const KEY: &str = "0123456789abcdef0123456789abcdef";

pub(crate) fn signer(key: Option<&str>) -> Signer {
    Signer {
        tool: "infergate test".into(),
        run: Some(WorkflowRun {
            id: 4_711,
            attempt: 2,
        }),
        key: key.map(|key| SigningKey::new(key.as_bytes()).unwrap()),
    }
}

/// One gate in a session of main at this time (RFC 3339).
pub(crate) fn entry(created: &str, seed: u32) -> Entry {
    let stamp = created.replace([':', '-'], "");
    Entry {
        key: Key {
            fingerprint: "cpu | 2 cores | 8 GiB | 6.8.0".into(),
            model: "tiny".into(),
            gate: "tpot".into(),
            gate_hash: "ab".repeat(32),
            engine: vec!["{artifact}".into(), "serve".into()],
        },
        session: format!("{stamp}-{seed:016x}"),
        created: created.into(),
        commit: Some("c0ffee00".repeat(5)),
        profile: Some("full".into()),
        values: [(
            "tpot/regression".to_owned(),
            vec![0.25, 0.1 + 0.2 + f64::from(seed)],
        )]
        .into(),
        anchor: None,
        spent: None,
        sign_off: None,
    }
}
