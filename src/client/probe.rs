//! Single questions to an engine outside any workload: is it ready, what do its metrics say.
//!
//! Ready means that it generated a token: a health route answers 200 before dead workers.
//!
//! Refuses to know: samples, how often one asks.

use super::response::exchange::{Ending, Exchange};
use super::response::sanitize::{brief, error_text};
use super::response::transcript::Transcript;
use super::socket::connection::{Ask, Client};
use super::workloads::request::{Chat, Completion, Length, Message, Mode, Prompt, body};
use super::workloads::request_plan::{CHAT, COMPLETIONS};
use super::{Endpoint, SessionClock};
use bytes::Bytes;
use hyper::Method;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Longest answer to a question.
const MAX_ANSWER: usize = 4 << 20;

const MODELS: &str = "/v1/models";

/// Statuses of a route that a server does not have.
const NO_SUCH_ROUTE: [u16; 3] = [404, 405, 501];

/// Why a question got no good answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// Nothing listens: not up yet, or dead.
    #[error("connection refused")]
    Refused,
    #[error("the connection failed: {0}")]
    Broken(String),
    #[error("its answer cannot be read: {0}")]
    Unreadable(String),
    #[error("no answer: {0}")]
    Silent(String),
    #[error("status {status}: {message}")]
    Status { status: u16, message: String },
    /// An answer, but not one of an engine that generated a token.
    #[error("no token was generated: {0}")]
    NoToken(String),
    /// It serves, and not this model.
    #[error("the engine serves {served}, not `{model}`: set engine.model ({answer})")]
    OtherModel {
        model: String,
        /// Names in backquotes.
        served: String,
        /// The refusal of the model that was asked for.
        answer: String,
    },
}

/// Names of served models that an error shows.
const SHOWN: usize = 3;

/// Asks for one token, by completions or, where prompts go over the chat route or a server has no other, by chat. A refusal
/// is held against the list of the models that are served.
pub async fn probe(endpoint: &Endpoint) -> Result<(), ProbeError> {
    let asked = one_token(endpoint).await;
    let Err(ProbeError::Status { status: 404, .. }) = &asked else {
        return asked;
    };
    match other_models(endpoint).await {
        None => asked,
        Some(served) => asked.map_err(|refusal| ProbeError::OtherModel {
            model: endpoint.model.clone(),
            served,
            answer: refusal.to_string(),
        }),
    }
}

/// Names of the models that are served, in backquotes; `None` where the endpoint's is among them, or they are not told.
pub async fn other_models(endpoint: &Endpoint) -> Option<String> {
    let names = served(&scrape(endpoint, MODELS).await.ok()?);
    if names.is_empty() || names.contains(&endpoint.model) {
        return None;
    }
    let shown: Vec<String> = names
        .iter()
        .take(SHOWN)
        .map(|name| format!("`{}`", brief(name)))
        .collect();
    let more = if names.len() > SHOWN {
        " and others"
    } else {
        ""
    };
    Some(shown.join(", ") + more)
}

/// The names in a list of models.
fn served(models: &str) -> Vec<String> {
    let models: Value = serde_json::from_str(models).unwrap_or_default();
    let models = models["data"].as_array().into_iter().flatten();
    let names = models.filter_map(|model| model["id"].as_str());
    names.map(str::to_owned).collect()
}

async fn one_token(endpoint: &Endpoint) -> Result<(), ProbeError> {
    let mut client = Client::new(endpoint, &SessionClock::start(), &Arc::default());
    let first = match endpoint.chat {
        true => chat(endpoint),
        false => completion(endpoint),
    };
    let exchange = client.exchange(&first).await;
    let missing = exchange
        .status
        .is_some_and(|status| NO_SUCH_ROUTE.contains(&status));
    let exchange = if missing && !endpoint.chat {
        let by_chat = client.exchange(&chat(endpoint)).await;
        // Where chat is missing too, what completions said is the better message: a wrong model's
        // name is answered with 404 as well.
        if by_chat.status == Some(200) {
            by_chat
        } else {
            exchange
        }
    } else {
        exchange
    };
    accept(&exchange)?;
    generated(&exchange)
}

/// The text at `path`, for example `/metrics`.
pub async fn scrape(endpoint: &Endpoint, path: &str) -> Result<String, ProbeError> {
    let ask = Ask {
        method: Method::GET,
        path: path.to_owned(),
        body: Bytes::new(),
        limit: MAX_ANSWER,
        leaves: None,
    };
    answer(endpoint, &ask).await
}

/// The answer to a JSON body that is sent to `path`.
///
/// # Errors
/// No answer, or a status other than 200.
pub async fn post(endpoint: &Endpoint, path: &str, body: &Value) -> Result<String, ProbeError> {
    answer(endpoint, &asked(path, body.to_string())).await
}

async fn answer(endpoint: &Endpoint, ask: &Ask) -> Result<String, ProbeError> {
    let exchange = Client::new(endpoint, &SessionClock::start(), &Arc::default())
        .exchange(ask)
        .await;
    accept(&exchange)?;
    Ok(String::from_utf8_lossy(&exchange.body).into_owned())
}

/// A body of JSON whose answer is short.
fn asked(path: &str, body: impl Into<Bytes>) -> Ask {
    Ask {
        limit: MAX_ANSWER,
        ..Ask::post(path, body.into())
    }
}

/// True if one connection carries all of these requests, each so long after the last: an engine may close it after an answer
/// without a word (llama.cpp after a stream).
pub async fn keeps_connections(
    endpoint: &Endpoint,
    path: &str,
    bodies: &[Value],
    pause: Duration,
) -> bool {
    let gauges = Arc::default();
    let mut client = Client::new(endpoint, &SessionClock::start(), &gauges);
    for (number, body) in bodies.iter().enumerate() {
        if number > 0 {
            sleep(pause).await;
        }
        let exchange = client.exchange(&asked(path, body.to_string())).await;
        let is_kept = number == 0 || exchange.connect_ns.is_none();
        if accept(&exchange).is_err() || !is_kept {
            return false;
        }
    }
    gauges.resent() == 0
}

fn completion(endpoint: &Endpoint) -> Ask {
    let first = endpoint.prompt_ids.map(|(low, _)| [low]);
    let request = Completion {
        model: &endpoint.model,
        prompt: first
            .as_ref()
            .map_or(Prompt::Text("Hello"), |ids| Prompt::Ids(ids)),
        length: Length::at_most(1),
        mode: Mode::WHOLE,
        logprobs: None,
        echo: false,
    };
    asked(COMPLETIONS, body(endpoint, &request))
}

fn chat(endpoint: &Endpoint) -> Ask {
    let messages = [Message {
        role: "user".to_owned(),
        content: "Hello".to_owned(),
    }];
    let request = Chat {
        model: &endpoint.model,
        messages: &messages,
        length: Length::at_most(1),
        mode: Mode::WHOLE,
        logprobs: None,
    };
    asked(CHAT, body(endpoint, &request))
}

fn accept(exchange: &Exchange) -> Result<(), ProbeError> {
    match &exchange.ending {
        Ending::Whole | Ending::Left => {}
        Ending::Refused(_) => return Err(ProbeError::Refused),
        Ending::Silent(detail) => return Err(ProbeError::Silent(detail.clone())),
        Ending::Cut(detail) => return Err(ProbeError::Broken(detail.clone())),
        Ending::Garbled(detail) => return Err(ProbeError::Unreadable(detail.clone())),
    }
    match exchange.status {
        Some(200) => Ok(()),
        status => Err(ProbeError::Status {
            status: status.unwrap_or(0),
            message: error_text(&exchange.body),
        }),
    }
}

fn generated(exchange: &Exchange) -> Result<(), ProbeError> {
    let transcript = Transcript::read(exchange, false);
    if let Some(message) = transcript.error.or(transcript.malformed) {
        return Err(ProbeError::NoToken(message));
    }
    // An end-of-sequence token has no text but is counted.
    let counted = transcript
        .completion_tokens
        .is_some_and(|tokens| tokens > 0);
    if counted || !transcript.content.is_empty() {
        Ok(())
    } else {
        Err(ProbeError::NoToken("the answer is empty".to_owned()))
    }
}
