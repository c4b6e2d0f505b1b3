//! Data files of correctness gates: task cases here, goldens in `goldens.rs`.

use crate::plan::model::{TaskCase, TextCase, TextPrompt};
use crate::record::TokenLogprob;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Answers are found by their case's id: of two cases with one id neither could be told.
pub fn refuse_twins<'a>(
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

/// One case a line, as JSON, with the number of its line.
fn cases<'t, T: Deserialize<'t>>(text: &'t str) -> Result<Vec<(usize, T)>, String> {
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, l)| !l.trim().is_empty());
    let cases = lines
        .map(|(i, line)| {
            let raw = serde_json::from_str(line).map_err(|e| in_line(i + 1, &e))?;
            Ok((i + 1, raw))
        })
        .collect::<Result<Vec<_>, String>>()?;
    match cases.is_empty() {
        true => Err("it holds no case".into()),
        false => Ok(cases),
    }
}

/// Reads `tasks.jsonl`: one case a line.
pub fn tasks(text: &str) -> Result<Vec<TaskCase>, String> {
    let cases: Vec<(usize, RawTask)> = cases(text)?;
    let ids = cases.iter().map(|(line, case)| (*line, case.id.as_str()));
    refuse_twins("line", ids)?;
    Ok(cases.into_iter().map(|(_, raw)| task(raw)).collect())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawText {
    id: String,
    text: Option<String>,
    ids: Option<Vec<u32>>,
    #[serde(default)]
    reference: Vec<TokenLogprob>,
}

/// Reads `texts.jsonl`: one text a line.
pub fn texts(text: &str) -> Result<Vec<TextCase>, String> {
    let cases: Vec<(usize, RawText)> = cases(text)?;
    let ids = cases.iter().map(|(line, case)| (*line, case.id.as_str()));
    refuse_twins("line", ids)?;
    let cases = cases.into_iter();
    cases
        .map(|(line, raw)| text_case(raw).map_err(|why| format!("line {line}: {why}")))
        .collect()
}

fn text_case(raw: RawText) -> Result<TextCase, String> {
    let prompt = match (raw.text, raw.ids) {
        (Some(text), None) if !text.trim().is_empty() => TextPrompt::Text(text),
        (None, Some(ids)) if ids.len() > 1 => TextPrompt::Ids(ids),
        _ => {
            return Err("give `text`, or two or more token `ids`, and not both".into());
        }
    };
    let tokens = raw.reference.len();
    if matches!(&prompt, TextPrompt::Ids(ids) if tokens > 0 && tokens != ids.len()) {
        return Err(format!(
            "`reference` has {tokens} entries; give one for each of the `ids`"
        ));
    }
    for (place, entry) in raw.reference.iter().enumerate().skip(1) {
        let Some(logprob) = entry.logprob.filter(|_| !entry.top.is_empty()) else {
            return Err(format!(
                "entry {place} of `reference` lacks its `logprob` or its `top`"
            ));
        };
        let mut all = entry
            .top
            .iter()
            .map(|(_, logprob)| *logprob)
            .chain([logprob]);
        if let Some(above) = all.find(|logprob| *logprob > 0.0) {
            return Err(format!(
                "entry {place} of `reference`: a log-probability of {above} is above 0"
            ));
        }
    }
    Ok(TextCase {
        id: raw.id,
        prompt,
        reference: raw.reference,
    })
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
    use super::{tasks, texts};

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
    fn a_text_is_words_or_ids_and_its_reference_fits_it() {
        let good = r#"{"id": "a", "text": "one two"}
{"id": "b", "ids": [1, 2], "reference": [{"token": "x"}, {"token": "y", "logprob": -0.5, "top": [["y", -0.5]]}]}"#;
        assert_eq!(texts(good).unwrap().len(), 2);
        let table = [
            ("", "it holds no case"),
            (
                r#"{"id": "a"}"#,
                "line 1: give `text`, or two or more token `ids`",
            ),
            (r#"{"id": "a", "text": " "}"#, "line 1: give `text`"),
            (r#"{"id": "a", "ids": [1]}"#, "line 1: give `text`"),
            (r#"{"id": "a", "text": "x", "ids": [1, 2]}"#, "and not both"),
            (
                r#"{"id": "a", "text": "x", "tex": 1}"#,
                "unknown field `tex`",
            ),
            (
                r#"{"id": "a", "ids": [1, 2], "reference": [{"token": "x"}]}"#,
                "`reference` has 1 entries; give one for each of the `ids`",
            ),
            (
                r#"{"id": "a", "text": "x y", "reference": [{"token": "x"}, {"token": "y"}]}"#,
                "entry 1 of `reference` lacks its `logprob`",
            ),
            (
                r#"{"id": "a", "text": "x y", "reference": [{"token": "x"}, {"token": "y", "logprob": 1, "top": [["y", -1]]}]}"#,
                "a log-probability of 1 is above 0",
            ),
        ];
        for (file, expect) in table {
            let refusal = texts(file).err().unwrap_or_default();
            assert!(refusal.contains(expect), "{file}: {refusal}");
        }
    }
}
