//! Runs of workflows, branches and commits.

use super::Answer;
use super::routes::Asked;
use super::state::{Run, State};
use serde_json::{Value, json};

/// The newest first.
pub(super) fn list(state: &State, asked: &Asked<'_>) -> Answer {
    let shown = |run: &Run| {
        let mut value = asked.spec.example("workflow-run");
        value["id"] = json!(run.id);
        value["display_title"] = json!(run.title);
        value["status"] = json!(run.status);
        value["event"] = json!("workflow_dispatch");
        value
    };
    let runs: Vec<Value> = state.runs.iter().rev().map(shown).collect();
    let (page, headers) = asked.cut(&runs);
    let mut answer = Answer::of(
        200,
        json!({"total_count": runs.len(), "workflow_runs": page}),
    );
    answer.headers = headers;
    answer
}

pub(super) fn cancel(state: &mut State, asked: &Asked<'_>) -> Answer {
    let id = asked.number("run_id");
    match state.runs.iter_mut().find(|run| run.id == id) {
        None => Answer::error(404, "Not Found"),
        Some(run) if run.status == "completed" => {
            Answer::error(409, "Cannot cancel a workflow run that is completed.")
        }
        Some(run) => {
            run.status = "completed".into();
            Answer::of(202, json!({}))
        }
    }
}

pub(super) fn branch(state: &State, asked: &Asked<'_>) -> Answer {
    let name = asked.operation.parameter("branch");
    let Some(sha) = state.branches.get(name) else {
        return Answer::error(404, "Branch not found");
    };
    let mut branch = asked.spec.example("branch-get");
    branch["name"] = json!(name);
    set(state, &mut branch["commit"], sha);
    Answer::of(200, branch)
}

pub(super) fn commit(state: &State, asked: &Asked<'_>) -> Answer {
    let mut commit = asked.spec.example("commit");
    // GitHub's own example lacks fields here that GitHub's own schema requires.
    commit["files"] = json!([]);
    set(state, &mut commit, asked.operation.parameter("ref"));
    Answer::of(200, commit)
}

/// Each commit has a tree of its own, but where a test says otherwise.
fn set(state: &State, commit: &mut Value, sha: &str) {
    let tree = state.trees.get(sha).map_or(sha, String::as_str);
    commit["sha"] = json!(sha);
    commit["commit"]["tree"]["sha"] = json!(tree);
}
