//! An engine that listens: where it is, and how it is asked.

use super::{Tls, Tokenizer};
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use verdict::plan::{Engine, Plausible};

/// An engine that listens: where, and how it is asked.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub address: SocketAddr,
    /// `None`: plain HTTP.
    pub tls: Option<Tls>,
    /// Its host and port as it was named, for the `Host` header: a proxy may tell servers apart by it.
    pub authority: String,
    /// The model's name in requests.
    pub model: String,
    /// Longest silence of an answer. A whole answer may take ten times as long.
    pub request_timeout: Duration,
    /// Token ids from which prompts are drawn, half-open; `None`: prompts are words.
    pub prompt_ids: Option<(u32, u32)>,
    /// Ask for token ids in streams (vLLM's extension).
    pub return_token_ids: bool,
    /// The engine can be forced to generate an exact number of tokens.
    pub forces_length: bool,
    /// It sends usage at a stream's end when asked to.
    pub stream_usage: bool,
    /// It leaves connections open; else each request has one of its own.
    pub keep_alive: bool,
    /// Prompts of text go over the chat route, as one message of a user.
    pub chat: bool,
    /// Prefix of each route's path, such as `/prefix`; may be empty.
    pub path: String,
    /// Further headers of every request. Values that are marked as sensitive are never shown.
    pub headers: HeaderMap,
    /// Further keys of every request, by name; one of ours, such as `temperature`, is replaced.
    pub request: Vec<(String, Value)>,
    pub plausible: Plausible,
    /// The served model's: texts then have an exact length, and outputs are counted here too.
    pub tokenizer: Option<Arc<Tokenizer>>,
}

impl Endpoint {
    /// An engine of which nothing is known but where it listens and its model's name: what the configuration
    /// leaves out is as there (prompts are words, lengths can be forced, usage is sent, connections stay open),
    /// and an answer may be silent for a minute.
    pub fn usual(address: SocketAddr, model: &str) -> Self {
        Self {
            address,
            tls: None,
            authority: address.to_string(),
            model: model.to_owned(),
            request_timeout: Duration::from_secs(60),
            prompt_ids: None,
            return_token_ids: false,
            forces_length: true,
            stream_usage: true,
            keep_alive: true,
            chat: false,
            path: String::new(),
            headers: HeaderMap::new(),
            request: Vec::new(),
            plausible: Plausible::default(),
            tokenizer: None,
        }
    }

    /// The configured engine, listening at `address`, with its tokenizer where it names one.
    pub fn new(address: SocketAddr, engine: &Engine, tokenizer: Option<Arc<Tokenizer>>) -> Self {
        Self {
            address,
            tls: None,
            authority: address.to_string(),
            model: engine.model.clone(),
            request_timeout: engine.request_timeout,
            prompt_ids: engine.prompt_ids,
            return_token_ids: engine.return_token_ids,
            forces_length: engine.forces_length,
            stream_usage: engine.stream_usage,
            keep_alive: engine.keep_alive,
            chat: engine.chat,
            path: String::new(),
            headers: headers(&engine.headers),
            request: engine.request.clone(),
            plausible: engine.plausible,
            tokenizer,
        }
    }
}

/// As the wire has them. The plan holds none that could not be sent.
fn headers(named: &[(String, String)]) -> HeaderMap {
    let read = named.iter().filter_map(|(name, value)| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        Some((name, HeaderValue::from_str(value).ok()?))
    });
    let headers: HeaderMap = read.collect();
    debug_assert_eq!(headers.len(), named.len());
    headers
}
