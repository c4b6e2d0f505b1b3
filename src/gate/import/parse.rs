//! From a file's text to figures: which tool wrote it, and which benchmark of it.

use super::{ImportError, Imported, Tool, aiperf, guidellm, one, samples, vllm};
use serde_json::Value;
use std::collections::BTreeSet;
use verdict::record::Sample;

/// Reads a tool's result. `tool`: `None` detects it. `benchmark` chooses one of a file that holds several.
pub fn parse(
    text: &str,
    tool: Option<Tool>,
    benchmark: Option<usize>,
) -> Result<Imported, ImportError> {
    let documents = documents(text)?;
    let tool = match tool {
        Some(tool) => tool,
        None => documents
            .first()
            .and_then(detect)
            .ok_or(ImportError::Unknown)?,
    };
    let first = documents.first().ok_or(ImportError::Unknown)?;
    match tool {
        // `--append-result` writes one a line.
        Tool::Vllm => vllm::read(one(&documents, benchmark)?),
        Tool::Guidellm => guidellm::read(first, benchmark),
        Tool::Aiperf => aiperf::read(one(&runs(&documents, aiperf::request), benchmark)?),
        Tool::Samples => samples::read(one(&runs(&documents, samples::request), benchmark)?),
    }
}

/// The samples of a file that holds some of our own, of the chosen run.
///
/// # Errors
/// A line is no sample, and several runs of which none is chosen.
pub fn own_samples(text: &str, benchmark: Option<usize>) -> Result<Vec<Sample>, ImportError> {
    let documents = documents(text)?;
    samples::samples(one(&runs(&documents, samples::request), benchmark)?)
}

/// The lines of each run: a request that the run has already is the first that is seen of the next one. `request`: which
/// one of its run a line is about, if it says so.
fn runs(documents: &[Value], request: fn(&Value) -> Option<String>) -> Vec<&[Value]> {
    let mut runs = Vec::new();
    let mut seen = BTreeSet::new();
    let mut begin = 0;
    for (at, document) in documents.iter().enumerate() {
        let Some(request) = request(document) else {
            continue;
        };
        if seen.contains(&request) {
            runs.push(&documents[begin..at]);
            begin = at;
            seen.clear();
        }
        seen.insert(request);
    }
    runs.push(&documents[begin..]);
    runs
}

/// One JSON document, or one a line.
fn documents(text: &str) -> Result<Vec<Value>, ImportError> {
    match serde_json::from_str(text) {
        Ok(document) => Ok(vec![document]),
        Err(whole) => text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(serde_json::from_str)
            .collect::<Result<Vec<Value>, _>>()
            .map_err(|_| ImportError::Json(whole)),
    }
}

fn detect(document: &Value) -> Option<Tool> {
    let has = |key: &str| document.get(key).is_some();
    if has("text_sha256") && has("stamps") {
        Some(Tool::Samples)
    } else if has("benchmarks") {
        Some(Tool::Guidellm)
    } else if has("completed") && has("total_output_tokens") {
        Some(Tool::Vllm)
    } else if has("metadata") && has("metrics")
        || document.pointer("/time_to_first_token/unit").is_some()
        || document.pointer("/request_latency/unit").is_some()
    {
        Some(Tool::Aiperf)
    } else {
        None
    }
}
