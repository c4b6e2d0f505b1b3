//! The working tree itself: built, and tested, where it lies.

use super::{Place, Workspace, WorkspaceError, file_name, is_ci};
use crate::launch::artifact::Artifact;
use crate::launch::build::{BuildError, Job};
use crate::launch::git::Repository;
use crate::launch::scratch;
use crate::sandbox::all_but;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use verdict::plan;

impl Workspace {
    /// Builds the working tree as it is.
    pub async fn build_head(&self, build: &plan::Build) -> Result<Artifact, WorkspaceError> {
        if let Some(user) = self.sandbox.user() {
            return Err(WorkspaceError::TreeOfAnother(user.to_owned()));
        }
        let place = self.tree_for(&build.artifact)?;
        let _aside = self.set_aside(build)?;
        if place.target.is_dir() {
            forget_options(&place.target).map_err(|source| self.failed(&place.target, source))?;
        }
        let job = Job {
            build,
            what: "head".into(),
            tree: &place.tree,
            target: &place.target,
            log: &self.folder.join("logs/build-head.log"),
            keep: &self.folder.join("artifacts/head").join(file_name(build)),
            env: place.env,
            policy: self.policy(place.own, place.read, &build.command, &build.env),
            on_ci: is_ci(),
        };
        Ok(job.run().await?)
    }

    /// Moves away a file that an earlier build put into the tree: it would pass for what this one makes. A folder may hold
    /// more, and what git does not ignore may be a source.
    fn set_aside(&self, build: &plan::Build) -> Result<Option<Aside>, WorkspaceError> {
        let path = self.root.join(&build.artifact);
        let is_file = path.symlink_metadata().is_ok_and(|it| it.is_file());
        let is_made = is_file && Repository::open(&self.root).is_ok_and(|it| it.ignores(&path));
        if !is_made {
            return Ok(None);
        }
        let kept = self.folder.join("aside");
        match fs::rename(&path, &kept) {
            Ok(()) => Ok(Some(Aside { path, kept })),
            Err(source) => Err(BuildError::Stale { path, source }.into()),
        }
    }

    /// The working tree's build writes to all of the tree but what is git's and `.gate`, and to the caches that the
    /// user's own builds write to.
    ///
    /// `outcome` is what is to be made in the tree.
    fn tree_for(&self, outcome: &Path) -> Result<Place, WorkspaceError> {
        // Cargo's own, so that its cache serves the user's builds too; elsewhere nothing of ours lies in the tree.
        let target = match self.is_of_cargo() {
            true => self.root.join("target"),
            false => self.folder.join("target"),
        };
        let tmp = self.fresh("build")?;
        let mut place = Place {
            tree: self.root.clone(),
            target: target.clone(),
            env: Vec::new(),
            own: Vec::new(),
            read: Vec::new(),
        };
        if !self.sandbox.is_in_force() {
            return Ok(place);
        }
        place.env = self.private(&tmp);
        let tree = Repository::tree_around(&self.root);
        let first = |path: &Path, n: usize| path.components().take(n).collect::<PathBuf>();
        // A new folder at the top of the tree can only be made before the sandbox is in force.
        let top = match outcome.starts_with(".gate") {
            true => first(outcome, 2),
            false => first(outcome, 1),
        };
        let is_below = !top.to_string_lossy().contains('{') && top != outcome;
        let made = [Some(target), is_below.then(|| self.root.join(&top))];
        for folder in made.iter().flatten() {
            self.make(folder)?;
        }
        let cargo = scratch::user_cargo();
        let settings = scratch::SETTINGS.map(|name| cargo.join(name));
        for path in &settings {
            let text = fs::read_to_string(path).unwrap_or_default();
            if scratch::hold_token(&text) {
                return Err(WorkspaceError::Token(path.clone()));
            }
        }
        let kept = ["bin", "credentials", "credentials.toml", "env"];
        let kept = kept.iter().map(|name| cargo.join(name));
        let kept: Vec<PathBuf> = kept.chain(settings.clone()).collect();
        let home = scratch::home();
        let caches = [".cache", ".npm", "go"].map(|name| home.join(name));
        let mut closed = vec![tree.join(".git"), self.folder.clone()];
        // Git itself runs what the settings of a submodule name.
        closed
            .extend(Repository::open(&self.root).map_or_else(|_| Vec::new(), |of| of.submodules()));
        let own = all_but(tree, &closed)
            .into_iter()
            .chain(made.into_iter().flatten())
            .chain(all_but(&cargo, &kept))
            .chain(caches)
            .chain([tmp]);
        place.own = own.collect();
        place.read = [vec![tree.join(".git")], settings.to_vec()].concat();
        Ok(place)
    }

    /// The working tree, to test what is in it.
    pub fn working_tree(&self, suite: &plan::Suite) -> Result<Place, WorkspaceError> {
        if let Some(user) = self.sandbox.user() {
            return Err(WorkspaceError::TreeOfAnother(user.to_owned()));
        }
        let junit = suite.junit.as_deref().unwrap_or("{target}");
        self.tree_for(Path::new(junit))
    }
}

/// A file that is put back where a build makes no other in its place.
struct Aside {
    path: PathBuf,
    kept: PathBuf,
}

impl Drop for Aside {
    fn drop(&mut self) {
        let _ = match self.path.symlink_metadata() {
            Ok(_) => fs::remove_file(&self.kept),
            Err(_) => fs::rename(&self.kept, &self.path),
        };
    }
}

/// CMake keeps the values of options, whatever another tree says of them; what it compiled stays. Below `target`, since Cargo's
/// build scripts have folders of their own.
pub fn forget_options(target: &Path) -> io::Result<()> {
    /// Cargo's own, in which a build script has nothing.
    const OF_CARGO: [&str; 4] = ["deps", "examples", "incremental", ".fingerprint"];
    let entries = match fs::read_dir(target) {
        // Another build removed the folder, or this one cannot read it either.
        Err(error) if is_of_no_use(&error) => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        if name == "CMakeCache.txt" {
            match fs::remove_file(entry.path()) {
                Err(error) if is_of_no_use(&error) => {}
                removed => removed?,
            }
        } else if entry.file_type()?.is_dir() && !OF_CARGO.iter().any(|own| name == *own) {
            forget_options(&entry.path())?;
        }
    }
    Ok(())
}

/// CMake must write to its folder, too.
fn is_of_no_use(error: &io::Error) -> bool {
    use io::ErrorKind::{NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | PermissionDenied)
}
