//! One attempt of a request: what goes out, and what an answer, or none, means.
//!
//! Main type: [`Wire`], octocrab's connection with our token. Refuses to know: whether it is tried again.

use super::address::address;
use super::error::{Refusal, remedy};
use super::retry::Failure;
use super::{Error, Token, clean};
use http::header::{ACCEPT, LOCATION, RETRY_AFTER};
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Limited};
use octocrab::Octocrab;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::time::Duration;

/// To be connected, TLS included.
const CONNECT: Duration = Duration::from_secs(10);
/// Between two bytes of an answer.
const READ: Duration = Duration::from_secs(30);
/// For the whole of one attempt.
const ATTEMPT: Duration = Duration::from_secs(90);
/// The greatest answer that is read: a page of 100 files with their patches has a few MB.
const MOST_BYTES: usize = 32 << 20;
/// Characters of GitHub's words that are shown.
pub(super) const MOST_WORDS: usize = 300;

/// A request, to be sent as often as need be.
pub(super) struct Call<'a, B: ?Sized> {
    pub(super) method: Method,
    pub(super) route: &'a str,
    pub(super) body: Option<&'a B>,
}

impl<B: ?Sized> Call<'_, B> {
    /// For errors.
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.method, clean(self.route, MOST_WORDS))
    }
}

/// A success.
pub(super) struct Answer {
    pub(super) headers: HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    pub(super) fn read<T: DeserializeOwned>(&self, request: &str) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|error| Error::Malformed {
            request: request.to_owned(),
            cause: clean(&error.to_string(), MOST_WORDS),
        })
    }
}

/// One attempt that failed, and how.
pub(super) struct Trouble {
    pub(super) failure: Failure,
    pub(super) error: Error,
}

/// The connection, and what authenticates us on it.
pub(super) struct Wire {
    crab: Octocrab,
    pub(super) api: Uri,
    pub(super) token: Token,
}

impl Wire {
    pub(super) fn new(api_url: &str, token: Token) -> Result<Self, Error> {
        let api = address(api_url)?;
        let crab = Octocrab::builder()
            .base_uri(api.clone())
            .and_then(|builder| {
                builder
                    .personal_token(token.secret())
                    .add_header(ACCEPT, "application/vnd.github+json".into())
                    .set_connect_timeout(Some(CONNECT))
                    .set_read_timeout(Some(READ))
                    .set_write_timeout(Some(READ))
                    .build()
            })
            .map_err(|error| Error::Client(causes(&error)))?;
        Ok(Self { crab, api, token })
    }

    /// Sends once. `now`: since 1970, by which a limit's reset is told.
    pub(super) async fn attempt<B: Serialize + ?Sized>(
        &self,
        call: &Call<'_, B>,
        now: Duration,
    ) -> Result<Answer, Trouble> {
        let (status, headers, body) = match tokio::time::timeout(ATTEMPT, self.exchange(call)).await
        {
            Ok(Ok(exchanged)) => exchanged,
            Ok(Err(error)) => return Err(self.not_answered(call, &*error)),
            Err(_) => {
                let late = io::Error::new(io::ErrorKind::TimedOut, "no answer in time");
                return Err(self.not_answered(call, &late));
            }
        };
        if status.is_success() {
            return Ok(Answer { headers, body });
        }
        Err(self.refused(call, status, &headers, &body, now))
    }

    async fn exchange<B: Serialize + ?Sized>(
        &self,
        call: &Call<'_, B>,
    ) -> Result<(StatusCode, HeaderMap, Vec<u8>), Box<dyn std::error::Error + Send + Sync>> {
        let request = Request::builder()
            .method(call.method.clone())
            .uri(call.route);
        let request = self.crab.build_request(request, call.body)?;
        let (parts, body) = self.crab.execute(request).await?.into_parts();
        let body = Limited::new(body, MOST_BYTES).collect().await?;
        Ok((parts.status, parts.headers, body.to_bytes().to_vec()))
    }

    fn not_answered<B: ?Sized>(
        &self,
        call: &Call<'_, B>,
        error: &(dyn std::error::Error + 'static),
    ) -> Trouble {
        let failure = if was_not_reached(error) {
            Failure::NotReached
        } else {
            Failure::Broken
        };
        let cause = self.token.redact(&causes(error));
        Trouble {
            failure,
            error: Error::Unreachable {
                request: call.name(),
                cause: clean(&cause, MOST_WORDS),
                attempts: 1,
                waited: Duration::ZERO,
            },
        }
    }

    fn refused<B: ?Sized>(
        &self,
        call: &Call<'_, B>,
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
        now: Duration,
    ) -> Trouble {
        let words = self.token.redact(&words(status, headers, body));
        let is_limit = is_limit(status, headers, &words);
        let failure = match status.as_u16() {
            _ if is_limit => Failure::Limited {
                wait: asked_wait(headers, now),
            },
            500.. => Failure::Server,
            408 => Failure::Broken,
            _ => Failure::Final,
        };
        let permissions = text_of(headers, "x-accepted-github-permissions");
        let permissions = permissions.map(|text| clean(text, 100));
        let refusal = Refusal {
            request: call.name(),
            status: status.as_u16(),
            message: clean(&words, MOST_WORDS),
            remedy: remedy(status.as_u16(), is_limit, permissions.as_deref()),
            is_limit,
            attempts: 1,
            waited: Duration::ZERO,
        };
        Trouble {
            failure,
            error: Error::Refused(Box::new(refusal)),
        }
    }
}

/// The wait that the headers ask for.
fn asked_wait(headers: &HeaderMap, now: Duration) -> Option<Duration> {
    let seconds = |name: &str| text_of(headers, name)?.trim().parse::<u64>().ok();
    if let Some(wait) = seconds(RETRY_AFTER.as_str()) {
        return Some(Duration::from_secs(wait));
    }
    let is_used_up = seconds("x-ratelimit-remaining") == Some(0);
    let reset = seconds("x-ratelimit-reset").filter(|_| is_used_up)?;
    let reset = Duration::from_secs(reset);
    Some(reset.saturating_sub(now))
}

/// What GitHub says in the body of a refusal: `message`, and the first of `errors`.
fn words(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    struct Body {
        message: String,
        #[serde(default)]
        errors: Vec<serde_json::Value>,
    }
    if let Some(to) = text_of(headers, LOCATION.as_str()) {
        return format!("it is now at {to}");
    }
    let Ok(body) = serde_json::from_slice::<Body>(body) else {
        return status.canonical_reason().unwrap_or("no reason").to_owned();
    };
    match body.errors.first() {
        Some(first) => format!("{} ({first})", body.message),
        None => body.message,
    }
}

/// GitHub answers 429, or 403 with a time to wait, nothing left, or words that say so.
fn is_limit(status: StatusCode, headers: &HeaderMap, words: &str) -> bool {
    let is_forbidden = status == StatusCode::FORBIDDEN;
    let says_so = headers.contains_key(RETRY_AFTER)
        || text_of(headers, "x-ratelimit-remaining") == Some("0")
        || words.to_ascii_lowercase().contains("rate limit");
    status == StatusCode::TOO_MANY_REQUESTS || (is_forbidden && says_so)
}

fn text_of<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The chain of causes on one line, without what repeats itself.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if !parts.iter().any(|part| part.contains(&text)) {
            parts.push(text);
        }
        next = error.source();
    }
    parts.join(": ")
}

/// Whether the connection itself was refused: then nothing was sent.
fn was_not_reached(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        if kind == Some(io::ErrorKind::ConnectionRefused) {
            return true;
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |&(name, value): &(&'static str, &'static str)| {
            let name = http::HeaderName::from_static(name);
            (name, http::HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn a_limit_is_told_from_a_missing_permission() {
        let (forbidden, many) = (StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS);
        let words = "You have exceeded a secondary rate limit";
        for (status, pairs, words, expect) in [
            (many, &[][..], "", true),
            (forbidden, &[("retry-after", "3")], "", true),
            (forbidden, &[("x-ratelimit-remaining", "0")], "", true),
            (forbidden, &[("x-ratelimit-remaining", "7")], "", false),
            (forbidden, &[], words, true),
            (
                forbidden,
                &[],
                "Resource not accessible by integration",
                false,
            ),
            (StatusCode::NOT_FOUND, &[("retry-after", "3")], "", false),
        ] {
            assert_eq!(is_limit(status, &headers(pairs), words), expect, "{words}");
        }
    }

    #[test]
    fn the_wait_that_is_asked_for() {
        let now = Duration::from_secs(1_000);
        for (pairs, expect) in [
            (&[][..], None),
            (&[("retry-after", "7")], Some(7)),
            (&[("retry-after", "soon")], None),
            (&[("x-ratelimit-reset", "1040")], None),
            (
                &[
                    ("x-ratelimit-reset", "1040"),
                    ("x-ratelimit-remaining", "0"),
                ],
                Some(40),
            ),
            (
                &[("x-ratelimit-reset", "900"), ("x-ratelimit-remaining", "0")],
                Some(0),
            ),
            (&[("retry-after", "18446744073709551615")], Some(u64::MAX)),
        ] {
            let wait = asked_wait(&headers(pairs), now);
            assert_eq!(wait.map(|wait| wait.as_secs()), expect, "{pairs:?}");
        }
    }
}
