//! Data files of correctness gates: task cases here, goldens in `goldens.rs`.

use super::model::TaskCase;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Answers are found by their case's id: of two cases with one id neither could be told.
pub(super) fn refuse_twins<'a>(
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
        let twice = error(case);
        let found = "line 3: the id `a` is that of line 1 already; give each case an id of its own";
        assert_eq!(twice, found);
    }
}
