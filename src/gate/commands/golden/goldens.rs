//! `gate golden make`: prompts with a reference's greedy answers, by Hugging Face transformers or from main's own
//! engine.
//!
//! Main function: [`make_goldens`](super::make::make_goldens). What the file holds: `docs/gates.md`.

use crate::launch::tail;
use crate::session::Error;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use verdict::plan;

/// Best tokens that are kept of each place.
pub const TOP_K: u32 = 5;

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

impl From<GoldenError> for Error {
    fn from(error: GoldenError) -> Self {
        let text = error.to_string();
        match error {
            // Other arguments help, and not another try.
            GoldenError::Model { .. } => Self::Usage(text),
            _ => Self::Failed(text),
        }
    }
}

/// The end of a log, each line indented.
fn tail_of(log: &Path) -> String {
    let lines = tail(log);
    lines.lines().map(|line| format!("\n    {line}")).collect()
}

/// A reference's answers, as the file will hold them and as they are read again.
pub struct Asked {
    pub text: String,
    pub goldens: plan::Goldens,
    pub remarks: Vec<String>,
}

/// A case's conversation as the script's request and the file hold it.
pub fn messages(case: &plan::GoldenCase) -> Value {
    let messages = case.messages.iter();
    messages
        .map(|(role, content)| json!({"role": role, "content": content}))
        .collect()
}
