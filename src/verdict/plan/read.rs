//! From files to a [`Plan`]: which files there are, where they come from, and every refusal at once.

#![expect(clippy::disallowed_methods, reason = "reads a project's gate files")]

use super::cost::least::TooLong;
use super::gates::gate;
use super::model::{
    BaselineConfig, CalibrationConfig, Check, Engine, Gate, Host, Plan, Suite, Waiver, Workload,
    WorkloadKind,
};
use super::settings::github::{self, GitHubConfig};
use super::settings::labels::{self, LabelRule};
use super::settings::waivers::{self, WAIVERS_FILE};
use super::settings::{host, project};
use super::source::diagnostic::{Diagnostic, suggestion};
use super::source::files::{Disk, Files};
use super::source::section::{Section, Source};
use crate::record::{Input, Metric, RunRecord, is_unseen};
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const PROJECT_FILE: &str = "gates/gate.toml";

/// The file's path from the project's root; it is no gate.
pub const ENGINES_FILE: &str = "gates/engines.toml";

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("no gates/gate.toml in {} or above it", .0.display())]
    NoProject(PathBuf),
    #[error("cannot read {path}")]
    Unreadable { path: String, source: io::Error },
    #[error("{}", render(.0, false))]
    Refused(Vec<Diagnostic>),
    #[error("unknown gate `{name}`; {hint}")]
    UnknownGate { name: String, hint: String },
    #[error(transparent)]
    TooLong(#[from] Box<TooLong>),
}

impl PlanError {
    /// The message with carets, in colour if `styled`.
    pub fn render(&self, styled: bool) -> String {
        match self {
            Self::Refused(diagnostics) => render(diagnostics, styled),
            other => other.to_string(),
        }
    }
}

impl From<Diagnostic> for PlanError {
    fn from(refusal: Diagnostic) -> Self {
        Self::Refused(vec![refusal])
    }
}

fn render(diagnostics: &[Diagnostic], styled: bool) -> String {
    let mut out = String::new();
    for diagnostic in diagnostics {
        let _ = writeln!(out, "{}", diagnostic.render(styled));
    }
    out.trim_end().to_owned()
}

/// What to plan for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    pub profile: String,
    /// Names of gates; empty: all.
    pub gates: Vec<String>,
}

impl Selection {
    /// The part of its inputs that a record was measured by.
    pub fn of(record: &RunRecord) -> Self {
        Self {
            profile: record.profile.clone(),
            gates: record.gates.clone(),
        }
    }
}

/// The nearest directory at or above `start` that holds `gates/gate.toml`.
pub fn find_root(start: &Path) -> Result<PathBuf, PlanError> {
    start
        .ancestors()
        .find(|dir| dir.join(PROJECT_FILE).is_file())
        .map(Path::to_path_buf)
        .ok_or_else(|| PlanError::NoProject(start.to_path_buf()))
}

/// Where the baseline store of the project at `root` is. Reads that part of `gate.toml` alone: the store can
/// be looked into while a gate is being written.
pub fn baseline_directory(root: &Path) -> Result<PathBuf, PlanError> {
    Ok(root.join(baseline_config(root)?.directory))
}

/// The table `baseline` of `gate.toml`, read alone as well.
pub fn baseline_config(root: &Path) -> Result<BaselineConfig, PlanError> {
    in_project(root, project::read_baseline)
}

/// The table `calibration` of `gate.toml`, read alone as well.
pub fn calibration_config(root: &Path) -> Result<CalibrationConfig, PlanError> {
    in_project(root, project::read_calibration)
}

/// The tables `engine` and `host` of `gate.toml`, read alone as well.
pub fn engine_config(root: &Path) -> Result<(Engine, Host), PlanError> {
    in_project(root, |section| {
        let engine = project::read_engine(section.required("engine")?.section()?)?;
        Ok((engine, host::read(section)?))
    })
}

/// A part of `gate.toml` alone.
fn in_project<T>(
    root: &Path,
    read: impl FnOnce(&Section<'_, '_>) -> Result<T, Diagnostic>,
) -> Result<T, PlanError> {
    let text = read_file(&mut Disk::new(root), PROJECT_FILE)?;
    let source = Source {
        file: PROJECT_FILE,
        text: &text,
    };
    let table = source.parse()?;
    Ok(read(&Section::root(source, &table, ""))?)
}

/// The gates that each profile of a record's project names and that were not measured.
pub fn gates_not_run(record: &RunRecord) -> Vec<(String, Vec<String>)> {
    let mut inputs = record.inputs.iter();
    let project = inputs.find(|input| input.path == PROJECT_FILE);
    let named = project.map(|input| {
        let source = Source {
            file: PROJECT_FILE,
            text: &input.text,
        };
        project::gates_by_profile(source)
    });
    let mut left_out = named.and_then(Result::ok).unwrap_or_default();
    for (_, gates) in &mut left_out {
        gates.retain(|gate| !record.gates.contains(gate));
        gates.sort();
        gates.dedup();
    }
    left_out.retain(|(_, gates)| !gates.is_empty());
    left_out
}

/// What `gates/` says of pull requests.
#[derive(Clone, Debug)]
pub struct GitHubRules {
    pub config: GitHubConfig,
    pub labels: Vec<LabelRule>,
    /// Names of all gates.
    pub gates: Vec<String>,
    /// Names of those that the profile runs where none is named.
    pub of_profile: Vec<String>,
}

/// Reads the tables `github` and `label` of `gate.toml`, and which gates there are.
pub fn github_rules(root: &Path, profile: &str) -> Result<GitHubRules, PlanError> {
    let gates = gate_names(root)?;
    let text = read_file(&mut Disk::new(root), PROJECT_FILE)?;
    let source = Source {
        file: PROJECT_FILE,
        text: &text,
    };
    // The whole file is checked: what cannot be measured with must not be started either.
    let project = project::read(source, profile)?;
    let table = source.parse()?;
    let section = Section::root(source, &table, "");
    let of_profile = of_profile(source, profile, &gates, &project.design.gates)?;
    Ok(GitHubRules {
        config: github::read(&section)?,
        labels: labels::read(&section, Some(&gates))?,
        of_profile,
        gates,
    })
}

/// Reads the table `github` alone, whatever else `gate.toml` says.
pub fn github_config(root: &Path) -> Result<GitHubConfig, PlanError> {
    in_project(root, github::read)
}

/// Reads the plan from `gates/` under `root`, and the files that define it.
pub fn from_directory(root: &Path, selection: &Selection) -> Result<(Plan, Vec<Input>), PlanError> {
    let names = gate_names(root)?;
    let mut disk = Disk::new(root);
    let mut plan = assemble(&mut disk, &names, selection)?;
    plan.waivers = read_waivers(&mut disk, &plan.gates, Some(&names))?;
    // A rule that names no gate of ours would be seen only when a pull request comes.
    github_rules(root, &selection.profile)?;
    Ok((plan, disk.into_inputs()))
}

/// The mark of `gate init` in a comment above what is left to fill in.
const FILL_IN: &str = "FILL IN";
/// The mark of `gate init` in place of what may be a secret.
const LEFT_OUT: &str = "FILL-IN";

/// Refuses a `gate.toml` in which a comment still says that something is to be filled in: what stands below it is an
/// example that no machine can run.
///
/// # Errors
/// Every such comment.
pub fn refuse_unfilled(inputs: &[Input]) -> Result<(), PlanError> {
    let files = inputs.iter().filter(|input| input.path == PROJECT_FILE);
    let refused: Vec<Diagnostic> = files.flat_map(unfilled).collect();
    match refused.is_empty() {
        true => Ok(()),
        false => Err(PlanError::Refused(refused)),
    }
}

fn unfilled(file: &Input) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut begin = 0;
    for line in file.text.split_inclusive('\n') {
        let (words, message, help) = match line.trim_start().starts_with('#') {
            true => (
                FILL_IN,
                "fill in this value",
                "write your own values below this comment, then delete the words `FILL IN`",
            ),
            false => (
                LEFT_OUT,
                "fill in this value: `gate init` left it out, since it may be a secret",
                "remove the option, or let the engine read the secret from a file that is not committed",
            ),
        };
        found.extend(line.find(words).map(|at| Diagnostic {
            file: file.path.as_str().into(),
            source: file.text.as_str().into(),
            span: begin + at..begin + at + words.len(),
            message: message.to_owned(),
            label: String::new(),
            help: Some(help.to_owned()),
        }));
        begin += line.len();
    }
    found
}

/// Reads the same plan again from what a record kept.
pub fn from_inputs(inputs: &[Input], selection: &Selection) -> Result<Plan, PlanError> {
    let names: Vec<String> = inputs.iter().filter_map(|i| gate_name(&i.path)).collect();
    let mut plan = assemble(&mut { inputs }, &names, selection)?;
    // The record holds the chosen gates alone: what else was waived cannot be told from a mistake.
    plan.waivers = read_waivers(&mut { inputs }, &plan.gates, None)?;
    Ok(plan)
}

/// The plan that a record was measured by.
///
/// # Errors
/// Its files are no plan of this gate.
pub fn from_record(record: &RunRecord) -> Result<Plan, PlanError> {
    from_inputs(&record.inputs, &Selection::of(record))
}

/// `tpot` for `gates/tpot.toml`; `None` for other files.
fn gate_name(path: &str) -> Option<String> {
    let name = path.strip_prefix("gates/")?.strip_suffix(".toml")?;
    let is_other = [PROJECT_FILE, ENGINES_FILE, WAIVERS_FILE].contains(&path);
    let is_gate = !name.contains('/') && !is_other;
    is_gate.then(|| name.to_owned())
}

fn gate_names(root: &Path) -> Result<Vec<String>, PlanError> {
    let unreadable = |source| PlanError::Unreadable {
        path: "gates/".into(),
        source,
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(root.join("gates")).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let file = entry.file_name();
        names.extend(gate_name(&format!("gates/{}", file.to_string_lossy())));
    }
    names.sort();
    let refused = |name: &String| Some(unnameable(name, &fault(name)?));
    match names.iter().find_map(refused) {
        Some(refusal) => Err(refusal.into()),
        None => Ok(names),
    }
}

/// Why `--gate` cannot name it, which takes several names with commas or spaces between them, or why no reader could;
/// `None`: both can.
fn fault(gate: &str) -> Option<String> {
    let is_wrong = |c: &char| {
        c.is_whitespace() || *c == ',' || *c == char::REPLACEMENT_CHARACTER || is_unseen(*c)
    };
    match gate.chars().find(is_wrong) {
        None => gate.is_empty().then(|| "it is empty".to_owned()),
        Some(' ') => Some("it has a space".to_owned()),
        Some(',') => Some("it has a comma".to_owned()),
        Some(c) => Some(format!("it has the character U+{:04X}", u32::from(c))),
    }
}

/// The file is not read: the fault is in no line of it.
fn unnameable(gate: &str, fault: &str) -> Diagnostic {
    let file = format!("gates/{gate}.toml");
    let source = Source {
        file: &file,
        text: "(not read)",
    };
    let message =
        format!("{gate:?} cannot be a gate's name: {fault}, and `--gate` could not name it");
    let mut refusal = source.wrong(0..0, message);
    refusal.label = "in the file of this name".into();
    refusal.help = Some(
        "rename the file to a name without spaces, commas and characters that nobody sees, such as \
         my-gate.toml"
            .into(),
    );
    refusal
}

/// The gates that a profile names; a wrong name has a place there that can be shown.
fn of_profile(
    source: Source<'_>,
    profile: &str,
    names: &[String],
    wanted: &[String],
) -> Result<Vec<String>, PlanError> {
    match choose(names, wanted) {
        Err(PlanError::UnknownGate { name, hint }) => {
            Err(project::unknown_gate(source, profile, &name, hint)?.into())
        }
        chosen => chosen,
    }
}

fn assemble(
    files: &mut dyn Files,
    names: &[String],
    selection: &Selection,
) -> Result<Plan, PlanError> {
    let text = read_file(files, PROJECT_FILE)?;
    let source = Source {
        file: PROJECT_FILE,
        text: &text,
    };
    let project = project::read(source, &selection.profile)?;
    let chosen = if selection.gates.is_empty() {
        of_profile(source, &selection.profile, names, &project.design.gates)?
    } else {
        choose(names, &selection.gates)?
    };
    let mut gates = Vec::new();
    let mut refusals = Vec::new();
    for name in chosen {
        let path = format!("gates/{name}.toml");
        let text = read_file(files, &path)?;
        let source = Source {
            file: &path,
            text: &text,
        };
        let profile = gate::Profile {
            name: &selection.profile,
            like: project.like.as_deref(),
            looks: &project.design.looks,
            all: &project.profiles,
            interleave: project.design.interleave,
        };
        match gate::read(&name, source, profile, files) {
            Ok(gate) => match second_first_request(source, &gate, &gates)
                .or_else(|| artifact_without_build(source, &gate, &project.engine))
                .or_else(|| scores_of_a_chat(source, &gate, &project.engine))
            {
                Some(refusal) => refusals.push(refusal),
                None => gates.push(gate),
            },
            Err(refusal) => refusals.push(refusal),
        }
    }
    if !refusals.is_empty() {
        return Err(PlanError::Refused(refusals));
    }
    Ok(Plan {
        engine: project.engine,
        telemetry: project.telemetry,
        design: project.design,
        baseline: project.baseline,
        calibration: project.calibration,
        host: project.host,
        gates,
        waivers: Vec::new(),
    })
}

/// Of several first requests in one launch only one is the engine's first, and chance says which: no matter to the time
/// of the port, but to that of a token.
fn second_first_request(source: Source<'_>, gate: &Gate, before: &[Gate]) -> Option<Diagnostic> {
    let sharing = before
        .iter()
        .filter(|other| other.shares_launches_with(gate));
    let all = || sharing.clone().chain([gate]);
    let is_of_first =
        |check: &Check| matches!(check.metric, Metric::FirstToken | Metric::FirstResponse);
    if !all().flat_map(|gate| &gate.checks).any(is_of_first) {
        return None;
    }
    let mut firsts = all()
        .flat_map(|gate| &gate.workloads)
        .filter(|workload| matches!(workload.kind, WorkloadKind::FirstRequest(_)))
        .map(|workload| workload.id.as_str());
    let (first, second) = (firsts.next()?, firsts.next()?);
    let message = format!(
        "`{second}` is a first request, and so is `{first}` of the same launches: one of them would be the second"
    );
    let header = second.replacen(&format!("{}/", gate.name), "[workload.", 1);
    let at = source.text.find(&header).unwrap_or_default();
    let mut refusal = source.wrong(at..at, message);
    refusal.help = Some(
        "keep one of them; or put them into two gates, and run those one by one with `--gate`"
            .into(),
    );
    Some(refusal)
}

/// A suite cannot name what nothing builds.
fn artifact_without_build(source: Source<'_>, gate: &Gate, engine: &Engine) -> Option<Diagnostic> {
    if engine.build.is_some() {
        return None;
    }
    let names_it = |suite: &Suite| {
        let values = suite.env.iter().map(|(_, value)| value);
        let mut words = suite.command.iter().chain(values);
        words.any(|word| word.contains("{artifact}"))
    };
    let mut suites = gate.workloads.iter().filter_map(|w| match &w.kind {
        WorkloadKind::Suite(suite) => Some(suite),
        _ => None,
    });
    suites.find(|suite| names_it(suite))?;
    let at = source.text.find("{artifact}").unwrap_or_default();
    let message = "`{artifact}` needs a table `engine.build` in gates/gate.toml that makes one";
    Some(source.wrong(at..at, message))
}

/// Log-probabilities of a chat have another form, which is not asked for.
fn scores_of_a_chat(source: Source<'_>, gate: &Gate, engine: &Engine) -> Option<Diagnostic> {
    let asks = |workload: &Workload| workload.kind.logprobs().top_k.is_some();
    let workload = gate
        .workloads
        .iter()
        .find(|workload| engine.chat && asks(workload))?;
    let at = source.text.find("top_k").unwrap_or_default();
    let message = format!(
        "`{}` asks for log-probabilities, which a chat (`engine.chat`) is not asked for",
        workload.id
    );
    let mut refusal = source.wrong(at..at, message);
    refusal.help = Some("leave `top_k` and `near_tie` out: answers are compared as text".into());
    Some(refusal)
}

fn read_waivers(
    files: &mut dyn Files,
    gates: &[Gate],
    all: Option<&[String]>,
) -> Result<Vec<Waiver>, PlanError> {
    let text = match read_file(files, WAIVERS_FILE) {
        Err(PlanError::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(Vec::new());
        }
        text => text?,
    };
    let source = Source {
        file: WAIVERS_FILE,
        text: &text,
    };
    Ok(waivers::read(source, gates, all)?)
}

pub fn read_file(files: &mut dyn Files, path: &str) -> Result<String, PlanError> {
    files.read(path).map_err(|source| PlanError::Unreadable {
        path: path.to_owned(),
        source,
    })
}

fn choose(names: &[String], wanted: &[String]) -> Result<Vec<String>, PlanError> {
    for name in wanted {
        if !names.contains(name) {
            return Err(PlanError::UnknownGate {
                name: name.clone(),
                hint: suggestion(name, names.iter().map(String::as_str)),
            });
        }
    }
    let is_chosen = |name: &&String| wanted.is_empty() || wanted.contains(name);
    Ok(names.iter().filter(is_chosen).cloned().collect())
}
