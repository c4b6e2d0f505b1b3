//! GitHub's objects as it answers them: its own examples with our state's values in their places.

use super::openapi::Spec;
use super::state::{Comment, Person, Pull, State, Status};
use serde_json::{Value, json};

pub(super) const REPOSITORY_ID: u64 = 1_296_269;

pub(super) fn user(login: &str, person: Option<&Person>) -> Value {
    let (id, kind) = person.map_or((9_999, "User"), |p| (p.id, p.kind.as_str()));
    // Apps have brackets in their names.
    let encoded = login.replace('[', "%5B").replace(']', "%5D");
    let url = format!("https://api.github.com/users/{encoded}");
    json!({
        "login": login, "id": id, "node_id": "MDQ6VXNlcjE=", "type": kind, "site_admin": false,
        "avatar_url": "https://github.com/images/error/octocat_happy.gif", "gravatar_id": "",
        "url": url, "html_url": format!("https://github.com/{encoded}"),
        "followers_url": format!("{url}/followers"),
        "following_url": format!("{url}/following{{/other_user}}"),
        "gists_url": format!("{url}/gists{{/gist_id}}"),
        "starred_url": format!("{url}/starred{{/owner}}{{/repo}}"),
        "subscriptions_url": format!("{url}/subscriptions"),
        "organizations_url": format!("{url}/orgs"), "repos_url": format!("{url}/repos"),
        "events_url": format!("{url}/events{{/privacy}}"),
        "received_events_url": format!("{url}/received_events"),
    })
}

pub(super) fn label(name: &str) -> Value {
    json!({
        "id": 208_045_946, "node_id": "MDU6TGFiZWwyMDgwNDU5NDY=", "name": name, "color": "ededed",
        "url": format!("https://api.github.com/repos/{}/labels/x", super::REPOSITORY),
        "description": null, "default": false,
    })
}

/// The event that this person added this label.
pub(super) fn labelled(state: &State, spec: &Spec, label: &str, by: &str) -> Value {
    let mut value = spec.example("issue-event-for-issue-items")[0].clone();
    value["event"] = json!("labeled");
    value["actor"] = user(by, state.people.get(by));
    value["commit_id"] = Value::Null;
    value["commit_url"] = Value::Null;
    value["label"] = json!({"name": label, "color": "ededed"});
    value
}

pub(super) fn pull(state: &State, spec: &Spec, number: u64, pull: &Pull) -> Value {
    let mut value = spec.example("pull-request");
    let author = user(&pull.author, state.people.get(&pull.author));
    value["number"] = json!(number);
    value["state"] = json!(if pull.is_open { "open" } else { "closed" });
    value["title"] = json!(pull.title);
    value["user"] = author.clone();
    value["labels"] = pull.labels.iter().map(|name| label(name)).collect();
    value["changed_files"] = json!(pull.changed_files.unwrap_or(pull.files.len()));
    // GitHub's own example lacks a field here that GitHub's own schema requires.
    value["requested_teams"] = json!([]);
    let mut repository = value["base"]["repo"].clone();
    repository["full_name"] = json!(super::REPOSITORY);
    repository["id"] = json!(REPOSITORY_ID);
    repository["default_branch"] = json!(state.default_branch);
    value["base"]["ref"] = json!(pull.base_branch);
    value["base"]["sha"] = json!(state.merge_base);
    value["base"]["repo"] = repository.clone();
    value["head"]["ref"] = json!(pull.head_branch);
    value["head"]["label"] = json!(format!("{}:{}", pull.author, pull.head_branch));
    value["head"]["sha"] = json!(pull.head_sha);
    value["head"]["user"] = author;
    value["head"]["repo"] = match &pull.head_repository {
        None => Value::Null,
        Some(name) => {
            let mut head = repository;
            head["full_name"] = json!(name);
            head["fork"] = json!(name != super::REPOSITORY);
            head
        }
    };
    value
}

pub(super) fn file(spec: &Spec, name: &str, previous: Option<&str>) -> Value {
    let mut value = spec.example("diff-entry-items")[0].clone();
    value["filename"] = json!(name);
    value["status"] = json!("modified");
    if let Some(previous) = previous {
        value["status"] = json!("renamed");
        value["previous_filename"] = json!(previous);
    }
    value
}

pub(super) fn comment(state: &State, spec: &Spec, comment: &Comment) -> Value {
    let mut value = spec.example("issue-comment");
    value["id"] = json!(comment.id);
    value["body"] = json!(comment.body);
    value["user"] = user(&comment.author, state.people.get(&comment.author));
    value["html_url"] = json!(format!(
        "https://github.com/{}/pull/{}#issuecomment-{}",
        super::REPOSITORY,
        comment.issue,
        comment.id
    ));
    value
}

pub(super) fn status(state: &State, spec: &Spec, status: &Status) -> Value {
    let mut value = spec.example("status");
    value["context"] = json!(status.context);
    value["state"] = json!(status.state);
    value["description"] = json!(status.description);
    value["creator"] = user(&status.creator, state.people.get(&status.creator));
    value
}

pub(super) fn comparison(spec: &Spec, merge_base: &str, files: Vec<Value>) -> Value {
    let mut value = spec.example("commit-comparison");
    value["files"] = Value::Array(files);
    value["merge_base_commit"]["sha"] = json!(merge_base);
    value
}

pub(super) fn permission(login: &str, person: &Person) -> Value {
    let mut user = user(login, Some(person));
    let may = |levels: &[&str]| levels.contains(&person.permission.as_str());
    user["permissions"] = json!({
        "pull": may(&["read", "write", "admin"]), "push": may(&["write", "admin"]),
        "admin": may(&["admin"]), "triage": false, "maintain": false,
    });
    user["role_name"] = json!(person.permission);
    json!({"permission": person.permission, "role_name": person.permission, "user": user})
}
