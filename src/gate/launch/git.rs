//! The few facts of a repository that a comparison needs, asked of the `git` command.

use super::lock::Lock;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use verdict::record::{Commit, short};

/// Where main is looked for when nobody names a base, in this order.
const MAIN_REFS: [&str; 5] = [
    "origin/HEAD",
    "origin/main",
    "origin/master",
    "main",
    "master",
];

/// In a job about a pull request, the branch that it is to be merged into (docs.github.com, "Variables reference").
const PULL_INTO: &str = "GITHUB_BASE_REF";

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("cannot run git")]
    Missing(#[source] io::Error),
    #[error("{} is not inside a git repository, so there is no main to compare with", .0.display())]
    NoRepository(PathBuf),
    #[error(
        "the repository has no commit yet, so there is no main to compare with: commit your engine and gates/ (`git add`, `git commit`)"
    )]
    NoCommit,
    #[error(
        "cannot find the default branch (no origin/HEAD, main or master); name a base with --base REF (`gate github label`: \
         --diff REF)"
    )]
    NoMain,
    #[error(
        "this job is about a pull request into `{branch}` ({PULL_INTO}), and there is no origin/{branch}: fetch it (`fetch-depth: 0` \
         of actions/checkout), or name a base with --base REF"
    )]
    NoTarget { branch: String },
    #[error(
        "unknown commit `{0}`; fetch it (`git fetch --tags`, in a shallow clone `git fetch --unshallow`), or name another"
    )]
    UnknownRef(String),
    #[error("head and `{0}` have no common commit; a shallow clone needs `git fetch --unshallow`")]
    Unrelated(String),
    #[error("{good} and {bad} are one commit, so there is nothing between them to search")]
    SameCommit { good: String, bad: String },
    #[error(
        "`{good}` is no ancestor of `{bad}`, so no line of commits leads from one to the other; GOOD comes first, \
         then BAD"
    )]
    NotAncestor { good: String, bad: String },
    #[error(
        "`{good}` lies beside the line of first parents that leads to `{bad}`; name a commit of that line, such \
         as {instead}"
    )]
    BesideTheLine {
        good: String,
        bad: String,
        instead: String,
    },
    #[error("cannot make a clone at {}", path.display())]
    Clone { path: PathBuf, source: io::Error },
    #[error("cannot hand the lock of .gate/ on to git")]
    HandOn(#[source] io::Error),
    #[error("git {command} failed: {}", super::log::indented(message))]
    Failed { command: String, message: String },
}

/// Tags that are read.
const TAGS: usize = 500;

/// Splits the output of `git … -z` into paths.
fn paths(listed: &str) -> impl Iterator<Item = String> {
    let paths = listed.split('\0').filter(|path| !path.is_empty());
    paths.map(str::to_owned)
}

/// A git working tree.
#[derive(Clone, Debug)]
pub struct Repository {
    root: PathBuf,
}

impl Repository {
    /// The repository that `path` stands in.
    pub fn open(path: &Path) -> Result<Self, GitError> {
        let here = Self {
            root: path.to_path_buf(),
        };
        match here.git(&["rev-parse", "--show-toplevel"]) {
            Ok(root) => Ok(Self { root: root.into() }),
            Err(GitError::Failed { message, .. }) if message.contains("not a git repository") => {
                Err(GitError::NoRepository(path.to_path_buf()))
            }
            Err(other) => Err(other),
        }
    }

    /// The working tree around a folder; the folder itself where there is none.
    pub fn tree_around(folder: &Path) -> &Path {
        let mut around = folder.ancestors();
        around
            .find(|path| path.join(".git").exists())
            .unwrap_or(folder)
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The user's name in git's settings, if it is set.
    pub fn user(&self) -> Option<String> {
        let name = self.git(&["config", "--get", "user.name"]).ok()?;
        (!name.is_empty()).then_some(name)
    }

    /// Full id of the checked-out commit.
    pub fn head(&self) -> Result<String, GitError> {
        self.resolve("HEAD")?.ok_or(GitError::NoCommit)
    }

    /// Whether tracked files differ from the commit, or untracked ones exist that are not ignored.
    pub fn is_dirty(&self) -> Result<bool, GitError> {
        let status = self.git(&[
            "status",
            "--porcelain",
            // Whatever the user's settings show of these.
            "--untracked-files=normal",
            "--ignore-submodules=none",
        ])?;
        Ok(!status.is_empty())
    }

    /// The `.git` of each submodule that is checked out, and the folder of each that is not: what git reads of them
    /// when it is asked about this tree.
    pub fn submodules(&self) -> Vec<PathBuf> {
        let listed = self.git(&["ls-files", "--stage", "-z"]).unwrap_or_default();
        let links = listed
            .split('\0')
            .filter(|line| line.starts_with("160000 "));
        let paths = links.filter_map(|line| line.split_once('\t'));
        let mut found = Vec::new();
        for root in paths.map(|(_, path)| self.root.join(path)) {
            let git = root.join(".git");
            match git.symlink_metadata() {
                Ok(_) => {
                    found.push(git);
                    found.extend(Self { root }.submodules());
                }
                Err(_) => found.push(root),
            }
        }
        found
    }

    /// Main's commit to compare with: the merge-base of `head` with `base`, with the branch that a pull request's job is
    /// for, or with the default branch.
    pub fn base_commit(&self, head: &str, base: Option<&str>) -> Result<String, GitError> {
        let target = self.pull_into();
        let (name, commit) = match (base, target) {
            (Some(name), _) => (name.to_owned(), self.commit(name)?),
            (None, Some(branch)) => {
                let name = format!("origin/{branch}");
                let commit = self.resolve(&name)?;
                (name, commit.ok_or(GitError::NoTarget { branch })?)
            }
            (None, None) => self.main()?,
        };
        self.git(&["merge-base", head, &commit])
            .map_err(|_| GitError::Unrelated(name))
    }

    /// The branch that this job's pull request is for, where it is one of this repository: a workflow may check out others.
    fn pull_into(&self) -> Option<String> {
        let variable = |name| std::env::var(name).ok().filter(|it| !it.is_empty());
        let (branch, repository) = (variable(PULL_INTO)?, variable("GITHUB_REPOSITORY")?);
        let origin = self.git(&["remote", "get-url", "origin"]).ok()?;
        let path = origin.trim_end_matches('/').trim_end_matches(".git");
        let is_its = path
            .to_ascii_lowercase()
            .ends_with(&repository.to_ascii_lowercase());
        is_its.then_some(branch)
    }

    /// True if git tracks a file of this name in any folder, or cannot be asked.
    pub fn has_file(&self, name: &str) -> bool {
        self.may_track(&format!(":(glob)**/{name}"))
    }

    /// True if a commit has the file that lies at this path of the tree.
    pub fn has(&self, commit: &str, path: &Path) -> bool {
        let Ok(name) = path.strip_prefix(&self.root) else {
            return false;
        };
        let object = format!("{commit}:{}", name.display());
        self.git(&["cat-file", "-e", &object]).is_ok()
    }

    /// True if this file is there and git ignores it: it was made, and is no source.
    pub fn ignores(&self, path: &Path) -> bool {
        let listing = [
            "ls-files",
            "--others",
            "--ignored",
            "--exclude-standard",
            "--",
        ];
        let listed = self.git(&[&listing[..], &[&path.to_string_lossy()]].concat());
        listed.is_ok_and(|listed| !listed.is_empty())
    }

    /// True if git tracks this absolute path or something in it, so that a commit may have brought it, or cannot be asked.
    pub fn tracks(&self, path: &Path) -> bool {
        self.may_track(&path.to_string_lossy())
    }

    fn may_track(&self, pathspec: &str) -> bool {
        let listed = self.git(&["ls-files", "--", pathspec]);
        listed.map_or(true, |listed| !listed.is_empty())
    }

    /// Paths in which the working tree differs from a commit, new files included, from the repository's root. Of
    /// a rename both paths.
    pub fn changed_paths(&self, commit: &str) -> Result<Vec<String>, GitError> {
        let mut changed = self.changed_files(commit)?;
        let new = self.git(&["ls-files", "-z", "--others", "--exclude-standard"])?;
        changed.extend(paths(&new));
        Ok(changed)
    }

    /// Tracked paths in which the working tree differs from a commit.
    pub fn changed_files(&self, commit: &str) -> Result<Vec<String>, GitError> {
        let diff = [
            "diff",
            "--name-only",
            "--no-renames",
            "--ignore-submodules=none",
            "-z",
            commit,
            "--",
        ];
        Ok(paths(&self.git(&diff)?).collect())
    }

    /// First line of a commit's message, at most 200 characters of it.
    pub fn subject(&self, commit: &str) -> Option<String> {
        let found = self.log(&["--no-walk", commit]).ok()?;
        let subject = found.into_iter().next()?.subject;
        let subject: String = subject.chars().take(200).collect();
        (!subject.is_empty()).then_some(subject)
    }

    /// Tags of commits that HEAD has, and when each was made, in seconds since 1970; the newest `TAGS`.
    ///
    /// # Errors
    /// git fails.
    pub fn tags(&self) -> Result<Vec<(String, i64)>, GitError> {
        let count = format!("--count={TAGS}");
        let format = "--format=%(creatordate:unix) %(refname:short)";
        let sort = "--sort=-creatordate";
        let listed = self.git(&[
            "for-each-ref",
            "--merged",
            "HEAD",
            sort,
            &count,
            format,
            "refs/tags",
        ])?;
        let tag = |line: &str| {
            let (at, name) = line.split_once(' ')?;
            Some((name.to_owned(), at.parse().ok()?))
        };
        Ok(listed.lines().filter_map(tag).collect())
    }

    /// The commit that a name stands for.
    pub fn commit(&self, name: &str) -> Result<String, GitError> {
        let commit = self.resolve(name)?;
        commit.ok_or_else(|| GitError::UnknownRef(name.to_owned()))
    }

    /// `good` and the line of first parents from it to `bad`, oldest first. A merge stands for all that it
    /// brought: its branch's own commits were never main, and need not build.
    pub fn first_parents(&self, good: &str, bad: &str) -> Result<Vec<Commit>, GitError> {
        let ids = (self.commit(good)?, self.commit(bad)?);
        let (good, bad) = (good.to_owned(), bad.to_owned());
        if ids.0 == ids.1 {
            return Err(GitError::SameCommit { good, bad });
        }
        let is_ancestor = self.git(&["merge-base", "--is-ancestor", &ids.0, &ids.1]);
        if let Err(GitError::Failed { .. }) = is_ancestor {
            return Err(GitError::NotAncestor { good, bad });
        }
        is_ancestor?;
        let mut commits = self.log(&["--no-walk", &ids.0])?;
        let range = format!("{}..{}", ids.0, ids.1);
        let line = self.log(&["--first-parent", "--reverse", &range])?;
        let parent = line.first().map(|first| format!("{}^1", first.id));
        let parent = self.commit(parent.as_deref().unwrap_or(&bad))?;
        if parent != ids.0 {
            let instead = short(&parent).to_owned();
            return Err(GitError::BesideTheLine { good, bad, instead });
        }
        commits.extend(line);
        Ok(commits)
    }

    fn log(&self, which: &[&str]) -> Result<Vec<Commit>, GitError> {
        // A name that holds the separator can spoil nothing but its subject.
        let mut args = vec!["log", "--format=%H%x1f%P%x1f%aI%x1f%an%x1f%s"];
        args.extend(which);
        let text = self.git(&args)?;
        let commits = text.lines().filter_map(|line| {
            let mut fields = line.splitn(5, '\u{1f}');
            let mut field = || fields.next().map(str::to_owned);
            let (id, parents) = (field()?, field()?);
            Some(Commit {
                id,
                is_merge: parents.contains(' '),
                date: field()?,
                author: field()?,
                subject: field()?,
            })
        });
        Ok(commits.collect())
    }

    fn main(&self) -> Result<(String, String), GitError> {
        for name in MAIN_REFS {
            if let Some(commit) = self.resolve(name)? {
                return Ok((name.to_owned(), commit));
            }
        }
        Err(GitError::NoMain)
    }

    fn resolve(&self, name: &str) -> Result<Option<String>, GitError> {
        // A name that begins with a dash would be read as an option.
        if name.starts_with('-') {
            return Ok(None);
        }
        let spec = format!("{name}^{{commit}}");
        match self.git(&["rev-parse", "--verify", "--quiet", &spec]) {
            Ok(commit) => Ok(Some(commit)),
            Err(GitError::Failed { .. }) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// Makes a repository of its own at `path` with `commit` checked out: nothing in it leads to this one's
    /// settings or hooks, and objects are read from here. The git that checks out holds the lock too: if we are
    /// killed, the next session waits for its end.
    pub fn clone_at(&self, path: &Path, commit: &str, lock: &Lock) -> Result<(), GitError> {
        let failed = |source| GitError::Clone {
            path: path.to_path_buf(),
            source,
        };
        fs::create_dir_all(path).map_err(failed)?;
        let format = self.git(&["rev-parse", "--show-object-format"])?;
        let there = Self {
            root: path.to_path_buf(),
        };
        there.git(&[
            "init",
            "--quiet",
            "--template=",
            &format!("--object-format={format}"),
        ])?;
        let git = path.join(".git");
        let common = self.git(&["rev-parse", "--path-format=absolute", "--git-common-dir"])?;
        let common = Path::new(&common);
        let objects = format!("{}\n", common.join("objects").display());
        fs::write(git.join("objects/info/alternates"), objects).map_err(failed)?;
        if common.join("shallow").exists() {
            fs::copy(common.join("shallow"), git.join("shallow")).map_err(failed)?;
        }
        // For builds that ask `git describe`.
        let tags = self.git(&[
            "for-each-ref",
            "--format=%(objectname) %(refname)",
            "refs/tags",
        ])?;
        if !tags.is_empty() {
            fs::write(git.join("packed-refs"), format!("{tags}\n")).map_err(failed)?;
        }
        // For submodules that are named relative to where the repository came from.
        if let Ok(url) = self.git(&["remote", "get-url", "origin"]) {
            there.git(&["config", "remote.origin.url", &without_credentials(&url)])?;
        }
        let checkout = ["checkout", "--quiet", "--force", "--detach", commit];
        // It reads nothing there, and no other handle of ours is inherited.
        there.run(&checkout, lock.handle().map_err(GitError::HandOn)?)?;
        Ok(())
    }

    /// Where its objects are, for what is built in a clone.
    pub fn objects(&self) -> Result<PathBuf, GitError> {
        let common = self.git(&["rev-parse", "--path-format=absolute", "--git-common-dir"])?;
        Ok(Path::new(&common).join("objects"))
    }

    fn git(&self, args: &[&str]) -> Result<String, GitError> {
        self.run(args, Stdio::null())
    }

    fn run(&self, args: &[&str], stdin: Stdio) -> Result<String, GitError> {
        let mut command = Command::new("git");
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        let kept = std::env::vars_os().filter(|(name, _)| KEPT.iter().any(|kept| name == kept));
        let output = command
            .arg("-C")
            .arg(&self.root)
            .args(args)
            .env_clear()
            .envs(kept)
            // Its words are read.
            .env("LC_ALL", "C")
            .env("GIT_TERMINAL_PROMPT", "0")
            .stdin(stdin)
            .output()
            .map_err(GitError::Missing)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
        }
        Err(GitError::Failed {
            command: args.join(" "),
            message: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        })
    }
}

/// A repository's settings may be a pull request's: none of them starts a program.
const SETTINGS: [&str; 8] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.sshCommand=",
    "diff.external=",
    "protocol.ext.allow=never",
    "advice.detachedHead=false",
    // Files that a commit brings may look like a bare repository, which git takes for the one around it.
    "safe.bareRepository=explicit",
];

/// Variables that git inherits: no secret, and no redirection to another repository.
const KEPT: [&str; 10] = [
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_SYSTEM",
    "GIT_TEST_ASSUME_DIFFERENT_OWNER",
    "HOME",
    "PATH",
    "SSL_CERT_FILE",
    "TMPDIR",
    "USER",
    "XDG_CONFIG_HOME",
];

/// An address without the name and password in it.
fn without_credentials(url: &str) -> String {
    match (url.find("://"), url.find('@')) {
        (Some(scheme), Some(at)) if !url[scheme + 3..at].contains('/') => {
            format!("{}{}", &url[..scheme + 3], &url[at + 1..])
        }
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

    use super::*;

    #[test]
    fn a_new_file_is_seen_whatever_the_users_settings_show() {
        let folder = tempfile::tempdir().unwrap();
        let repository = Repository {
            root: folder.path().to_path_buf(),
        };
        repository.git(&["init", "--quiet"]).unwrap();
        assert!(!repository.is_dirty().unwrap());
        let hide = ["config", "status.showUntrackedFiles", "no"];
        repository.git(&hide).unwrap();
        fs::write(folder.path().join("new"), "").unwrap();
        assert!(repository.is_dirty().unwrap());
    }
}
