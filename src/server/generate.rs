//! A validated wire request → the engine's request, and its answer on the way out.
//!
//! [`Job`] is what both generation routes make of their request; from here on they share every step.

use super::answer::Answer;
use super::app::App;
use super::chunks::{Envelope, Form};
use super::metrics::Watch;
use super::separately::Separately;
use super::stream::{EventStream, Running};
use super::wire::chat::ChatRequest;
use super::wire::completions::{CompletionRequest, DEFAULT_MAX_TOKENS, PromptInput};
use super::wire::{ApiError, Common, Delivery, StreamUsage};
use crate::engine::request::Request;
use crate::engine::{Message, SubmitError, TemplateError};
use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use std::time::Instant;

/// Text longer than this is tokenised on a thread of its own: it takes milliseconds.
const LONG_TEXT_BYTES: usize = 32 << 10;

pub(crate) struct Job {
    form: Form,
    common: Common,
    prompt: Vec<u32>,
    /// The prompt's text, if it is to stand before the answer.
    echo: Option<String>,
}

impl Job {
    pub(crate) async fn completion(
        app: &Arc<App>,
        request: CompletionRequest,
    ) -> Result<Self, ApiError> {
        app.check_model(request.common.model.as_deref())?;
        let tokenizer = app.engine.tokenizer();
        let (prompt, text) = match request.prompt {
            PromptInput::Text(text) => (encode(app, &text, true, "prompt").await?, text),
            PromptInput::Tokens(ids) => {
                let text = if request.echo {
                    tokenizer.decode(&ids)
                } else {
                    String::new()
                };
                (ids, text)
            }
        };
        Ok(Self {
            form: Form::Completion,
            common: request.common,
            prompt,
            echo: request.echo.then_some(text),
        })
    }

    pub(crate) async fn chat(app: &Arc<App>, request: ChatRequest) -> Result<Self, ApiError> {
        app.check_model(request.common.model.as_deref())?;
        let template = app.engine.chat_template().map_err(chat_error)?;
        let messages: Vec<Message> = request
            .messages
            .into_iter()
            .map(|message| Message {
                role: message.role,
                content: message.content,
            })
            .collect();
        let text = template
            .render(&messages, request.add_generation_prompt)
            .map_err(|error| chat_error(&error))?;
        // The template writes the special tokens itself.
        let prompt = encode(app, &text, false, "messages").await?;
        Ok(Self {
            form: Form::Chat,
            common: request.common,
            prompt,
            echo: None,
        })
    }

    /// Submits to the engine and answers. `arrival`: when the request came in.
    pub(crate) async fn answer(
        self,
        app: &Arc<App>,
        arrival: Instant,
    ) -> Result<Response, ApiError> {
        let ticket = app.admission.enter().ok_or_else(ApiError::shutting_down)?;
        let delivery = self.common.delivery;
        let request = self.engine_request(app.engine.model_info().max_context)?;
        let param = self.prompt_param();
        let events = app
            .engine
            .submit(request)
            .map_err(|error| refused(error, param, app))?;
        let envelope = self.envelope(app);
        let running = Running {
            events,
            answer: Answer::new(
                app.engine.tokenizer(),
                self.common.show,
                self.prompt,
                self.echo,
            ),
            watch: Watch::new(&app.metrics, arrival),
            _ticket: ticket,
        };
        match delivery {
            Delivery::Stream(_) => Ok(streamed(EventStream::new(running, envelope))),
            Delivery::Whole => {
                let (delta, ending) = running.whole().await?;
                let body = envelope.whole(delta, ending);
                Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
            }
        }
    }

    fn engine_request(&self, max_context: usize) -> Result<Request, ApiError> {
        let common = &self.common;
        let max_tokens = self.max_tokens(max_context)?;
        if common.min_tokens > max_tokens {
            let message = format!(
                "`min_tokens` = {} is more than the {max_tokens} allowed",
                common.min_tokens
            );
            return Err(ApiError::invalid_value("min_tokens", message));
        }
        Ok(Request {
            prompt: self.prompt.clone(),
            max_tokens,
            min_tokens: common.min_tokens,
            ignore_eos: common.ignore_eos,
            logprobs: common.show.logprobs,
            prompt_logprobs: self.echo.is_some() && common.show.logprobs.is_some(),
            use_cache: common.cache_prompt,
        })
    }

    /// What was asked for must fit; a default takes what is left.
    fn max_tokens(&self, max_context: usize) -> Result<u32, ApiError> {
        let prompt = self.prompt.len();
        let left = u32::try_from(max_context.saturating_sub(prompt)).unwrap_or(u32::MAX);
        let (least, max_tokens) = match (self.common.max_tokens, self.form) {
            (Some(asked), _) => (asked, asked),
            (None, Form::Completion) => (1, left.min(DEFAULT_MAX_TOKENS)),
            (None, Form::Chat) => (1, left),
        };
        if prompt + least as usize > max_context {
            // Where the prompt leaves room, it is the answer's length that asks for too much.
            let param = match prompt < max_context {
                true => "max_tokens",
                false => self.prompt_param(),
            };
            return Err(ApiError::context_length(param, prompt, least, max_context));
        }
        Ok(max_tokens)
    }

    fn prompt_param(&self) -> &'static str {
        match self.form {
            Form::Completion => "prompt",
            Form::Chat => "messages",
        }
    }

    fn envelope(&self, app: &App) -> Envelope {
        let show = self.common.show;
        Envelope {
            form: self.form,
            id: app.next_id(self.form),
            created: super::app::unix_seconds(),
            model: Arc::clone(&app.model),
            usage: match self.common.delivery {
                Delivery::Stream(usage) => usage,
                Delivery::Whole => StreamUsage::Last,
            },
            with_logprobs: show.logprobs.is_some(),
            with_ids: show.token_ids,
            prompt_ids: show.token_ids.then(|| self.prompt.clone()),
        }
    }
}

async fn encode(
    app: &Arc<App>,
    text: &str,
    add_special: bool,
    param: &'static str,
) -> Result<Vec<u32>, ApiError> {
    let encoded = if text.len() < LONG_TEXT_BYTES {
        app.engine.tokenizer().encode(text, add_special)
    } else {
        let (tokenizer, text) = (app.engine.tokenizer().clone(), text.to_owned());
        let task = tokio::task::spawn_blocking(move || tokenizer.encode(&text, add_special));
        task.await
            .map_err(|_| ApiError::engine_failed("the tokenizer panicked"))?
    };
    encoded.map_err(|error| ApiError::invalid_value(param, error.to_string()))
}

/// The template's refusal is about the messages; any other error is about the model.
fn chat_error(error: &TemplateError) -> ApiError {
    match error {
        TemplateError::Refused(_) => ApiError::invalid_value("messages", error.to_string()),
        TemplateError::File(_)
        | TemplateError::Json { .. }
        | TemplateError::None
        | TemplateError::Form { .. }
        | TemplateError::Syntax(_) => ApiError::no_chat_template(&error.to_string()),
    }
}

fn refused(error: SubmitError, param: &str, app: &App) -> ApiError {
    match error {
        SubmitError::EmptyPrompt => ApiError::invalid_value(param, error.to_string()),
        SubmitError::TokenOutOfRange { .. } => ApiError::invalid_value(param, error.to_string()),
        SubmitError::TooLong {
            prompt,
            max_tokens,
            max,
        } => ApiError::context_length(param, prompt, max_tokens as u32, max),
        SubmitError::Unsupported(detail) => ApiError::unsupported(param, detail),
        SubmitError::QueueFull { waiting } => ApiError::queue_full(waiting),
        SubmitError::ShuttingDown => ApiError::shutting_down(),
        SubmitError::Dead => app.engine_down(),
    }
}

fn streamed(events: EventStream) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, Body::from_stream(Separately::new(events))).into_response()
}
