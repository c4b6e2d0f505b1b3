//! The GitHub side of a publication: the live head, the comment, the check run or a status in its place.
//!
//! Each part is done whatever became of the one before it; what could not be done is a remark.

use super::said::{Said, head_mark};
use super::{CHECK, MARKER, PublishOptions, Subject};
use crate::github::{
    self, CheckAnnotation, CheckName, CheckRun, CheckText, Client, NewStatus, Sha, State,
    StickyComment,
};
use crate::report::Conclusion;

/// What was posted.
#[derive(Debug, Default)]
pub(super) struct Posted {
    pub(super) comment_url: Option<String>,
    pub(super) check_url: Option<String>,
    /// One of them was to be there, and is not.
    pub(super) is_missing: bool,
}

/// The pull request just before anything is said about it.
#[derive(Debug, Default)]
pub(super) struct Live {
    /// `None`: GitHub did not say.
    pub(super) head: Option<Sha>,
    pub(super) notices: Vec<String>,
}

pub(super) async fn live(
    client: &Client,
    options: &PublishOptions,
    remarks: &mut Vec<String>,
) -> Live {
    let mut live = Live::default();
    match client.pull(options.pull).await {
        Ok(pull) => live.head = Some(pull.head_sha),
        Err(error) => remarks.push(format!("whether the head has moved is not known: {error}")),
    }
    if !matches!(options.subject, Subject::From(_)) || live.head.is_none() {
        return live;
    }
    match client.changed_files(options.pull).await {
        Ok(files) => {
            let changes_gates = files.iter().any(|file| {
                let before = file.previous_filename.as_deref().unwrap_or_default();
                file.filename.starts_with("gates/") || before.starts_with("gates/")
            });
            live.notices.extend(changes_gates.then(|| {
                "this pull request changes gates/: it is judged with main's, and the change counts once it is merged"
                    .to_owned()
            }));
        }
        Err(error) => remarks.push(format!(
            "whether the pull request changes gates/ is not known: {error}"
        )),
    }
    live
}

/// The comment, then the check run.
pub(super) async fn post(
    client: &Client,
    options: &PublishOptions,
    said: &Said,
    moved_to: Option<&str>,
    remarks: &mut Vec<String>,
) -> Posted {
    let mut posted = Posted::default();
    if let Some(why) = keeps_silent(client, options, moved_to).await {
        remarks.push(why);
        return posted;
    }
    if options.wants_comment {
        match comment(client, options, said, moved_to, remarks).await {
            Ok(url) => posted.comment_url = url,
            Err(error) => {
                posted.is_missing = true;
                remarks.push(format!("the comment could not be posted: {error}"));
            }
        }
    }
    match check(client, options, said, remarks).await {
        Ok(url) => posted.check_url = url,
        Err(error) => {
            posted.is_missing = true;
            remarks.push(format!("the check run could not be posted: {error}"));
        }
    }
    posted
}

/// Why nothing at all is said; `None`: it is.
async fn keeps_silent(
    client: &Client,
    options: &PublishOptions,
    moved_to: Option<&str>,
) -> Option<String> {
    match (&options.subject, moved_to) {
        // It satisfies a required check; the newer head's own event says what that one needs.
        (Subject::NotNeeded, Some(newer)) => Some(format!(
            "the head is {newer} by now: nothing is said of what an older one needs"
        )),
        (Subject::Cancelled, _) if anothers(client, options).await.is_some() => Some(
            "another run of this commit goes on: nothing is said of the one that was ended".into(),
        ),
        // Somebody who may write started it by hand; that nobody else may is no news, and no verdict. That nothing
        // was needed was said of another branch or by other rules, and would satisfy a required check.
        (Subject::NotRun(_), _) => {
            let said = anothers(client, options).await?;
            (said.conclusion.as_deref() != Some("skipped")).then(|| {
                "another run said something of this commit: that it may not run is not said".into()
            })
        }
        _ => None,
    }
}

/// Its address; `None` where an existing one is left as it is.
async fn comment(
    client: &Client,
    options: &PublishOptions,
    said: &Said,
    moved_to: Option<&str>,
    remarks: &mut Vec<String>,
) -> Result<Option<String>, github::Error> {
    let is_result = matches!(options.subject, Subject::From(_));
    if let Some(newer) = moved_to.filter(|_| !is_result) {
        remarks.push(format!(
            "the head is {newer} by now: no comment says that of an older one"
        ));
        return Ok(None);
    }
    // Where GitHub does not say who we are, its answer to a new comment does. None is taken for ours before.
    let author = client.known_id().await?;
    let found = match author {
        Some(author) => client.sticky_comment(options.pull, MARKER, author).await?,
        None => None,
    };
    if found.is_none() && options.subject == Subject::NotNeeded {
        // Nothing was ever said here, and there is nothing to say.
        return Ok(None);
    }
    if let Some(found) = &found {
        if !found.others.is_empty() {
            let others: Vec<String> = found.others.iter().map(u64::to_string).collect();
            remarks.push(format!(
                "further comments of ours with the same mark are left alone: {}",
                others.join(", ")
            ));
        }
        if let Some(newer) = moved_to.filter(|newer| is_about(found, newer)) {
            remarks.push(format!(
                "the comment is about the newer head {newer}, and stays as it is"
            ));
            return Ok(None);
        }
    }
    let (id, url) = client
        .write_comment(options.pull, MARKER, author, found.as_ref(), &said.comment)
        .await?;
    if let Some(actual) = client.known_id().await?.filter(|id| Some(*id) != author) {
        // An earlier comment of that account is ours, and this one is one too many.
        let ours = client.sticky_comment(options.pull, MARKER, actual).await?;
        if ours.is_some_and(|ours| ours.id != id) {
            client.delete_comment(id).await?;
            return Box::pin(comment(client, options, said, moved_to, remarks)).await;
        }
    }
    Ok(Some(url))
}

/// A comment about the live head is not replaced by one about an older commit.
fn is_about(found: &StickyComment, head: &str) -> bool {
    let second = found.body.lines().nth(1);
    second.is_some_and(|line| line.trim_end() == head_mark(head))
}

fn external_id(options: &PublishOptions) -> String {
    format!("{CHECK}:{}:{}", options.pull, options.head)
}

fn check_name<'a>(options: &'a PublishOptions, external_id: &'a str) -> CheckName<'a> {
    CheckName {
        name: CHECK,
        head: &options.head,
        external_id,
        details_url: options.run_url.as_deref(),
    }
}

/// The commit's check run, where it belongs to another workflow run than this one.
async fn anothers(client: &Client, options: &PublishOptions) -> Option<CheckRun> {
    let external_id = external_id(options);
    let found = client.check(&check_name(options, &external_id)).await;
    let run = found.ok().flatten()?;
    let has_owners = run.details_url.is_some() && options.run_url.is_some();
    (has_owners && run.details_url != options.run_url).then_some(run)
}

/// The check run's address, or the status's own in its place.
async fn check(
    client: &Client,
    options: &PublishOptions,
    said: &Said,
    remarks: &mut Vec<String>,
) -> Result<Option<String>, github::Error> {
    let external_id = external_id(options);
    let name = check_name(options, &external_id);
    let text = CheckText {
        title: &said.title,
        summary: &said.summary,
    };
    let annotations: Vec<CheckAnnotation> = said
        .annotations
        .iter()
        .map(|annotation| CheckAnnotation {
            path: annotation.path.clone(),
            start_line: annotation.line,
            end_line: annotation.line,
            annotation_level: annotation.level.name(),
            title: annotation.title.clone(),
            message: annotation.message.clone(),
        })
        .collect();
    let done = match said.conclusion {
        None => client.begin_check(&name, &text).await,
        Some(conclusion) => {
            client
                .complete_check(&name, &text, &annotations, conclusion.name())
                .await
        }
    };
    match done {
        Ok(run) => Ok(run.url),
        // Only apps may write check runs; a person's token may still say it in a line.
        Err(github::Error::Refused(refusal)) if refusal.status == 403 && !refusal.is_limit => {
            let status = NewStatus {
                context: CHECK,
                state: state(said.conclusion),
                description: &said.title,
                target_url: options.run_url.as_deref(),
            };
            client.set_status(&options.head, &status).await?;
            remarks.push(
                "this token may not write check runs: a commit status stands in its place"
                    .to_owned(),
            );
            Ok(Some(format!("status {CHECK} of {}", options.head)))
        }
        Err(error) => Err(error),
    }
}

/// A status knows no neutral: what does not hinder a merge there is a success here.
fn state(conclusion: Option<Conclusion>) -> State {
    match conclusion {
        None => State::Pending,
        Some(Conclusion::Success | Conclusion::Neutral | Conclusion::Skipped) => State::Success,
        Some(Conclusion::Failure) => State::Failure,
        Some(Conclusion::Cancelled | Conclusion::ActionRequired) => State::Error,
    }
}
