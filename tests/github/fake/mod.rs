//! A GitHub of our own: one repository with its state, behind HTTP, in the test's process.
//!
//! It keeps pull requests, files, labels, comments, check runs, statuses and dispatches, pages its lists, knows
//! tokens and what they may do, has GitHub's limits, and has troubles when told to. Each request and each of its
//! own answers is held against GitHub's OpenAPI description ([`openapi`]); whoever drops a [`Fake`] that saw
//! anything else has a failed test.
//!
//! Main type: [`Fake`]. Included by other tests by `#[path]`; refuses to know what they test.

#![allow(
    dead_code,
    unused_imports,
    reason = "each test binary uses its part of this"
)]

mod checks;
mod issues;
mod openapi;
mod routes;
mod runs;
mod shapes;
mod state;
mod trouble;

pub(crate) use state::{Account, Comment, Grant, Person, Pull, Recorded, Run, State, Status, sha};
pub(crate) use trouble::{Ill, Trouble};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use openapi::Spec;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// The repository that there is.
pub(crate) const REPOSITORY: &str = "octocat/Hello-World";
/// The token of Actions: an app's, which writes as `github-actions[bot]`.
pub(crate) const ACTIONS_TOKEN: &str = "ghs_FakeActionsToken0123456789";
/// A person's token, of the repository's admin `octocat`.
pub(crate) const PERSONAL_TOKEN: &str = "ghp_FakePersonalToken0123456789";
pub(crate) const ACTIONS_BOT_ID: u64 = 41_898_282;

/// A running GitHub. Ends when dropped.
pub(crate) struct Fake {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Fake {
    /// With the repository's people, and no pull request yet.
    pub(crate) fn start() -> Self {
        let state = Arc::new(Mutex::new(State::new()));
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = mpsc::channel();
        let shared = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                tell.send(listener.local_addr().unwrap()).unwrap();
                let router = Router::new().fallback(move |request| answer(shared, request));
                tokio::select! {
                    served = axum::serve(listener, router).into_future() => served.unwrap(),
                    _ = stopped => {}
                }
            });
        });
        Self {
            address: told.recv().unwrap(),
            state,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// For `--api-url`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The same as an Enterprise server has it.
    pub(crate) fn enterprise_url(&self) -> String {
        format!("http://{}/api/v3", self.address)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was asked so far, as `METHOD /path`, without queries.
    pub(crate) fn asked(&self) -> Vec<String> {
        let state = self.state();
        let name = |request: &Recorded| format!("{} {}", request.method, request.path);
        state.requests.iter().map(name).collect()
    }

    /// A check run as GitHub shows one, to be changed and put among the state's.
    pub(crate) fn check_run(&self) -> serde_json::Value {
        let mut run = Spec::shared().example("check-run-example-of-in-progress-conclusion");
        run["annotations"] = serde_json::json!([]);
        run["output"]["annotations_count"] = serde_json::json!(0);
        run
    }

    /// The next requests that fit have this trouble.
    pub(crate) fn plant(&self, trouble: Trouble) {
        self.state().troubles.push(trouble);
    }

    /// What was against GitHub's description; taken, so that it does not fail the test.
    pub(crate) fn take_violations(&self) -> Vec<String> {
        std::mem::take(&mut self.state().violations)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let violations = self.take_violations();
        if !std::thread::panicking() {
            assert!(violations.is_empty(), "{}", violations.join("\n"));
        }
    }
}

/// What a route answers.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// `None`: no body.
    pub(crate) body: Option<serde_json::Value>,
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl Answer {
    pub(crate) fn of(status: u16, body: serde_json::Value) -> Self {
        Self {
            status,
            body: Some(body),
            headers: Vec::new(),
        }
    }

    pub(crate) fn empty(status: u16) -> Self {
        Self {
            status,
            body: None,
            headers: Vec::new(),
        }
    }

    pub(crate) fn error(status: u16, message: &str) -> Self {
        let url = "https://docs.github.com/rest";
        Self::of(
            status,
            serde_json::json!({"message": message, "documentation_url": url, "status": status.to_string()}),
        )
    }
}

async fn answer(state: Arc<Mutex<State>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let header = |name: &str| {
        let value = parts.headers.get(name)?.to_str().ok()?;
        Some(value.to_owned())
    };
    let recorded = Recorded {
        method: parts.method.to_string(),
        path: routes::plain_path(parts.uri.path()),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        authorization: header("authorization"),
        host: header("host").unwrap_or_default(),
        is_json: header("content-type").is_some_and(|kind| kind == "application/json"),
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    let (answer, ill) = state.handle(Spec::shared(), recorded);
    respond(answer, ill)
}

fn respond(answer: Answer, ill: Option<Ill>) -> Response {
    if let Some(Ill::Broken) = ill {
        // Headers go out, and then the connection ends within the body.
        let broken = futures_util::stream::once(async {
            Err::<bytes::Bytes, _>(std::io::Error::other("the connection broke"))
        });
        return Response::new(Body::from_stream(broken));
    }
    let mut response = Response::builder().status(answer.status);
    for (name, value) in &answer.headers {
        response = response.header(*name, value);
    }
    match answer.body {
        Some(body) => response
            .header("content-type", "application/json; charset=utf-8")
            .body(Body::from(body.to_string())),
        None => response.body(Body::empty()),
    }
    .unwrap()
}
