//! Check runs and commit statuses.

use super::routes::Asked;
use super::state::{State, Status};
use super::{Answer, shapes};
use serde_json::{Value, json};

/// Annotations that one request may bring.
const MOST_ANNOTATIONS: usize = 50;
/// Id of the app that Actions is.
const APP: u64 = 15_368;

pub(super) fn add_status(state: &mut State, asked: &Asked<'_>) -> Answer {
    let description = asked.text("description");
    if description.chars().count() > 140 {
        return Answer::error(422, "Validation Failed");
    }
    let status = Status {
        sha: asked.operation.parameter("sha").to_owned(),
        context: asked.text("context"),
        state: asked.text("state"),
        description,
        creator: asked.account.login.clone(),
    };
    let answer = Answer::of(201, shapes::status(state, asked.spec, &status));
    state.statuses.push(status);
    answer
}

/// The newest first.
pub(super) fn statuses(state: &State, asked: &Asked<'_>) -> Answer {
    let sha = asked.operation.parameter("ref");
    let of = state.statuses.iter().rev().filter(|s| s.sha == sha);
    asked.page(of.map(|s| shapes::status(state, asked.spec, s)).collect())
}

/// What a request may not say.
fn refused(asked: &Asked<'_>) -> Option<Answer> {
    if !asked.account.is_app {
        let refusal = "You must authenticate via a GitHub App.";
        return Some(Answer::error(403, refusal));
    }
    let annotations = asked.body["output"]["annotations"].as_array();
    let too_many = annotations.is_some_and(|list| list.len() > MOST_ANNOTATIONS);
    too_many.then(|| Answer::error(422, "Invalid request: no more than 50 annotations"))
}

pub(super) fn create(state: &mut State, asked: &Asked<'_>) -> Answer {
    if let Some(refusal) = refused(asked) {
        return refusal;
    }
    let mut run = asked
        .spec
        .example("check-run-example-of-in-progress-conclusion");
    run["id"] = json!(state.fresh_id());
    run["name"] = asked.body["name"].clone();
    run["head_sha"] = asked.body["head_sha"].clone();
    run["external_id"] = json!("");
    run["app"]["id"] = json!(APP);
    run["app"]["slug"] = json!("github-actions");
    run["status"] = json!("queued");
    run["conclusion"] = Value::Null;
    run["completed_at"] = Value::Null;
    run["output"] = json!({"title": null, "summary": null, "text": null, "annotations_count": 0,
        "annotations_url": "https://api.github.com/annotations"});
    run["html_url"] = json!(format!(
        "https://github.com/{}/runs/{}",
        super::REPOSITORY,
        run["id"]
    ));
    change(&mut run, asked.body);
    state.check_runs.push(run.clone());
    Answer::of(201, shown(run))
}

fn position(state: &State, asked: &Asked<'_>) -> Option<usize> {
    let id = asked.number("check_run_id");
    state.check_runs.iter().position(|run| run["id"] == id)
}

pub(super) fn get(state: &State, asked: &Asked<'_>) -> Answer {
    match position(state, asked) {
        None => Answer::error(404, "Not Found"),
        Some(at) => Answer::of(200, shown(state.check_runs[at].clone())),
    }
}

pub(super) fn update(state: &mut State, asked: &Asked<'_>) -> Answer {
    if let Some(refusal) = refused(asked) {
        return refusal;
    }
    match position(state, asked) {
        None => Answer::error(404, "Not Found"),
        Some(at) => {
            change(&mut state.check_runs[at], asked.body);
            Answer::of(200, shown(state.check_runs[at].clone()))
        }
    }
}

/// Sets what the request says; annotations are added to those that are there, under a key of our own.
fn change(run: &mut Value, body: &Value) {
    for key in [
        "name",
        "status",
        "details_url",
        "external_id",
        "started_at",
        "completed_at",
    ] {
        if let Some(value) = body.get(key) {
            run[key] = value.clone();
        }
    }
    if let Some(conclusion) = body.get("conclusion") {
        run["conclusion"] = conclusion.clone();
        run["status"] = json!("completed");
        if run["completed_at"].is_null() {
            run["completed_at"] = json!("2026-11-21T00:00:00Z");
        }
    }
    let Some(output) = body.get("output") else {
        return;
    };
    for key in ["title", "summary", "text"] {
        if let Some(value) = output.get(key) {
            run["output"][key] = value.clone();
        }
    }
    let mut all = run["annotations"].as_array().cloned().unwrap_or_default();
    all.extend(
        output["annotations"]
            .as_array()
            .cloned()
            .unwrap_or_default(),
    );
    run["output"]["annotations_count"] = json!(all.len());
    run["annotations"] = json!(all);
}

/// As GitHub answers it: the annotations lie elsewhere.
fn shown(mut run: Value) -> Value {
    if let Some(run) = run.as_object_mut() {
        run.remove("annotations");
    }
    run
}

/// The newest first; `check_name` chooses.
pub(super) fn list(state: &State, asked: &Asked<'_>) -> Answer {
    let sha = asked.operation.parameter("ref");
    let query = super::openapi::query(&asked.request.query);
    let name = query.iter().find(|(key, _)| key == "check_name");
    let fits = |run: &&Value| {
        run["head_sha"] == sha && name.is_none_or(|(_, name)| run["name"] == name.as_str())
    };
    let runs: Vec<Value> = state
        .check_runs
        .iter()
        .rev()
        .filter(fits)
        .cloned()
        .map(shown)
        .collect();
    let (page, headers) = asked.cut(&runs);
    let mut answer = Answer::of(200, json!({"total_count": runs.len(), "check_runs": page}));
    answer.headers = headers;
    answer
}
