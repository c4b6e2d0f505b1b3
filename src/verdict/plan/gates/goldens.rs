//! A goldens file: prompts with a reference's greedy answers, with log-probabilities or as text alone.
//!
//! Main function: [`goldens`]. `docs/gates.md` describes the format.

use super::data::refuse_twins;
use crate::plan::model::{GoldenCase, GoldenToken, Goldens};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

const GOLDENS_FORMAT: &str = "infergate-goldens/1";

/// How a reference's answer may have ended.
const FINISHES: [&str; 2] = ["stop", "length"];

#[derive(Deserialize)]
struct RawGoldens {
    format: String,
    cases: Vec<RawGolden>,
    /// Text of each token id that a `top` list names.
    #[serde(default)]
    texts: BTreeMap<u32, String>,
    #[serde(default)]
    stop_ids: BTreeSet<u32>,
}

/// What a goldens file holds.
pub struct GoldenData {
    pub cases: Vec<GoldenCase>,
    pub texts: BTreeMap<u32, String>,
    pub stop_ids: BTreeSet<u32>,
}

#[derive(Deserialize)]
struct RawGolden {
    id: String,
    #[serde(default)]
    prompt_ids: Vec<u32>,
    prompt_text: Option<String>,
    #[serde(default)]
    messages: Vec<RawMessage>,
    #[serde(default)]
    ignore_eos: bool,
    #[serde(default)]
    tokens: Vec<RawToken>,
    max_tokens: Option<u32>,
    text: String,
    finish: String,
}

#[derive(Deserialize)]
struct RawMessage {
    role: String,
    content: String,
}

#[derive(Deserialize)]
struct RawToken {
    id: Option<u32>,
    text: String,
    logprob: f64,
    top: Vec<(RawName, f64)>,
}

/// A token as the reference names it: an engine that is asked over HTTP knows texts alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum RawName {
    Id(u32),
    Text(String),
}

/// Reads `goldens.json`; the error says what is wrong without naming the file.
pub fn goldens(text: &str) -> Result<GoldenData, String> {
    let raw: RawGoldens = serde_json::from_str(text).map_err(|e| e.to_string())?;
    if raw.format != GOLDENS_FORMAT {
        return Err(format!(
            "its format is `{}`, not `{GOLDENS_FORMAT}`",
            raw.format
        ));
    }
    let mut names = Names {
        texts: raw.texts,
        own: BTreeMap::new(),
    };
    let cases = raw
        .cases
        .into_iter()
        .map(|case| golden(case, &mut names))
        .collect::<Result<Vec<_>, _>>()?;
    if cases.is_empty() {
        return Err("it holds no case".into());
    }
    refuse_twins("case", (1..).zip(cases.iter().map(|case| case.id.as_str())))?;
    Ok(GoldenData {
        cases,
        texts: names.texts,
        stop_ids: raw.stop_ids,
    })
}

/// Reads the text of a goldens file as a gate would, with no near-tie.
///
/// # Errors
/// What is wrong with it.
pub fn read(text: &str) -> Result<Goldens, String> {
    let data = goldens(text)?;
    Ok(Goldens {
        cases: data.cases,
        texts: data.texts,
        stop_ids: data.stop_ids,
        ..Goldens::default()
    })
}

/// Ids of all tokens that the file names. Those that it names by text get ids from the top of the range, where no
/// vocabulary has any.
struct Names {
    texts: BTreeMap<u32, String>,
    own: BTreeMap<String, u32>,
}

impl Names {
    fn id(&mut self, name: RawName) -> u32 {
        let text = match name {
            RawName::Id(id) => return id,
            RawName::Text(text) => text,
        };
        let next = u32::MAX - u32::try_from(self.own.len()).unwrap_or(u32::MAX);
        let id = *self.own.entry(text.clone()).or_insert(next);
        self.texts.insert(id, text);
        id
    }
}

/// What `docs/gates.md` says of a case; the reason names the first place where it does not hold.
fn check(raw: &RawGolden) -> Result<(), String> {
    let id = &raw.id;
    if raw.prompt_ids.is_empty() && raw.prompt_text.is_none() && raw.messages.is_empty() {
        return Err(format!(
            "case `{id}` has no prompt: give it `prompt_ids`, `prompt_text` or `messages`"
        ));
    }
    match (raw.tokens.is_empty(), raw.max_tokens) {
        (true, None | Some(0)) => {
            return Err(format!(
                "case `{id}` has no `tokens`: say in `max_tokens` how long its answer may be"
            ));
        }
        (true, _) if raw.text.trim().is_empty() => {
            return Err(format!(
                "case `{id}` has no `tokens` and no `text`: there is nothing to compare with"
            ));
        }
        _ => {}
    }
    if raw.tokens.iter().any(|t| t.top.len() < 2) {
        return Err(format!(
            "case `{id}` has a place with fewer than two best tokens"
        ));
    }
    check_reference(raw)
}

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

fn golden(raw: RawGolden, names: &mut Names) -> Result<GoldenCase, String> {
    check(&raw)?;
    let has_ids = raw.tokens.iter().all(|token| token.id.is_some());
    let length = u32::try_from(raw.tokens.len()).unwrap_or(u32::MAX);
    let tokens: Vec<GoldenToken> = raw
        .tokens
        .into_iter()
        .map(|token| GoldenToken {
            id: token
                .id
                .unwrap_or_else(|| names.id(RawName::Text(token.text.clone()))),
            logprob: token.logprob,
            top: token
                .top
                .into_iter()
                .map(|(name, logprob)| (names.id(name), logprob))
                .collect(),
            text: token.text,
        })
        .collect();
    Ok(GoldenCase {
        id: raw.id,
        is_scorable: has_ids && !tokens.is_empty() && !raw.prompt_ids.is_empty(),
        prompt_ids: raw.prompt_ids,
        prompt_text: raw.prompt_text,
        messages: raw
            .messages
            .into_iter()
            .map(|message| (message.role, message.content))
            .collect(),
        ignore_eos: raw.ignore_eos,
        max_tokens: match tokens.is_empty() {
            true => raw.max_tokens.unwrap_or_default(),
            false => length,
        },
        tokens,
        text: raw.text,
        finish: raw.finish,
    })
}

#[cfg(test)]
mod tests {
    use super::goldens;

    #[test]
    fn a_reference_may_know_texts_alone() {
        let read = |cases: &str| {
            let file = r#"{"format": "infergate-goldens/1", "cases": [CASES]}"#;
            goldens(&file.replace("CASES", cases))
        };
        let plain = r#"{"id": "a", "prompt_text": "p", "max_tokens": 4, "text": "x y", "finish": "length"}"#;
        let case = read(plain).unwrap().cases.remove(0);
        assert_eq!((case.max_tokens, case.is_scorable), (4, false));
        assert_eq!(case.prompt_text.as_deref(), Some("p"));
        // Tokens that are named by text get ids of their own, one a text.
        let token = r#"{"text": "x", "logprob": -0.5, "top": [["x", -0.5], ["y", -1.5]]}"#;
        let tokens = format!("\"tokens\": [{token}, {token}], \"text\"");
        let named = read(&plain.replace("\"text\"", &tokens)).unwrap();
        let case = &named.cases[0];
        assert_eq!((case.max_tokens, case.is_scorable), (2, false));
        assert_eq!(case.tokens[0], case.tokens[1]);
        let text = |place: usize| named.texts[&case.tokens[0].top[place].0].as_str();
        assert_eq!((text(0), text(1)), ("x", "y"));
        assert_eq!(case.tokens[0].id, case.tokens[0].top[0].0);
        for (cut, expect) in [
            (r#""prompt_text": "p", "#, "has no prompt"),
            (r#""max_tokens": 4, "#, "say in `max_tokens`"),
            ("x y", "nothing to compare with"),
        ] {
            let refusal = read(&plain.replace(cut, "")).err().unwrap_or_default();
            assert!(refusal.contains(expect), "{cut}: {refusal}");
        }
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
