//! The folder `.gate/` of a project: where commits are built, what was built from them, and the lock that keeps two
//! sessions from measuring at once. It ignores itself for git.
//!
//! A commit is built at one path, `.gate/build/`, in a clone with a `.git` of its own, whichever commit it is: so
//! equal sources give equal artifacts. What main's last build left there (Cargo's packages, the build directory) is
//! kept in `.gate/clean/`, and every other build starts from a copy of it, so that no pull request's code has ever
//! written to what main is built from. `.gate/ledger/` holds the digest of every artifact, where no build can write.

mod working_tree;

use crate::launch::artifact::{self, Artifact};
use crate::launch::build::{BuildError, Job, remove};
use crate::launch::git::{GitError, Repository};
use crate::launch::identity::program;
use crate::launch::lock::{Lock, LockError};
use crate::launch::process::ProcessError;
use crate::launch::scratch::{self, Scratch};
use crate::launch::toolchain::toolchain;
use crate::sandbox::{self, Policy, Rights, Sandbox, SandboxError, all_but, without};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use verdict::plan::{Engine, SandboxSetting};
use verdict::record::{Arm, Isolation, short};
use verdict::{digest, plan};
use working_tree::forget_options;

#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    #[error("cannot use the folder {}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error("cannot run the project's own tests")]
    Suite(#[from] ProcessError),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(
        "`sandbox = \"user:{0}\"` in [host] builds commits, not a working tree, which {0} may not write to: name the \
         commit with --head"
    )]
    TreeOfAnother(String),
    #[error(
        "{} holds a registry's token, which a build of the working tree could read: move it to credentials.toml beside \
         it (`cargo login`)", .0.display()
    )]
    Token(PathBuf),
}

/// Author of a commit's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Main's: built before any other code runs, and what it leaves is kept for the next build.
    Main,
    /// A pull request's, or any other.
    Other,
}

/// A project's working tree and its folder `.gate/`, with the right to measure, held until this is dropped.
#[derive(Debug)]
pub struct Workspace {
    root: PathBuf,
    folder: PathBuf,
    sandbox: Sandbox,
    scratch: Scratch,
    /// What no child may see.
    results: Mutex<Vec<PathBuf>>,
    lock: Lock,
}

/// Environment and rights of an engine.
#[derive(Debug)]
pub struct Surroundings {
    pub env: Vec<(String, String)>,
    /// `None`: no sandbox is in force.
    pub policy: Option<Policy>,
}

/// Where sources are built or tested, and with what rights.
#[derive(Debug)]
pub struct Place {
    /// The project's folder within the sources.
    pub tree: PathBuf,
    /// The build directory.
    pub target: PathBuf,
    pub env: Vec<(String, String)>,
    /// What may be written.
    pub own: Vec<PathBuf>,
    /// What may be read beyond the tree.
    pub read: Vec<PathBuf>,
}

/// Ledger entry of an artifact.
#[derive(Serialize, Deserialize)]
struct Noted {
    sha256: String,
    on_ci: bool,
}

impl Workspace {
    /// Opens, and makes where needed, `.gate/` under the project's root, and takes the right to measure in it, or says
    /// who has it. What a session that has ended left holding it is waited for, until this future is dropped.
    pub async fn open(root: &Path, setting: &SandboxSetting) -> Result<Self, WorkspaceError> {
        let folder = root.join(".gate");
        let failed = |source| WorkspaceError::Folder {
            path: folder.clone(),
            source,
        };
        for name in ["artifacts", "ledger", "logs", "runs"] {
            fs::create_dir_all(folder.join(name)).map_err(failed)?;
        }
        fs::write(folder.join(".gitignore"), "*\n").map_err(failed)?;
        let lock = Lock::take(&folder.join("lock")).await?;
        let scratch = Scratch::open(&folder.join("scratch")).map_err(failed)?;
        let sandbox = Sandbox::choose(setting, Repository::tree_around(root))?;
        Ok(Self {
            root: root.to_path_buf(),
            folder,
            sandbox,
            scratch,
            results: Mutex::default(),
            lock,
        })
    }

    /// Hides a session's results from every child that is started from now on: by the seed in them an engine would know
    /// every prompt before it is sent, and by the launches what base has answered.
    pub fn hide(&self, results: &Path) {
        let results = results
            .canonicalize()
            .unwrap_or_else(|_| results.to_path_buf());
        self.results().push(results);
    }

    fn results(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where result directories go by default.
    pub fn runs(&self) -> PathBuf {
        self.folder.join("runs")
    }

    /// Isolation of builds and engines on this machine.
    pub fn isolation(&self) -> &Isolation {
        self.sandbox.isolation()
    }

    fn is_of_cargo(&self) -> bool {
        self.root.join("Cargo.toml").is_file()
    }

    /// A child's rights: what is its `own`, the tree but for `.git` and `.gate`, and what its command and environment
    /// name outside of the tree.
    pub fn policy(
        &self,
        own: Vec<PathBuf>,
        mut read: Vec<PathBuf>,
        command: &[String],
        env: &[(String, String)],
    ) -> Option<Policy> {
        let tree = Repository::tree_around(&self.root);
        let results = self.results().clone();
        let mut unseen = results.clone();
        unseen.extend([tree.join(".git"), self.folder.clone()]);
        // Cargo reads the manifests and settings of the folders around a package, and fails where it may not.
        read.extend(all_but(tree, &unseen));
        let on_path = command.iter().filter(|word| !word.contains('/'));
        let programs = on_path.filter_map(|word| program(word, &self.root, env));
        let programs = programs.map(|path| path.display().to_string());
        let words: Vec<String> = command.iter().cloned().chain(programs).collect();
        read.extend(sandbox::named(&words, env));
        let rights = Rights {
            own,
            read,
            list: vec![tree.to_path_buf(), self.root.clone()],
        };
        let mut policy = self.sandbox.policy(rights)?;
        // The machine's grants and a tree's own hold them too, wherever `--out` is.
        policy.read = without(&policy.read, &results);
        policy.write = without(&policy.write, &results);
        policy.hidden.extend(results);
        Some(policy)
    }

    /// Builds `commit` in a clone of its own, or takes what an earlier session built from it and wrote down.
    pub async fn build_commit(
        &self,
        repository: &Repository,
        build: &plan::Build,
        commit: &str,
        origin: Origin,
    ) -> Result<Artifact, WorkspaceError> {
        let key = format!("{commit}-{}", build_key(build, &self.root));
        let keep = self
            .folder
            .join("artifacts")
            .join(&key)
            .join(file_name(build));
        let ledger = self.folder.join("ledger").join(format!("{key}.json"));
        if let Some(artifact) = self.kept(&keep, &ledger) {
            return Ok(artifact);
        }
        let place = self.place_of(repository, commit, origin)?;
        let short = short(commit);
        let job = Job {
            build,
            what: format!("commit {short}"),
            tree: &place.tree,
            target: &place.target,
            log: &self.folder.join(format!("logs/build-{short}.log")),
            keep: &keep,
            env: place.env,
            policy: self.policy(place.own, place.read, &build.command, &build.env),
            on_ci: is_ci(),
        };
        let artifact = job.run().await?;
        self.note(&ledger, &artifact)?;
        if origin == Origin::Main {
            let clean = self.folder.join("clean");
            let kept = remove(&clean).and_then(|()| fs::rename(self.folder.join("build"), &clean));
            kept.map_err(|source| self.failed(&clean, source))?;
        }
        Ok(artifact)
    }

    /// A clone of a commit, to test it, with what main's last build left in its build directory.
    pub fn clone_of(&self, repository: &Repository, commit: &str) -> Result<Place, WorkspaceError> {
        self.place_of(repository, commit, Origin::Other)
    }

    /// A clone of a commit at the one path for all.
    fn place_of(
        &self,
        repository: &Repository,
        commit: &str,
        origin: Origin,
    ) -> Result<Place, WorkspaceError> {
        let place = self.folder.join("build");
        self.prepare(&place, origin)?;
        // Packages of a machine can be many: only for a tree that has some use of them.
        let with_packages = repository.has_file("Cargo.toml");
        let cargo = place.join("cargo");
        scratch::seed_cargo(&scratch::user_cargo(), &cargo, with_packages)
            .map_err(|source| self.failed(&place, source))?;
        let tree = place.join("tree");
        repository.clone_at(&tree, commit, &self.lock)?;
        let own = self.fresh("build")?;
        self.hand_over(&[&place, &own])?;
        // The project may be a folder of its repository.
        let within = self
            .root
            .strip_prefix(repository.root())
            .unwrap_or(Path::new(""));
        Ok(Place {
            tree: tree.join(within),
            target: place.join("target"),
            env: [self.private(&own), scratch::build_caches(&place)].concat(),
            own: vec![place, own],
            read: vec![repository.objects()?],
        })
    }

    /// An artifact that is what the gate wrote down of it. Without a sandbox anything that ran here since may have
    /// written both.
    fn kept(&self, keep: &Path, ledger: &Path) -> Option<Artifact> {
        if !self.sandbox.is_in_force() {
            return None;
        }
        let noted: Noted = serde_json::from_slice(&fs::read(ledger).ok()?).ok()?;
        let sha256 = artifact::sha256(keep).ok()?;
        (sha256 == noted.sha256).then(|| Artifact {
            path: keep.to_path_buf(),
            sha256,
            build_s: 0.0,
            on_ci: noted.on_ci,
        })
    }

    fn note(&self, ledger: &Path, artifact: &Artifact) -> Result<(), WorkspaceError> {
        let noted = Noted {
            sha256: artifact.sha256.clone(),
            on_ci: artifact.on_ci,
        };
        let text = serde_json::to_vec(&noted).unwrap_or_default();
        fs::write(ledger, text).map_err(|source| self.failed(ledger, source))
    }

    /// The place in which a commit is built, as main's last build left it, its sources left out.
    fn prepare(&self, place: &Path, origin: Origin) -> Result<(), WorkspaceError> {
        let clean = self.folder.join("clean");
        let failed = |source| self.failed(place, source);
        remove(place).map_err(failed)?;
        if !self.sandbox.keeps_metadata() {
            // What ran here may have written to it, or set the times by which build tools know what is new.
            remove(&clean).map_err(failed)?;
        }
        if clean.exists() {
            match origin {
                Origin::Main => fs::rename(&clean, place),
                Origin::Other => fs::create_dir(place).and_then(|()| {
                    let parts = ["target", "cargo", "cache"].into_iter();
                    let mut there = parts.filter(|part| clean.join(part).exists());
                    there.try_for_each(|part| artifact::copy(&clean.join(part), &place.join(part)))
                }),
            }
            .map_err(failed)?;
        }
        if !self.is_of_cargo() {
            // Only Cargo builds the same whatever an earlier commit left.
            remove(&place.join("target")).map_err(failed)?;
        }
        for folder in ["target", "cargo", "cache"] {
            self.make(&place.join(folder))?;
        }
        forget_options(&place.join("target")).map_err(failed)?;
        remove(&place.join("tree")).map_err(failed)
    }

    /// The environment and the rights of an arm's engine. `files` are what it is started from.
    pub fn engine(
        &self,
        arm: Arm,
        engine: &Engine,
        command: &[String],
        files: &[PathBuf],
    ) -> Result<Surroundings, WorkspaceError> {
        if !self.sandbox.is_in_force() {
            return Ok(Surroundings {
                env: engine.env.clone(),
                policy: None,
            });
        }
        let failed = |source| self.failed(&self.folder.join("scratch"), source);
        let (own, is_new) = self.scratch.of(arm.name()).map_err(failed)?;
        if is_new {
            scratch::link_stores(&own).map_err(failed)?;
            self.hand_over(&[&own])?;
        }
        let env = [
            self.private(&own),
            scratch::engine_caches(&own),
            engine.env.clone(),
        ];
        // An artifact is granted by itself: what a link in it names is the build's choice.
        let artifacts = self.folder.join("artifacts").display().to_string();
        let is_ours = |word: &&String| !word.contains(&artifacts);
        let configured: Vec<String> = command.iter().filter(is_ours).cloned().collect();
        let policy = self.policy(vec![own], files.to_vec(), &configured, &engine.env);
        Ok(Surroundings {
            env: env.concat(),
            policy,
        })
    }

    fn fresh(&self, child: &str) -> Result<PathBuf, WorkspaceError> {
        let made = self.scratch.fresh(child);
        made.map_err(|source| self.failed(&self.folder.join("scratch"), source))
    }

    /// Temporary files, git's settings and a home of a child's own.
    fn private(&self, own: &Path) -> Vec<(String, String)> {
        let mut env = scratch::private(own);
        let home = self.sandbox.home().map(|home| match home.is_dir() {
            true => home,
            false => own.to_path_buf(),
        });
        env.extend(home.map(|home| ("HOME".to_owned(), home.display().to_string())));
        env
    }

    /// Gives folders to the user that children run as, where it is another one.
    fn hand_over(&self, folders: &[&Path]) -> Result<(), WorkspaceError> {
        let Some(user) = self.sandbox.user() else {
            return Ok(());
        };
        let changed = Command::new("chown")
            .args(["-R", "-h", user, "--"])
            .args(folders)
            .status();
        match changed {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => {
                Err(self.failed(folders[0], io::Error::other(format!("chown: {status}"))))
            }
            Err(source) => Err(self.failed(folders[0], source)),
        }
    }

    fn make(&self, folder: &Path) -> Result<(), WorkspaceError> {
        fs::create_dir_all(folder).map_err(|source| self.failed(folder, source))
    }

    fn failed(&self, path: &Path, source: io::Error) -> WorkspaceError {
        WorkspaceError::Folder {
            path: path.to_path_buf(),
            source,
        }
    }
}

/// True in a job of a CI, each of which sets `CI`.
fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|ci| !ci.is_empty() && ci != "false")
}

/// The files that Cargo and rustup look for in this folder and in its parents.
pub fn settings_around(folder: &Path) -> impl Iterator<Item = PathBuf> {
    const NAMES: [&str; 4] = [
        ".cargo/config.toml",
        ".cargo/config",
        "rust-toolchain.toml",
        "rust-toolchain",
    ];
    let folders = folder.ancestors();
    folders.flat_map(|folder| NAMES.map(|name| folder.join(name)))
}

/// Another command, environment, compiler or settings of the folders around build another artifact from the same commit.
fn build_key(build: &plan::Build, root: &Path) -> String {
    let toolchain = toolchain(root, &build.env);
    let env = build.env.iter().flat_map(|(name, value)| [name, value]);
    let artifact = build.artifact.to_string_lossy();
    let words = build.command.iter().chain(env).chain(&toolchain);
    let words = words.map(String::as_bytes);
    let around = settings_around(root);
    let around: Vec<Vec<u8>> = around.filter_map(|path| fs::read(path).ok()).collect();
    let separated = words
        .chain([artifact.as_bytes()])
        .chain(around.iter().map(Vec::as_slice))
        .flat_map(|word| [word, b"\0".as_slice()]);
    digest::of_parts(separated)[..8].to_owned()
}

fn file_name(build: &plan::Build) -> PathBuf {
    build
        .artifact
        .file_name()
        .map_or_else(|| "artifact".into(), PathBuf::from)
}
