//! The answers' JSON: whole answers and stream chunks of both routes, as engines really send them.
//!
//! Main type: [`Answer`]. Tolerant where engines differ (absent or null fields, several names for
//! reasoning, both forms of log-probabilities); a field that is there must have its right type, since
//! a guess at a number would be a lie.
//!
//! Refuses to know: time, samples, void rules.

use super::logprobs::{Logprobs, Uneven};
use super::sanitize::message_of;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::borrow::Cow;
use verdict::record::{ServerTimings, TokenLogprob};

/// Fields of a delta whose text no token makes.
const NO_OUTPUT: [&str; 4] = ["role", "name", "id", "type"];

/// A chunk of a stream, or a whole answer.
#[derive(Debug, Deserialize)]
pub struct Answer {
    choices: Option<Vec<Choice>>,
    pub usage: Option<Usage>,
    timings: Option<RawTimings>,
    error: Option<Value>,
    /// `error` where an engine sends an error in the place of an answer (vLLM).
    object: Option<String>,
    message: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
pub struct Choice {
    index: Option<u32>,
    /// Of completions.
    text: Option<String>,
    /// Of chat streams.
    delta: Option<Delta>,
    /// Of whole chat answers.
    message: Option<Delta>,
    pub finish_reason: Option<String>,
    logprobs: Option<Logprobs>,
    token_ids: Option<Vec<u32>>,
}

#[derive(Debug, Default, Deserialize)]
struct Delta {
    role: Option<IgnoredAny>,
    content: Option<String>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    /// Further names that servers use.
    thinking: Option<String>,
    reasoning_text: Option<String>,
    tool_calls: Option<Vec<ToolCall>>,
    token_ids: Option<Vec<u32>>,
}

/// A call of a function, or a part of one.
#[derive(Debug, Default, Deserialize)]
pub struct ToolCall {
    function: Option<Function>,
}

#[derive(Debug, Default, Deserialize)]
struct Function {
    name: Option<String>,
    arguments: Option<Arguments>,
}

/// JSON as a text, which a stream sends in parts; of some servers an object.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Arguments {
    Text(String),
    Object(Value),
}

impl Arguments {
    fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => text.into(),
            Self::Object(object) => object.to_string().into(),
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Usage {
    pub prompt_tokens: Option<u32>,
    pub completion_tokens: Option<u32>,
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u32>,
}

/// llama.cpp's form.
#[derive(Clone, Copy, Debug, Deserialize)]
struct RawTimings {
    prompt_n: Option<u32>,
    prompt_ms: Option<f64>,
    predicted_n: Option<u32>,
    predicted_ms: Option<f64>,
}

/// Why an answer is not what the protocol promises.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    #[error("bad JSON: {0}")]
    Json(String),
    #[error("{0} choices where one was asked for")]
    Choices(usize),
    #[error("choice {0} was sent, but only choice 0 was asked for")]
    Index(u32),
    #[error(transparent)]
    Logprobs(#[from] Uneven),
}

impl Answer {
    pub fn parse(json: &[u8]) -> Result<Self, AnswerError> {
        let answer: Self =
            serde_json::from_slice(json).map_err(|error| AnswerError::Json(error.to_string()))?;
        match answer.choices.as_deref() {
            None | Some([]) => Ok(answer),
            Some([one]) => match one.index.filter(|index| *index > 0) {
                None => Ok(answer),
                Some(index) => Err(AnswerError::Index(index)),
            },
            Some(many) => Err(AnswerError::Choices(many.len())),
        }
    }

    /// The one choice; none in a usage chunk.
    pub fn choice(&mut self) -> Option<Choice> {
        self.choices.as_mut()?.pop()
    }

    /// True if it has a choice without output.
    pub fn is_silent(&self) -> bool {
        let choice = self.choices.as_ref().and_then(|choices| choices.first());
        choice.is_some_and(|choice| !choice.has_output())
    }

    /// The server's own message, if this is an error in the place of an answer.
    pub fn error_message(&self) -> Option<String> {
        let flagged = self.object.as_deref() == Some("error");
        match (&self.error, &self.message) {
            (Some(error), _) => Some(message_of(error)),
            (None, Some(message)) if flagged => Some(message_of(message)),
            (None, None) if flagged => Some("no message".to_owned()),
            _ => None,
        }
    }

    pub fn timings(&self) -> Option<ServerTimings> {
        let raw = self.timings?;
        Some(ServerTimings {
            prompt_n: raw.prompt_n?,
            prompt_ms: raw.prompt_ms?,
            predicted_n: raw.predicted_n?,
            predicted_ms: raw.predicted_ms?,
        })
    }
}

/// The field of a stream's delta, not one of those above, in which this event has text.
pub fn unknown_text(json: &str) -> Option<String> {
    let event: Value = serde_json::from_str(json).ok()?;
    let delta = event.pointer("/choices/0/delta")?.as_object()?;
    let is_unknown = |(name, value): &(&String, &Value)| {
        let text = value.as_str().unwrap_or_default();
        !NO_OUTPUT.contains(&name.as_str()) && !text.is_empty()
    };
    delta.iter().find(is_unknown).map(|(name, _)| name.clone())
}

impl Usage {
    pub fn cached_tokens(&self) -> Option<u32> {
        self.prompt_tokens_details?.cached_tokens
    }
}

impl Choice {
    /// Whether it carries output: text, reasoning, a tool call or token ids. A role alone, an empty
    /// delta and a finish reason alone carry none.
    pub fn has_output(&self) -> bool {
        let tools = self.part().and_then(|part| part.tool_calls.as_ref());
        !self.content().is_empty()
            || !self.reasoning().is_empty()
            || tools.is_some_and(|calls| !calls.is_empty())
            || self.token_ids().is_some_and(|count| count > 0)
    }

    /// Names and arguments of the functions that it calls, in order: parts of them are parts of the whole.
    pub fn calls(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let calls = self.part().and_then(|part| part.tool_calls.as_ref());
        let functions = calls.into_iter().flatten();
        let functions = functions.filter_map(|call| call.function.as_ref());
        functions.flat_map(|function| {
            let name = function.name.as_deref().map(Cow::from);
            let arguments = function.arguments.as_ref().map(Arguments::text);
            name.into_iter().chain(arguments)
        })
    }

    /// True if it names the speaker's role; servers do so before the first token.
    pub fn names_role(&self) -> bool {
        self.part().is_some_and(|part| part.role.is_some())
    }

    /// The answer's text, reasoning left out.
    pub fn content(&self) -> &str {
        let chat = self.part().and_then(|part| part.content.as_deref());
        self.text.as_deref().or(chat).unwrap_or("")
    }

    pub fn reasoning(&self) -> &str {
        let Some(part) = self.part() else {
            return "";
        };
        // Engines that send both names send the same text twice, or leave one of them empty.
        let names = [
            &part.reasoning_content,
            &part.reasoning,
            &part.thinking,
            &part.reasoning_text,
        ];
        let mut texts = names.into_iter().flatten();
        texts
            .find(|text| !text.is_empty())
            .map_or("", String::as_str)
    }

    /// How many token ids it names, where the engine names them.
    pub fn token_ids(&self) -> Option<usize> {
        let chat = self.part().and_then(|part| part.token_ids.as_ref());
        self.token_ids.as_ref().or(chat).map(Vec::len)
    }

    /// Its tokens' log-probabilities, where they were asked for.
    pub fn take_logprobs(&mut self) -> Result<Option<Vec<TokenLogprob>>, AnswerError> {
        Ok(self.logprobs.take().map_or(Ok(None), Logprobs::read)?)
    }

    fn part(&self) -> Option<&Delta> {
        self.delta.as_ref().or(self.message.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, AnswerError, unknown_text};

    #[test]
    fn text_in_a_field_of_another_name_is_found() {
        let check = |choice: &str, expect: Option<&str>| {
            let event = format!("{{\"choices\":[{choice}]}}");
            assert_eq!(unknown_text(&event).as_deref(), expect, "{choice}");
        };
        check(
            r#"{"delta":{"content":"","thoughts":"a"}}"#,
            Some("thoughts"),
        );
        check(r#"{"delta":{"content":null,"thoughts":""}}"#, None);
        check(
            r#"{"delta":{"role":"assistant","id":"x","refusal":null}}"#,
            None,
        );
        check(r#"{"delta":{"thoughts":["a"]}}"#, None);
        check(r#"{"text":"","thoughts":"a"}"#, None);
        check("", None);
    }

    fn output(choice: &str) -> (bool, String, String) {
        let mut answer = Answer::parse(format!("{{\"choices\":[{choice}]}}").as_bytes()).unwrap();
        let choice = answer.choice().unwrap();
        (
            choice.has_output(),
            choice.content().to_owned(),
            choice.reasoning().to_owned(),
        )
    }

    fn check(choice: &str, has_output: bool, content: &str, reasoning: &str) {
        assert_eq!(
            output(choice),
            (has_output, content.to_owned(), reasoning.to_owned()),
            "{choice}"
        );
    }

    #[test]
    fn a_call_is_the_same_whole_and_in_parts() {
        let calls = |choices: &[&str]| -> String {
            let of = |choice: &&str| {
                let text = format!("{{\"choices\":[{choice}]}}");
                let choice = Answer::parse(text.as_bytes()).unwrap().choice().unwrap();
                choice.calls().collect::<String>()
            };
            choices.iter().map(of).collect()
        };
        let whole = r#"{"message":{"tool_calls":[{"id":"x","function":{"name":"f","arguments":"{\"a\":1}"}}]}}"#;
        let parts = [
            r#"{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}}"#,
            r#"{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]}}"#,
            r#"{"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}}"#,
        ];
        let object =
            r#"{"message":{"tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]}}"#;
        let said = "f{\"a\":1}";
        assert_eq!(
            [calls(&[whole]), calls(&parts), calls(&[object])],
            [said, said, said]
        );
        assert_eq!(calls(&[r#"{"delta":{"tool_calls":[{"index":0}]}}"#]), "");
    }

    #[test]
    fn output_goes_by_many_names_and_a_role_is_none() {
        check(r#"{"text":"a"}"#, true, "a", "");
        check(r#"{"text":""}"#, false, "", "");
        check(r#"{"text":"","token_ids":[5]}"#, true, "", "");
        check(r#"{"text":"","finish_reason":"length"}"#, false, "", "");
        check(r#"{"delta":{"role":"assistant"}}"#, false, "", "");
        check(
            r#"{"delta":{"role":"assistant","content":""}}"#,
            false,
            "",
            "",
        );
        check(
            r#"{"delta":{"content":null,"tool_calls":[]}}"#,
            false,
            "",
            "",
        );
        check(r#"{"delta":{}}"#, false, "", "");
        check(r#"{"delta":{"content":" "}}"#, true, " ", "");
        check(r#"{"delta":{"reasoning_content":"r"}}"#, true, "", "r");
        check(
            r#"{"delta":{"reasoning":"r","reasoning_content":null}}"#,
            true,
            "",
            "r",
        );
        check(
            r#"{"delta":{"reasoning":"r","reasoning_content":""}}"#,
            true,
            "",
            "r",
        );
        check(
            r#"{"delta":{"reasoning":"r","reasoning_content":"r"}}"#,
            true,
            "",
            "r",
        );
        check(r#"{"delta":{"tool_calls":[{"index":0}]}}"#, true, "", "");
        check(r#"{"delta":{"token_ids":[1]}}"#, true, "", "");
        check(
            r#"{"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}"#,
            true,
            "a",
            "",
        );
    }

    #[test]
    fn absent_and_null_fields_are_borne_but_wrong_types_are_not() {
        for json in [
            r#"{}"#,
            r#"{"choices":null,"usage":null,"error":null,"timings":null}"#,
            r#"{"choices":[]}"#,
        ] {
            let mut answer = Answer::parse(json.as_bytes()).unwrap();
            assert!(
                answer.choice().is_none() && answer.usage.is_none(),
                "{json}"
            );
            assert!(
                answer.error_message().is_none() && answer.timings().is_none(),
                "{json}"
            );
        }
        for json in [
            r#"{"choices":[{"text":5}]}"#,
            r#"{"usage":{"completion_tokens":-1}}"#,
            "[]",
            "",
            "{",
        ] {
            assert!(
                matches!(Answer::parse(json.as_bytes()), Err(AnswerError::Json(_))),
                "{json}"
            );
        }
        let two = Answer::parse(br#"{"choices":[{"text":"a"},{"text":"b"}]}"#);
        assert!(matches!(two, Err(AnswerError::Choices(2))));
        let second = Answer::parse(br#"{"choices":[{"index":1,"text":"a"}]}"#);
        assert!(matches!(second, Err(AnswerError::Index(1))));
        assert!(Answer::parse(br#"{"choices":[{"index":0,"text":"a"}]}"#).is_ok());
    }

    #[test]
    fn reads_usage_and_timings() {
        let json = br#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,
            "prompt_tokens_details":{"cached_tokens":4}},
            "timings":{"cache_n":4,"prompt_n":3,"prompt_ms":1.5,"predicted_n":3,"predicted_ms":20}}"#;
        let answer = Answer::parse(json).unwrap();
        let usage = answer.usage.unwrap();
        assert_eq!(
            (usage.prompt_tokens, usage.completion_tokens),
            (Some(7), Some(3))
        );
        assert_eq!(usage.cached_tokens(), Some(4));
        let timings = answer.timings().unwrap();
        assert_eq!((timings.prompt_n, timings.predicted_n), (3, 3));
        assert!((timings.prompt_ms - 1.5).abs() < 1e-12);
        let partial = Answer::parse(br#"{"timings":{"prompt_n":3}}"#).unwrap();
        assert_eq!(partial.timings(), None);
    }

    #[test]
    fn errors_are_found_in_each_engines_form() {
        let message = |json: &str| Answer::parse(json.as_bytes()).unwrap().error_message();
        assert_eq!(
            message(r#"{"error":{"message":"out of memory","code":500}}"#),
            Some("out of memory".into())
        );
        assert_eq!(message(r#"{"error":"gone"}"#), Some("gone".into()));
        assert_eq!(
            message(r#"{"object":"error","message":"bad"}"#),
            Some("bad".into())
        );
        assert_eq!(message(r#"{"object":"error"}"#), Some("no message".into()));
        assert_eq!(
            message(r#"{"object":"chat.completion","choices":[]}"#),
            None
        );
    }
}
