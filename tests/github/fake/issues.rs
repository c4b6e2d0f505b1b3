//! Comments and labels.

use super::routes::Asked;
use super::state::{Comment, Grant, State};
use super::{Answer, shapes};
use serde_json::{Value, json};

/// Characters of a comment.
const MOST_BODY: usize = 65_536;

fn known_issue(state: &State, asked: &Asked<'_>) -> Result<u64, Answer> {
    let number = asked.number("issue_number");
    let is_known = state.pulls.contains_key(&number);
    is_known
        .then_some(number)
        .ok_or_else(|| Answer::error(404, "Not Found"))
}

fn too_long(body: &str) -> Option<Answer> {
    (body.chars().count() > MOST_BODY).then(|| {
        let mut refusal = Answer::error(422, "Validation Failed");
        if let Some(body) = &mut refusal.body {
            body["errors"] = json!([{
                "resource": "IssueComment", "code": "unprocessable", "field": "data",
                "message": "Body is too long (maximum is 65536 characters)",
            }]);
        }
        refusal
    })
}

pub(super) fn comments(state: &State, asked: &Asked<'_>) -> Answer {
    let number = match known_issue(state, asked) {
        Ok(number) => number,
        Err(refusal) => return refusal,
    };
    let of = state.comments.iter().filter(|c| c.issue == number);
    asked.page(of.map(|c| shapes::comment(state, asked.spec, c)).collect())
}

pub(super) fn add_comment(state: &mut State, asked: &Asked<'_>) -> Answer {
    let issue = match known_issue(state, asked) {
        Ok(number) => number,
        Err(refusal) => return refusal,
    };
    let body = asked.text("body");
    if let Some(refusal) = too_long(&body) {
        return refusal;
    }
    let comment = Comment {
        id: state.fresh_id(),
        issue,
        author: asked.account.login.clone(),
        body,
    };
    let answer = Answer::of(201, shapes::comment(state, asked.spec, &comment));
    state.comments.push(comment);
    answer
}

fn position(state: &State, asked: &Asked<'_>) -> Option<usize> {
    let id = asked.number("comment_id");
    state.comments.iter().position(|comment| comment.id == id)
}

pub(super) fn comment(state: &State, asked: &Asked<'_>) -> Answer {
    match position(state, asked) {
        None => Answer::error(404, "Not Found"),
        Some(at) => Answer::of(200, shapes::comment(state, asked.spec, &state.comments[at])),
    }
}

pub(super) fn edit_comment(state: &mut State, asked: &Asked<'_>) -> Answer {
    let body = asked.text("body");
    match (position(state, asked), too_long(&body)) {
        (None, _) => Answer::error(404, "Not Found"),
        (_, Some(refusal)) => refusal,
        (Some(at), None) => {
            state.comments[at].body = body;
            Answer::of(200, shapes::comment(state, asked.spec, &state.comments[at]))
        }
    }
}

pub(super) fn delete_comment(state: &mut State, asked: &Asked<'_>) -> Answer {
    match position(state, asked) {
        None => Answer::error(404, "Not Found"),
        Some(at) => {
            state.comments.remove(at);
            Answer::empty(204)
        }
    }
}

fn shown(labels: &[String]) -> Value {
    labels.iter().map(|name| shapes::label(name)).collect()
}

pub(super) fn labels(state: &State, asked: &Asked<'_>) -> Answer {
    match known_issue(state, asked) {
        Err(refusal) => refusal,
        Ok(number) => {
            let labels = state.pulls[&number].labels.iter();
            asked.page(labels.map(|name| shapes::label(name)).collect())
        }
    }
}

pub(super) fn events(state: &State, asked: &Asked<'_>) -> Answer {
    match known_issue(state, asked) {
        Err(refusal) => refusal,
        Ok(number) => {
            let labelled = state.pulls[&number].labelled.iter();
            let event =
                |(label, by): &(String, String)| shapes::labelled(state, asked.spec, label, by);
            asked.page(labelled.map(event).collect())
        }
    }
}

pub(super) fn add_labels(state: &mut State, asked: &Asked<'_>) -> Answer {
    let number = match known_issue(state, asked) {
        Ok(number) => number,
        Err(refusal) => return refusal,
    };
    // Case does not tell labels apart.
    let has = |labels: &[String], name: &str| labels.iter().any(|l| l.eq_ignore_ascii_case(name));
    for name in asked.body["labels"].as_array().into_iter().flatten() {
        let name = name.as_str().unwrap_or_default();
        if !has(&state.labels, name) {
            // To make one is more than to add one.
            if asked.account.grants.get("issues") != Some(&Grant::Write) {
                let words = "You do not have permission to create labels on this repository.";
                return Answer::error(403, words);
            }
            state.labels.push(name.to_owned());
        }
        let pull = state.pull(number);
        if !has(&pull.labels, name) {
            pull.labels.push(name.to_owned());
            let by = asked.account.login.clone();
            pull.labelled.push((name.to_owned(), by));
        }
    }
    Answer::of(200, shown(&state.pulls[&number].labels))
}

pub(super) fn remove_label(state: &mut State, asked: &Asked<'_>) -> Answer {
    let number = match known_issue(state, asked) {
        Ok(number) => number,
        Err(refusal) => return refusal,
    };
    let name = asked.operation.parameter("name");
    let labels = &mut state.pull(number).labels;
    let before = labels.len();
    labels.retain(|label| !label.eq_ignore_ascii_case(name));
    if labels.len() == before {
        return Answer::error(404, "Label does not exist");
    }
    Answer::of(200, shown(labels))
}
