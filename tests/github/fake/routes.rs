//! Which code answers which operation, who may ask for it, and pages of lists.

use super::openapi::{self, Operation, Spec};
use super::state::{Account, Grant, Recorded, State};
use super::{Answer, checks, issues, runs, shapes};
use serde_json::{Value, json};

/// Items of a page where nobody says, and the most that are given.
const PER_PAGE: (usize, usize) = (30, 100);

/// GitHub lists no more files of a pull request.
const MOST_FILES: usize = 3_000;

/// And no more of a comparison.
const MOST_COMPARED: usize = 300;

/// The path as the description has it: without Enterprise's prefix, and the repository by its name where a link
/// names it by its number.
pub(super) fn plain_path(path: &str) -> String {
    // Enterprise has GraphQL beside its REST API, not below it.
    match path {
        "/api/graphql" => return GRAPHQL.to_owned(),
        "/api/v3/graphql" => return path.to_owned(),
        _ => {}
    }
    let path = path.strip_prefix("/api/v3").unwrap_or(path);
    let by_number = format!("/repositories/{}/", shapes::REPOSITORY_ID);
    match path.strip_prefix(&by_number) {
        Some(rest) => format!("/repos/{}/{rest}", super::REPOSITORY),
        None => path.to_owned(),
    }
}

/// The path of GraphQL, which the REST API's description does not have.
pub(super) const GRAPHQL: &str = "/graphql";

/// The one question that this GraphQL knows: who holds the token. It tells apps as well.
pub(super) fn viewer(state: &State, request: &Recorded) -> Result<Answer, String> {
    let asked: Value = serde_json::from_str(&request.body).unwrap_or_default();
    if asked != json!({"query": "query { viewer { databaseId } }"}) || !request.is_json {
        return Err(format!("POST {GRAPHQL}: {}", request.body));
    }
    Ok(match account(state, request) {
        Ok(account) => {
            let id = state.people[&account.login].id;
            Answer::of(200, json!({"data": {"viewer": {"databaseId": id}}}))
        }
        Err(refusal) => refusal,
    })
}

/// What an operation asks of a token: the permission's name in `permissions:` and the level.
fn needed(operation: &Operation) -> Option<(&'static str, Grant)> {
    let level = match operation.method.as_str() {
        "get" => Grant::Read,
        _ => Grant::Write,
    };
    let template = operation.template.strip_prefix("/repos/{owner}/{repo}/")?;
    let name = match template {
        t if t.starts_with("issues/") || t.starts_with("pulls/") => "pull_requests",
        t if t.contains("check-runs") => "checks",
        t if t.contains("status") => "statuses",
        t if t.starts_with("actions/") => "actions",
        t if t.starts_with("collaborators/") => "metadata",
        _ => "contents",
    };
    Some((name, level))
}

/// Authentication, permission, and then the operation itself.
pub(super) fn carry_out(
    state: &mut State,
    spec: &Spec,
    operation: &Operation,
    request: &Recorded,
) -> Answer {
    let account = match account(state, request) {
        Ok(account) => account,
        Err(refusal) => return refusal,
    };
    let is_ours = operation.parameters.get("owner").is_none_or(|owner| {
        format!("{owner}/{}", operation.parameter("repo")).eq_ignore_ascii_case(super::REPOSITORY)
    });
    if !is_ours {
        return Answer::error(404, "Not Found");
    }
    if let Some(refusal) = forbidden(&account, operation) {
        return refusal;
    }
    let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
    let asked = Asked {
        spec,
        operation,
        request,
        body: &body,
        account: &account,
    };
    dispatch(state, &asked)
}

/// A request that may be carried out.
pub(super) struct Asked<'a> {
    pub(super) spec: &'a Spec,
    pub(super) operation: &'a Operation,
    pub(super) request: &'a Recorded,
    pub(super) body: &'a Value,
    pub(super) account: &'a Account,
}

impl Asked<'_> {
    pub(super) fn number(&self, name: &str) -> u64 {
        self.operation.parameter(name).parse().unwrap_or(0)
    }

    pub(super) fn text(&self, name: &str) -> String {
        self.body[name].as_str().unwrap_or_default().to_owned()
    }

    /// One page of a list, with a link to the next.
    pub(super) fn page(&self, items: Vec<Value>) -> Answer {
        let (page, headers) = self.cut(&items);
        let mut answer = Answer::of(200, Value::Array(page));
        answer.headers = headers;
        answer
    }

    /// The items of the page that is asked for, and the header that leads on.
    pub(super) fn cut(&self, items: &[Value]) -> (Vec<Value>, Vec<(&'static str, String)>) {
        let query = openapi::query(&self.request.query);
        let number = |name: &str| {
            let pair = query.iter().find(|(key, _)| key == name)?;
            pair.1.parse::<usize>().ok()
        };
        let size = number("per_page")
            .unwrap_or(PER_PAGE.0)
            .clamp(1, PER_PAGE.1);
        let page = number("page").unwrap_or(1).max(1);
        let shown: Vec<Value> = items
            .iter()
            .skip((page - 1) * size)
            .take(size)
            .cloned()
            .collect();
        let mut headers = Vec::new();
        if page * size < items.len() {
            // As GitHub does it: the repository by its number.
            let repository = format!("/repos/{}/", super::REPOSITORY);
            let path = self.request.path.replacen(
                &repository,
                &format!("/repositories/{}/", shapes::REPOSITORY_ID),
                1,
            );
            let last = items.len().div_ceil(size);
            let link = |page: usize, rel: &str| {
                let host = &self.request.host;
                format!("<http://{host}{path}?per_page={size}&page={page}>; rel=\"{rel}\"")
            };
            headers.push((
                "link",
                format!("{}, {}", link(page + 1, "next"), link(last, "last")),
            ));
        }
        (shown, headers)
    }
}

fn account(state: &State, request: &Recorded) -> Result<Account, Answer> {
    let Some(header) = &request.authorization else {
        return Err(Answer::error(401, "Requires authentication"));
    };
    let token = header.strip_prefix("Bearer ").unwrap_or_default();
    let known = state.accounts.get(token).cloned();
    // GitHub does not repeat the token; a proxy before an Enterprise server may.
    known.ok_or_else(|| Answer::error(401, &format!("Bad credentials: {token}")))
}

fn forbidden(account: &Account, operation: &Operation) -> Option<Answer> {
    let (name, level) = needed(operation)?;
    if account.grants.get(name).is_some_and(|has| *has >= level) {
        return None;
    }
    let mut refusal = Answer::error(403, "Resource not accessible by integration");
    let level = match level {
        Grant::Read => "read",
        Grant::Write => "write",
    };
    let accepted = format!("{name}={level}");
    refusal
        .headers
        .push(("x-accepted-github-permissions", accepted));
    Some(refusal)
}

fn dispatch(state: &mut State, asked: &Asked<'_>) -> Answer {
    let template = &asked.operation.template;
    let route = template
        .strip_prefix("/repos/{owner}/{repo}/")
        .unwrap_or(template);
    match (asked.operation.method.as_str(), route) {
        ("get", "/user") => current_user(state, asked),
        ("get", "pulls/{pull_number}") => pull(state, asked),
        ("get", "pulls/{pull_number}/files") => files(state, asked),
        ("get", "collaborators/{username}/permission") => permission(state, asked),
        ("get", "compare/{basehead}") => compare(state, asked),
        ("post", "actions/workflows/{workflow_id}/dispatches") => workflow(state, asked),
        ("get", "actions/workflows/{workflow_id}/runs") => runs::list(state, asked),
        ("post", "actions/runs/{run_id}/cancel") => runs::cancel(state, asked),
        ("get", "branches/{branch}") => runs::branch(state, asked),
        ("get", "commits/{ref}") => runs::commit(state, asked),
        ("post", "statuses/{sha}") => checks::add_status(state, asked),
        ("get", "commits/{ref}/statuses") => checks::statuses(state, asked),
        ("post", "check-runs") => checks::create(state, asked),
        ("get", "check-runs/{check_run_id}") => checks::get(state, asked),
        ("patch", "check-runs/{check_run_id}") => checks::update(state, asked),
        ("get", "commits/{ref}/check-runs") => checks::list(state, asked),
        ("get", "issues/{issue_number}/comments") => issues::comments(state, asked),
        ("post", "issues/{issue_number}/comments") => issues::add_comment(state, asked),
        ("get", "issues/comments/{comment_id}") => issues::comment(state, asked),
        ("patch", "issues/comments/{comment_id}") => issues::edit_comment(state, asked),
        ("delete", "issues/comments/{comment_id}") => issues::delete_comment(state, asked),
        ("get", "issues/{issue_number}/events") => issues::events(state, asked),
        ("get", "issues/{issue_number}/labels") => issues::labels(state, asked),
        ("post", "issues/{issue_number}/labels") => issues::add_labels(state, asked),
        ("delete", "issues/{issue_number}/labels/{name}") => issues::remove_label(state, asked),
        (method, route) => panic!("this GitHub cannot {method} {route} yet"),
    }
}

fn current_user(state: &State, asked: &Asked<'_>) -> Answer {
    if asked.account.is_app {
        return Answer::error(403, "Resource not accessible by integration");
    }
    let mut user = asked
        .spec
        .example("private-user-response-with-public-profile-information");
    let login = &asked.account.login;
    user["login"] = json!(login);
    user["id"] = json!(state.people[login].id);
    Answer::of(200, user)
}

fn pull(state: &mut State, asked: &Asked<'_>) -> Answer {
    let number = asked.number("pull_number");
    let Some(pull) = state.pulls.get(&number) else {
        return Answer::error(404, "Not Found");
    };
    let answer = Answer::of(200, shapes::pull(state, asked.spec, number, pull));
    match state.moves.take() {
        Some((of, 1, sha)) if of == number => state.pull(number).head_sha = sha,
        Some((of, left, sha)) if of == number => state.moves = Some((of, left - 1, sha)),
        others => state.moves = others,
    }
    answer
}

fn compare(state: &State, asked: &Asked<'_>) -> Answer {
    let basehead = asked.operation.parameter("basehead");
    let (_, head) = basehead.split_once("...").unwrap();
    let of_head = state.pulls.values().find(|pull| pull.head_sha == head);
    let files = of_head.map(|pull| &pull.files);
    let files = files.or_else(|| state.former.get(head));
    let listed = files.into_iter().flatten().take(MOST_COMPARED);
    let file = |(name, previous): &(String, Option<String>)| {
        shapes::file(asked.spec, name, previous.as_deref())
    };
    let files = listed.map(file).collect();
    let merge_base = state.merge_bases.get(head).unwrap_or(&state.merge_base);
    Answer::of(200, shapes::comparison(asked.spec, merge_base, files))
}

fn files(state: &State, asked: &Asked<'_>) -> Answer {
    let Some(pull) = state.pulls.get(&asked.number("pull_number")) else {
        return Answer::error(404, "Not Found");
    };
    let listed = pull.files.iter().take(MOST_FILES);
    let file = |(name, previous): &(String, Option<String>)| {
        shapes::file(asked.spec, name, previous.as_deref())
    };
    asked.page(listed.map(file).collect())
}

fn permission(state: &State, asked: &Asked<'_>) -> Answer {
    let login = asked.operation.parameter("username");
    match state.people.get(login) {
        None => Answer::error(404, &format!("{login} is not a user")),
        Some(person) => Answer::of(200, shapes::permission(login, person)),
    }
}

fn workflow(state: &mut State, asked: &Asked<'_>) -> Answer {
    let mut body = asked.body.clone();
    body["workflow"] = json!(asked.operation.parameter("workflow_id"));
    state.dispatches.push(body);
    Answer::empty(204)
}
