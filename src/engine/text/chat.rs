//! The model's chat template: messages → prompt text.
//!
//! Main type: [`ChatTemplate`]. Templates are written for Python's Jinja as transformers runs it: blocks
//! trimmed, Python's string methods, `raise_exception`, `strftime_now` (here in UTC). Refuses to know: tokens, HTTP.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, Error, ErrorKind, Value, context};
use serde::Deserialize;
use serde_json::{Map, Value as Json};
use std::error::Error as StdError;

use crate::files::{FileError, Files};

const FILE: &str = "chat_template.jinja";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
const NAME: &str = "chat";

/// Instructions that a template may run for each message, and as many beside them. Those of real models take some
/// hundred; one that loops must end.
const FUEL: u64 = 10_000;

/// What a template makes a prompt of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    /// Members of each message; `role` and `content` are among them, both strings.
    pub messages: Vec<Map<String, Json>>,
    /// Descriptions of functions that the model may call, in OpenAI's form.
    pub tools: Vec<Json>,
    /// Further variables of the template, as Qwen3's `enable_thinking`.
    pub variables: Map<String, Json>,
    pub ending: Ending,
}

/// Where the prompt ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// Where the assistant's answer begins.
    #[default]
    Answer,
    /// After the last message.
    Message,
    /// Within the last message, which the answer goes on with.
    Unfinished,
}

/// No usable template, or one that refused the messages.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{path} is not the JSON that is expected")]
    Json {
        path: String,
        source: serde_json::Error,
    },
    #[error(
        "the model has no chat template: neither {FILE} nor `chat_template` in {TOKENIZER_CONFIG}"
    )]
    None,
    #[error("`chat_template` in {path} is neither text nor a list with one named `default`")]
    Form { path: String },
    #[error("the chat template cannot be parsed: {0}")]
    Syntax(String),
    /// The template's own words, by `raise_exception`.
    #[error("the chat template refused the messages: {0}")]
    Refused(String),
    /// What went wrong in it.
    #[error("the chat template failed: {0}")]
    Failed(String),
}

/// What a template raised by `raise_exception`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Raised(String);

/// tokenizer_config.json has had many forms: what is not looked for may be anything.
#[derive(Default, Deserialize)]
struct TokenizerConfig {
    #[serde(default)]
    chat_template: Json,
    #[serde(default)]
    bos_token: Json,
    #[serde(default)]
    eos_token: Json,
}

impl TokenizerConfig {
    fn load(files: &Files) -> Result<Self, TemplateError> {
        if !files.has(TOKENIZER_CONFIG) {
            return Ok(Self::default());
        }
        serde_json::from_slice(&files.read(TOKENIZER_CONFIG)?).map_err(|source| {
            TemplateError::Json {
                path: files.path(TOKENIZER_CONFIG).display().to_string(),
                source,
            }
        })
    }

    /// Text, or transformers' list of named templates, of which `default` is for chats without tools.
    fn template(&self, files: &Files) -> Result<String, TemplateError> {
        let default = |named: &&Json| named["name"] == "default";
        let text = match &self.chat_template {
            Json::Null => return Err(TemplateError::None),
            Json::Array(list) => list.iter().find(default).map(|named| &named["template"]),
            other => Some(other),
        };
        let text = text.and_then(Json::as_str).map(str::to_owned);
        text.ok_or_else(|| TemplateError::Form {
            path: files.path(TOKENIZER_CONFIG).display().to_string(),
        })
    }
}

/// A special token's text: it stands as such or in an object. One of another form counts as none, as null
/// does.
fn token_text(token: &Json) -> String {
    let text = token.as_str().or_else(|| token["content"].as_str());
    text.unwrap_or_default().to_owned()
}

pub struct ChatTemplate {
    environment: Environment<'static>,
    bos: String,
    eos: String,
}

impl ChatTemplate {
    /// `Err(TemplateError::None)` where the model brings none.
    pub fn load(files: &Files) -> Result<Self, TemplateError> {
        let config = TokenizerConfig::load(files)?;
        let text = if files.has(FILE) {
            files.read_text(FILE)?
        } else {
            config.template(files)?
        };
        Ok(Self {
            environment: environment(text).map_err(syntax)?,
            bos: token_text(&config.bos_token),
            eos: token_text(&config.eos_token),
        })
    }

    /// The prompt.
    ///
    /// # Errors
    /// The template refuses the messages, or fails: also where it would run for ever. What memory it takes is not
    /// bounded.
    pub fn render(&self, conversation: &Conversation) -> Result<String, TemplateError> {
        let Conversation {
            messages,
            tools,
            variables,
            ending,
        } = conversation;
        let marked = (*ending == Ending::Unfinished).then(|| marked(messages));
        let shown = marked.as_ref().unwrap_or(messages);
        // A copy shares everything but this number.
        let mut environment = self.environment.clone();
        environment.set_fuel(Some(FUEL * (1 + (messages.len() + tools.len()) as u64)));
        let template = environment.get_template(NAME).map_err(syntax)?;
        let own = context! {
            messages => Value::from(Serde(shown)),
            tools => (!tools.is_empty()).then(|| Value::from(Serde(tools))),
            documents => (),
            add_generation_prompt => *ending == Ending::Answer,
            bos_token => self.bos.as_str(), eos_token => self.eos.as_str(),
        };
        let rendered = template
            .render(context! { ..own, ..Value::from(Serde(variables)) })
            .map_err(|error| failure(&error))?;
        match ending {
            Ending::Unfinished => unfinished(&rendered),
            Ending::Answer | Ending::Message => Ok(rendered),
        }
    }

    /// Whether the template has this word: a role, a tag.
    pub fn speaks_of(&self, word: &str) -> bool {
        let source = self.environment.get_template(NAME);
        source.is_ok_and(|template| template.source().contains(word))
    }
}

/// Stands behind the last message's text, to find its end in the prompt. No text of a request has it by chance.
const MARK: &str = "\u{10f8f3}end of the last message\u{10f8f3}";

/// The messages with a mark behind the last one's text, blanks at its end left out, as templates do.
fn marked(messages: &[Map<String, Json>]) -> Vec<Map<String, Json>> {
    let mut messages = messages.to_vec();
    if let Some(content) = messages.last_mut().and_then(|last| last.get_mut("content")) {
        let text = content.as_str().unwrap_or_default().trim_end();
        *content = format!("{text}{MARK}").into();
    }
    messages
}

/// The prompt up to the end of its last message's text.
fn unfinished(rendered: &str) -> Result<String, TemplateError> {
    match rendered.split(MARK).collect::<Vec<_>>()[..] {
        [before, _] => Ok(before.to_owned()),
        _ => Err(TemplateError::Refused(
            "its output does not contain the last message once, so that message cannot be continued".into(),
        )),
    }
}

fn environment(text: String) -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(
        SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()?,
    );
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_function(
        "raise_exception",
        |message: String| -> Result<Value, Error> {
            let error = Error::new(ErrorKind::InvalidOperation, message.clone());
            Err(error.with_source(Raised(message)))
        },
    );
    environment.add_function("strftime_now", strftime_now);
    environment.add_template_owned(NAME, text)?;
    Ok(environment)
}

fn syntax(error: Error) -> TemplateError {
    TemplateError::Syntax(error.to_string())
}

/// In UTC, which says the same on every machine; transformers has the machine's own time.
fn strftime_now(format: String) -> Result<String, Error> {
    let now = Timestamp::now().to_zoned(TimeZone::UTC);
    jiff::fmt::strtime::format(&format, &now)
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))
}

/// The template's own refusal, however deep in it, or its failure.
fn failure(error: &Error) -> TemplateError {
    let first: &(dyn StdError + 'static) = error;
    let mut causes = std::iter::successors(Some(first), |error| (**error).source());
    if let Some(Raised(words)) = causes.find_map(|cause| cause.downcast_ref()) {
        return TemplateError::Refused(words.clone());
    }
    if error.kind() == ErrorKind::OutOfFuel {
        return TemplateError::Failed(format!(
            "it ran {FUEL} instructions a message without an end"
        ));
    }
    TemplateError::Failed(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn template(text: &str) -> ChatTemplate {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(FILE), text).unwrap();
        let config = r#"{"eos_token": {"content": "<eos>"}, "chat_template": "not this one"}"#;
        std::fs::write(directory.path().join(TOKENIZER_CONFIG), config).unwrap();
        ChatTemplate::load(&Files::Directory(directory.path().to_path_buf())).unwrap()
    }

    fn messages(all: &[(&str, &str)]) -> Vec<Map<String, Json>> {
        let message = |(role, content): &(&str, &str)| json!({"role": role, "content": content});
        let objects = all.iter().map(message);
        objects.map(|it| it.as_object().unwrap().clone()).collect()
    }

    fn conversation(all: &[(&str, &str)], ending: Ending) -> Conversation {
        Conversation {
            messages: messages(all),
            ending,
            ..Conversation::default()
        }
    }

    #[test]
    fn renders_as_pythons_jinja_does() {
        let chat = template(
            "{%- for message in messages %}\n    {{- message.role.upper() + ':' + message['content'].strip() + eos_token }}\n{%- endfor %}\n{%- if add_generation_prompt %}\n    {{- '\\nassistant:' }}\n{%- endif %}",
        );
        let both = [("user", " hi "), ("assistant", "yes")];
        let check = |all: &[(&str, &str)], ending, expect: &str| {
            assert_eq!(chat.render(&conversation(all, ending)).unwrap(), expect);
        };
        check(&both, Ending::Message, "USER:hi<eos>ASSISTANT:yes<eos>");
        check(&both[..1], Ending::Answer, "USER:hi<eos>\nassistant:");
        check(&both, Ending::Unfinished, "USER:hi<eos>ASSISTANT:yes");
        check(&both[..1], Ending::Unfinished, "USER:hi");
        // The text stands elsewhere, too.
        let again = [("user", "eos eos"), ("assistant", "eos")];
        check(&again, Ending::Unfinished, "USER:eos eos<eos>ASSISTANT:eos");
        let hidden = template("{{ messages[0].content }}");
        let hidden = hidden.render(&conversation(&both, Ending::Unfinished));
        assert!(matches!(hidden, Err(TemplateError::Refused(_))));
    }

    /// Qwen3's switch, and what its template makes of tools.
    #[test]
    fn variables_and_tools_are_the_templates() {
        let chat = template(
            "{%- if tools %}{{ tools[0].function.name }} {% endif %}{%- for message in messages %}{{ message.content }}{% endfor %}{%- if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>{%- endif %}",
        );
        let mut asked = conversation(&[("user", "hi")], Ending::Answer);
        assert_eq!(chat.render(&asked).unwrap(), "hi");
        let variables = json!({"enable_thinking": false, "messages": []});
        asked.variables = variables.as_object().unwrap().clone();
        assert_eq!(chat.render(&asked).unwrap(), "hi<think>\n\n</think>");
        asked.tools = vec![json!({"function": {"name": "add"}})];
        assert_eq!(chat.render(&asked).unwrap(), "add hi<think>\n\n</think>");
        assert!(chat.speaks_of("enable_thinking") && !chat.speaks_of("developer"));
    }

    #[test]
    fn the_templates_own_refusal_is_told() {
        let chat = template("{{ raise_exception('roles must alternate') }}");
        let error = chat.render(&Conversation::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the chat template refused the messages: roles must alternate"
        );
    }

    #[test]
    fn every_form_of_the_tokenizers_configuration_is_read() {
        let render = |config: Json, file: Option<&str>| {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path();
            std::fs::write(path.join(TOKENIZER_CONFIG), config.to_string()).unwrap();
            if let Some(text) = file {
                std::fs::write(path.join(FILE), text).unwrap();
            }
            ChatTemplate::load(&Files::Directory(path.to_path_buf()))
                .map(|chat| chat.render(&Conversation::default()).unwrap())
                .map_err(|error| error.to_string())
        };
        let text = "{{ bos_token }}-{{ eos_token }}";
        let list =
            json!([{"name": "tool_use", "template": "no"}, {"name": "default", "template": text}]);
        for (config, file, expect) in [
            (
                json!({"chat_template": text, "bos_token": "b", "eos_token": {"content": "e"}}),
                None,
                "b-e",
            ),
            (json!({"chat_template": list, "bos_token": null}), None, "-"),
            // The file has the last word, whatever stands beside it.
            (json!({"chat_template": list}), Some("file"), "file"),
            (
                json!({"chat_template": 5, "bos_token": 7, "eos_token": ["e"]}),
                Some(text),
                "-",
            ),
        ] {
            assert_eq!(render(config, file).as_deref(), Ok(expect));
        }
        for config in [
            json!({"chat_template": 5}),
            json!({"chat_template": [{"name": "rag", "template": "x"}]}),
        ] {
            let error = render(config, None).unwrap_err();
            assert!(
                error.ends_with("neither text nor a list with one named `default`"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_model_without_a_template_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let files = Files::Directory(directory.path().to_path_buf());
        assert!(matches!(
            ChatTemplate::load(&files),
            Err(TemplateError::None)
        ));
    }
}
