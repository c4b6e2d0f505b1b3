//! `gate selftest`: a real session for each planted fault, and what the gates say to it.
//!
//! Base is clean and head has the fault; both are launched, measured and judged as in every session. The
//! embedded engine is tested with gates of its own; a project's engine stands behind a proxy and is tested
//! with the project's gates (`foreign`).

mod foreign;
mod gpu;

use crate::launch::{Artifact, Workspace};
use crate::measure::Progress;
use crate::selftest::{self, Caught, FAULTS, Fault, Plant, Row, Side};
use crate::session::arms::Arms;
use crate::session::files::ResultsError;
use crate::session::project::{Project, draw_seed, new_record};
use crate::session::results::Results;
use crate::session::{self, Base, Error, Event, Options, Outcome};
use gpu::HotGpu;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Instant;
use tempfile::TempDir;
use verdict::plan::{self, Selection};
use verdict::record::{Arm, Build, Ending, Exit};

/// What to plant, and in what.
#[derive(Clone, Debug)]
pub struct SelftestOptions {
    /// Path of this program: the embedded engine and the proxy.
    pub program: PathBuf,
    /// Names of faults; empty: all.
    pub faults: Vec<String>,
    /// A project whose engine and gates are tested, found from this directory; `None`: the embedded engine.
    pub project: Option<(PathBuf, Selection)>,
    /// Keep the sessions' result directories.
    pub keep: bool,
    pub seed: Option<u64>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Selftest {
    pub rows: Vec<Row>,
    /// Where the result directories are, if they were kept.
    pub kept: Option<PathBuf>,
    pub is_interrupted: bool,
    /// The engine without a fault never became ready, and what its log says: nothing more was planted.
    pub never_ready: Option<String>,
    pub elapsed_s: f64,
}

/// Plants one fault after the other. `cancel` ends it early; the faults that were judged until then are told.
pub async fn selftest(
    options: &SelftestOptions,
    on_event: &dyn Fn(Event),
    cancel: impl Future<Output = ()>,
) -> Result<Selftest, Error> {
    let mut cancel = std::pin::pin!(cancel);
    let begun = Instant::now();
    let chosen = choose(&options.faults)?;
    let mut done = match &options.project {
        None => own(options, &chosen, on_event, cancel.as_mut()).await?,
        Some((start, selection)) => {
            let place = (start.as_path(), selection);
            foreign::run(options, place, &chosen, on_event, cancel.as_mut()).await?
        }
    };
    done.elapsed_s = begun.elapsed().as_secs_f64();
    Ok(done)
}

/// The faults of these names, in the catalogue's order.
fn choose(names: &[String]) -> Result<Vec<&'static Fault>, Error> {
    let known = || FAULTS.iter().map(|fault| fault.name);
    if let Some(name) = names.iter().find(|name| !known().any(|it| it == **name)) {
        let known: Vec<&str> = known().collect();
        return Err(Error::Usage(format!(
            "--fault {name}: there is no such fault; there are {}",
            known.join(", ")
        )));
    }
    let is_chosen = |fault: &&Fault| names.is_empty() || names.iter().any(|it| it == fault.name);
    Ok(FAULTS.iter().filter(is_chosen).collect())
}

impl Selftest {
    fn new(kept: Option<PathBuf>) -> Self {
        Self {
            rows: Vec::new(),
            kept,
            is_interrupted: false,
            never_ready: None,
            elapsed_s: 0.0,
        }
    }

    /// Takes a fault's session; whether another may follow.
    fn goes_on(&mut self, row: Row, outcome: &Outcome, on_event: &dyn Fn(Event)) -> bool {
        if outcome.record.ending == Ending::Interrupted {
            self.is_interrupted = true;
            return false;
        }
        self.never_ready = never_ready(outcome, row.outcome == Caught::Clean);
        on_event(Event::Planted(row.clone()));
        self.rows.push(row);
        self.never_ready.is_none()
    }
}

/// Why an engine without a fault did not start, and the end of its log. Base has none in any session.
fn never_ready(outcome: &Outcome, is_clean: bool) -> Option<String> {
    let launches = outcome.record.launches.iter();
    let mut clean = launches.filter(|launch| is_clean || launch.arm == Arm::Base);
    clean.find_map(|launch| match &launch.exit {
        Exit::NeverReady { detail, log_tail } => Some(format!("{detail}\n{log_tail}")),
        _ => None,
    })
}

async fn own<C: Future<Output = ()>>(
    options: &SelftestOptions,
    faults: &[&'static Fault],
    on_event: &dyn Fn(Event),
    mut cancel: Pin<&mut C>,
) -> Result<Selftest, Error> {
    let (root, folder) = temporary(options.keep)?;
    let mut done = Selftest::new(options.keep.then(|| root.clone()));
    for (number, fault) in (1..).zip(faults) {
        let (what, of) = (fault.what, faults.len());
        on_event(Event::Planting { what, number, of });
        let mut project = own_project(options, &root, fault).await?;
        let gpu = match fault.plant {
            Plant::Throttle => Some(HotGpu::start()?),
            _ => None,
        };
        project.plan.telemetry.gpu_exporter = gpu.as_ref().map(HotGpu::exporter);
        let told = |event: Event| {
            if let (Some(gpu), Event::Progress(Progress::Starting { arm, .. })) = (&gpu, &event) {
                gpu.set_hot(*arm == Arm::Head);
            }
            on_event(event);
        };
        let serve = &project.plan.engine.serve;
        let arms = two_arms(commands(options, fault, serve), None);
        let outcome = measured(options, &project, &arms, &told, cancel.as_mut()).await?;
        let launches = outcome.record.launches.len();
        let row = selftest::grade(fault, &outcome.verdict, launches, outcome.record.elapsed_s);
        if !done.goes_on(row, &outcome, on_event) {
            break;
        }
    }
    drop(folder);
    Ok(done)
}

/// A directory for the sessions, and what removes it.
fn temporary(keep: bool) -> Result<(PathBuf, Option<TempDir>), Error> {
    let failed = |source| {
        let path = std::env::temp_dir();
        Error::from(ResultsError::Write { path, source })
    };
    let folder = tempfile::Builder::new().prefix("gate-selftest-").tempdir();
    let folder = folder.map_err(failed)?;
    let root = folder.path().canonicalize().map_err(failed)?;
    if keep {
        let _ = folder.keep();
        return Ok((root, None));
    }
    Ok((root, Some(folder)))
}

/// The embedded engine's project, its results in a directory of the fault's name.
async fn own_project(
    options: &SelftestOptions,
    root: &Path,
    fault: &Fault,
) -> Result<Project, Error> {
    let inputs = selftest::inputs(&program(options));
    let selection = Selection {
        profile: selftest::PROFILE.into(),
        gates: fault.gates.iter().map(|gate| (*gate).to_owned()).collect(),
    };
    let plan = plan::from_inputs(&inputs, &selection)?;
    // Nobody else knows this folder, so there is nothing to wait for.
    let workspace = Workspace::open(root, &plan.host.sandbox).await?;
    let results = Results::create(Some(&root.join(fault.name)), &workspace, selftest::PROFILE)?;
    Ok(Project {
        root: root.to_path_buf(),
        plan,
        inputs,
        workspace,
        results,
    })
}

fn program(options: &SelftestOptions) -> String {
    options.program.to_string_lossy().into_owned()
}

/// What base and head run.
fn commands(
    options: &SelftestOptions,
    fault: &Fault,
    serve: &[String],
) -> (Vec<String>, Vec<String>) {
    let clean = || serve.to_vec();
    let proxied = |specs: &[String]| behind_proxy(options, specs, serve);
    match fault.plant {
        Plant::Nothing(Side::Engine) | Plant::Throttle => (clean(), clean()),
        Plant::Nothing(Side::Proxy) => (proxied(&[]), proxied(&[])),
        Plant::Engine(spec) => {
            let mut head = clean();
            head.push(format!("--fault={spec}"));
            (clean(), head)
        }
        Plant::Proxy(specs) => {
            let specs: Vec<String> = specs.iter().map(|spec| (*spec).to_owned()).collect();
            (proxied(&[]), proxied(&specs))
        }
    }
}

/// The engine's command behind a proxy with these faults: the proxy has the port that the gate picks.
fn behind_proxy(options: &SelftestOptions, specs: &[String], serve: &[String]) -> Vec<String> {
    let proxy = ["proxy", "--port", "{port}"].map(str::to_owned);
    let faults = specs.iter().map(|spec| format!("--fault={spec}"));
    let engine = serve
        .iter()
        .map(|word| word.replace("{port}", "{engine_port}"));
    std::iter::once(program(options))
        .chain(proxy)
        .chain(faults)
        .chain(["--".to_owned()])
        .chain(engine)
        .collect()
}

/// Arms of one build that differ in their commands.
fn two_arms((base, head): (Vec<String>, Vec<String>), artifact: Option<&Artifact>) -> Arms {
    let build = |arm, command| Build {
        arm,
        commit: None,
        subject: None,
        dirty: false,
        artifact_sha256: artifact.map(|it| it.sha256.clone()),
        command,
        files: Vec::new(),
        build_s: 0.0,
        on_ci: None,
    };
    let builds = vec![build(Arm::Base, base), build(Arm::Head, head)];
    let artifacts = artifact.map_or_else(Vec::new, |it| {
        Arm::BOTH.map(|arm| (arm, it.path.clone())).to_vec()
    });
    Arms::of(builds, artifacts)
}

/// One session, from its first launch to its verdict.
async fn measured<C: Future<Output = ()>>(
    options: &SelftestOptions,
    project: &Project,
    arms: &Arms,
    on_event: &dyn Fn(Event),
    cancel: Pin<&mut C>,
) -> Result<Outcome, Error> {
    let session_options = Options {
        start: project.root.clone(),
        selection: Selection {
            profile: project.plan.design.profile.clone(),
            gates: Vec::new(),
        },
        base: Base::Main,
        head: None,
        out: None,
        seed: Some(options.seed.unwrap_or_else(draw_seed)),
        base_args: Vec::new(),
        head_args: Vec::new(),
        same_build: false,
        together: Vec::new(),
    };
    let record = new_record(&session_options, project, arms);
    session::run(project, arms, record, on_event, cancel).await
}
