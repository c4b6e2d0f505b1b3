//! Data files of correctness gates: goldens made by a reference implementation, and task cases.

use super::model::{GoldenCase, GoldenToken, TaskCase};
use serde::Deserialize;
use std::collections::BTreeMap;

const GOLDENS_FORMAT: &str = "infergate-goldens/1";

/// How a reference's answer may have ended.
const FINISHES: [&str; 2] = ["stop", "length"];

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
    refuse_twins("case", (1..).zip(cases.iter().map(|case| case.id.as_str())))?;
    Ok(GoldenData {
        cases,
        texts: raw.texts,
    })
}

/// Answers are found by their case's id: of two cases with one id neither could be told.
fn refuse_twins<'a>(
    place: &str,
    ids: impl Iterator<Item = (usize, &'a str)>,
) -> Result<(), String> {
    let mut seen = BTreeMap::new();
    for (number, id) in ids {
        if let Some(first) = seen.insert(id, number) {
            return Err(format!(
                "{place} {number}: the id `{id}` is that of {place} {first} already; give each case an id of its own"
            ));
        }
    }
    Ok(())
}

/// What `docs/gates.md` says of a reference's tokens; the reason names the first place where it does not hold.
fn check_reference(raw: &RawGolden) -> Result<(), String> {
    let id = &raw.id;
    if !FINISHES.contains(&raw.finish.as_str()) {
        let [stop, length] = FINISHES;
        return Err(format!(
            "case `{id}`: its `finish` is `{}`; write `{stop}` or `{length}`",
            raw.finish
        ));
    }
    for (place, token) in raw.tokens.iter().enumerate() {
        let top = token.top.iter().map(|(_, logprob)| *logprob);
        if let Some(above) = top.chain([token.logprob]).find(|logprob| *logprob > 0.0) {
            return Err(format!(
                "case `{id}`, token {place}: a log-probability of {above} is above 0; write the natural logarithm of \
                 a probability"
            ));
        }
        if !token.top.is_sorted_by(|a, b| a.1 >= b.1) {
            return Err(format!(
                "case `{id}`, token {place}: its `top` is not in order; write the best token first"
            ));
        }
    }
    Ok(())
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
    check_reference(&raw)?;
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
            Ok((i + 1, task(raw)))
        })
        .collect::<Result<Vec<_>, String>>()?;
    if cases.is_empty() {
        return Err("it holds no case".into());
    }
    refuse_twins(
        "line",
        cases.iter().map(|(line, case)| (*line, case.id.as_str())),
    )?;
    Ok(cases.into_iter().map(|(_, case)| case).collect())
}

fn task(raw: RawTask) -> TaskCase {
    let messages = raw.messages.into_iter().map(|m| (m.role, m.content));
    TaskCase {
        id: raw.id,
        task: raw.task,
        messages: messages.collect(),
        expect: raw.expect,
        max_tokens: raw.max_tokens,
    }
}

#[cfg(test)]
mod tests {
    use super::{goldens, tasks};

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
        let twice = error(case);
        let found = "line 3: the id `a` is that of line 1 already; give each case an id of its own";
        assert_eq!(twice, found);
    }

    #[test]
    fn goldens_that_no_reference_gives_are_refused_with_their_case() {
        let case = r#"{"id": "a", "prompt_ids": [7], "tokens": [{"id": 1, "text": "x", "logprob": -0.5, "top": [[1, -0.5], [2, -1.5]]}], "text": "x", "finish": "stop"}"#;
        let read = |cases: &str| {
            let file = r#"{"format": "infergate-goldens/1", "texts": {}, "cases": [CASES]}"#;
            goldens(&file.replace("CASES", cases))
        };
        for finish in ["\"stop\"", "\"length\""] {
            assert!(read(&case.replace("\"stop\"", finish)).is_ok());
        }
        // A token that is certain has the logarithm 0, and two may be equally good.
        assert!(read(&case.replace("-0.5", "0.0").replace("-1.5", "0.0")).is_ok());
        let twice = format!("{case}, {case}");
        let table = [
            (twice, "case 2: the id `a` is that of case 1 already"),
            (
                case.replace("\"logprob\": -0.5", "\"logprob\": 0.5"),
                "case `a`, token 0: a log-probability of 0.5 is above 0",
            ),
            (
                case.replace("[1, -0.5]", "[1, 2.5]"),
                "case `a`, token 0: a log-probability of 2.5 is above 0",
            ),
            (
                case.replace("[1, -0.5]", "[1, -3.5]"),
                "case `a`, token 0: its `top` is not in order",
            ),
            (
                case.replace("\"finish\": \"stop\"", "\"finish\": \"eos\""),
                "case `a`: its `finish` is `eos`; write `stop` or `length`",
            ),
        ];
        for (cases, expect) in table {
            let refusal = read(&cases).err().unwrap_or_default();
            assert!(refusal.contains(expect), "{cases}: {refusal}");
        }
    }
}
