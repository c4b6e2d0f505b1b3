//! One attempt of a request: what goes out, and what an answer, or none, means.
//!
//! Main type: [`Wire`], octocrab's connection with our token. Refuses to know: whether it is tried again.

use super::address::address;
use super::error::{Refusal, remedy};
use super::retry::Failure;
use crate::{Error, Token, clean};
use http::header::{ACCEPT, LOCATION, RETRY_AFTER};
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use http_body_util::BodyExt;
use octocrab::service::middleware::auth_header::AuthHeaderLayer;
use octocrab::service::middleware::reqwest_connector::ReqwestConnector;
use octocrab::{AuthState, Octocrab, OctocrabBuilder};
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
pub const MOST_WORDS: usize = 300;
/// Redirects of one request that are followed.
const MOST_REDIRECTS: usize = 5;

/// Part of a cause, what helps, and whether nothing else does: then no later attempt is made.
const CURES: [(&str, &str, bool); 3] = [
    (
        "UnknownIssuer",
        "; if the server's certificate comes from a CA of your own, name the CA's file in SSL_CERT_FILE",
        true,
    ),
    (
        "proxy authorization required",
        "; put the proxy's user and password into HTTPS_PROXY, or the host of --api-url into NO_PROXY",
        true,
    ),
    (
        "tunnel error",
        "; the proxy is the one of HTTPS_PROXY or ALL_PROXY; NO_PROXY names hosts to reach without it",
        false,
    ),
];

/// A request, to be sent as often as need be.
pub struct Call<'a, B: ?Sized> {
    pub method: Method,
    /// Below the API's address, or a whole address of the same server.
    pub route: &'a str,
    pub body: Option<&'a B>,
}

impl<B: ?Sized> Call<'_, B> {
    /// For errors.
    pub fn name(&self) -> String {
        format!("{} {}", self.method, clean(self.route, MOST_WORDS))
    }
}

/// A success.
pub struct Answer {
    pub headers: HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    pub fn read<T: DeserializeOwned>(&self, request: &str) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|error| Error::Malformed {
            request: request.to_owned(),
            cause: clean(&error.to_string(), MOST_WORDS),
        })
    }
}

/// Status, headers and body.
type Exchanged = (StatusCode, HeaderMap, Vec<u8>);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// One attempt that failed, and how.
pub struct Trouble {
    pub failure: Failure,
    pub error: Error,
}

/// The connection, and what authenticates us on it.
pub struct Wire {
    crab: Octocrab,
    pub api: Uri,
    pub token: Token,
}

impl Wire {
    pub fn new(api_url: &str, token: Token) -> Result<Self, Error> {
        let api = address(api_url)?;
        // An earlier call has installed the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("infergate/", env!("CARGO_PKG_VERSION")))
            .http1_only()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .connect_timeout(CONNECT)
            .read_timeout(READ);
        if api.scheme_str() != Some("https") {
            // Without TLS a proxy would read the token.
            builder = builder.no_proxy();
        }
        let http = builder
            .build()
            .map_err(|error| Error::Client(causes(&error)))?;
        // octocrab adds the token to requests to this server alone.
        let bearer = AuthHeaderLayer::new(Some(token.bearer()?), api.clone(), api.clone());
        let Ok(crab) = OctocrabBuilder::new_empty()
            .with_service(ReqwestConnector::new(http))
            .with_layer(&bearer)
            .with_auth(AuthState::None)
            .build();
        Ok(Self { crab, api, token })
    }

    /// The address of a route, or what `route` names itself. `None`: it is on another server, which must not get the
    /// token.
    pub fn own(&self, route: &str) -> Option<Uri> {
        let base = self.api.to_string();
        let uri: Uri = match route.starts_with('/') {
            true => format!("{}{route}", base.trim_end_matches('/')).parse(),
            false => route.parse(),
        }
        .ok()?;
        let is_ours = uri.scheme() == self.api.scheme() && uri.authority() == self.api.authority();
        is_ours.then_some(uri)
    }

    /// Sends once. `now`: since 1970, by which a limit's reset is told.
    pub async fn attempt<B: Serialize + ?Sized>(
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

    /// Follows redirects of a GET on the same server. Any other method would lose its body, or do its work elsewhere.
    async fn exchange<B: Serialize + ?Sized>(
        &self,
        call: &Call<'_, B>,
    ) -> Result<Exchanged, BoxError> {
        let mut next = self
            .own(call.route)
            .ok_or("not an address of this server")?;
        for _ in 0..MOST_REDIRECTS {
            let exchanged = self.send(call, next).await?;
            let is_redirect = matches!(exchanged.0.as_u16(), 301 | 302 | 307 | 308);
            let target = text_of(&exchanged.1, LOCATION.as_str()).and_then(|to| self.own(to));
            match target.filter(|_| is_redirect && call.method == Method::GET) {
                Some(target) => next = target,
                None => return Ok(exchanged),
            }
        }
        Err("too many redirects".into())
    }

    async fn send<B: Serialize + ?Sized>(
        &self,
        call: &Call<'_, B>,
        address: Uri,
    ) -> Result<Exchanged, BoxError> {
        let request = Request::builder()
            .method(call.method.clone())
            .uri(address)
            .header(ACCEPT, "application/vnd.github+json");
        let request = self.crab.build_request(request, call.body)?;
        let response = self.crab.execute(request).await.map_err(bare)?;
        let (parts, mut frames) = response.into_parts();
        let mut body = Vec::new();
        while let Some(frame) = frames.frame().await {
            // Trailers hold nothing for us.
            let chunk = frame.map_err(bare)?.into_data().unwrap_or_default();
            if body.len() + chunk.len() > MOST_BYTES {
                return Err(format!("an answer of more than {MOST_BYTES} bytes").into());
            }
            body.extend_from_slice(&chunk);
        }
        Ok((parts.status, parts.headers, body))
    }

    fn not_answered<B: ?Sized>(
        &self,
        call: &Call<'_, B>,
        error: &(dyn std::error::Error + 'static),
    ) -> Trouble {
        let cause = self.token.redact(&causes(error));
        let cure = CURES.iter().find(|(part, ..)| cause.contains(part));
        let is_connect = |error: &reqwest::Error| error.is_connect();
        let failure = match error.downcast_ref::<reqwest::Error>() {
            _ if cure.is_some_and(|(.., is_only)| *is_only) => Failure::Final,
            Some(error) if is_connect(error) => Failure::NotReached,
            _ => Failure::Broken,
        };
        let cure = cure.map_or("", |(_, cure, _)| cure);
        Trouble {
            failure,
            error: Error::Unreachable {
                request: call.name(),
                cause: clean(&cause, MOST_WORDS) + cure,
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

/// The error that octocrab wraps, without the address: the request is named beside it.
fn bare(error: octocrab::Error) -> BoxError {
    match error {
        octocrab::Error::Reqwest { source, .. } => source.without_url().into(),
        octocrab::Error::Service { source, .. } => match source.downcast() {
            Ok(inner) => bare(*inner),
            Err(other) => other,
        },
        other => other.into(),
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
