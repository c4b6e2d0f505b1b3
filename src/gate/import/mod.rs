//! Results of other tools: `vllm bench serve`, guidellm and AIPerf, mapped to our figures by what each number
//! is, never by its name.
//!
//! Main function: [`parse()`]. The names mislead: guidellm's "TPOT" contains the time to the first token and its
//! "ITL" is everybody else's TPOT; vLLM's "ITL" is the time between chunks; AIPerf's "inter token latency" is a
//! mean over an answer, so TPOT. What a file does not hold is said with its consequence ([`Imported::missing`]).
//!
//! [`junit()`] reads the tests of a project's own suite.
//!
//! A replay set ([`manifest`], [`case`]) is a whole session already.
//!
//! Refuses to know: files, verdicts, and how a result is shown.

mod aiperf;
mod guidellm;
mod junit;
mod parse;
mod record;
mod replay;
mod request;
mod samples;
mod vllm;

pub use junit::junit;
pub use parse::{own_samples, parse};
pub use record::{Batch, load_of_other_arm, record};
pub use replay::{CaseFiles, Manifest, ReplayError, calibration_blocks, case, manifest};
pub use request::{Imported, Request};

use crate::figures::MOST_RUNS;
use serde_json::Value;

/// What every file lacks; the first no longer where files are the launches of an arm.
const NO_LAUNCHES: &str = "no launches: it cannot be judged against main by itself; compared only, or give one file \
                           a launch with --as base and --as head";
const NO_START: &str = "no server's start: nothing is known of cold times";

/// A tool whose results can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    Vllm,
    Guidellm,
    Aiperf,
    /// Our own, from `gate dev proxy --record` or `gate load --out`.
    Samples,
}

impl Tool {
    /// The tool's own name.
    pub fn title(self) -> &'static str {
        match self {
            Self::Vllm => "vllm bench serve",
            Self::Guidellm => "guidellm",
            Self::Aiperf => "AIPerf",
            Self::Samples => "gate's samples",
        }
    }

    /// Why a file is no result of this tool.
    fn wrong(self, what: impl Into<String>) -> ImportError {
        ImportError::Wrong {
            tool: self,
            what: what.into(),
        }
    }
}

/// Why a text is no result that can be read.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("it is neither JSON nor JSON lines: {0}; give the file as the tool saved it")]
    Json(#[from] serde_json::Error),
    #[error(
        "it is the result of no tool that is known: `vllm bench serve --save-result`, guidellm's \
         benchmarks.json, AIPerf's profile_export*.json(l), and the samples of `gate load --out` and `gate dev proxy \
         --record` are; name the tool with --from to hear what is \
         missing"
    )]
    Unknown,
    #[error("it is no result of {}: {what}; give the file as the tool saved it, or name another with --from", .tool.title())]
    Wrong { tool: Tool, what: String },
    #[error("it holds {0} benchmarks, and at most {most} are read from one file; split it", most = MOST_RUNS)]
    TooMany(usize),
    /// None of its benchmarks was chosen, or one that is not there.
    #[error("{}", choice(*.count))]
    Choose { count: usize },
}

/// What can be chosen. Whoever reads this may have asked `gate compare`, or for the launches of an arm.
fn choice(benchmarks: usize) -> String {
    match benchmarks {
        0 => "it holds no benchmark; give the file as the tool saved it".to_owned(),
        1 => "it holds one benchmark: leave --benchmark out".to_owned(),
        several => format!(
            "it holds {several} benchmarks (runs): choose one with `gate dev import --benchmark N`, N from 0 to {}, whose JSON \
             `gate compare` reads; as the launches of an arm (--as) give files of one benchmark each",
            several - 1
        ),
    }
}

/// The benchmark that was chosen, or the only one.
fn one<T>(benchmarks: &[T], chosen: Option<usize>) -> Result<&T, ImportError> {
    if benchmarks.len() > MOST_RUNS {
        return Err(ImportError::TooMany(benchmarks.len()));
    }
    match (chosen, benchmarks) {
        (None, [one]) => Some(one),
        (chosen, list) => chosen.and_then(|index| list.get(index)),
    }
    .ok_or(ImportError::Choose {
        count: benchmarks.len(),
    })
}

/// The text at a JSON pointer.
fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}

/// The number at a JSON pointer.
fn number(value: &Value, pointer: &str) -> Option<f64> {
    value.pointer(pointer).and_then(Value::as_f64)
}

/// The load that a tool applied, from those of these keys that its file has: `max_concurrency 64, request_rate inf`.
fn load(file: &Value, keys: &[&str]) -> Option<String> {
    let told = |key: &&str| match file.get(*key)? {
        Value::String(word) => Some(format!("{key} {word}")),
        Value::Number(number) => Some(format!("{key} {number}")),
        _ => None,
    };
    let told: Vec<String> = keys.iter().filter_map(told).collect();
    (!told.is_empty()).then(|| told.join(", "))
}

/// The count at a JSON pointer; some tools write counts as floats.
fn count(value: &Value, pointer: &str) -> Option<u64> {
    number(value, pointer)
        .filter(|n| *n >= 0.0)
        .map(|n| n.round() as u64)
}

/// The count of tokens at a JSON pointer.
fn tokens(value: &Value, pointer: &str) -> Option<u32> {
    count(value, pointer).and_then(|n| u32::try_from(n).ok())
}
