//! A validated wire request → the engine's requests, and their answer on the way out.
//!
//! [`Job`] is what both generation routes make of their request; from here on they share every step.

use super::answer::{Answer, Echo};
use super::app::App;
use super::choices::{Choices, Wanted};
use super::chunks::{Envelope, Form};
use super::flush_each::Separately;
use super::parts::{Expected, THINK, THOUGHT};
use super::seeds::{choice_seed, fresh_seed};
use super::stream::EventStream;
use super::wire::chat::ChatRequest;
use super::wire::completions::{CompletionRequest, DEFAULT_MAX_TOKENS, PromptInput};
use super::wire::sampling::check_ids;
use super::wire::{ApiError, Common, Delivery, StreamUsage};
use crate::request::{Request, Sampling};
use crate::{
    AnswerForm, Conversation, Engine, Guide, GuideError, PromptEnding, SubmitError, TemplateError,
    TokenizerError,
};
use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Text longer than this is tokenised on a thread of its own: it takes milliseconds.
const LONG_TEXT_BYTES: usize = 32 << 10;

/// Longer than the longest text of the largest body takes.
const LONGEST_READING: Duration = Duration::from_secs(60);

/// Most log-probabilities of prompts that one answer may hold, over all prompts and choices; each takes some hundred
/// bytes while the answer is made. Room for a prompt of 40,960 tokens with the most that can be asked for.
const MAX_PROMPT_SCORES: usize = 1 << 20;

pub struct Job {
    form: Form,
    common: Common,
    prompts: Vec<EncodedPrompt>,
    /// Which parts the answer may have.
    expected: Expected,
    /// Where it has a set form.
    guide: Option<Guided>,
}

/// A guide, and the tokens that may come first.
#[derive(Clone)]
struct Guided {
    guide: Guide,
    first: Vec<u32>,
}

struct EncodedPrompt {
    ids: Vec<u32>,
    /// If it is to stand before the answer.
    echo: Option<Echo>,
}

impl Job {
    pub async fn completion(app: &Arc<App>, request: CompletionRequest) -> Result<Self, ApiError> {
        app.check_model(request.common.model.as_deref())?;
        let CompletionRequest {
            common,
            prompts,
            echo,
        } = request;
        // Ids are counted before they are decoded; of texts that is known only when they are tokenised.
        for prompt in &prompts {
            if let PromptInput::Tokens(ids) = prompt {
                max_tokens(&common, Form::Completion, ids.len(), app, "prompt")?;
            }
        }
        let bytes = prompts.iter().map(|prompt| prompt.work_bytes(echo)).sum();
        let scored = common.show.logprobs.is_some();
        let guide = guide(app, &common).await?;
        let read = move |engine: &Engine| {
            let prompts = prompts.into_iter();
            prompts
                .map(|prompt| match echo {
                    true => EncodedPrompt::echoed(engine, prompt, scored),
                    false => EncodedPrompt::read(engine, prompt),
                })
                .collect::<Result<_, _>>()
        };
        Ok(Self {
            form: Form::Completion,
            common,
            prompts: tokenise(app, bytes, false, read).await?,
            expected: Expected::default(),
            guide,
        })
    }

    pub async fn chat(app: &Arc<App>, request: ChatRequest) -> Result<Self, ApiError> {
        let calls = request.calls;
        let guide = guide(app, &request.common).await?;
        let (common, chat) = chat_tokens(app, request).await?;
        let ChatPrompt { ids, reasoning } = chat;
        let (reasoning, begun) = match reasoning {
            // A form is held from the first token on, so that no thought can stand before it.
            _ if guide.is_some() => (false, false),
            Reasoning::Never => (false, false),
            Reasoning::Possible => (true, false),
            Reasoning::Begun => (true, true),
        };
        Ok(Self {
            form: Form::Chat,
            common,
            prompts: vec![EncodedPrompt { ids, echo: None }],
            expected: Expected {
                reasoning,
                begun,
                calls,
            },
            guide,
        })
    }

    /// Submits to the engine and answers. `arrival`: when the request came in.
    pub async fn answer(self, app: &Arc<App>, arrival: Instant) -> Result<Response, ApiError> {
        let ticket = app.admission.enter().ok_or_else(ApiError::shutting_down)?;
        let (delivery, n, param) = (self.common.delivery, self.common.n, self.prompt_param());
        self.check_count(app)?;
        self.check_scores()?;
        // Every check stands before the first copy: a request may have many choices.
        let lengths = self.lengths(app)?;
        let alike = self.request(&lengths, app)?;
        let envelope = self.envelope(app);
        let wanted = self.wanted(lengths, &alike, app);
        let mut choices = Choices::submit(app, wanted, n, arrival, ticket)
            .map_err(|error| refused(error, param, app))?;
        match delivery {
            Delivery::Stream(_) => Ok(streamed(EventStream::new(choices, envelope))),
            Delivery::Whole => {
                let all = choices.whole().await?;
                let body = envelope.whole(all, choices.usage());
                let body = choices.into_ticket().around(body);
                Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
            }
        }
    }

    /// The queue takes all prompts or none: more than it has room for could never be taken.
    fn check_count(&self, app: &App) -> Result<(), ApiError> {
        let (prompts, queue) = (self.prompts.len(), app.limits.queue);
        if prompts <= queue {
            return Ok(());
        }
        let message = format!(
            "{prompts} prompts are more than the {queue} requests that may wait here: send several requests"
        );
        Err(ApiError::invalid_value(self.prompt_param(), message))
    }

    /// Every choice shows its prompt's log-probabilities anew: a short request could ask for gigabytes.
    fn check_scores(&self) -> Result<(), ApiError> {
        let echoed = self.prompts.iter().filter(|prompt| prompt.echo.is_some());
        let tokens: usize = echoed.map(|prompt| prompt.ids.len()).sum();
        let (n, top) = (self.common.n, self.common.show.logprobs);
        let scores = top.map_or(0, |top| tokens * n * (1 + top as usize));
        if scores <= MAX_PROMPT_SCORES {
            return Ok(());
        }
        let message = format!(
            "`echo` and `logprobs` ask for {scores} log-probabilities of prompts ({tokens} tokens × {n} choices × \
             (1 + `logprobs`)); at most {MAX_PROMPT_SCORES} are allowed: lower `logprobs` or `n`, or send several requests"
        );
        Err(ApiError::invalid_value("logprobs", message))
    }

    /// Tokens to generate at the most, by prompt.
    fn lengths(&self, app: &App) -> Result<Vec<u32>, ApiError> {
        let param = self.prompt_param();
        let prompts = self.prompts.iter();
        prompts
            .map(|prompt| max_tokens(&self.common, self.form, prompt.ids.len(), app, param))
            .collect()
    }

    /// What all prompts ask of the engine alike; prompt, length and seed are still to come.
    fn request(&self, lengths: &[u32], app: &App) -> Result<Request, ApiError> {
        let common = &self.common;
        if let Some(max_tokens) = lengths.iter().find(|length| common.min_tokens > **length) {
            let message = format!(
                "`min_tokens` = {} is more than the {max_tokens} allowed",
                common.min_tokens
            );
            return Err(ApiError::invalid_value("min_tokens", message));
        }
        let model = app.engine.model_info();
        let stop_ids = &common.stops.ids;
        check_ids("stop_token_ids", stop_ids.iter().copied(), model.vocab_size)?;
        let sampling = common
            .parameters
            .sampling(&model.sampling, model.vocab_size)?;
        let (guide, sampling) = match self.guide.clone() {
            None => (None, sampling),
            Some(Guided { guide, first }) => {
                let allowed = first;
                (
                    Some(guide),
                    Sampling {
                        allowed,
                        ..sampling
                    },
                )
            }
        };
        Ok(Request {
            guide,
            min_tokens: common.min_tokens,
            ignore_eos: common.ignore_eos,
            stop_ids: stop_ids.clone(),
            stop: common.stops.texts.clone(),
            sampling,
            logprobs: common.show.logprobs,
            cache: common.cache.clone(),
            ..Request::new(Vec::new(), 0)
        })
    }

    /// What each prompt asks of the engine.
    fn wanted(self, lengths: Vec<u32>, alike: &Request, app: &App) -> Vec<Wanted> {
        let Self {
            common,
            prompts,
            expected,
            ..
        } = self;
        let stops = Arc::new(common.stops);
        let one = |(prompt, max_tokens): (EncodedPrompt, u32)| {
            let EncodedPrompt { ids, echo } = prompt;
            // The same prompt with the same seed has the same answer, whatever stands beside it.
            let seed = common.parameters.seed().unwrap_or_else(fresh_seed);
            let scored = echo.is_some() && common.show.logprobs.is_some();
            let mut request = alike.clone();
            request.prompt = ids;
            request.max_tokens = max_tokens;
            request.sampling.seed = seed;
            let sibling = |index| {
                let mut sibling = request.clone();
                sibling.sampling.seed = choice_seed(seed, index);
                sibling
            };
            Wanted {
                siblings: (1..common.n).map(sibling).collect(),
                answer: Answer::new(app.engine.tokenizer(), common.show, &stops, echo, expected),
                request: Request {
                    prompt_logprobs: scored,
                    ..request
                },
            }
        };
        prompts.into_iter().zip(lengths).map(one).collect()
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
            prompt_ids: match show.token_ids {
                true => self.prompt_ids(),
                false => Vec::new(),
            },
            timed: self.prompts.len() * self.common.n == 1,
            timings: None,
        }
    }

    /// A chat's once, a completion's for each choice.
    fn prompt_ids(&self) -> Vec<Option<Vec<u32>>> {
        let times = match self.form {
            Form::Chat => 1,
            Form::Completion => self.common.n,
        };
        let repeated = |prompt: &EncodedPrompt| vec![Some(prompt.ids.clone()); times];
        self.prompts.iter().flat_map(repeated).collect()
    }
}

impl EncodedPrompt {
    fn read(engine: &Engine, input: PromptInput) -> Result<Self, ApiError> {
        let ids = match input {
            PromptInput::Text(text) => encode(engine, &text, true, "prompt")?,
            PromptInput::Tokens(ids) => ids,
        };
        Ok(Self { ids, echo: None })
    }

    /// One that is to stand before the answer; `scored`: with its log-probabilities, and so with its tokens' places.
    fn echoed(engine: &Engine, input: PromptInput, scored: bool) -> Result<Self, ApiError> {
        let tokenizer = engine.tokenizer();
        let (ids, text, offsets) = match input {
            PromptInput::Text(text) if scored => {
                refuse_too_long(engine, &text, "prompt")?;
                let encoded = tokenizer.encode_with_offsets(&text, true);
                let (ids, offsets) = encoded.map_err(|error| unencodable("prompt", &error))?;
                (ids, text, offsets)
            }
            PromptInput::Text(text) => {
                let ids = encode(engine, &text, true, "prompt")?;
                (ids, text, Vec::new())
            }
            PromptInput::Tokens(ids) if scored => {
                let (text, offsets) = tokenizer.decode_with_offsets(&ids);
                (ids, text, offsets)
            }
            PromptInput::Tokens(ids) => {
                let text = tokenizer.decode(&ids);
                (ids, text, Vec::new())
            }
        };
        let places = ids.iter().copied().zip(offsets).collect();
        Ok(Self {
            ids,
            echo: Some(Echo { text, places }),
        })
    }
}

/// What was asked for must fit; a default takes what is left. `param`: the prompt's.
fn max_tokens(
    common: &Common,
    form: Form,
    prompt: usize,
    app: &App,
    param: &str,
) -> Result<u32, ApiError> {
    let max_context = app.engine.model_info().max_context;
    let left = u32::try_from(max_context.saturating_sub(prompt)).unwrap_or(u32::MAX);
    let (least, max_tokens) = match (common.max_tokens, form) {
        (Some(asked), _) => (asked, asked),
        (None, Form::Completion) => (1, left.min(DEFAULT_MAX_TOKENS)),
        (None, Form::Chat) => (1, left),
    };
    if prompt + least as usize > max_context {
        // Where the prompt leaves room, it is the answer's length that asks for too much.
        let param = match prompt < max_context {
            true => "max_tokens",
            false => param,
        };
        return Err(ApiError::context_length(param, prompt, least, max_context));
    }
    Ok(max_tokens)
}

/// Runs `read`, on a thread of its own where there is much to do, of those only so many at once, or where a template may
/// take any time: a single filter of it is not bounded.
async fn tokenise<T: Send + 'static>(
    app: &App,
    bytes: usize,
    by_template: bool,
    read: impl FnOnce(&Engine) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let is_long = bytes >= LONG_TEXT_BYTES;
    if !is_long && !by_template {
        return read(&app.engine);
    }
    let engine = Arc::clone(&app.engine);
    let place = match is_long {
        // The semaphore is never closed. The place is held to the end of the work, also if the client is gone.
        true => Arc::clone(&app.long_texts).acquire_owned().await.ok(),
        false => None,
    };
    let task = tokio::task::spawn_blocking(move || {
        let read = read(&engine);
        drop(place);
        read
    });
    match timeout(LONGEST_READING, task).await {
        Ok(Ok(read)) => read,
        Ok(Err(_panicked)) => Err(ApiError::engine_failed("the tokenizer panicked")),
        Err(_elapsed) => Err(ApiError::engine_failed(
            "the model's template and tokenizer took more than a minute",
        )),
    }
}

/// Compiles the answer's form, if it has one, and says which tokens may come first. Of such work only so much is done at
/// once, as of long texts.
async fn guide(app: &App, common: &Common) -> Result<Option<Guided>, ApiError> {
    let Some(form) = common.form.clone() else {
        return Ok(None);
    };
    let compile = |engine: &Engine| {
        let guided = engine.guide(form).and_then(|mut guide| {
            let first = guide.allowed()?;
            Ok(Guided { guide, first })
        });
        Ok(guided)
    };
    let guided = tokenise(app, LONG_TEXT_BYTES, true, compile).await?;
    guided.map(Some).map_err(|error| misformed(&error, common))
}

fn misformed(error: &GuideError, common: &Common) -> ApiError {
    let param = match common.form {
        Some(AnswerForm::Call(_)) => "tools",
        _ => "response_format",
    };
    ApiError::invalid_value(param, error.to_string())
}

/// What a chat's template makes of it.
pub struct ChatPrompt {
    pub ids: Vec<u32>,
    reasoning: Reasoning,
}

/// Whether the answer to a prompt may hold a thought.
enum Reasoning {
    Never,
    Possible,
    /// The prompt ends within one.
    Begun,
}

/// The prompt that a chat's template makes of it, as token ids.
pub async fn chat_tokens(
    app: &App,
    request: ChatRequest,
) -> Result<(Common, ChatPrompt), ApiError> {
    app.check_model(request.common.model.as_deref())?;
    let bytes = request.work_bytes();
    let ChatRequest {
        common,
        conversation,
        ..
    } = request;
    let read = move |engine: &Engine| chat_prompt(engine, conversation);
    Ok((common, tokenise(app, bytes, true, read).await?))
}

/// A text's token ids.
pub async fn text_tokens(app: &App, text: String, add_special: bool) -> Result<Vec<u32>, ApiError> {
    let bytes = text.len();
    let read = move |engine: &Engine| encode(engine, &text, add_special, "prompt");
    tokenise(app, bytes, false, read).await
}

/// Models were trained on OpenAI's `developer` as `system`, unless their template names that role.
fn chat_prompt(engine: &Engine, mut conversation: Conversation) -> Result<ChatPrompt, ApiError> {
    const DEVELOPER: &str = "developer";
    let template = engine.chat_template().map_err(chat_error)?;
    let messages = conversation.messages.iter_mut();
    let roles = messages.filter_map(|message| message.get_mut("role"));
    for role in roles.filter(|role| **role == DEVELOPER && !template.speaks_of(DEVELOPER)) {
        *role = "system".into();
    }
    let text = template
        .render(&conversation)
        .map_err(|error| chat_error(&error))?;
    let reasoning = match conversation.ending {
        _ if text.trim_end().ends_with(THINK) => Reasoning::Begun,
        // Qwen3's template closes the thought itself where thinking is switched off, and then none follows.
        PromptEnding::Answer if template.speaks_of(THOUGHT) => Reasoning::Possible,
        _ => Reasoning::Never,
    };
    Ok(ChatPrompt {
        // The template writes the special tokens itself.
        ids: encode(engine, &text, false, "messages")?,
        reasoning,
    })
}

fn encode(
    engine: &Engine,
    text: &str,
    add_special: bool,
    param: &str,
) -> Result<Vec<u32>, ApiError> {
    refuse_too_long(engine, text, param)?;
    let encoded = engine.tokenizer().encode(text, add_special);
    encoded.map_err(|error| unencodable(param, &error))
}

/// Megabytes of one letter take seconds to tokenise.
fn refuse_too_long(engine: &Engine, text: &str, param: &str) -> Result<(), ApiError> {
    let max_context = engine.model_info().max_context;
    match engine.tokenizer().least_tokens(text.len()) <= max_context {
        true => Ok(()),
        false => Err(ApiError::text_too_long(param, text.len(), max_context)),
    }
}

fn unencodable(param: &str, error: &TokenizerError) -> ApiError {
    ApiError::invalid_value(param, error.to_string())
}

/// The template's own refusal is about the messages; any other error is about the model.
fn chat_error(error: &TemplateError) -> ApiError {
    match error {
        TemplateError::Refused(_) => ApiError::invalid_value("messages", error.to_string()),
        TemplateError::Failed(_) => ApiError::chat_template_failed(&error.to_string()),
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
        // The number of log-probabilities was checked as the request was read: what is left is a least
        // length where every token would end the answer.
        SubmitError::Unsupported(detail) => ApiError::invalid_value("min_tokens", detail),
        SubmitError::QueueFull { waiting } => {
            ApiError::queue_full(waiting, app.metrics.retry_after_s(waiting))
        }
        SubmitError::ShuttingDown => ApiError::shutting_down(),
        SubmitError::Dead(why) => ApiError::engine_died(&why),
    }
}

fn streamed(events: EventStream) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, Body::from_stream(Separately::new(events))).into_response()
}
