//! What an answer must be: OpenAI's `response_format`, and a `tool_choice` that wants a call.

use super::error::ApiError;
use super::json::{self, join};
use super::truncate::{kind, shorten};
use crate::{AnswerForm, Function};
use serde::Deserialize;
use serde_json::{Map, Value, json};

const RESPONSE_FORMAT: &str = "response_format";

/// `{"type": "text"}`, `json_object`, or `json_schema` with its schema.
pub fn read(value: Option<Value>) -> Result<Option<AnswerForm>, ApiError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Format {
        #[serde(rename = "type")]
        kind: String,
        json_schema: Option<Named>,
    }
    /// `name` and `description` are for models that are shown them; every schema is held strictly.
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Named {
        schema: Option<Value>,
        #[serde(rename = "name")]
        _name: Option<String>,
        #[serde(rename = "description")]
        _description: Option<String>,
        #[serde(rename = "strict")]
        _strict: Option<bool>,
    }
    let members = match value {
        None => return Ok(None),
        Some(Value::Object(members)) => members,
        Some(other) => {
            let kind = kind(&other);
            return Err(ApiError::invalid_type(RESPONSE_FORMAT, "an object", &kind));
        }
    };
    let Format { kind, json_schema } = json::read(members, RESPONSE_FORMAT)?;
    match (kind.as_str(), json_schema) {
        ("text", None) => Ok(None),
        ("json_object", None) => Ok(Some(AnswerForm::Json(json!({"type": "object"})))),
        (
            "json_schema",
            Some(Named {
                schema: Some(schema),
                ..
            }),
        ) if schema.is_object() => Ok(Some(AnswerForm::Json(schema))),
        ("json_schema", _) => {
            let path = join(RESPONSE_FORMAT, "json_schema");
            let message = format!("`{path}` must have a `schema` that is an object");
            Err(ApiError::invalid_value(&path, message))
        }
        (other, _) => {
            let other = shorten(other);
            let message = format!(
                "`{RESPONSE_FORMAT}` of type `{other}` is not supported: send `text`, `json_object` or `json_schema` with \
                 its `json_schema`"
            );
            Err(ApiError::unsupported(RESPONSE_FORMAT, message))
        }
    }
}

/// What an answer may do with its tools.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolChoice {
    /// Call or say, as the model likes.
    Auto,
    /// No call is looked for.
    None,
    /// Nothing but a call.
    Call(AnswerForm),
}

/// `auto`, `none`, `required`, or one function by name.
pub fn tool_choice(value: Option<Value>, tools: &[Value]) -> Result<ToolChoice, ApiError> {
    let value = value.unwrap_or_else(|| "auto".into());
    let wanted = match &value {
        Value::String(choice) if choice == "auto" => return Ok(ToolChoice::Auto),
        Value::String(choice) if choice == "none" => return Ok(ToolChoice::None),
        Value::String(choice) if choice == "required" => None,
        // Without a name it wants no function that there is.
        Value::Object(choice) if choice.get("type") == Some(&json!("function")) => {
            let name = choice.get("function").map(|function| &function["name"]);
            Some(name.and_then(Value::as_str).unwrap_or_default())
        }
        _ => Some(""),
    };
    let functions = tools.iter().map(|tool| &tool["function"]);
    let functions = functions.filter(|function| wanted.is_none_or(|name| function["name"] == name));
    let functions: Vec<Function> = functions.map(described).collect();
    if functions.is_empty() {
        let value = value.to_string();
        let message = format!(
            "`tool_choice` = {} names none of `tools`: send `auto`, `none`, `required` or \
             {{\"type\": \"function\", \"function\": {{\"name\": NAME}}}}",
            shorten(&value)
        );
        return Err(ApiError::invalid_value("tool_choice", message));
    }
    Ok(ToolChoice::Call(AnswerForm::Call(functions)))
}

/// A function that says nothing of its parameters has none.
fn described(function: &Value) -> Function {
    let parameters = function["parameters"].as_object();
    let none = || {
        let none = json!({"type": "object", "properties": {}, "additionalProperties": false});
        none.as_object().cloned().unwrap_or_default()
    };
    Function {
        name: function["name"].as_str().unwrap_or_default().to_owned(),
        parameters: Value::Object(parameters.cloned().map_or_else(none, object)),
    }
}

/// Arguments are an object, whether the schema says so or not.
fn object(mut schema: Map<String, Value>) -> Map<String, Value> {
    schema.entry("type").or_insert_with(|| "object".into());
    schema
}
