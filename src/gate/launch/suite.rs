//! The project's own tests, run beside an engine in the tree that it was built from, with the rights of a build.
//!
//! Main type: [`SuiteJob`]. Refuses to know: what a JUnit file says.

use super::artifact;
use super::git::Repository;
use super::log;
use super::process::{Process, ProcessError, Start};
use super::workspace::{Place, Workspace, WorkspaceError};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use verdict::plan;

/// A JUnit file beyond this is not read.
const REPORT_BYTES: u64 = 32 * 1024 * 1024;

/// One run of a suite.
pub struct SuiteJob<'a> {
    pub suite: &'a plan::Suite,
    /// The commit whose tests run, in a clone of its own; `None`: those of the working tree.
    pub commit: Option<(&'a Repository, &'a str)>,
    /// The engine's artifact, which the tests may read; fills `{artifact}`.
    pub artifact: Option<&'a Path>,
    /// Fills `{port}` and `{url}`.
    pub port: u16,
    pub log: &'a Path,
}

/// What a suite left.
pub struct Tested {
    pub end: TestedEnd,
    /// Content of the JUnit file, or why it cannot be read; `None` where the suite names none.
    pub report: Option<Result<String, String>>,
    pub log_tail: String,
}

pub enum TestedEnd {
    Exited(ExitStatus),
    /// Killed at the suite's time limit.
    TimedOut,
    /// The program could not be started.
    NotStarted(String),
}

impl Workspace {
    /// Runs a suite to its end or to its time limit, and ends whatever it left running. Dropping the future kills it.
    ///
    /// # Errors
    /// The tree cannot be made ready, or the gate cannot run any process.
    pub async fn test(&self, job: &SuiteJob<'_>) -> Result<Tested, WorkspaceError> {
        let place = match job.commit {
            Some((repository, commit)) => self.clone_of(repository, commit)?,
            None => self.working_tree(job.suite)?,
        };
        let job = Filled::of(job, &place);
        let report = job.junit.as_ref().map(|path| Report::new(path, &place));
        if let Some(report) = &report {
            report.remove().map_err(|source| WorkspaceError::Folder {
                path: report.path.clone(),
                source,
            })?;
        }
        let end = self.run(&job, &place).await?;
        Ok(Tested {
            report: report.map(|report| report.read()),
            log_tail: log::tail(job.log),
            end,
        })
    }

    async fn run(&self, job: &Filled<'_>, place: &Place) -> Result<TestedEnd, WorkspaceError> {
        let env = [place.env.clone(), job.env.clone()].concat();
        let read = [
            place.read.clone(),
            job.artifact.map(Path::to_path_buf).into_iter().collect(),
        ]
        .concat();
        // An artifact is granted by itself: what a link in it names is the build's choice.
        let (command, named) = job.without_artifact();
        let policy = self.policy(place.own.clone(), read, &command, &named);
        let spawned = Process::spawn_beside(&Start {
            command: &job.command,
            env: &env,
            folder: &place.tree,
            log: job.log,
            policy: policy.as_ref(),
        });
        let mut process = match spawned {
            Err(ProcessError::Spawn { command, source }) => {
                return Ok(TestedEnd::NotStarted(format!(
                    "cannot start `{command}`: {source}"
                )));
            }
            spawned => spawned?,
        };
        let ended = process.wait(job.suite.timeout).await;
        // Whatever the tests left behind ends here, also after a success.
        process.stop().await?;
        let command = || job.command.join(" ");
        let ended = ended.map_err(|source| ProcessError::Wait {
            command: command(),
            source,
        })?;
        Ok(ended.map_or(TestedEnd::TimedOut, TestedEnd::Exited))
    }
}

/// A job with every placeholder filled in.
struct Filled<'a> {
    suite: &'a plan::Suite,
    command: Vec<String>,
    env: Vec<(String, String)>,
    junit: Option<PathBuf>,
    artifact: Option<&'a Path>,
    log: &'a Path,
}

impl<'a> Filled<'a> {
    fn of(job: &SuiteJob<'a>, place: &Place) -> Self {
        let target = place.target.to_string_lossy();
        let junit = job.suite.junit.as_ref();
        let junit = junit.map(|path| place.tree.join(path.replace("{target}", &target)));
        let port = job.port.to_string();
        let url = format!("http://127.0.0.1:{port}");
        let named = |path: Option<&Path>| {
            path.map(|path| path.to_string_lossy().into_owned())
                .unwrap_or_default()
        };
        let (artifact, report) = (named(job.artifact), named(junit.as_deref()));
        let values = [
            ("{artifact}", &*artifact),
            ("{target}", &*target),
            ("{junit}", &*report),
            ("{port}", &*port),
            ("{url}", &*url),
        ];
        let fill = |text: &String| {
            values.iter().fold(text.clone(), |text, (name, value)| {
                text.replace(name, value)
            })
        };
        Self {
            suite: job.suite,
            command: job.suite.command.iter().map(fill).collect(),
            env: job
                .suite
                .env
                .iter()
                .map(|(name, value)| (name.clone(), fill(value)))
                .collect(),
            junit,
            artifact: job.artifact,
            log: job.log,
        }
    }

    /// The words and variables that do not name the artifact.
    fn without_artifact(&self) -> (Vec<String>, Vec<(String, String)>) {
        let artifact = self
            .artifact
            .map(|path| path.to_string_lossy().into_owned());
        let is_free = |text: &str| {
            artifact
                .as_ref()
                .is_none_or(|artifact| !text.contains(artifact.as_str()))
        };
        let command = self.command.iter().filter(|word| is_free(word)).cloned();
        let env = self.env.iter().filter(|(_, value)| is_free(value)).cloned();
        (command.collect(), env.collect())
    }
}

/// The JUnit file, which whoever is tested writes: no link in its path is followed out of the tree.
struct Report {
    path: PathBuf,
    /// The folders that it may be in.
    own: Vec<PathBuf>,
}

impl Report {
    fn new(path: &Path, place: &Place) -> Self {
        let own = [&place.tree, &place.target].into_iter();
        Self {
            path: path.to_path_buf(),
            own: own
                .filter_map(|folder| folder.canonicalize().ok())
                .collect(),
        }
    }

    /// The file's real place; `None`: its folder is not there, or elsewhere.
    fn real(&self) -> Option<PathBuf> {
        let folder = self.path.parent()?.canonicalize().ok()?;
        let is_own = self.own.iter().any(|own| folder.starts_with(own));
        is_own.then(|| folder.join(self.path.file_name().unwrap_or_default()))
    }

    /// Removes what an earlier run or a commit left there.
    fn remove(&self) -> io::Result<()> {
        match self.real().map(fs::remove_file) {
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn read(&self) -> Result<String, String> {
        let Some(real) = self.real() else {
            return Err("was not written".into());
        };
        let file = match artifact::open_plain(&real) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err("was not written".into());
            }
            Err(error) => return Err(format!("cannot be read: {error}")),
        };
        let mut bytes = Vec::new();
        let read = file.take(REPORT_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(|error| format!("cannot be read: {error}"))?;
        if bytes.len() as u64 > REPORT_BYTES {
            return Err(format!("has more than {} MiB", REPORT_BYTES >> 20));
        }
        String::from_utf8(bytes).map_err(|_| "is not UTF-8".into())
    }
}
