//! [`Client`]: one repository's requests to GitHub's REST API, sent with patience.
//!
//! The connection is octocrab's, without its own retries, which repeat what creates something. Here a request is sent
//! again as `retry` decides, within one budget of waiting for the whole client: a command that waited for GitHub in
//! one request does not wait as long again in the next.

use super::exchange::{Answer, Call, MOST_WORDS, Trouble, Wire};
use super::link;
use super::retry::{self, Decision, Failure, Repeat};
use crate::clock::{Clock, SystemClock};
use crate::{Error, Repository, Token, clean};
use http::header::LINK;
use http::{HeaderMap, Method};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::Cell;
use std::time::Duration;
use verdict::splitmix::{GAMMA, mix};

/// Items that a page of a list holds, GitHub's most.
pub const PER_PAGE: usize = 100;

/// A client of one repository. Must be made and used within a tokio runtime.
pub struct Client {
    wire: Wire,
    repository: Repository,
    clock: Box<dyn Clock>,
    /// Called before each wait, and for a wrong identity.
    pub on_note: fn(&str),
    pub identity: Cell<Identity>,
    /// That account, where GitHub does not say.
    pub untold: Option<u64>,
    /// Waiting that is left.
    left: Cell<Duration>,
    /// State of the generator of random waits.
    random: Cell<u64>,
}

/// Waiting and attempts of one request so far.
#[derive(Default)]
struct Tries {
    attempts: u32,
    waited: Duration,
}

impl Client {
    /// `api_url`: <https://api.github.com>, or `https://HOST/api/v3` of an Enterprise server. `patience`: the most
    /// that all requests together wait for GitHub.
    pub fn new(
        api_url: &str,
        token: Token,
        repository: Repository,
        patience: Duration,
    ) -> Result<Self, Error> {
        let clock = Box::new(SystemClock::start());
        Self::with_clock(api_url, token, repository, patience, clock)
    }

    pub fn with_clock(
        api_url: &str,
        token: Token,
        repository: Repository,
        patience: Duration,
        clock: Box<dyn Clock>,
    ) -> Result<Self, Error> {
        let seed = clock.since_1970().as_nanos() as u64 ^ u64::from(std::process::id());
        Ok(Self {
            wire: Wire::new(api_url, token)?,
            repository,
            clock,
            on_note: |_| {},
            identity: Cell::new(Identity::Unasked),
            untold: None,
            left: Cell::new(patience),
            random: Cell::new(seed),
        })
    }

    /// Tells each wait, as one line, before it begins, and a wrong identity.
    #[must_use]
    pub fn telling(mut self, on_note: fn(&str)) -> Self {
        self.on_note = on_note;
        self
    }

    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// The token, to be kept out of what is written.
    pub fn token(&self) -> &Token {
        &self.wire.token
    }

    /// `/repos/OWNER/NAME` and what follows.
    pub fn route(&self, rest: &str) -> String {
        format!("/repos/{}{rest}", self.repository)
    }

    /// The address of the GraphQL API: `/api/graphql` beside `/api/v3`, else below the REST API's.
    pub fn graphql(&self) -> String {
        let rest = self.wire.api.to_string();
        let rest = rest.trim_end_matches('/');
        let base = rest.strip_suffix("/v3").unwrap_or(rest);
        format!("{base}/graphql")
    }

    pub async fn get<T: DeserializeOwned>(&self, route: &str) -> Result<T, Error> {
        let call = call::<()>(Method::GET, route, None);
        self.answer(&call, Repeat::Freely).await?.read(&call.name())
    }

    /// Changes something to what `body` says; doing so twice comes to the same.
    pub async fn patch<B: Serialize + ?Sized, T: DeserializeOwned>(
        &self,
        route: &str,
        body: &B,
    ) -> Result<T, Error> {
        let call = call(Method::PATCH, route, Some(body));
        self.answer(&call, Repeat::Freely).await?.read(&call.name())
    }

    /// What is gone already is no error of ours to tell apart: that is a refusal with 404.
    pub async fn delete(&self, route: &str) -> Result<(), Error> {
        let call = call::<()>(Method::DELETE, route, None);
        self.answer(&call, Repeat::Freely).await.map(drop)
    }

    /// Creates something of which a second one does no harm: a label that is set, a status that is said again.
    pub async fn post<B: Serialize + ?Sized, T: DeserializeOwned>(
        &self,
        route: &str,
        body: &B,
    ) -> Result<T, Error> {
        let call = call(Method::POST, route, Some(body));
        self.answer(&call, Repeat::Freely).await?.read(&call.name())
    }

    /// The same, where nothing of GitHub's answer matters.
    pub async fn post_for_nothing<B: Serialize + ?Sized>(
        &self,
        route: &str,
        body: Option<&B>,
    ) -> Result<(), Error> {
        let call = call(Method::POST, route, body);
        self.answer(&call, Repeat::Freely).await.map(drop)
    }

    /// Creates something that must be there once. After a failure that may hide a success, `found` looks whether
    /// it is there before it is created again. The caller has looked once before.
    pub async fn post_once<B: Serialize + ?Sized, T: DeserializeOwned>(
        &self,
        route: &str,
        body: &B,
        found: impl AsyncFn() -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        let call = call(Method::POST, route, Some(body));
        self.once(&call, found).await
    }

    /// The same for a change that adds to what is there.
    pub async fn patch_once<B: Serialize + ?Sized, T: DeserializeOwned>(
        &self,
        route: &str,
        body: &B,
        found: impl AsyncFn() -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        let call = call(Method::PATCH, route, Some(body));
        self.once(&call, found).await
    }

    async fn once<B: Serialize + ?Sized, T: DeserializeOwned>(
        &self,
        call: &Call<'_, B>,
        found: impl AsyncFn() -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        let mut tries = Tries::default();
        loop {
            let trouble = match self.tried(call, Repeat::IfNotDone, &mut tries).await {
                Ok(answer) => return answer.read(&call.name()),
                Err(trouble) => trouble,
            };
            if !matches!(trouble.failure, Failure::Broken | Failure::Server) {
                return Err(trouble.error);
            }
            let again = self.wait(&trouble, &mut tries, retry::backoff).await;
            if let Some(there) = found().await? {
                return Ok(there);
            }
            if !again {
                return Err(told(trouble.error, &tries));
            }
        }
    }

    /// All items of a list, page by page, at most so many pages. The route has no `per_page` of its own.
    pub async fn pages<T: DeserializeOwned>(
        &self,
        route: &str,
        most_pages: u32,
    ) -> Result<Vec<T>, Error> {
        self.pages_of(route, most_pages, |page: Vec<T>| page).await
    }

    /// The same for lists within an object, out of which `items` takes them.
    pub async fn pages_of<P: DeserializeOwned, T>(
        &self,
        route: &str,
        most_pages: u32,
        items: impl Fn(P) -> Vec<T>,
    ) -> Result<Vec<T>, Error> {
        let mark = if route.contains('?') { '&' } else { '?' };
        let mut next = format!("{route}{mark}per_page={PER_PAGE}");
        let mut all = Vec::new();
        for _ in 0..most_pages {
            let call = call::<()>(Method::GET, &next, None);
            let answer = self.answer(&call, Repeat::Freely).await?;
            all.extend(items(answer.read(&call.name())?));
            match self.next_page(&call.name(), &answer.headers)? {
                Some(route) => next = route,
                None => return Ok(all),
            }
        }
        Err(Error::TooManyPages {
            request: format!("GET {}", clean(route, MOST_WORDS)),
            pages: most_pages,
        })
    }

    /// The address of the next page. Another server is never asked: the token goes with every request.
    fn next_page(&self, request: &str, headers: &HeaderMap) -> Result<Option<String>, Error> {
        let header = headers.get(LINK).and_then(|value| value.to_str().ok());
        let Some(target) = header.and_then(link::next) else {
            return Ok(None);
        };
        match self.wire.own(target) {
            Some(uri) if !target.starts_with('/') => Ok(Some(uri.to_string())),
            _ => Err(Error::Malformed {
                request: request.to_owned(),
                cause: format!("its next page is at {}", clean(target, MOST_WORDS)),
            }),
        }
    }

    async fn answer<B: Serialize + ?Sized>(
        &self,
        call: &Call<'_, B>,
        repeat: Repeat,
    ) -> Result<Answer, Error> {
        let mut tries = Tries::default();
        let answer = self.tried(call, repeat, &mut tries).await;
        answer.map_err(|trouble| trouble.error)
    }

    /// Sends until there is an answer, or nothing more to wait for.
    async fn tried<B: Serialize + ?Sized>(
        &self,
        call: &Call<'_, B>,
        repeat: Repeat,
        tries: &mut Tries,
    ) -> Result<Answer, Trouble> {
        loop {
            let begun = self.clock.elapsed();
            tries.attempts += 1;
            let trouble = match self.wire.attempt(call, self.clock.since_1970()).await {
                Ok(answer) => return Ok(answer),
                Err(trouble) => trouble,
            };
            self.spend(self.clock.elapsed().saturating_sub(begun));
            let decide = |failure, attempt, left, random| {
                retry::decide(failure, repeat, attempt, left, random)
            };
            if !self.wait(&trouble, tries, decide).await {
                let error = told(trouble.error, tries);
                return Err(Trouble { error, ..trouble });
            }
        }
    }

    /// Waits as `decide` says; `false`: it says to give up.
    async fn wait(
        &self,
        trouble: &Trouble,
        tries: &mut Tries,
        decide: impl Fn(Failure, u32, Duration, f64) -> Decision,
    ) -> bool {
        let attempt = tries.attempts.saturating_sub(1);
        match decide(trouble.failure, attempt, self.left.get(), self.draw()) {
            Decision::GiveUp => false,
            Decision::Wait(time) => {
                let seconds = time.as_secs_f64().ceil();
                (self.on_note)(&format!("{}; trying again in {seconds} s", trouble.error));
                self.clock.sleep(time).await;
                self.spend(time);
                tries.waited += time;
                true
            }
        }
    }

    fn spend(&self, time: Duration) {
        self.left.set(self.left.get().saturating_sub(time));
    }

    /// Evenly from 0 to 1.
    fn draw(&self) -> f64 {
        let state = self.random.get().wrapping_add(GAMMA);
        self.random.set(state);
        (mix(state) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn call<'a, B: ?Sized>(method: Method, route: &'a str, body: Option<&'a B>) -> Call<'a, B> {
    Call {
        method,
        route,
        body,
    }
}

/// The error with the attempts and waits that came to it.
fn told(error: Error, tries: &Tries) -> Error {
    match error {
        Error::Unreachable { request, cause, .. } => Error::Unreachable {
            request,
            cause,
            attempts: tries.attempts,
            waited: tries.waited,
        },
        Error::Refused(mut refusal) => {
            refusal.attempts = tries.attempts;
            refusal.waited = tries.waited;
            Error::Refused(refusal)
        }
        other => other,
    }
}

/// State of knowledge about the account that the token writes as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    Unasked,
    /// Neither this server says it nor anybody.
    Untold,
    Known(u64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_next_page_lies_on_the_same_host() {
        let token = Token::new("ghs_0123456789").unwrap();
        let repository = Repository::parse("octocat/Hello-World").unwrap();
        let api = "https://github.example.com/api/v3";
        let client = Client::new(api, token, repository, Duration::ZERO).unwrap();
        let next = |target: &str| {
            let header = format!("<{target}>; rel=\"next\"").parse().unwrap();
            client.next_page("GET /x", &HeaderMap::from_iter([(LINK, header)]))
        };
        let page = "https://github.example.com/api/v3/repositories/1/x?page=2";
        assert_eq!(next(page).unwrap().as_deref(), Some(page));
        for elsewhere in [
            "https://evil.example/api/v3/x?page=2",
            "https://github.example.com.evil.example/x",
            "https://github.example.com:8443/x",
            "https://x@github.example.com/x",
            "http://github.example.com/x",
            "/relative",
        ] {
            let refused = next(elsewhere);
            assert!(
                matches!(refused, Err(Error::Malformed { .. })),
                "{elsewhere}"
            );
        }
        assert!(
            client
                .next_page("GET /x", &HeaderMap::new())
                .is_ok_and(|n| n.is_none())
        );
    }
}
