//! The fake is a judge too: what is against GitHub's description does not pass it.

use fixture::github::{ACTIONS_TOKEN, Fake, State};
use github::{Client, Error, Repository, Token};
use serde_json::{Value, json};
use std::time::Duration;

fn client(fake: &Fake) -> Client {
    let token = Token::new(ACTIONS_TOKEN).unwrap();
    let repository = Repository::parse("octocat/Hello-World").unwrap();
    Client::new(&fake.url(), token, repository, Duration::ZERO).unwrap()
}

/// A fake with a pull request, a comment and a check run, both numbered as it numbers them.
fn fake() -> Fake {
    let fake = Fake::start();
    fake.state().open_pull(1, "ada", false, &["src/lib.rs"]);
    fake
}

async fn violations(of: impl AsyncFnOnce(&Client) -> Result<Value, Error>) -> Vec<String> {
    let fake = fake();
    let client = client(&fake);
    let comment: Value = client
        .post(
            &client.route("/issues/1/comments"),
            &json!({"body": "first"}),
        )
        .await
        .unwrap();
    assert_eq!(comment["user"]["login"], "github-actions[bot]");
    assert_eq!(fake.take_violations(), Vec::<String>::new());
    let _ = of(&client).await;
    fake.take_violations()
}

#[tokio::test]
async fn a_wrong_method_is_seen() {
    let found = violations(async |client: &Client| {
        let route = client.route("/issues/comments/1001");
        client.post(&route, &json!({"body": "second"})).await
    });
    let found = found.await;
    assert!(found[0].contains("no such method"), "{found:?}");
}

#[tokio::test]
async fn a_wrong_path_is_seen() {
    let found = violations(async |client: &Client| client.get(&client.route("/pull/1")).await);
    let found = found.await;
    assert!(found[0].contains("no such path"), "{found:?}");
}

fn check_run(more: Value) -> Value {
    let mut body = json!({"name": "infergate", "head_sha": fixture::github::sha(1)});
    body.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    body
}

#[tokio::test]
async fn bodies_are_held_against_the_description() {
    let annotation = json!({"path": "gates/tpot.toml", "start_line": 1, "end_line": 1,
        "annotation_level": "failure", "message": "slower"});
    let output = |count: usize| json!({"output": {"title": "t", "summary": "s", "annotations": vec![annotation.clone(); count]}});
    for (more, expect) in [
        (output(50), None),
        (output(51), Some("50")),
        (json!({"status": "running"}), Some("running")),
        (
            json!({"status": "completed", "conclusion": "neutral"}),
            None,
        ),
        (
            json!({"status": "completed", "conclusion": "green"}),
            Some("green"),
        ),
        (json!({"started_at": "now"}), Some("date-time")),
        (json!({"extrenal_id": "x"}), Some("extrenal_id")),
        (json!({"name": 7}), Some("/name")),
    ] {
        let body = check_run(more);
        let found = violations(async |client: &Client| {
            client.post(&client.route("/check-runs"), &body).await
        });
        let found = found.await;
        match expect {
            None => assert_eq!(found, Vec::<String>::new()),
            Some(part) => {
                let seen = found.iter().any(|violation| violation.contains(part));
                assert!(seen, "`{part}` is not in {found:?}");
            }
        }
    }
}

#[tokio::test]
async fn queries_are_held_against_the_description() {
    for (query, expect) in [
        ("?per_page=100&page=2", None),
        ("?per_page=many", Some("per_page")),
        ("?per-page=100", Some("per-page")),
    ] {
        let found = violations(async |client: &Client| {
            let route = client.route(&format!("/pulls/1/files{query}"));
            client.get(&route).await
        });
        let found = found.await;
        assert_eq!(found.is_empty(), expect.is_none(), "{query} {found:?}");
        let named = found
            .iter()
            .all(|v| expect.is_some_and(|part| v.contains(part)));
        assert!(named, "{found:?}");
    }
}

#[test]
fn every_answer_of_the_fake_is_one_of_githubs() {
    // Dropping a fake fails the test where an answer was none; this one reads each kind that others only write.
    let fake = fake();
    let mut state = fake.state();
    state.add_status(&fixture::github::sha(1), "other/ci", "success", "ada");
    state.pull(1).head_repository = None;
    let names = ["octocat", "ada", "bob", "mallory", "github-actions[bot]"];
    assert!(names.iter().all(|name| known(&state, name)));
    drop(state);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = client(&fake);
        for route in [
            "/pulls/1".to_owned(),
            "/pulls/1/files".into(),
            "/issues/1/comments".into(),
            "/issues/1/labels".into(),
            format!("/commits/{}/statuses", fixture::github::sha(1)),
            format!("/commits/{}/check-runs", fixture::github::sha(1)),
            "/collaborators/bob/permission".into(),
            "/compare/main...topic".into(),
        ] {
            let answer: Value = client.get(&client.route(&route)).await.unwrap();
            assert!(!answer.is_null());
        }
        for (route, status) in [
            ("/pulls/404", 404),
            ("/collaborators/nobody/permission", 404),
            ("/check-runs/404", 404),
            ("/issues/comments/404", 404),
        ] {
            let refused = client.get::<Value>(&client.route(route)).await;
            let found = refused.unwrap_err().status();
            assert_eq!(found, Some(status), "{route}");
        }
    });
}

fn known(state: &State, name: &str) -> bool {
    state.people.contains_key(name)
}
