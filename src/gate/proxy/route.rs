//! One request: to the engine, and its answer back, with what the faults make of it.
//!
//! Main types: [`Lane`], a client's connection with one to the engine for it, and [`Shared`], what all lanes
//! count together. Requests are never sent twice. Refuses to know: the bytes of a stream (see `relay`).

use super::body::Passed;
use super::recorder::{Recorder, Tap};
use super::relay::Relay;
use super::script::Script;
use super::{Delay, Faults, edit, gauge};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, TRANSFER_ENCODING};
use hyper::http::response::Parts;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

/// A text of so many bytes counts as one token of a prompt.
const BYTES_A_TOKEN: usize = 4;

/// What all connections count together.
#[derive(Debug)]
pub struct Shared {
    upstream: SocketAddr,
    faults: Faults,
    recorder: Option<Arc<Recorder>>,
    in_flight: Arc<AtomicU64>,
    requests: AtomicU64,
    streams: AtomicU64,
    tokens: AtomicU64,
}

impl Shared {
    pub fn new(upstream: SocketAddr, faults: Faults, recorder: Option<Arc<Recorder>>) -> Self {
        Self {
            upstream,
            faults,
            recorder,
            in_flight: Arc::default(),
            requests: AtomicU64::new(0),
            streams: AtomicU64::new(0),
            tokens: AtomicU64::new(0),
        }
    }

    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Plants what is wrong in an answer's JSON.
    pub fn change(&self, json: &mut Value) {
        if let Some(every) = self.faults.wrong_token {
            edit::replace_tokens(json, || is_nth(&self.tokens, every));
        }
        if let Some(more) = self.faults.usage_add {
            edit::add_usage(json, more);
        }
    }
}

/// Counts one more; whether it is one of every so many.
fn is_nth(count: &AtomicU64, every: u32) -> bool {
    (count.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(u64::from(every))
}

/// A request for an answer that is under way.
#[derive(Debug)]
pub struct Flight {
    in_flight: Arc<AtomicU64>,
    others: u64,
}

impl Flight {
    fn begin(in_flight: &Arc<AtomicU64>) -> Self {
        Self {
            others: in_flight.fetch_add(1, Ordering::Relaxed),
            in_flight: Arc::clone(in_flight),
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What is known of a request when its answer comes.
struct Asked {
    sent: Instant,
    is_post: bool,
    is_metrics: bool,
    prompt_tokens: usize,
    flight: Flight,
    tap: Option<Tap>,
}

pub struct Lane {
    shared: Arc<Shared>,
    engine: Mutex<Option<SendRequest<Full<Bytes>>>>,
}

impl Lane {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            engine: Mutex::new(None),
        }
    }

    pub async fn answer(&self, request: Request<Incoming>) -> Result<Response<Passed>, Infallible> {
        let answered = self.pass(request).await;
        Ok(answered.unwrap_or_else(|error| {
            let text = format!(
                "the proxy got no answer from {}: {error}\n",
                self.shared.upstream
            );
            let mut response = Response::new(Passed::whole(text));
            *response.status_mut() = StatusCode::BAD_GATEWAY;
            response
        }))
    }

    async fn pass(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Passed>, Box<dyn std::error::Error + Send + Sync>> {
        let (mut head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let mut asked = self.asked(&head.method, head.uri.path(), &body);
        of_one_hop(&mut head.headers);
        let request = Request::from_parts(head, Full::new(body));
        let response = match self.send(request).await {
            Ok(response) => response,
            Err(error) => {
                if let Some(tap) = &mut asked.tap {
                    tap.cut(error.to_string());
                }
                return Err(error);
            }
        };
        let (mut head, body) = response.into_parts();
        if let Some(tap) = &mut asked.tap {
            tap.headers(head.status.as_u16());
        }
        of_one_hop(&mut head.headers);
        Ok(self.changed(asked, head, body).await?)
    }

    fn asked(&self, method: &Method, path: &str, body: &Bytes) -> Asked {
        let is_post = method == Method::POST;
        if is_post {
            self.shared.requests.fetch_add(1, Ordering::Relaxed);
        }
        let counts = self.shared.faults.prefill_delay.is_some() && is_post;
        // Both routes of OpenAI's API that generate.
        let is_generated = is_post && path.ends_with("/completions");
        let recorder = self.shared.recorder.as_ref().filter(|_| is_generated);
        Asked {
            sent: Instant::now(),
            is_post,
            is_metrics: method == Method::GET && path.ends_with("/metrics"),
            prompt_tokens: if counts { prompt_tokens(body) } else { 0 },
            tap: recorder.map(|recorder| recorder.tap(body.clone())),
            flight: if is_post {
                Flight::begin(&self.shared.in_flight)
            } else {
                Flight::begin(&Arc::default())
            },
        }
    }

    /// Sends on the connection that is there, else on a new one.
    async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Box<dyn std::error::Error + Send + Sync>> {
        let mut engine = self.engine.lock().await;
        let mut sender = match engine.take() {
            Some(sender) => sender,
            None => connect(self.shared.upstream).await?,
        };
        if sender.ready().await.is_err() {
            // The engine closed it after the last answer.
            sender = connect(self.shared.upstream).await?;
        }
        let response = sender.send_request(request).await?;
        *engine = Some(sender);
        Ok(response)
    }

    async fn changed(
        &self,
        asked: Asked,
        mut head: Parts,
        body: Incoming,
    ) -> hyper::Result<Response<Passed>> {
        let faults = &self.shared.faults;
        let is_good = head.status == StatusCode::OK;
        let is_stream = is_of_type(&head.headers, "text/event-stream");
        let is_whole = asked.is_post && !is_stream && faults.touch_streams();
        if is_good && asked.is_metrics && faults.touch_gauges() {
            let text = body.collect().await?.to_bytes();
            let requests = self.shared.requests.load(Ordering::Relaxed);
            let text = gauge::changed(&String::from_utf8_lossy(&text), faults, requests);
            head.headers.remove(CONTENT_LENGTH);
            return Ok(Response::from_parts(head, Passed::whole(text)));
        }
        if is_good && is_whole && is_of_type(&head.headers, "application/json") {
            head.headers.remove(CONTENT_LENGTH);
            let body = self.whole(&asked, body.collect().await?.to_bytes()).await;
            return Ok(Response::from_parts(head, Passed::whole(body)));
        }
        let is_changed = is_good && asked.is_post && is_stream && faults.touch_streams();
        let script = is_changed.then(|| self.script(&asked));
        if script.is_some() {
            head.headers.remove(CONTENT_LENGTH);
        }
        let relay = Relay::new(body, script, asked.flight, asked.tap);
        Ok(Response::from_parts(head, Passed::Stream(Box::new(relay))))
    }

    fn script(&self, asked: &Asked) -> Script {
        let faults = &self.shared.faults;
        let stall = faults.stall;
        let stall = stall.filter(|stall| is_nth(&self.shared.streams, stall.every));
        Script::new(
            Arc::clone(&self.shared),
            self.is_emptied(asked),
            (asked.sent, asked.prompt_tokens),
            stall.map(|stall| stall.time),
        )
    }

    fn is_emptied(&self, asked: &Asked) -> bool {
        let from = self.shared.faults.empty_beside;
        from.is_some_and(|from| asked.flight.others >= u64::from(from))
    }

    /// An answer that is not streamed, as late as its tokens would have been.
    async fn whole(&self, asked: &Asked, bytes: Bytes) -> Bytes {
        let Ok(mut json) = serde_json::from_slice::<Value>(&bytes) else {
            return bytes;
        };
        let tokens = json["usage"]["completion_tokens"].as_u64().unwrap_or(0);
        let (faults, own) = (&self.shared.faults, asked.sent.elapsed());
        let late =
            |delay: Option<Delay>, times| delay.map_or(Duration::ZERO, |it| it.of(own, times));
        let late = late(faults.prefill_delay, asked.prompt_tokens)
            + late(faults.decode_delay, tokens as usize);
        tokio::time::sleep(late).await;
        if self.is_emptied(asked) {
            edit::empty(&mut json);
        } else {
            self.shared.change(&mut json);
        }
        if !self.shared.faults.touch_answers() {
            return bytes;
        }
        json.to_string().into()
    }
}

async fn connect(
    upstream: SocketAddr,
) -> Result<SendRequest<Full<Bytes>>, Box<dyn std::error::Error + Send + Sync>> {
    let stream = TcpStream::connect(upstream).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = http1::Builder::new()
        .preserve_header_case(true)
        .handshake(TokioIo::new(stream))
        .await?;
    tokio::spawn(async move {
        // Its error reaches whoever waits for the answer.
        let _ = connection.await;
    });
    Ok(sender)
}

/// Takes away what speaks of one connection only.
fn of_one_hop(headers: &mut HeaderMap) {
    for name in [CONNECTION, TRANSFER_ENCODING] {
        headers.remove(name);
    }
    headers.remove("keep-alive");
}

fn is_of_type(headers: &HeaderMap, wanted: &str) -> bool {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with(wanted))
}

/// Tokens of a request's prompt: its ids, or an estimate from its text.
pub fn prompt_tokens(body: &[u8]) -> usize {
    let json: Value = serde_json::from_slice(body).unwrap_or_default();
    tokens_of(&json["prompt"]) + tokens_of(&json["messages"])
}

fn tokens_of(prompt: &Value) -> usize {
    match prompt {
        Value::Number(_) => 1,
        Value::String(text) => text.len().div_ceil(BYTES_A_TOKEN),
        Value::Array(parts) => parts.iter().map(tokens_of).sum(),
        Value::Object(message) => message.get("content").map_or(0, tokens_of),
        Value::Null | Value::Bool(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompts_tokens_are_its_ids_or_a_quarter_of_its_bytes() {
        let check =
            |body: &str, expect| assert_eq!(prompt_tokens(body.as_bytes()), expect, "{body}");
        check(r#"{"prompt": [5, 6, 7]}"#, 3);
        check(r#"{"prompt": [[5, 6], [7]]}"#, 3);
        check(r#"{"prompt": "eight by"}"#, 2);
        check(
            r#"{"messages": [{"role": "user", "content": "abc"}, {"content": "defgh"}]}"#,
            3,
        );
        check("no json", 0);
    }

    #[test]
    fn a_flight_counts_the_others() {
        let count = Arc::default();
        let first = Flight::begin(&count);
        let second = Flight::begin(&count);
        assert_eq!((first.others, second.others), (0, 1));
        drop((first, second));
        assert_eq!(Flight::begin(&count).others, 0);
    }
}
