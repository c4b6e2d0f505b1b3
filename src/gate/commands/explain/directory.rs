//! `gate explain`: a failed check of a result directory taken apart, from its `run.json`; where launches fall
//! into two modes, from their logs too.
//!
//! Main function: [`explain_directory`]. The verdict is the judge's, computed anew. What stands beside it is looked at
//! in hindsight: intervals of 95 % each, over all sound launches, with no error budget and no verdict of their own.

use crate::explanation::{Explanation, checks, explain, gravest};
use crate::launch::open_plain;
use crate::report;
use crate::session::results::read_record;
use crate::session::{Error, ResultsError};
use client::{Endpoint, PromptSeed};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use verdict::judge;
use verdict::plan::{self, Plan};
use verdict::record::{CheckVerdict, Extent, Launch, RunVerdict};

/// The longest log that is read.
const LOG_BYTES: u64 = 1 << 20;

/// The longest request that is shown.
const REQUEST_BYTES: usize = 8 << 10;

/// Explains the check with this id, or the gravest one that did not pass; where all did and none is named, gives the whole
/// verdict.
///
/// # Errors
/// What [`judge_directory`](crate::session::judge_directory) gives, and a check that the record has not.
pub fn explain_directory(
    directory: &Path,
    check: Option<&str>,
) -> Result<Result<Explanation, RunVerdict>, Error> {
    let record = read_record(directory)?;
    let plan = plan::from_record(&record);
    let plan = plan.map_err(ResultsError::from)?;
    let verdict = judge::judge(&plan, &record);
    let judged = match check {
        Some(id) => Some(named(&verdict, id)?),
        None => gravest(&verdict),
    };
    let Some(judged) = judged else {
        return Ok(Err(verdict));
    };
    let reason = report::sentence_and_examples(judged);
    let mut explanation = explain(&plan, &record, &verdict, judged, reason);
    let is_merged = matches!(record.extent, Extent::Merged { .. });
    let modes = explanation.as_mut().and_then(|e| e.modes.as_mut());
    // A merged record's shards each count their launches from 0.
    if let Some(modes) = modes.filter(|_| !is_merged) {
        modes.compare_logs(&record.launches, |launch| log_of(directory, launch));
    }
    if let Some(explanation) = &mut explanation {
        let request = request(&plan, record.seed, explanation);
        // Each shard of a merged record has its own seed.
        explanation.request = request.filter(|_| !is_merged);
    }
    explanation.map(Ok).ok_or_else(|| {
        Error::Usage(format!(
            "the record's gates have no workload for {}",
            judged.id
        ))
    })
}

/// The request of the first answer that is shown, as a command for a shell. Not of a project with a tokenizer, which fits the
/// prompts; nor one that is too long to be read, or may hold a secret.
fn request(plan: &Plan, session: u64, explanation: &Explanation) -> Option<String> {
    let (block, index) = explanation.answers.first()?.sent?;
    let mut gates = plan.gates.iter();
    let workload = gates.find_map(|gate| {
        let mut checks = gate.checks.iter();
        let check = checks.find(|check| check.id == explanation.check)?;
        gate.workloads.iter().find(|it| it.id == check.workload)
    })?;
    let engine = &plan.engine;
    let holds_secret = engine
        .request
        .iter()
        .any(|(key, value)| may_be_secret(key, value));
    if engine.tokenizer.is_some() || holds_secret {
        return None;
    }
    let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let endpoint = Endpoint::new(nowhere, engine, None);
    let (path, body) = client::request(&endpoint, workload, PromptSeed { session, block }, index)?;
    let body = as_ascii(&body);
    let is_shown = body.len() < REQUEST_BYTES && report::redact(&body) == body;
    let body = body.replace('\'', r"'\''");
    is_shown.then(|| {
        format!(
            "curl -s http://127.0.0.1:$PORT{path} -H 'Content-Type: application/json' -d '{body}'"
        )
    })
}

/// True if a key of this name, or one within its value, may hold a secret.
fn may_be_secret(key: &str, value: &Value) -> bool {
    may_be_under(&mut vec![key], value)
}

/// The same under all these keys, the outermost first.
fn may_be_under<'a>(keys: &mut Vec<&'a str>, value: &'a Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(key, value)| {
            keys.push(key);
            let may_be = may_be_under(keys, value);
            keys.pop();
            may_be
        }),
        Value::Array(values) => values.iter().any(|value| may_be_under(keys, value)),
        // A value may be the name of the one beside it.
        Value::String(value) => {
            is_hidden(value, "value") || keys.iter().any(|key| is_hidden(key, value))
        }
        Value::Number(value) => keys.iter().any(|key| {
            let key = key.to_lowercase();
            let is_of_tokens = key.contains("tokens") || key.contains("token_id");
            !is_of_tokens && is_hidden(&key, &value.to_string())
        }),
        Value::Null | Value::Bool(_) => false,
    }
}

fn is_hidden(key: &str, value: &str) -> bool {
    let word = [format!("{key}={value}")];
    report::secrets::hidden(&word) != word
}

/// JSON with escapes for all that is not ASCII or cannot be seen, which stands within its strings alone.
fn as_ascii(json: &str) -> String {
    let mut ascii = String::new();
    for c in json.chars() {
        match c {
            ' '..='~' => ascii.push(c),
            _ => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    let _ = write!(ascii, "\\u{unit:04x}");
                }
            }
        }
    }
    ascii
}

/// The log of a launch, if it is no longer than [`LOG_BYTES`]. Records and what lies beside them may be anybody's: nothing outside
/// the directory's own `logs/` is opened, and no link is followed.
fn log_of(directory: &Path, launch: &Launch) -> Option<String> {
    let name = launch.log.strip_prefix("logs/")?;
    let is_name = Path::new(name).file_name().is_some_and(|file| file == name);
    let logs = directory.join("logs");
    if !is_name || !logs.symlink_metadata().ok()?.is_dir() {
        return None;
    }
    let file = open_plain(&logs.join(name)).ok()?;
    let mut bytes = Vec::new();
    file.take(LOG_BYTES + 1).read_to_end(&mut bytes).ok()?;
    // What is cut off may hold any line.
    let is_whole = bytes.len() as u64 <= LOG_BYTES;
    is_whole.then(|| String::from_utf8_lossy(&bytes).into_owned())
}

fn named<'v>(verdict: &'v RunVerdict, id: &str) -> Result<&'v CheckVerdict, Error> {
    let mut checks = checks(verdict);
    checks.find(|check| check.id == id).ok_or_else(|| {
        let ids: Vec<&str> = crate::explanation::checks(verdict)
            .map(|check| check.id.as_str())
            .collect();
        Error::Usage(format!(
            "unknown check `{id}`; available: {}",
            ids.join(", ")
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_are_found_at_any_depth() {
        for (key, value, expect) in [
            ("api_key", json!("abc"), true),
            ("a", json!({"b": [{"token": "abc"}]}), true),
            ("auth", json!({"value": "abc"}), true),
            (
                "headers",
                json!([{"name": "api_key", "value": "abc"}]),
                true,
            ),
            ("headers", json!([["X-Auth-Token", "abc"]]), true),
            ("auth", json!({"of": {"value": "abc"}}), true),
            ("password", json!(12345), true),
            ("access_token", json!(123_456_789), true),
            ("maxTokens", json!(4096), false),
            ("max_tokens", json!(64), false),
            ("reasoning_effort", json!("low"), false),
            ("skip_special_tokens", json!(false), false),
            ("stop_token_ids", json!([151_645]), false),
            (
                "chat_template_kwargs",
                json!({"enable_thinking": false}),
                false,
            ),
        ] {
            assert_eq!(may_be_secret(key, &value), expect, "{key}");
        }
    }

    #[test]
    fn a_deep_value_is_read_once() {
        let deep = |leaf: Value| (0..60).fold(leaf, |inner, _| json!({"of": inner}));
        assert!(!may_be_secret("a", &deep(json!("abc"))));
        assert!(may_be_secret("auth", &deep(json!("abc"))));
    }

    #[test]
    fn a_request_is_ascii_and_the_same_json() {
        let value = json!({"prompt": "ä\u{9b}2J\u{202e}\u{1f600}'\n"});
        let ascii = as_ascii(&value.to_string());
        assert!(ascii.chars().all(|c| (' '..='~').contains(&c)), "{ascii}");
        let read: Value = serde_json::from_str(&ascii).unwrap();
        assert_eq!(read, value);
    }
}
