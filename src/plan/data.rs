//! Data files of correctness gates: goldens made by a reference implementation, and task cases.

use super::model::{GoldenCase, GoldenToken, TaskCase};
use serde::Deserialize;
use std::collections::BTreeMap;

const GOLDENS_FORMAT: &str = "infergate-goldens/1";

#[derive(Deserialize)]
struct RawGoldens {
    format: String,
    cases: Vec<RawGolden>,
    /// Text of each token id that a `top` list names.
    texts: BTreeMap<u32, String>,
}

/// What a goldens file holds.
pub(super) struct GoldenData {
    pub(super) cases: Vec<GoldenCase>,
    pub(super) texts: BTreeMap<u32, String>,
}

#[derive(Deserialize)]
struct RawGolden {
    id: String,
    prompt_ids: Vec<u32>,
    #[serde(default)]
    ignore_eos: bool,
    tokens: Vec<RawToken>,
    text: String,
    finish: String,
}

#[derive(Deserialize)]
struct RawToken {
    id: u32,
    text: String,
    logprob: f64,
    top: Vec<(u32, f64)>,
}

/// Reads `goldens.json`; the error says what is wrong without naming the file.
pub(super) fn goldens(text: &str) -> Result<GoldenData, String> {
    let raw: RawGoldens = serde_json::from_str(text).map_err(|e| e.to_string())?;
    if raw.format != GOLDENS_FORMAT {
        return Err(format!(
            "its format is `{}`, not `{GOLDENS_FORMAT}`",
            raw.format
        ));
    }
    let cases = raw
        .cases
        .into_iter()
        .map(golden)
        .collect::<Result<Vec<_>, _>>()?;
    if cases.is_empty() {
        return Err("it holds no case".into());
    }
    Ok(GoldenData {
        cases,
        texts: raw.texts,
    })
}

fn golden(raw: RawGolden) -> Result<GoldenCase, String> {
    if raw.prompt_ids.is_empty() || raw.tokens.is_empty() {
        return Err(format!("case `{}` has no prompt or no tokens", raw.id));
    }
    if raw.tokens.iter().any(|t| t.top.len() < 2) {
        return Err(format!(
            "case `{}` has a place with fewer than two best tokens",
            raw.id
        ));
    }
    let tokens = raw.tokens.into_iter().map(|token| GoldenToken {
        id: token.id,
        text: token.text,
        logprob: token.logprob,
        top: token.top,
    });
    Ok(GoldenCase {
        id: raw.id,
        prompt_ids: raw.prompt_ids,
        ignore_eos: raw.ignore_eos,
        tokens: tokens.collect(),
        text: raw.text,
        finish: raw.finish,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTask {
    id: String,
    task: String,
    messages: Vec<RawMessage>,
    expect: String,
    max_tokens: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMessage {
    role: String,
    content: String,
}

/// A line is a document of its own to the parser, which calls it line 1.
fn in_line(line: usize, error: &serde_json::Error) -> String {
    let (text, column) = (error.to_string(), error.column());
    let place = format!(" at line 1 column {column}");
    let what = text.strip_suffix(&place).unwrap_or(&text);
    format!("line {line}, column {column}: {what}")
}

/// Reads `tasks.jsonl`: one case a line.
pub(super) fn tasks(text: &str) -> Result<Vec<TaskCase>, String> {
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, l)| !l.trim().is_empty());
    let cases = lines
        .map(|(i, line)| {
            let raw: RawTask = serde_json::from_str(line).map_err(|e| in_line(i + 1, &e))?;
            Ok(TaskCase {
                id: raw.id,
                task: raw.task,
                messages: raw
                    .messages
                    .into_iter()
                    .map(|m| (m.role, m.content))
                    .collect(),
                expect: raw.expect,
                max_tokens: raw.max_tokens,
            })
        })
        .collect::<Result<Vec<_>, String>>()?;
    if cases.is_empty() {
        return Err("it holds no case".into());
    }
    Ok(cases)
}

#[cfg(test)]
mod tests {
    use super::tasks;

    #[test]
    fn an_error_names_its_place_in_the_file() {
        let case = r#"{"id": "a", "task": "sum", "messages": [{"role": "user", "content": "1+1="}], "expect": "2", "max_tokens": 4}"#;
        assert_eq!(tasks(case).unwrap().len(), 1);
        let error = |line: &str| tasks(&format!("{case}\n\n{line}\n")).unwrap_err();
        let unknown = error(r#"{"ident": "b"}"#);
        let found = "line 3, column 8: unknown field `ident`, expected one of `id`, ";
        assert!(unknown.starts_with(found), "{unknown}");
        assert!(unknown.ends_with("`max_tokens`"), "{unknown}");
        let cut = error(r#"{"id": "b""#);
        assert_eq!(cut, "line 3, column 10: EOF while parsing an object");
    }
}
