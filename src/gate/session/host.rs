//! Commands of the two arms, and the [`Host`] that starts and stops them.

use super::{Base, Error, Event, Options};
use crate::launch::{
    self, Artifact, NotReady, Process, Repository, Start, StartError, TreeFiles, Workspace,
    await_ready, free_port,
};
use crate::measure::{Configuration, Host, Started};
use client::ProbeError;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use verdict::plan::{Engine, Plan, Suite, Workload};
use verdict::record::{Arm, Build, Comparison, Exit, Launch, PageCache, Startup, SuiteRun};

/// How long an engine that answers no more may take to be gone: its connections end before it does.
const LAST_BREATH: Duration = Duration::from_secs(1);

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
fn made_of(
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
fn filled(word: &str, artifact: Option<&Path>) -> String {
    match artifact {
        Some(path) => word.replace("{artifact}", &path.to_string_lossy()),
        None => word.to_owned(),
    }
}

/// `python -m` and `-c` look for modules in the working directory first, which is the project's root: both arms would run
/// the working tree's. Python 3.11 and later leave it out if told so, but then the folder of a script too: a command that
/// starts a script is left alone.
fn own_modules(artifact: Option<&Path>, command: &[String]) -> Option<(String, String)> {
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

/// Starts the engines of a session.
pub struct ArmHost<'a> {
    pub engine: &'a Engine,
    pub arms: &'a Arms,
    pub workspace: &'a Workspace,
    /// Working directory of the engines.
    pub root: &'a Path,
    /// Where their logs go.
    pub out: &'a Path,
    pub clock: &'a client::SessionClock,
    /// Gets a line about an engine that listens on another port than its own.
    pub on_event: &'a dyn Fn(Event),
    /// The served model's, if the configuration names one.
    pub tokenizer: Option<Arc<client::Tokenizer>>,
    /// In the order in which they were started.
    pub running: Vec<Process>,
    /// An engine that has generated no token yet, and what was last heard of it: the session may end before it has.
    pub starting: RefCell<Option<(Arm, String)>>,
    /// Whether it was said that nobody knows which files of the tree are read.
    is_unwatched: Cell<bool>,
}

impl<'a> ArmHost<'a> {
    /// A host with no engine running.
    ///
    /// # Errors
    /// The tokenizer that the engine's configuration names cannot be read.
    pub fn new(
        engine: &'a Engine,
        arms: &'a Arms,
        workspace: &'a Workspace,
        root: &'a Path,
        out: &'a Path,
        clock: &'a client::SessionClock,
        on_event: &'a dyn Fn(Event),
    ) -> Result<Self, client::TokenizerError> {
        let path = engine.tokenizer.as_ref().map(|path| root.join(path));
        let tokenizer = path.as_deref().map(client::Tokenizer::open).transpose()?;
        Ok(Self {
            engine,
            arms,
            workspace,
            root,
            out,
            clock,
            on_event,
            tokenizer: tokenizer.map(Arc::new),
            running: Vec::new(),
            starting: RefCell::default(),
            is_unwatched: Cell::default(),
        })
    }
}

impl ArmHost<'_> {
    fn command(&self, arm: Arm, args: &[String], port: u16) -> Vec<String> {
        let build = Build::of(&self.arms.builds, arm);
        let words = build
            .map(|build| build.command.as_slice())
            .unwrap_or_default();
        let fill = |word: &String| word.replace("{port}", &port.to_string());
        words.iter().chain(args).map(fill).collect()
    }

    /// Brings the engine's files into the state that a gate wants; the share of their pages in memory.
    async fn prepare(&self, arm: Arm, wanted: Option<PageCache>) -> Result<Option<f64>, Error> {
        let Some(state) = wanted else {
            return Ok(None);
        };
        let files = self.files(arm);
        // Reading a model's weights takes a while, in which a signal must still be heard.
        let prepared = tokio::task::spawn_blocking(move || launch::prepare(state, &files)).await;
        match prepared {
            Ok(share) => Ok(share?),
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }

    /// The first file of the arm's engine that was changed since the session began, as a sentence; `None`: none was.
    async fn altered(&self, arm: Arm) -> Option<String> {
        let build = Build::of(&self.arms.builds, arm)?.clone();
        let artifact = self.arms.artifact(arm).map(Path::to_path_buf);
        let made_of = made_of(self.engine, self.root, &build, artifact.as_deref());
        // Reading takes a while, in which a signal must still be heard.
        let compared = tokio::task::spawn_blocking(move || {
            let now = artifact
                .as_deref()
                .map(|path| launch::sha256(path).unwrap_or_default());
            if let (Some(then), Some(now)) = (&build.artifact_sha256, now)
                && *then != now
            {
                return Some(format!(
                    "its artifact was written to since it was built: SHA-256 {then}, now {now}"
                ));
            }
            let mut all = made_of.into_iter();
            all.find_map(|(name, path)| {
                let then = build.files.iter().find(|file| file.name == name)?;
                let is_same = launch::identify(&name, &path).as_ref() == Some(then);
                (!is_same).then(|| format!("{name} was written to since the session began"))
            })
        });
        match compared.await {
            Ok(altered) => altered,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }

    fn files(&self, arm: Arm) -> Vec<PathBuf> {
        let artifact = self.arms.artifact(arm);
        let files = self.engine.files.iter();
        files
            .map(|name| self.root.join(filled(name, artifact)))
            .collect()
    }

    /// In a sentence's words, what the first launch that is not over waits for, of this position, or one that runs beside
    /// it, if its engine is not ready yet.
    pub fn starting(&self, position: usize) -> Option<String> {
        let starting = self.starting.borrow();
        let (arm, heard) = starting.as_ref()?;
        let (arm, position) = (arm.name(), position + self.running.len());
        Some(format!(
            "launch {position} ({arm}) had generated no token yet: {heard}"
        ))
    }

    /// Watches the files that are not the arm's.
    fn watch(&self, arm: Arm) -> Option<TreeFiles<'_>> {
        let mut foreign = self.arms.foreign.iter();
        let (_, files) = foreign.find(|(of, _)| *of == arm)?;
        let error = match TreeFiles::watch(files) {
            Ok(watch) => return Some(watch),
            Err(error) => error,
        };
        if !self.is_unwatched.replace(true) {
            let line = format!(
                "whether an arm reads the working tree's files in place of its own is not watched: inotify: {error}"
            );
            (self.on_event)(Event::Step { line });
        }
        None
    }

    /// One try at one port.
    async fn try_start(
        &mut self,
        arm: Arm,
        args: &[String],
        log: &Path,
        port: u16,
    ) -> Result<Result<Started, StartError>, Error> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let command = self.command(arm, args, port);
        // Before the first engine, so that all have the limit that the client needs.
        client::allow_files();
        let mut files = self.files(arm);
        files.extend(self.arms.artifact(arm).map(Path::to_path_buf));
        let around = self.workspace.engine(arm, self.engine, &command, &files)?;
        let artifact = self.arms.artifact(arm);
        let env = around.env.into_iter();
        let env = env.map(|(name, value)| (name, filled(&value, artifact)));
        let own = own_modules(artifact, &command);
        let env: Vec<(String, String)> = own.into_iter().chain(env).collect();
        let start = Start {
            command: &command,
            env: &env,
            folder: self.root,
            log,
            policy: around.policy.as_ref(),
        };
        let tree_files = self.watch(arm);
        let mut process = match self.running.is_empty() {
            true => Process::spawn(&start)?,
            false => Process::spawn_beside(&start)?,
        };
        let endpoint = client::Endpoint::new(address, self.engine, self.tokenizer.clone());
        let starting = &self.starting;
        let hear = |heard: &str| *starting.borrow_mut() = Some((arm, heard.to_owned()));
        hear("it had not answered");
        let probe = || async {
            let probed = client::probe(&endpoint).await;
            probed.map_err(|error| {
                let said = error.to_string();
                hear(&said);
                NotReady {
                    said,
                    is_hopeless: matches!(error, ProbeError::OtherModel { .. }),
                }
            })
        };
        let within = self.engine.ready_timeout;
        let elsewhere = |said: &str| {
            hear(said);
            let line = format!("{}: {said}", arm.name());
            (self.on_event)(Event::Step { line });
        };
        let ready = await_ready(&mut process, address, within, probe, elsewhere).await;
        self.starting.take();
        let ready = match ready {
            Ok(ready) => ready,
            Err(error) => {
                process.stop().await?;
                return Ok(Err(error));
            }
        };
        let startup = Startup {
            spawn_ns: self.clock.ns(ready.spawned),
            port_open_ns: Some(self.clock.ns(ready.port_open)),
            probe_ns: Some(self.clock.ns(ready.asked)),
            ready_ns: Some(self.clock.ns(ready.ready)),
            resident_share: None,
            stages: Vec::new(),
            tree_files: tree_files.map(TreeFiles::read).unwrap_or_default(),
        };
        let pid = Some(process.pid());
        self.running.push(process);
        Ok(Ok(Started {
            endpoint,
            startup,
            pid,
        }))
    }
}

impl Host for ArmHost<'_> {
    type Error = Error;

    async fn start(
        &mut self,
        arm: Arm,
        configuration: &Configuration,
        log: &str,
    ) -> Result<Result<Started, Exit>, Error> {
        let Configuration {
            args, page_cache, ..
        } = configuration;
        let log = self.out.join(log);
        if let Some(detail) = self.altered(arm).await {
            return Ok(Err(Exit::Altered { detail }));
        }
        let mut again = true;
        loop {
            let resident_share = self.prepare(arm, *page_cache).await?;
            let port = free_port()?;
            match self.try_start(arm, args, &log, port).await? {
                Ok(mut started) => {
                    started.startup.resident_share = resident_share;
                    return Ok(Ok(started));
                }
                // Once: an engine that always says so takes a port of its own choice.
                Err(error) if again && error.lost_its_port(port) => again = false,
                Err(error) => {
                    return Ok(Err(Exit::NeverReady {
                        detail: error.detail,
                        log_tail: error.log_tail,
                    }));
                }
            }
        }
    }

    fn no_room(&self, arm: Arm, exit: &Exit) -> Error {
        let (detail, log) = match exit {
            Exit::NeverReady { detail, log_tail } => (detail.as_str(), log_tail.as_str()),
            _ => ("it did not start", ""),
        };
        Error::Failed(format!(
            "{}'s engine starts alone, and not beside the other arm's ({detail}): two of them do not fit here. Leave \
             `interleave` out of gates/gate.toml, or give the engine less memory; its log ends:\n{log}",
            arm.name()
        ))
    }

    async fn suite(
        &mut self,
        launch: &Launch,
        started: &Started,
        workload: &Workload,
        suite: &Suite,
    ) -> Result<SuiteRun, Error> {
        self.test(launch, started, workload, suite).await
    }

    async fn stop(&mut self, silent: Option<String>) -> Result<Exit, Error> {
        let Some(mut process) = self.running.pop() else {
            return Ok(Exit::Stopped);
        };
        // A process that is gone explains a silence better than the silence does.
        let ended = match silent {
            Some(_) => process.wait(LAST_BREATH).await.ok().flatten(),
            None => process.exited(),
        };
        let exit = match (ended, silent) {
            (Some(status), _) => Exit::Crashed {
                detail: format!("the engine exited during the run ({status})"),
                log_tail: process.log_tail(),
            },
            (None, Some(detail)) => Exit::Hung {
                detail,
                log_tail: process.log_tail(),
            },
            (None, None) => Exit::Stopped,
        };
        process.stop().await?;
        Ok(exit)
    }
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
