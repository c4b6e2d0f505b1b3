//! One story through somebody else's validator ([`validator`](fixture::prism)); the whole life of a pull request
//! passes it in `tests/it/story`.

use super::job::{Job, event};
use fixture::Ended;
use fixture::github::{ACTIONS_TOKEN, REPOSITORY, sha};
use fixture::prism::{self, Prism};
use github::{Client, Repository, Token};
use serde_json::{Value, json};
use std::time::Duration;

#[test]
fn a_story_passes_the_full_validator() {
    let Some(packages) = prism::packages() else {
        return;
    };
    let job = Job::with_pull("mallory", true, &["src/lib.rs"]);
    let prism = Prism::start(&packages, &job.fake.url());
    // Opened by a stranger: labelled, not started.
    let opened = event("opened", None, "mallory", &sha(12));
    label(&job, &prism, &opened);
    assert!(job.started().is_empty());
    // Approved by a maintainer: started, and authorised.
    job.add_label("gpu-approved");
    let approved = event("labeled", Some("gpu-approved"), "ada", &sha(12));
    label(&job, &prism, &approved);
    assert_eq!(job.started().len(), 1);
    let mut authorize = job.command(&["github", "authorize", "--pr", "12", "--head-sha", &sha(12)]);
    authorize.env("GITHUB_API_URL", &prism.url);
    let ended = Ended::of(&authorize.output().unwrap()).expect(0);
    assert!(
        ended.stdout.contains("approved by @ada"),
        "{}",
        ended.stdout
    );
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(publish(&prism.url));
    assert_eq!(job.fake.state().comments[0].body, "second");
    assert_eq!(job.fake.state().check_runs[0]["conclusion"], "success");
    // The paths are reverted: the label goes.
    job.fake.state().pull(12).files.clear();
    job.push(13);
    let pushed = event("synchronize", None, "mallory", &sha(13));
    label(&job, &prism, &pushed);
    assert!(job.labels().is_empty());
    // The validator is awake: it lets nothing through that GitHub would not.
    runtime.block_on(mistake(&prism.url));
}

fn label(job: &Job, prism: &Prism, event: &Value) {
    job.project.write("event.json", &event.to_string());
    let mut command = job.command(&["github", "label", "--patience", "0"]);
    command
        .env("GITHUB_API_URL", &prism.url)
        .env("GITHUB_EVENT_NAME", "pull_request_target")
        .env("GITHUB_EVENT_PATH", job.project.path("event.json"));
    Ended::of(&command.output().unwrap()).expect(0);
}

fn client(url: &str) -> Client {
    let token = Token::new(ACTIONS_TOKEN).unwrap();
    let repository = Repository::parse(REPOSITORY).unwrap();
    Client::new(url, token, repository, Duration::ZERO).unwrap()
}

/// A comment and a check run, each created and then brought up to date.
async fn publish(url: &str) {
    let client = client(url);
    let comments = client.route("/issues/12/comments");
    let comment: Value = client
        .post(&comments, &json!({"body": "first"}))
        .await
        .unwrap();
    let route = client.route(&format!("/issues/comments/{}", comment["id"]));
    let _: Value = client
        .patch(&route, &json!({"body": "second"}))
        .await
        .unwrap();
    let all: Vec<Value> = client.pages(&comments, 10).await.unwrap();
    assert_eq!(all.len(), 1);
    let run = json!({"name": "infergate", "head_sha": sha(12), "status": "in_progress",
        "external_id": "infergate:12", "started_at": "2026-11-21T00:00:00Z"});
    let run: Value = client
        .post(&client.route("/check-runs"), &run)
        .await
        .unwrap();
    let annotation = json!({"path": "gates/tpot.toml", "start_line": 1, "end_line": 1,
        "annotation_level": "notice", "message": "faster"});
    let end = json!({"conclusion": "success", "output": {"title": "pass", "summary": "s",
        "annotations": [annotation]}});
    let route = client.route(&format!("/check-runs/{}", run["id"]));
    let _: Value = client.patch(&route, &end).await.unwrap();
}

async fn mistake(url: &str) {
    let client = client(url);
    let run = json!({"name": "infergate", "head_sha": sha(13), "conclusion": "green"});
    let refused = client
        .post::<_, Value>(&client.route("/check-runs"), &run)
        .await;
    let status = refused.unwrap_err().status();
    assert_eq!(status, Some(422));
}
