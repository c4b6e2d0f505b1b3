//! An opened project, and the record that a session in it begins with.

use super::arms::Arms;
use super::results::Results;
use super::{Error, Options};
use crate::launch::Workspace;
use crate::measure;
use std::future::Future;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use verdict::plan::{self, Plan, PlanError, Selection};
use verdict::record::{Comparison, Ending, Extent, Input, Machine, RUN_FORMAT, RunRecord};

/// An opened project: its plan, and where it measures and writes.
pub struct Project {
    pub root: PathBuf,
    pub plan: Plan,
    pub inputs: Vec<Input>,
    pub results: Results,
    /// Dropped last: with it others may measure.
    pub workspace: Workspace,
}

/// Where results go.
pub enum Place<'a> {
    /// A directory to make: this one, or one that is named by time and profile.
    New(Option<&'a Path>),
    /// The directory of a session that goes on.
    Old(&'a Path),
}

impl Project {
    /// Refuses a plan that sessions of this comparison cannot decide within its budget.
    pub async fn open<C: Future<Output = ()>>(
        (start, selection): (&Path, &Selection),
        comparison: Comparison,
        place: Place<'_>,
        cancel: Pin<&mut C>,
    ) -> Result<Self, Error> {
        let root = plan::find_root(start)?;
        let (plan, inputs) = plan::from_directory(&root, selection)?;
        plan::refuse_unfilled(&inputs)?;
        plan::refuse_too_long(&plan, comparison).map_err(PlanError::from)?;
        let workspace = workspace(&root, &plan, cancel).await?;
        let results = match place {
            Place::New(out) => Results::create(out, &workspace, &plan.design.profile)?,
            Place::Old(directory) => Results::reopen(directory, &workspace)?,
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
    pub fn without_waivers(mut self) -> Self {
        self.plan.waivers.clear();
        self.inputs.retain(|input| input.path != plan::WAIVERS_FILE);
        self
    }
}

/// The right to measure in this project. `cancel` ends the wait for what an earlier session left holding it.
pub async fn workspace<C: Future<Output = ()>>(
    root: &Path,
    plan: &Plan,
    cancel: Pin<&mut C>,
) -> Result<Workspace, Error> {
    tokio::select! {
        opened = Workspace::open(root, &plan.host.sandbox) => opened.map_err(Error::from),
        () = cancel => Err(Error::Interrupted),
    }
}

pub fn new_record(options: &Options, project: &Project, arms: &Arms) -> RunRecord {
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
        changed_gates: None,
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
pub fn machine(workspace: &Workspace) -> Machine {
    Machine {
        isolation: Some(workspace.isolation().clone()),
        ..measure::machine()
    }
}

/// Name and version of this program.
pub fn tool() -> String {
    format!("infergate {}", env!("CARGO_PKG_VERSION"))
}

/// RFC 3339, UTC, whole seconds.
pub fn now() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}

/// A random seed. It is recorded, so that the session can be repeated.
pub fn draw_seed() -> u64 {
    // The system's randomness: what an engine could guess, such as the time, would tell it every prompt.
    RandomState::new().build_hasher().finish()
}
