//! `/v1/chat/completions`: the request, read strictly, and the answer's objects.
//!
//! Refuses to know: the chat template, the engine, and in which order chunks are sent.

use super::common::Common;
use super::error::ApiError;
use super::form::{self, ToolChoice};
use super::json::{self, join};
use super::logprobs::ChatLogprobs;
use super::parameters::Parameters;
use super::truncate::{kind, shorten};
use super::usage::{StopReason, Timings, Usage};
use crate::{Conversation, PromptEnding as Ending};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

const COMPLETION_NAMES: &[&str] = &["prompt", "echo"];

#[derive(Clone, Debug, PartialEq)]
pub struct ChatRequest {
    pub common: Common,
    pub conversation: Conversation,
    /// Whether calls of tools are looked for in the answer.
    pub calls: bool,
}

/// What the template does for one message takes about as long as so many bytes to tokenise.
const MESSAGE_BYTES: usize = 128;

impl ChatRequest {
    pub fn read(members: Map<String, Value>) -> Result<Self, ApiError> {
        let mut common = Common::read(members, COMPLETION_NAMES, "/v1/completions")?;
        common.max_tokens = max_tokens(&common)?;
        common.show.logprobs = logprobs(&mut common.parameters)?;
        let messages = common.parameters.messages.take();
        let messages = messages.ok_or_else(|| ApiError::missing("messages"))?;
        if messages.is_empty() {
            return Err(ApiError::invalid_value("messages", "`messages` is empty"));
        }
        let messages = messages.into_iter().enumerate();
        let messages = messages.map(|(at, message)| message_of(at, message));
        let tools = tools(&mut common.parameters)?;
        let choice = form::tool_choice(common.parameters.tool_choice.take(), &tools)?;
        let calls = !tools.is_empty() && choice != ToolChoice::None;
        if let ToolChoice::Call(call) = choice {
            if common.form.is_some() {
                let message = "`response_format` and a `tool_choice` that wants a call exclude each other: send one";
                return Err(ApiError::invalid_value("response_format", message));
            }
            common.form = Some(call);
        }
        common.check_form()?;
        let conversation = Conversation {
            messages: messages.collect::<Result<_, _>>()?,
            tools,
            variables: variables(&mut common.parameters)?,
            ending: ending(&common.parameters)?,
        };
        Ok(Self {
            common,
            conversation,
            calls,
        })
    }

    /// How much there is to render and to tokenise.
    pub fn work_bytes(&self) -> usize {
        let Conversation {
            messages, tools, ..
        } = &self.conversation;
        let texts = messages
            .iter()
            .flat_map(Map::values)
            .filter_map(Value::as_str);
        let texts: usize = texts.map(str::len).sum();
        texts + MESSAGE_BYTES * (messages.len() + tools.len())
    }
}

/// What a request says elsewhere is not said again here.
const RESERVED: [&str; 6] = [
    "messages",
    "tools",
    "documents",
    "add_generation_prompt",
    "bos_token",
    "eos_token",
];

fn variables(parameters: &mut Parameters) -> Result<Map<String, Value>, ApiError> {
    let variables = parameters.chat_template_kwargs.take().unwrap_or_default();
    match RESERVED.iter().find(|name| variables.contains_key(**name)) {
        None => Ok(variables),
        Some(name) => {
            let message = format!("`{name}` can't be set in `chat_template_kwargs`");
            let path = join("chat_template_kwargs", name);
            Err(ApiError::unsupported(&path, message))
        }
    }
}

/// A finished message is not gone on with, and an answer that was begun needs no beginning.
fn ending(parameters: &Parameters) -> Result<Ending, ApiError> {
    let goes_on = parameters.continue_final_message == Some(true);
    match (goes_on, parameters.add_generation_prompt) {
        (true, Some(true)) => {
            let message =
                "`continue_final_message` and `add_generation_prompt` exclude each other: send one";
            Err(ApiError::invalid_value("continue_final_message", message))
        }
        (true, _) => Ok(Ending::Unfinished),
        (false, Some(false)) => Ok(Ending::Message),
        (false, _) => Ok(Ending::Answer),
    }
}

/// Descriptions of functions, which the template shows to the model as they are.
fn tools(parameters: &mut Parameters) -> Result<Vec<Value>, ApiError> {
    let tools = parameters.tools.take().unwrap_or_default();
    for (at, tool) in tools.iter().enumerate() {
        if tool["type"] != "function" || !tool["function"]["name"].is_string() {
            let path = format!("tools.{at}");
            let message = format!("`{path}` is no function with a name");
            return Err(ApiError::invalid_value(&path, message));
        }
    }
    Ok(tools)
}

/// The two names of one limit.
fn max_tokens(common: &Common) -> Result<Option<u32>, ApiError> {
    let new = common
        .parameters
        .max_completion_tokens
        .map(json::Count::get);
    match (common.max_tokens, new) {
        (Some(old), Some(new)) if old != new => {
            let message = format!(
                "`max_tokens` = {old} and `max_completion_tokens` = {new} disagree: send one"
            );
            Err(ApiError::invalid_value("max_completion_tokens", message))
        }
        (Some(0), _) | (_, Some(0)) => {
            let message = "an answer of 0 tokens can't be asked for here; /v1/completions with `echo` scores a prompt";
            Err(ApiError::invalid_value("max_tokens", message))
        }
        (old, new) => Ok(new.or(old)),
    }
}

/// `logprobs: true` with `top_logprobs` best tokens.
fn logprobs(parameters: &mut Parameters) -> Result<Option<u32>, ApiError> {
    let wanted = json::read_one("logprobs", parameters.logprobs.take())?.unwrap_or(false);
    let top = parameters.top_logprobs.map(|top| top.0 as u32);
    match (wanted, top) {
        (false, None | Some(0)) => Ok(None),
        (true, top) => Ok(Some(top.unwrap_or(0))),
        (false, Some(_)) => {
            let message = "`top_logprobs` needs `logprobs: true`";
            Err(ApiError::invalid_value("top_logprobs", message))
        }
    }
}

/// A message as it is sent, without what is null: clients send an answer's empty members back.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SentMessage {
    role: String,
    content: Option<Value>,
    name: Option<String>,
    reasoning_content: Option<String>,
    /// Of an assistant.
    tool_calls: Option<Vec<SentCall>>,
    /// Of a tool's result.
    tool_call_id: Option<String>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct SentCall {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    function: SentFunction,
    /// Of a call that was streamed.
    #[serde(rename = "index", skip_serializing)]
    _index: Option<u32>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct SentFunction {
    name: String,
    /// JSON as text; templates are written for the object.
    arguments: Value,
}

/// Members of a message at OpenAI that are not implemented here.
const UNSUPPORTED: [&str; 3] = ["function_call", "audio", "refusal"];

/// A text part of a message's content.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ContentPart {
    #[serde(rename = "type")]
    _kind: String,
    text: String,
}

/// A message for the template, with its text parts joined.
fn message_of(at: usize, value: Value) -> Result<Map<String, Value>, ApiError> {
    let path = format!("messages.{at}");
    let mut members = object(&path, value)?;
    members.retain(|name, value| {
        let is_empty = value.as_array().is_some_and(Vec::is_empty);
        !value.is_null() && (name != "tool_calls" || !is_empty)
    });
    if let Some(name) = UNSUPPORTED.iter().find(|name| members.contains_key(**name)) {
        let path = join(&path, name);
        let message = format!("`{path}` is not supported");
        return Err(ApiError::unsupported(&path, message));
    }
    let sent: SentMessage = json::read(members, &path)?;
    check_role(&join(&path, "role"), &sent.role)?;
    let content = match sent.content {
        Some(content) => text_of(&join(&path, "content"), content)?,
        // An answer that is a call alone.
        None if sent.tool_calls.is_some() => String::new(),
        None => return Err(ApiError::missing(&join(&path, "content"))),
    };
    let calls = sent.tool_calls.map(|calls| {
        let calls = calls.into_iter().map(SentCall::parsed);
        serde_json::to_value(calls.collect::<Vec<_>>()).unwrap_or_default()
    });
    let texts = [
        ("name", sent.name),
        ("reasoning_content", sent.reasoning_content),
        ("tool_call_id", sent.tool_call_id),
    ];
    let texts = texts.map(|(name, text)| (name, text.map(Value::from)));
    let own = [("role", sent.role), ("content", content)];
    let own = own.map(|(name, text)| (name, Some(Value::from(text))));
    let members = own.into_iter().chain(texts).chain([("tool_calls", calls)]);
    let members = members.filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Ok(members.collect())
}

impl SentCall {
    fn parsed(mut self) -> Self {
        let arguments = self.function.arguments.as_str();
        let object = arguments.and_then(|text| serde_json::from_str::<Map<_, _>>(text).ok());
        if let Some(object) = object {
            self.function.arguments = Value::Object(object);
        }
        self
    }
}

fn object(path: &str, value: Value) -> Result<Map<String, Value>, ApiError> {
    match value {
        Value::Object(members) => Ok(members),
        other => Err(ApiError::invalid_type(path, "an object", &kind(&other))),
    }
}

fn check_role(path: &str, role: &str) -> Result<(), ApiError> {
    match role {
        "system" | "developer" | "user" | "assistant" | "tool" => Ok(()),
        _ => {
            let role = shorten(role);
            let message = format!(
                "`{role}` is no role: use `system`, `developer`, `user`, `assistant` or `tool`"
            );
            Err(ApiError::invalid_value(path, message))
        }
    }
}

/// A string, or an array of text parts, which are joined as they stand.
fn text_of(path: &str, value: Value) -> Result<String, ApiError> {
    const EXPECTED: &str = "a string or an array of text parts";
    let part = |(at, part)| {
        let path = format!("{path}.{at}");
        let members = object(&path, part)?;
        if let Some(other) = members.get("type").and_then(Value::as_str)
            && other != "text"
        {
            let other = shorten(other);
            let message = format!("content of type `{other}` is not supported: only `text` is");
            return Err(ApiError::unsupported(&path, message));
        }
        json::read(members, &path).map(|part: ContentPart| part.text)
    };
    match value {
        Value::String(text) => Ok(text),
        Value::Array(parts) => parts.into_iter().enumerate().map(part).collect(),
        other => Err(ApiError::invalid_type(path, EXPECTED, &kind(&other))),
    }
}

/// An answer, whole or a chunk of one; they differ in `object` and in the choice.
#[derive(Debug, Serialize)]
pub struct Chat<'a> {
    pub id: &'a str,
    pub object: &'static str,
    pub created: u64,
    pub model: &'a str,
    pub choices: Vec<ChatChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<u32>>,
    /// Absent, null, or counts: OpenAI's streams tell all three apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Option<Usage>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timings: Option<Timings>,
}

#[derive(Debug, Serialize)]
pub struct ChatChoice {
    pub index: u32,
    #[serde(flatten)]
    pub part: ChatPart,
    pub logprobs: Option<ChatLogprobs>,
    pub finish_reason: Option<&'static str>,
    pub stop_reason: Option<StopReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<u32>>,
}

/// The member that holds text: `message` in a whole answer, `delta` in a chunk.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChatPart {
    Message(ChatText),
    Delta(ChatText),
}

#[derive(Debug, Default, Serialize)]
pub struct ChatText {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    /// Null where the answer is calls alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<Option<String>>,
    /// What the model thought before it answered (DeepSeek's and vLLM's name).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<Call>,
}

/// A function that the model calls.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Call {
    /// In a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    pub id: String,
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub function: CalledFunction,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CalledFunction {
    pub name: String,
    /// An object's JSON.
    pub arguments: String,
}
