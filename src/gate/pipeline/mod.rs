//! The one place that names every stage in order: plan → launch → measure → judge → report.
//!
//! [`check`] is what `gate check` does, [`resume()`] what it does with `--resume`; [`judge_directory`]
//! recomputes its verdict from `run.json` alone; [`record_baseline`] measures main for later comparisons, and
//! [`history()`] reads what it stored; [`load()`] measures a server that already runs; [`calibrate()`] measures
//! the machine by A/A sessions, and [`power()`] says from that what an effect costs.
//! Whoever calls shows the [`Event`]s.

mod at_most;
mod authorize;
mod baseline;
mod bisect;
mod calibrate;
mod caveats;
mod checkpoint;
mod citation;
mod compare;
mod doctor;
mod engines;
mod exchange;
mod explain;
mod github;
mod golden;
mod history;
mod host;
mod import;
mod label;
mod load;
mod merge;
mod note;
mod past;
mod power;
mod publish;
mod rendering;
mod replay;
mod results;
mod resume;
mod selftest;
mod session;
mod shards;
mod sources;
mod spent;
mod suite;

pub use at_most::AtMost;
pub use authorize::{AuthorizeOptions, Queued, Ruling, RunOrigin, authorize};
pub use baseline::{Recorded, record_baseline};
pub use bisect::{BisectOptions, bisect, resume_bisect};
pub use calibrate::{CalibrateOptions, Calibration, CalibrationResult, calibrate};
pub use compare::{Source, compare_files};
pub use doctor::doctor;
pub use engines::{Contest, compare_engines};
pub use exchange::{
    Exchanged, Signed, prune_baseline, pull_baseline, push_baseline, sign_baseline, stored_sessions,
};
pub use explain::explain_directory;
pub use github::GitHubOptions;
pub use golden::{GoldenError, GoldenOptions, MadeGoldens, Reference, make_goldens};
pub use history::{HistoryOptions, Told, history};
pub use import::{import_figures, import_session};
pub use label::{LabelOptions, Labelled, Trigger, label, label_diff};
pub use load::{LoadOptions, Traffic, load};
pub use merge::{MergeError, merge_directories};
pub use note::{About, NoteOptions, note};
pub use power::{PowerOptions, power};
pub use publish::{End, PublishOptions, Published, Refusal, Subject, publish};
pub use rendering::{Form, rendered};
pub use replay::replay;
pub use results::{ResultsError, judge_directory};
pub use resume::{ResumeError, resume};
pub use selftest::{Selftest, SelftestOptions, selftest};
pub use shards::{Cost, CostSource, Layout, LayoutOptions, layout};

use crate::baseline::{FormatError, RemoteError, StoreError};
use crate::calibration::CertificateError;
use crate::launch::{
    BuildError, GitError, PageCacheError, ProcessError, Workspace, WorkspaceError,
};
use crate::measure::{self, Progress};
use crate::selftest::Row;
use client::load::TokenizerError;
use host::Arms;
use results::Results;
use sources::build_arms;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::{Duration, SystemTime};
use verdict::plan::{self, Plan, PlanError, Selection};
use verdict::record::{
    Comparison, Ending, Extent, Input, Machine, RUN_FORMAT, RunRecord, RunVerdict, Verdict,
};

/// What the head is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// The merge-base with origin/main or main.
    Main,
    /// The merge-base with this ref.
    Ref(String),
    /// Main's stored sessions of this machine.
    Stored,
    /// The commit of this ref itself: a frozen release.
    Anchor(String),
}

/// What to check and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the search for the project begins.
    pub start: PathBuf,
    pub selection: Selection,
    pub base: Base,
    /// The commit to check, with the gates of the working tree; `None`: the working tree itself.
    pub head: Option<String>,
    /// The result directory; `None`: a new one under `.gate/runs`.
    pub out: Option<PathBuf>,
    pub seed: Option<u64>,
    /// Further arguments to one arm's engine: compares configurations, or plants a fault.
    pub base_args: Vec<String>,
    pub head_args: Vec<String>,
    /// One build is meant to be measured against itself.
    pub same_build: bool,
    /// The gates of the whole run, of which this session is to be one shard; empty: it is the run.
    pub together: Vec<String>,
}

/// What happens, as it happens.
#[derive(Clone, Debug)]
pub enum Event {
    Building {
        what: String,
    },
    Built {
        what: String,
        seconds: f64,
    },
    /// A session goes on: what is kept of it.
    Resumed {
        launches: u32,
        elapsed: Duration,
        /// A launch was cut off; it is measured again.
        is_cut_off: bool,
    },
    /// Measuring begins: at most so many blocks, in at most so much time.
    Measuring {
        comparison: Comparison,
        blocks: u32,
        budget: Duration,
    },
    /// An A/A session of a calibration begins; counted from 1.
    Session {
        number: u32,
        of: u32,
    },
    /// … and ended.
    SessionDone {
        number: u32,
        of: u32,
        verdict: Verdict,
    },
    /// An engine of a comparison is launched; rounds count from 0.
    Engine {
        name: String,
        round: u32,
    },
    Progress(Progress),
    /// A search over commits goes a step further: a line for whoever waits.
    Step {
        line: String,
    },
    /// `gate selftest` begins with a fault; they count from 1.
    Planting {
        what: &'static str,
        number: usize,
        of: usize,
    },
    Planted(Row),
    /// A block is done; this is how things stand.
    Looked {
        blocks: u32,
        verdict: RunVerdict,
    },
}

/// A session's result.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub record: RunRecord,
    pub verdict: RunVerdict,
    pub directory: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    PageCache(#[from] PageCacheError),
    #[error(transparent)]
    Results(#[from] ResultsError),
    #[error(transparent)]
    Resume(#[from] ResumeError),
    #[error(transparent)]
    Merge(#[from] MergeError),
    #[error(transparent)]
    Baseline(#[from] StoreError),
    #[error(transparent)]
    Remote(#[from] RemoteError),
    #[error(transparent)]
    Record(#[from] FormatError),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    #[error(transparent)]
    GitHub(#[from] ::github::Error),
    #[error(transparent)]
    Golden(#[from] GoldenError),
    #[error("nothing answers at {url}: {cause}; is the server up, and is this its port?")]
    Unanswered { url: String, cause: String },
    #[error("{0}")]
    Usage(String),
    #[error("interrupted before anything was measured")]
    Interrupted,
}

impl From<GitError> for Error {
    fn from(error: GitError) -> Self {
        Self::Workspace(error.into())
    }
}

impl From<BuildError> for Error {
    fn from(error: BuildError) -> Self {
        Self::Workspace(error.into())
    }
}

/// Builds, launches, measures, judges and reports. `cancel` ends the session early; what was measured
/// until then is kept and judged. Where nothing is measured, a named result directory says why.
pub async fn check(
    options: &Options,
    on_event: &dyn Fn(Event),
    cancel: impl Future<Output = ()>,
) -> Result<Outcome, Error> {
    let checked = checked(options, on_event, cancel).await;
    if let (Err(error), Some(out)) = (&checked, &options.out) {
        results::tell_failure(out, error);
    }
    checked
}

async fn checked(
    options: &Options,
    on_event: &dyn Fn(Event),
    cancel: impl Future<Output = ()>,
) -> Result<Outcome, Error> {
    let mut cancel = std::pin::pin!(cancel);
    let place = Place::New(options.out.as_deref());
    let planned = match options.base {
        Base::Stored => Comparison::Stored,
        _ => Comparison::Interleaved,
    };
    let of = (options.start.as_path(), &options.selection);
    let project = Project::open(of, planned, place, cancel.as_mut()).await?;
    let extent = shards::extent(&project, &options.together)?;
    // A certificate that cannot be read is told before anything is built.
    let certificates = citation::citations(&project, options)?;
    let arms = tokio::select! {
        arms = build_arms(options, &project, on_event) => arms?,
        () = &mut cancel => return Err(Error::Interrupted),
    };
    let mut record = new_record(options, &project, &arms);
    record.calibration = certificates;
    record.extent = extent;
    let stored = baseline::sessions(&project, &record);
    record.stored = match arms.comparison {
        Comparison::Stored => stored?,
        // For a remark alone: a store that cannot be read is no reason against measuring.
        _ => stored.unwrap_or_default(),
    };
    session::run(&project, &arms, record, on_event, cancel).await
}

/// An opened project: its plan, and where it measures and writes.
struct Project {
    root: PathBuf,
    plan: Plan,
    inputs: Vec<Input>,
    results: Results,
    /// Dropped last: with it others may measure.
    workspace: Workspace,
}

/// Where results go.
enum Place<'a> {
    /// A directory to make: this one, or one that is named by time and profile.
    New(Option<&'a Path>),
    /// The directory of a session that goes on.
    Old(&'a Path),
}

impl Project {
    /// Refuses a plan that sessions of this comparison cannot decide within its budget.
    async fn open<C: Future<Output = ()>>(
        (start, selection): (&Path, &Selection),
        comparison: Comparison,
        place: Place<'_>,
        cancel: Pin<&mut C>,
    ) -> Result<Self, Error> {
        let root = plan::find_root(start)?;
        let (plan, inputs) = plan::from_directory(&root, selection)?;
        plan::refuse_too_long(&plan, comparison).map_err(PlanError::from)?;
        let workspace = workspace(&root, &plan, cancel).await?;
        let results = match place {
            Place::New(out) => Results::create(out, &workspace, &plan.design.profile)?,
            Place::Old(directory) => Results::reopen(directory)?,
        };
        Ok(Self {
            root,
            plan,
            inputs,
            workspace,
            results,
        })
    }

    /// For measurements that no waiver may change: of the machine's noise, of which commit is slower, of what
    /// the gates see. Sessions are recorded without them too, so that they are judged alike later.
    fn without_waivers(mut self) -> Self {
        self.plan.waivers.clear();
        self.inputs.retain(|input| input.path != plan::WAIVERS_FILE);
        self
    }
}

/// The right to measure in this project. `cancel` ends the wait for what an earlier session left holding it.
async fn workspace<C: Future<Output = ()>>(
    root: &Path,
    plan: &Plan,
    cancel: Pin<&mut C>,
) -> Result<Workspace, Error> {
    tokio::select! {
        opened = Workspace::open(root, &plan.host.sandbox) => opened.map_err(Error::from),
        () = cancel => Err(Error::Interrupted),
    }
}

fn new_record(options: &Options, project: &Project, arms: &Arms) -> RunRecord {
    let plan = &project.plan;
    RunRecord {
        format: RUN_FORMAT.into(),
        tool: tool(),
        created: now(),
        profile: plan.design.profile.clone(),
        seed: options.seed.unwrap_or_else(draw_seed),
        comparison: arms.comparison,
        machine: machine(&project.workspace),
        builds: arms.builds.clone(),
        gates: plan.gates.iter().map(|gate| gate.name.clone()).collect(),
        inputs: project.inputs.clone(),
        stored: Vec::new(),
        calibration: Vec::new(),
        launches: Vec::new(),
        ending: Ending::Unfinished,
        elapsed_s: 0.0,
        described: None,
        extent: Extent::Whole,
    }
}

/// This machine, and what is in force on it around builds and engines.
fn machine(workspace: &Workspace) -> Machine {
    Machine {
        isolation: Some(workspace.isolation().clone()),
        ..measure::machine()
    }
}

/// Name and version of this program.
fn tool() -> String {
    format!("infergate {}", env!("CARGO_PKG_VERSION"))
}

/// RFC 3339, UTC, whole seconds.
fn now() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}

/// A seed nobody chose; it is recorded, so that the session can be drawn again.
fn draw_seed() -> u64 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since_1970.map_or(0, |time| {
        time.as_nanos() as u64 ^ u64::from(std::process::id())
    })
}
