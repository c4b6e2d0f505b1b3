//! Parameters of the API that this server does not implement, and the values of them that it can take
//! because they ask for nothing.
//!
//! [`refuse_unsupported`] reads every name of [`TABLE`]: a neutral value is accepted, any other is refused
//! with the remedy. A parameter that is ignored in silence makes two engines look alike that did
//! different work, so nothing is ignored here.

use super::error::ApiError;
use super::truncate::{kind, shorten};
use serde_json::{Map, Value};

/// Which values of a parameter ask for nothing.
enum Neutral {
    /// Any value of its type: the parameter has no influence on the answer.
    Any(Type),
    Number(&'static [f64]),
    Bool(bool),
    Text(&'static [&'static str]),
    /// An empty array, object or string.
    Empty,
    /// `["text"]`.
    TextAlone,
    /// No value but null.
    Nothing,
}

/// The type of a parameter without influence.
#[derive(Clone, Copy)]
enum Type {
    Bool,
    Text,
    Object,
}

struct Parameter {
    name: &'static str,
    neutral: Neutral,
    /// What to do instead, as the second half of the message.
    remedy: &'static str,
}

const fn parameter(name: &'static str, neutral: Neutral, remedy: &'static str) -> Parameter {
    Parameter {
        name,
        neutral,
        remedy,
    }
}

const NO_TOOLS: &str = "describe functions in `tools`";
const NO_GUIDE: &str = "send the schema as `response_format`";
const TEXT_ONLY: &str = "only text is generated";

/// Known to OpenAI, vLLM or llama.cpp, and not implemented here.
const TABLE: &[Parameter] = &[
    // Choice of tokens.
    parameter(
        "typical_p",
        Neutral::Number(&[1.0]),
        "use `top_p`, `top_k` or `min_p`",
    ),
    parameter(
        "length_penalty",
        Neutral::Number(&[1.0]),
        "beam search is not implemented",
    ),
    parameter(
        "use_beam_search",
        Neutral::Bool(false),
        "beam search is not implemented",
    ),
    parameter(
        "bad_words",
        Neutral::Empty,
        "give their token ids a `logit_bias` of -100",
    ),
    parameter(
        "truncate_prompt_tokens",
        Neutral::Nothing,
        "shorten the prompt at the client",
    ),
    // Text in and out.
    parameter("suffix", Neutral::Empty, "insertion is not implemented"),
    parameter(
        "add_special_tokens",
        Neutral::Bool(true),
        "send the prompt as token ids instead",
    ),
    parameter(
        "skip_special_tokens",
        Neutral::Bool(true),
        "ask for `return_token_ids` instead",
    ),
    parameter(
        "spaces_between_special_tokens",
        Neutral::Bool(true),
        "special tokens are not shown",
    ),
    parameter(
        "prompt_logprobs",
        Neutral::Nothing,
        "send `echo: true` with `logprobs` to /v1/completions",
    ),
    parameter("prompt_embeds", Neutral::Nothing, "send text or token ids"),
    parameter("structured_outputs", Neutral::Nothing, NO_GUIDE),
    parameter("guided_json", Neutral::Nothing, NO_GUIDE),
    parameter("guided_regex", Neutral::Nothing, NO_GUIDE),
    parameter("guided_choice", Neutral::Nothing, NO_GUIDE),
    parameter("guided_grammar", Neutral::Nothing, NO_GUIDE),
    parameter("grammar", Neutral::Nothing, NO_GUIDE),
    parameter("json_schema", Neutral::Nothing, NO_GUIDE),
    // Chat.
    parameter("parallel_tool_calls", Neutral::Any(Type::Bool), ""),
    parameter("functions", Neutral::Empty, NO_TOOLS),
    parameter("function_call", Neutral::Text(&["none", "auto"]), NO_TOOLS),
    parameter("modalities", Neutral::TextAlone, TEXT_ONLY),
    parameter("audio", Neutral::Nothing, TEXT_ONLY),
    parameter(
        "prediction",
        Neutral::Nothing,
        "predicted outputs are not implemented",
    ),
    parameter(
        "reasoning_effort",
        Neutral::Nothing,
        "the model has no such setting",
    ),
    parameter(
        "verbosity",
        Neutral::Nothing,
        "the model has no such setting",
    ),
    parameter("web_search_options", Neutral::Nothing, TEXT_ONLY),
    parameter(
        "chat_template",
        Neutral::Nothing,
        "the model's own template is used",
    ),
    // Service.
    parameter(
        "priority",
        Neutral::Number(&[0.0]),
        "requests are served in the order of arrival",
    ),
    parameter(
        "service_tier",
        Neutral::Text(&["auto", "default"]),
        "there is one tier",
    ),
    parameter("store", Neutral::Bool(false), "answers are not stored"),
    parameter("metadata", Neutral::Any(Type::Object), ""),
    parameter("user", Neutral::Any(Type::Text), ""),
    parameter("safety_identifier", Neutral::Any(Type::Text), ""),
    parameter("prompt_cache_key", Neutral::Any(Type::Text), ""),
];

/// Takes every parameter of the table; refuses the first whose value asks for something.
pub fn refuse_unsupported(members: &mut Map<String, Value>) -> Result<(), ApiError> {
    let mut given = TABLE.iter().filter_map(|parameter| {
        let value = members.remove(parameter.name)?;
        (!value.is_null()).then_some((parameter, value))
    });
    given.try_for_each(|(parameter, value)| parameter.check(&value))
}

/// Every name of the table, to suggest from.
pub fn names<'a>() -> impl Iterator<Item = &'a str> {
    TABLE.iter().map(|parameter| parameter.name)
}

impl Parameter {
    fn check(&self, value: &Value) -> Result<(), ApiError> {
        if self.neutral.accepts(value) {
            return Ok(());
        }
        let Self { name, remedy, .. } = self;
        if let Neutral::Any(expected) = self.neutral {
            return Err(ApiError::invalid_type(name, expected.name(), &kind(value)));
        }
        let value = value.to_string();
        let shown = shorten(&value);
        let message = format!("`{name}` = {shown} is not supported ({remedy})");
        Err(ApiError::unsupported(name, message))
    }
}

impl Type {
    fn is_of(self, value: &Value) -> bool {
        match self {
            Self::Bool => value.is_boolean(),
            Self::Text => value.is_string(),
            Self::Object => value.is_object(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Bool => "a boolean",
            Self::Text => "a string",
            Self::Object => "an object",
        }
    }
}

impl Neutral {
    fn accepts(&self, value: &Value) -> bool {
        match self {
            Self::Any(expected) => expected.is_of(value),
            Self::Nothing => false,
            Self::Number(allowed) => value.as_f64().is_some_and(|number| {
                allowed
                    .iter()
                    .any(|one| one.total_cmp(&(number + 0.0)).is_eq())
            }),
            Self::Bool(allowed) => value.as_bool() == Some(*allowed),
            Self::Text(allowed) => value.as_str().is_some_and(|text| allowed.contains(&text)),
            Self::Empty => match value {
                Value::Array(items) => items.is_empty(),
                Value::Object(members) => members.is_empty(),
                Value::String(text) => text.is_empty(),
                _ => false,
            },
            Self::TextAlone => *value == serde_json::json!(["text"]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};

    fn check(name: &str, value: Value) -> Result<(), ApiError> {
        let mut members = Map::new();
        members.insert(name.to_owned(), value);
        refuse_unsupported(&mut members)?;
        assert!(members.is_empty(), "{name} is in the table");
        Ok(())
    }

    #[test]
    fn values_that_ask_for_nothing_are_taken() {
        for (name, value) in [
            ("typical_p", json!(1)),
            ("typical_p", json!(1.0)),
            ("priority", json!(-0.0)),
            ("suffix", json!("")),
            ("bad_words", json!([])),
            ("bad_words", json!(null)),
            ("modalities", json!(["text"])),
            ("store", json!(false)),
            ("user", json!("somebody")),
            ("metadata", json!({"run": "5"})),
            ("parallel_tool_calls", json!(true)),
        ] {
            assert_eq!(check(name, value.clone()), Ok(()), "{name} = {value}");
        }
    }

    #[test]
    fn values_that_ask_for_something_are_refused_by_name() {
        for (name, value) in [
            ("typical_p", json!(0.9)),
            ("typical_p", json!("1")),
            ("length_penalty", json!(0.5)),
            ("use_beam_search", json!(true)),
            ("bad_words", json!(["a"])),
            ("suffix", json!("end")),
            ("guided_json", json!({})),
            ("prompt_logprobs", json!(1)),
            ("modalities", json!(["text", "audio"])),
            ("functions", json!([{"name": "add"}])),
            ("guided_json", json!({"type": "object"})),
            ("store", json!(true)),
        ] {
            let error = check(name, value).unwrap_err();
            assert_eq!(error.code, "unsupported_parameter");
            assert_eq!(error.param.as_deref(), Some(name));
        }
    }

    #[test]
    fn what_has_no_influence_must_still_be_of_its_type() {
        for (name, value) in [
            ("user", json!(5)),
            ("metadata", json!([])),
            ("parallel_tool_calls", json!("no")),
            ("prompt_cache_key", json!({})),
        ] {
            let error = check(name, value).unwrap_err();
            assert_eq!(error.code, "invalid_type");
            assert_eq!(error.param.as_deref(), Some(name));
        }
    }

    #[test]
    fn the_message_shows_the_value_and_the_remedy() {
        let error = check("use_beam_search", json!(true)).unwrap_err();
        assert_eq!(
            error.message,
            "`use_beam_search` = true is not supported (beam search is not implemented)"
        );
    }

    #[test]
    fn no_name_stands_twice() {
        let mut all: Vec<_> = names().collect();
        all.sort_unstable();
        let count = all.len();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
