//! `gate golden make`: prompts with a reference's greedy answers, by Hugging Face transformers or from main's own
//! engine.
//!
//! Main function: [`make_goldens`]. What the file holds: `docs/gates.md`.

mod engine;
mod prompts;
mod python;

use super::results::replace;
use super::{Error, Event};
use crate::launch::{Workspace, tail};
use serde_json::{Value, json};
use std::future::Future;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use verdict::plan;

/// Best tokens that are kept of each place.
const TOP_K: u32 = 5;

/// What to make, and by what.
#[derive(Clone, Debug)]
pub struct GoldenOptions {
    /// Where the search for the project begins.
    pub start: PathBuf,
    pub reference: Reference,
    /// The file to write; `None`: gates/data/goldens.json.
    pub out: Option<PathBuf>,
    /// Most tokens of an answer.
    pub tokens: u32,
    /// Draws the prompts that are words or token ids.
    pub seed: u64,
}

/// Who answers.
#[derive(Clone, Debug)]
pub enum Reference {
    /// Transformers, with this model: a directory, or a name on the Hugging Face hub.
    Transformers {
        model: String,
        /// A Python that has PyTorch and transformers; `None`: an environment made for it.
        python: Option<PathBuf>,
    },
    /// The project's engine, as main has it.
    Engine,
}

/// What was written.
#[derive(Clone, Debug)]
pub struct MadeGoldens {
    pub path: PathBuf,
    pub cases: usize,
    /// True where the reference gave log-probabilities for some of them.
    pub has_logprobs: bool,
    /// Cases that were left out, and why.
    pub remarks: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum GoldenError {
    #[error(
        "there is no `python3` on PATH: install Python 3.10 or newer, or name one that has PyTorch and transformers \
         with --python"
    )]
    NoPython,
    #[error(
        "cannot make the Python environment {}: {step} failed; without a network name a Python that has PyTorch and \
         transformers with --python. Its output ends:{}", folder.display(), tail_of(log)
    )]
    Environment {
        folder: PathBuf,
        step: &'static str,
        log: PathBuf,
    },
    #[error(
        "--model {model}: transformers cannot use it: name a directory with config.json, weights and tokenizer.json, or \
         a model on the Hugging Face hub that needs no login (one that does: `hf download` it and name the directory). \
         The output ends:{}",
        tail_of(log)
    )]
    Model { model: String, log: PathBuf },
    #[error(
        "transformers did not answer with {model} ({status}). Without a network name a directory; its output ends:{}",
        tail_of(log)
    )]
    Failed {
        model: String,
        status: String,
        log: PathBuf,
    },
    #[error("{program} wrote no goldens that can be read: {cause}")]
    Unreadable { program: String, cause: String },
    #[error("the engine did not start: {detail}; its log ends:{}", tail_of(log))]
    NoEngine { detail: String, log: PathBuf },
    #[error("the engine gave none of {cases} prompts an answer that can be compared with: {cause}")]
    NoAnswer { cases: usize, cause: String },
}

impl GoldenError {
    /// True where other arguments help, and not another try.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Model { .. })
    }
}

/// The end of a log, each line indented.
fn tail_of(log: &Path) -> String {
    let lines = tail(log);
    lines.lines().map(|line| format!("\n    {line}")).collect()
}

/// Asks the reference and writes the file, replacing one that is there. `cancel` ends it early: nothing is written
/// then.
///
/// # Errors
/// No project, a reference that cannot be started or asked, a file that cannot be written.
pub async fn make_goldens(
    options: &GoldenOptions,
    on_event: &dyn Fn(Event),
    cancel: impl Future<Output = ()>,
) -> Result<MadeGoldens, Error> {
    tokio::select! {
        made = make(options, on_event) => made,
        () = cancel => Err(Error::Interrupted),
    }
}

async fn make(options: &GoldenOptions, on_event: &dyn Fn(Event)) -> Result<MadeGoldens, Error> {
    let root = plan::find_root(&options.start)?;
    let path = match &options.out {
        Some(path) => options.start.join(path),
        None => root.join("gates/data/goldens.json"),
    };
    let (folder, name) = place(&path)?;
    // Gates are not read: the one that is to have this file cannot be yet.
    let (engine, host) = plan::engine_config(&root)?;
    let workspace = Workspace::open(&root, &host.sandbox).await?;
    let asked = match &options.reference {
        Reference::Transformers { model, python } => {
            python::ask(options, (model, python.as_deref()), &root, on_event).await?
        }
        Reference::Engine => engine::ask(options, &engine, &workspace, &root, on_event).await?,
    };
    replace(folder, name, |file| file.write_all(asked.text.as_bytes()))?;
    Ok(MadeGoldens {
        path,
        cases: asked.goldens.cases.len(),
        has_logprobs: asked.goldens.cases.iter().any(|c| !c.tokens.is_empty()),
        remarks: asked.remarks,
    })
}

/// A reference's answers, as the file will hold them and as they are read again.
struct Asked {
    text: String,
    goldens: plan::Goldens,
    remarks: Vec<String>,
}

/// A case's conversation as the script's request and the file hold it.
fn messages(case: &plan::GoldenCase) -> Value {
    let messages = case.messages.iter();
    messages
        .map(|(role, content)| json!({"role": role, "content": content}))
        .collect()
}

/// The folder, made where it is missing, and the file's name.
fn place(path: &Path) -> Result<(&Path, &str), Error> {
    let refused = |cause: &str| Error::Usage(format!("--out {}: {cause}", path.display()));
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name
        .filter(|_| !path.is_dir())
        .ok_or_else(|| refused("that is no name of a file; give one"))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)
        .map_err(|error| refused(&format!("its folder cannot be made: {error}")))?;
    Ok((folder, name))
}
