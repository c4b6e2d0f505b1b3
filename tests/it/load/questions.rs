//! Questions outside any workload: readiness and metrics.

use super::server::{Received, Server, Step, answer};
use super::{endpoint, nobody};
use client::{Endpoint, ProbeError, probe, scrape};
use std::time::Duration;

async fn probed(
    script: impl Fn(&Received) -> Vec<Step> + Send + Sync + 'static,
) -> Result<(), ProbeError> {
    let server = Server::start(move |_, request| script(request)).await;
    probe(&endpoint(server.address)).await
}

#[tokio::test]
async fn ready_is_a_generated_token() {
    let one =
        r#"{"choices":[{"text":"","finish_reason":"length"}],"usage":{"completion_tokens":1}}"#;
    assert_eq!(probed(|_| answer("200 OK", one)).await, Ok(()));
    let by_chat = |request: &Received| match request.path.as_str() {
        "/v1/chat/completions" => answer("200 OK", r#"{"choices":[{"message":{"content":"x"}}]}"#),
        _ => answer("404 Not Found", ""),
    };
    assert_eq!(probed(by_chat).await, Ok(()));

    let no_model = |request: &Received| match request.path.as_str() {
        "/v1/completions" => answer("404 Not Found", r#"{"error":{"message":"no model m"}}"#),
        _ => answer("404 Not Found", "elsewhere"),
    };
    let message = "no model m".to_owned();
    assert_eq!(
        probed(no_model).await,
        Err(ProbeError::Status {
            status: 404,
            message
        })
    );
    let empty = probed(|_| answer("200 OK", "{}")).await;
    assert!(matches!(empty, Err(ProbeError::NoToken(_))), "{empty:?}");
    let html = probed(|_| answer("200 OK", "<html>")).await;
    assert!(matches!(html, Err(ProbeError::NoToken(_))), "{html:?}");
    let cut = probed(|_| vec![Step::Close]).await;
    assert!(matches!(cut, Err(ProbeError::Broken(_))), "{cut:?}");
    let server = Server::start(|_, _| vec![Step::Hang]).await;
    let impatient = Endpoint {
        request_timeout: Duration::from_millis(100),
        ..endpoint(server.address)
    };
    let silent = probe(&impatient).await;
    assert!(matches!(silent, Err(ProbeError::Silent(_))), "{silent:?}");
    assert_eq!(
        probe(&endpoint(nobody().await)).await,
        Err(ProbeError::Refused)
    );
}

/// Many servers answer whatever model a request names.
#[tokio::test]
async fn a_model_that_is_not_listed_is_told_by_those_that_are() {
    let listed = |ids: &[&str]| {
        let ids = ids.iter().map(|id| format!("{{\"id\":\"{id}\"}}"));
        format!("{{\"data\":[{}]}}", ids.collect::<Vec<_>>().join(","))
    };
    let told = async |list: String| {
        let server = Server::start(move |_, request| match request.path.as_str() {
            "/v1/models" => answer("200 OK", &list),
            _ => answer("404 Not Found", ""),
        })
        .await;
        let asked = Endpoint {
            model: "mine".into(),
            ..endpoint(server.address)
        };
        client::other_models(&asked).await
    };
    assert_eq!(told(listed(&["a", "mine"])).await, None);
    assert_eq!(told(listed(&[])).await, None);
    assert_eq!(told("no list".into()).await, None);
    assert_eq!(told(listed(&["a"])).await.as_deref(), Some("`a`"));
    let many = told(listed(&["a", "b", "c", "d"])).await;
    assert_eq!(many.as_deref(), Some("`a`, `b`, `c` and others"));
}

#[tokio::test]
async fn metrics_are_fetched_as_text() {
    let server = Server::start(|_, request| match request.path.as_str() {
        "/metrics" => answer("200 OK", "a 1\nb 2\n"),
        _ => answer("404 Not Found", ""),
    })
    .await;
    let endpoint = endpoint(server.address);
    assert_eq!(
        scrape(&endpoint, "/metrics").await,
        Ok("a 1\nb 2\n".to_owned())
    );
    let missing = scrape(&endpoint, "/other").await;
    assert!(
        matches!(missing, Err(ProbeError::Status { status: 404, .. })),
        "{missing:?}"
    );
    let huge = Server::start(|_, _| answer("200 OK", &"x".repeat(5 << 20))).await;
    let unbounded = scrape(&super::endpoint(huge.address), "/metrics").await;
    assert!(matches!(unbounded, Err(ProbeError::Unreadable(_))));
}
