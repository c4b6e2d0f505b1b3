//! The arms of a session: what they are built from, and the commands that start them.

use super::{Base, Options};
use crate::launch::{self, Artifact, Repository};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use verdict::plan::{Engine, Plan};
use verdict::record::{Arm, Build, Comparison};

/// Both arms of a session, or head alone.
pub struct Arms {
    pub comparison: Comparison,
    pub builds: Vec<Build>,
    /// The built files; none where nothing is built.
    pub artifacts: Vec<(Arm, PathBuf)>,
    /// Head is a commit, and not the working tree.
    pub is_head_a_commit: bool,
    /// Files of the working tree that differ from what an arm was built from.
    pub foreign: Vec<(Arm, Vec<(String, PathBuf)>)>,
}

impl Arms {
    /// Arms made from sources. `base` is missing in a stored comparison.
    pub fn built(
        plan: &Plan,
        options: &Options,
        (head, commit, dirty): (Artifact, Option<String>, bool),
        base: Option<(Artifact, String)>,
    ) -> Self {
        let head_build = Build {
            arm: Arm::Head,
            commit,
            subject: None,
            dirty,
            artifact_sha256: Some(head.sha256.clone()),
            command: command(&plan.engine, Some(&head.path), &options.head_args),
            files: Vec::new(),
            build_s: head.build_s,
            on_ci: Some(head.on_ci),
        };
        let mut artifacts = vec![(Arm::Head, head.path)];
        let Some((base, commit)) = base else {
            return Self {
                comparison: Comparison::Stored,
                builds: vec![head_build],
                artifacts,
                is_head_a_commit: options.head.is_some(),
                foreign: Vec::new(),
            };
        };
        let base_build = Build {
            arm: Arm::Base,
            commit: Some(commit),
            subject: None,
            dirty: false,
            artifact_sha256: Some(base.sha256),
            command: command(&plan.engine, Some(&base.path), &options.base_args),
            files: Vec::new(),
            build_s: base.build_s,
            on_ci: Some(base.on_ci),
        };
        artifacts.push((Arm::Base, base.path));
        Self {
            is_head_a_commit: options.head.is_some(),
            ..Self::of(vec![base_build, head_build], artifacts)
        }
    }

    /// With the subject of each arm's commit.
    pub fn with_subjects(mut self, repository: Option<&Repository>) -> Self {
        for build in &mut self.builds {
            let commit = build.commit.as_deref().zip(repository);
            build.subject = commit.and_then(|(commit, repository)| repository.subject(commit));
        }
        self
    }

    /// An engine that is not built here: both arms start the same command.
    pub fn without_build(plan: &Plan, options: &Options) -> Self {
        let build = |arm, args: &[String]| Build {
            arm,
            commit: None,
            subject: None,
            dirty: false,
            artifact_sha256: None,
            command: command(&plan.engine, None, args),
            files: Vec::new(),
            build_s: 0.0,
            on_ci: None,
        };
        let head = build(Arm::Head, &options.head_args);
        if options.base == Base::Stored {
            return Self {
                comparison: Comparison::Stored,
                builds: vec![head],
                artifacts: Vec::new(),
                is_head_a_commit: false,
                foreign: Vec::new(),
            };
        }
        let base = build(Arm::Base, &options.base_args);
        Self::of(vec![base, head], Vec::new())
    }

    /// Two arms; alike where their commands and artifacts are.
    pub fn of(builds: Vec<Build>, artifacts: Vec<(Arm, PathBuf)>) -> Self {
        let same = builds[0].command == builds[1].command
            && builds[0].artifact_sha256 == builds[1].artifact_sha256;
        Self {
            comparison: if same {
                Comparison::SameBuild
            } else {
                Comparison::Interleaved
            },
            builds,
            artifacts,
            is_head_a_commit: false,
            foreign: Vec::new(),
        }
    }

    /// Head alone as both arms: an A/A run.
    pub fn against_itself(self) -> Self {
        let twin = |build: &Build| Build {
            arm: Arm::Base,
            ..build.clone()
        };
        let base: Vec<Build> = self.builds.iter().map(twin).collect();
        let files = self.artifacts.iter();
        let files: Vec<_> = files.map(|(_, path)| (Arm::Base, path.clone())).collect();
        Self {
            comparison: Comparison::SameBuild,
            builds: base.into_iter().chain(self.builds).collect(),
            artifacts: files.into_iter().chain(self.artifacts).collect(),
            is_head_a_commit: self.is_head_a_commit,
            foreign: Vec::new(),
        }
    }

    /// True if both arms are one engine though their sources differ.
    pub fn is_one_engine(&self) -> bool {
        matches!(self.builds.as_slice(), [base, head] if base.is_same_engine(head))
    }

    pub fn artifact(&self, arm: Arm) -> Option<&Path> {
        let built = self.artifacts.iter().find(|(of, _)| *of == arm);
        built.map(|(_, path)| path.as_path())
    }

    /// Files of the working tree that differ from the commits that the arms were built from, and that git tracks: what it
    /// does not, no commit had.
    fn foreign(&self, root: &Path) -> Vec<(Arm, Vec<(String, PathBuf)>)> {
        let Ok(repository) = Repository::open(root) else {
            return Vec::new();
        };
        let are_trees = self.comparison == Comparison::SameBuild;
        let is_tree = |arm| !self.is_head_a_commit && (arm == Arm::Head || are_trees);
        let commits = self.builds.iter().filter(|build| !is_tree(build.arm));
        let foreign = commits.filter_map(|build| {
            let names = repository.changed_files(build.commit.as_deref()?).ok()?;
            let named = names.into_iter().map(|name| {
                let path = repository.root().join(&name);
                (name.escape_debug().to_string(), path)
            });
            Some((build.arm, named.collect()))
        });
        foreign.collect()
    }

    /// Settings of the working tree that an arm's build reads and that differ from its commit. Commits are built below the
    /// tree: Cargo merges the settings of all parent folders, rustup takes the nearest toolchain file
    /// (doc.rust-lang.org/cargo/reference/config.html, rust-lang.github.io/rustup/overrides.html).
    pub fn foreign_settings(&self, arm: Arm, root: &Path) -> Vec<String> {
        let commit = self.builds.iter().find(|build| build.arm == arm);
        let commit = commit.and_then(|build| build.commit.as_deref());
        let of_arm = self.foreign.iter().filter(|(of, _)| *of == arm);
        let files = of_arm.flat_map(|(_, files)| files);
        let around: Vec<PathBuf> = launch::settings_around(root).collect();
        let has_toolchain = |path: &Path| {
            let paths =
                ["rust-toolchain.toml", "rust-toolchain"].map(|name| path.with_file_name(name));
            let repository = Repository::open(root).ok().zip(commit);
            repository.is_some_and(|(it, commit)| paths.iter().any(|path| it.has(commit, path)))
        };
        let is_merged = |path: &Path| {
            path.parent()
                .is_some_and(|folder| folder.ends_with(".cargo"))
        };
        let is_read =
            |path: &PathBuf| around.contains(path) && (is_merged(path) || !has_toolchain(path));
        let read = files.filter(|(_, path)| is_read(path) && path.exists());
        read.map(|(name, _)| name.clone()).collect()
    }

    /// Tells of each arm what else it is made of. A file that cannot be read is left out.
    pub async fn identify(&mut self, engine: &Engine, root: &Path) {
        self.foreign = self.foreign(root);
        let arms = self.builds.iter();
        let wanted: Vec<Vec<(String, PathBuf)>> = arms
            .map(|build| made_of(engine, root, build, self.artifact(build.arm)))
            .collect();
        // Reading takes a while, in which a signal must still be heard.
        let identified = tokio::task::spawn_blocking(move || {
            let mut known = BTreeMap::new();
            let mut identify = |(name, path): (String, PathBuf)| {
                let known = known.entry(path);
                let known = known.or_insert_with_key(|path| launch::identify(&name, path));
                known.clone()
            };
            let arms = wanted.into_iter();
            arms.map(|files| files.into_iter().filter_map(&mut identify).collect())
                .collect::<Vec<_>>()
        });
        match identified.await {
            Ok(files) => {
                for (build, files) in self.builds.iter_mut().zip(files) {
                    build.files = files;
                }
            }
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }
}

/// Name and path of everything that an arm's engine is made of, but for the artifact, which has a digest of its
/// own.
pub fn made_of(
    engine: &Engine,
    root: &Path,
    build: &Build,
    artifact: Option<&Path>,
) -> Vec<(String, PathBuf)> {
    let word = build.command.first();
    let program = word.and_then(|word| {
        let path = launch::program(word, root, &engine.env)?;
        Some((word.clone(), path))
    });
    let files = engine.files.iter();
    let files = files.map(|name| (name.clone(), root.join(filled(name, artifact))));
    let tokenizer = engine.tokenizer.iter();
    let tokenizer = tokenizer.map(|path| (path.display().to_string(), root.join(path)));
    let mut all: Vec<(String, PathBuf)> =
        program.into_iter().chain(files).chain(tokenizer).collect();
    all.retain(|(_, path)| artifact != Some(path));
    all
}

/// A word of the configuration with the artifact filled in.
pub fn filled(word: &str, artifact: Option<&Path>) -> String {
    match artifact {
        Some(path) => word.replace("{artifact}", &path.to_string_lossy()),
        None => word.to_owned(),
    }
}

/// `python -m` and `-c` look for modules in the working directory first, which is the project's root: both arms would run
/// the working tree's. Python 3.11 and later leave it out if told so, but then the folder of a script too: a command that
/// starts a script is left alone.
pub fn own_modules(artifact: Option<&Path>, command: &[String]) -> Option<(String, String)> {
    // A shell's word may hold a command of its own.
    let words: Vec<&str> = command.iter().flat_map(|w| w.split_whitespace()).collect();
    let is_module = artifact.is_some() && (0..words.len()).any(|at| starts_module(&words[at..]));
    is_module.then(|| ("PYTHONSAFEPATH".to_owned(), "1".to_owned()))
}

/// True if these words begin with a Python that is to run a module or a text: `python3 -X dev -um engine`.
fn starts_module(words: &[&str]) -> bool {
    let program = Path::new(words[0])
        .file_name()
        .and_then(|name| name.to_str());
    if !program.is_some_and(|name| name.starts_with("python") || name.starts_with("pypy")) {
        return false;
    }
    let mut options = words[1..].iter();
    while let Some(letters) = options.next().and_then(|word| word.strip_prefix('-')) {
        if letters.starts_with('-') {
            continue;
        }
        // The first letter that takes a value takes the rest of the word, or the next one.
        match letters.find(['c', 'm', 'W', 'X']) {
            Some(at) if letters[at..].starts_with(['c', 'm']) => return true,
            Some(at) if at + 1 == letters.len() => drop(options.next()),
            _ => {}
        }
    }
    false
}

/// The engine's command line with the artifact filled in and the port left open.
pub fn command(engine: &Engine, artifact: Option<&Path>, args: &[String]) -> Vec<String> {
    engine
        .serve
        .iter()
        .map(|word| filled(word, artifact))
        .chain(args.iter().cloned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use verdict::plan::{self, Selection};

    #[test]
    fn a_python_that_starts_a_module_is_known() {
        let check = |command: &str, expect: bool| {
            let command: Vec<String> = command.split('|').map(str::to_owned).collect();
            let own = own_modules(Some(Path::new("/a")), &command).is_some();
            assert_eq!(own, expect, "{command:?}");
            assert_eq!(own_modules(None, &command), None);
        };
        for command in [
            "python3|-m|pkg",
            "/usr/bin/python3.12|-um|pkg|--port|1",
            "python3|-mpkg",
            "env|X=1|python|-X|dev|-W|error|-m|pkg",
            "sh|-c|exec python -m pkg --port 1",
            "uv|run|python|-c|import pkg",
        ] {
            check(command, true);
        }
        for command in [
            "python3|/a/server.py|-m|model.gguf",
            "./run.sh|-m|/a/model",
            "python3|-X|m|/a/server.py",
        ] {
            check(command, false);
        }
    }

    #[test]
    fn an_engine_is_made_of_its_program_its_files_and_the_tokenizer() {
        let root = fixture::repository();
        let selection = Selection {
            profile: "quick".into(),
            gates: Vec::new(),
        };
        let (plan, _) = plan::from_directory(root, &selection).unwrap();
        let mut engine = plan.engine;
        engine.serve = vec!["{artifact}".into()];
        engine.files = vec!["{artifact}".into(), "gates/models".into()];
        engine.tokenizer = Some("tokenizer.json".into());
        let check = |program: &str, artifact: Option<&str>, expect: &[&str]| {
            let artifact = artifact.map(Path::new);
            let build = Build {
                arm: Arm::Head,
                commit: None,
                subject: None,
                dirty: false,
                artifact_sha256: None,
                command: vec![filled(program, artifact)],
                files: Vec::new(),
                build_s: 0.0,
                on_ci: None,
            };
            let files = made_of(&engine, root, &build, artifact);
            let expect = expect.iter().map(|name| root.join(name));
            let paths: Vec<PathBuf> = files.into_iter().map(|(_, path)| path).collect();
            assert_eq!(paths, expect.collect::<Vec<_>>());
        };
        let artifact = root.join("Cargo.toml");
        let artifact = artifact.to_str();
        check("{artifact}", artifact, &["gates/models", "tokenizer.json"]);
        let with_program = ["./.ci/run", "gates/models", "tokenizer.json"];
        check("./.ci/run", artifact, &with_program);
        let unbuilt = [".ci/run", "{artifact}", "gates/models", "tokenizer.json"];
        check("./.ci/run", None, &unbuilt);
    }
}
