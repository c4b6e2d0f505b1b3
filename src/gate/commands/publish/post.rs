//! The GitHub side of a publication: the live head, the comment, the check run or a status in its place.
//!
//! Each part is done whatever became of the one before it; what could not be done is a remark.

use super::options::{PublishOptions, Subject};
use super::payload::{Said, head_mark};
use crate::report::Conclusion;
use crate::session::rendering::marker;
use github::{
    self, ChangedFile, CheckAnnotation, CheckName, CheckRun, CheckText, Client, NewStatus, Sha,
    State, StickyComment, clean,
};
use std::collections::BTreeMap;
use verdict::plan::{Comments, GitHubConfig};

/// What was posted.
#[derive(Debug, Default)]
pub struct Posted {
    pub comment_url: Option<String>,
    pub check_url: Option<String>,
    /// One of them was to be there, and is not.
    pub is_missing: bool,
}

/// The pull request just before anything is said about it.
#[derive(Debug, Default)]
pub struct Live {
    /// `None`: GitHub did not say.
    pub head: Option<Sha>,
    pub notices: Vec<String>,
}

pub async fn live(client: &Client, options: &PublishOptions, remarks: &mut Vec<String>) -> Live {
    let mut live = Live::default();
    let pull = match client.pull(options.pull).await {
        Ok(pull) => pull,
        Err(error) => {
            remarks.push(format!("whether the head has moved is not known: {error}"));
            return live;
        }
    };
    // The queue's commit is never the pull request's head.
    live.head = (!options.is_queued).then_some(pull.head_sha);
    if !matches!(options.subject, Subject::From(_)) {
        return live;
    }
    match client.changed_files(options.pull).await {
        Ok(files) => live.notices.extend(on_gates(&files, pull.changed_files)),
        Err(error) => remarks.push(format!(
            "whether the pull request changes gates/ is not known: {error}"
        )),
    }
    live
}

/// Says that the pull request changes gates, or that its `all` files are not all listed, so that it may.
fn on_gates(files: &[ChangedFile], all: usize) -> Option<String> {
    let changes_gates = files.iter().any(|file| {
        let before = file.previous_filename.as_deref().unwrap_or_default();
        file.filename.starts_with("gates/") || before.starts_with("gates/")
    });
    let (what, listed) = ("it is judged with main's, and", files.len());
    match changes_gates {
        true => Some(format!(
            "this pull request changes gates/: {what} the change counts once it is merged"
        )),
        false if listed < all => Some(format!(
            "GitHub lists {listed} of this pull request's {all} files, so it may change gates/: {what} a change counts \
             once it is merged"
        )),
        false => None,
    }
}

/// The comment, then the check run.
pub async fn post(
    client: &Client,
    options: &PublishOptions,
    config: &GitHubConfig,
    said: &Said,
    moved_to: Option<&str>,
    remarks: &mut Vec<String>,
) -> Posted {
    let mut posted = Posted::default();
    match keeps_silent(client, options, &config.name, moved_to).await {
        Ok(None) => {}
        Ok(Some(why)) => {
            remarks.push(why);
            return posted;
        }
        Err(error) => {
            posted.is_missing = true;
            remarks.push(format!(
                "nothing is said, since what was said before could not be read: {error}"
            ));
            return posted;
        }
    }
    // The comment is about the pull request's own head.
    if options.wants_comment && !options.is_queued {
        match comment(client, options, config, said, moved_to, remarks).await {
            Ok(url) => posted.comment_url = url,
            Err(error) => {
                posted.is_missing = true;
                remarks.push(format!("the comment could not be posted: {error}"));
            }
        }
    }
    match check(client, options, &config.name, said, remarks).await {
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
    name: &str,
    moved_to: Option<&str>,
) -> Result<Option<String>, github::Error> {
    Ok(match (&options.subject, moved_to) {
        // It satisfies a required check; the newer head's own event says what that one needs.
        (Subject::NotNeeded, Some(newer)) => Some(format!(
            "the head is {newer} by now: nothing is said of what an older one needs"
        )),
        (Subject::NotNeeded, None) => stands_against(client, options, name).await?,
        (Subject::Cancelled, _) if anothers(client, options, name).await.is_some() => Some(
            "another run of this commit goes on: nothing is said of the one that was ended".into(),
        ),
        // Somebody who may write started it by hand; that nobody else may is no news, and no verdict. That nothing
        // was needed was said of another branch or by other rules, and would satisfy a required check.
        (Subject::NotRun(_), _) => {
            let said = anothers(client, options, name).await;
            let said = said.filter(|said| said.conclusion.as_deref() != Some("skipped"));
            said.map(|_| {
                "another run said something of this commit: that it may not run is not said".into()
            })
        }
        _ => None,
    })
}

/// Its address; `None` where an existing one is left as it is.
async fn comment(
    client: &Client,
    options: &PublishOptions,
    config: &GitHubConfig,
    said: &Said,
    moved_to: Option<&str>,
    remarks: &mut Vec<String>,
) -> Result<Option<String>, github::Error> {
    let marker = marker(&config.name);
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
        Some(author) => client.sticky_comment(options.pull, &marker, author).await?,
        None => None,
    };
    let is_red = matches!(
        said.conclusion,
        Some(Conclusion::Failure | Conclusion::ActionRequired)
    );
    let is_quiet =
        options.subject == Subject::NotNeeded || (config.comment == Comments::OnFailure && !is_red);
    if found.is_none() && is_quiet {
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
        .write_comment(options.pull, &marker, author, found.as_ref(), &said.comment)
        .await?;
    if let Some(actual) = client.known_id().await?.filter(|id| Some(*id) != author) {
        // An earlier comment of that account is ours, and this one is one too many.
        let ours = client.sticky_comment(options.pull, &marker, actual).await?;
        if ours.is_some_and(|ours| ours.id != id) {
            client.delete_comment(id).await?;
            return Box::pin(comment(client, options, config, said, moved_to, remarks)).await;
        }
    }
    Ok(Some(url))
}

/// A comment about the live head is not replaced by one about an older commit.
fn is_about(found: &StickyComment, head: &str) -> bool {
    let second = found.body.lines().nth(1);
    second.is_some_and(|line| line.trim_end() == head_mark(head))
}

/// What a check run of ours is found by: the check's name, the pull request and the commit.
pub struct CheckId<'a> {
    name: &'a str,
    head: &'a Sha,
    external_id: String,
}

impl CheckId<'_> {
    /// As far as it takes to find it.
    pub fn name(&self) -> CheckName<'_> {
        CheckName {
            name: self.name,
            head: self.head,
            external_id: &self.external_id,
            main: None,
            run: None,
            details_url: None,
        }
    }
}

pub fn check_of<'a>(name: &'a str, pull: u64, head: &'a Sha) -> CheckId<'a> {
    CheckId {
        name,
        head,
        external_id: format!("{name}:{pull}:{head}"),
    }
}

/// The same with what this workflow run is.
pub fn check_name<'a>(options: &'a PublishOptions, id: &'a CheckId<'_>) -> CheckName<'a> {
    let is_measured = matches!(options.subject, Subject::Pending | Subject::From(_));
    CheckName {
        main: options.main.as_ref().filter(|_| is_measured),
        run: options.run_url.as_deref().map(run_number),
        details_url: options.run_url.as_deref(),
        ..id.name()
    }
}

/// The commit's check run, where it belongs to another workflow run than this one.
async fn anothers(client: &Client, options: &PublishOptions, name: &str) -> Option<CheckRun> {
    let id = check_of(name, options.pull, &options.head);
    let found = client.check(&id.name()).await;
    let run = found.ok().flatten()?;
    let is_anothers = id.name().run_of(&run)? != run_number(options.run_url.as_deref()?);
    is_anothers.then_some(run)
}

/// Why it is not said that this pull request needs nothing. GitHub shows the newest check run of a name on a commit, and one
/// that says so satisfies a required check: it must not hide a failure of any pull request, nor any result of another open
/// one. Of a closed pull request nothing is known: it may be opened again.
async fn stands_against(
    client: &Client,
    options: &PublishOptions,
    name: &str,
) -> Result<Option<String>, github::Error> {
    let own = options.pull;
    if !client.pull(own).await?.is_open {
        return Ok(Some(format!(
            "#{own} is closed: nothing is said of what it needs"
        )));
    }
    let id = check_of(name, own, &options.head);
    let this = options.run_url.as_deref().map(run_number);
    for (number, runs) in all_runs(client, options, name).await? {
        let Some(newest) = runs.last() else { continue };
        let word = match standing_failure(&runs) {
            Some(_) => "failure",
            None => newest.conclusion.as_deref().unwrap_or("in progress"),
        };
        let is_anothers = match number == own {
            true => newest.conclusion.is_none() && id.name().run_of(newest) != this,
            false => word != "skipped" && client.pull(number).await?.is_open,
        };
        if word == "failure" || is_anothers {
            return Ok(Some(format!(
                "the check run of #{number} on the same commit says `{}`, so it is not said that #{own} needs nothing; push \
                 another commit, or have a maintainer measure #{number} again",
                clean(word, 40)
            )));
        }
    }
    Ok(None)
}

/// The last of these check runs that says `failure`, where no `success` came after it: one that goes on, or was withheld,
/// takes back nothing.
fn standing_failure(runs: &[CheckRun]) -> Option<&CheckRun> {
    let mut newest = runs.iter().rev();
    let concluded = newest.find(|run| {
        let word = run.conclusion.as_deref();
        word == Some("failure") || word == Some("success")
    });
    concluded.filter(|run| run.conclusion.as_deref() == Some("failure"))
}

/// Why a pass is not posted: GitHub shows the newest check run of a commit. Without this rule a second pull request, "Re-run
/// jobs", or another base branch for a moment would measure the commit again until it is green. A person who may start the
/// workflow answers for a new run of it.
async fn failed_before(
    client: &Client,
    options: &PublishOptions,
    name: &str,
) -> Result<Option<String>, github::Error> {
    let own = options.pull;
    let runs = all_runs(client, options, name).await?;
    let this = options.run_url.as_deref().map(run_number);
    let id = check_of(name, own, &options.head);
    let is_of_this_run = |run: &CheckRun| {
        let theirs = id.name().run_of(run);
        theirs.is_some() && theirs == this
    };
    // What was inconclusive or invalid may be measured again.
    let mut measured = runs.get(&own).cloned().unwrap_or_default();
    measured.retain(|run| {
        run.conclusion.as_deref() != Some("failure") || run.title.starts_with("fail: ")
    });
    if let Some(failed) = standing_failure(&measured)
        && (is_of_this_run(failed) || !options.is_by_hand)
    {
        return Ok(Some(format!(
            "an earlier run measured a failure of this commit, which stands, so no pass is posted for #{own}: push another \
             commit, or have a maintainer start the workflow by hand"
        )));
    }
    let mut others = runs.into_iter().filter(|(number, _)| *number != own);
    let failed = others.find(|(_, runs)| standing_failure(runs).is_some());
    Ok(failed.map(|(number, _)| {
        format!(
            "the check run of #{number} on the same commit says `failure`, so no pass is posted for #{own}: push another \
             commit, or have a maintainer measure #{number} again"
        )
    }))
}

/// The check runs of this name on the commit, the newest last, by the number of their pull request.
async fn all_runs(
    client: &Client,
    options: &PublishOptions,
    name: &str,
) -> Result<BTreeMap<u64, Vec<CheckRun>>, github::Error> {
    let mut all: BTreeMap<u64, Vec<CheckRun>> = BTreeMap::new();
    let mut runs = client.checks(name, &options.head).await?;
    runs.sort_by_key(|run| run.id);
    for run in runs {
        let number = run.external_id.strip_prefix(&format!("{name}:"));
        let number = number.and_then(|rest| rest.split(':').next()?.parse::<u64>().ok());
        if let Some(number) = number {
            all.entry(number).or_default().push(run);
        }
    }
    Ok(all)
}

/// The number of a workflow run, whichever of its attempts an address is of.
fn run_number(url: &str) -> &str {
    let run = url.split_once("/attempts/").map_or(url, |(run, _)| run);
    run.rsplit('/').next().unwrap_or_default()
}

/// The check run's address, or the status's own in its place.
async fn check(
    client: &Client,
    options: &PublishOptions,
    check: &str,
    said: &Said,
    remarks: &mut Vec<String>,
) -> Result<Option<String>, github::Error> {
    let id = check_of(check, options.pull, &options.head);
    let name = check_name(options, &id);
    let withheld = match said.conclusion {
        Some(Conclusion::Success | Conclusion::Neutral) => {
            failed_before(client, options, check).await?
        }
        _ => None,
    };
    remarks.extend(withheld.clone());
    let conclusion = match withheld {
        Some(_) => Some(Conclusion::ActionRequired),
        None => said.conclusion,
    };
    let summary = match &withheld {
        Some(why) => &format!("{why}\n\n{}", said.summary),
        None => &said.summary,
    };
    let text = CheckText {
        title: withheld.as_ref().unwrap_or(&said.title),
        summary,
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
    let done = match conclusion {
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
                context: check,
                state: state(conclusion),
                description: text.title,
                target_url: options.run_url.as_deref(),
            };
            client.set_status(&options.head, &status).await?;
            remarks.push(
                "this token may not write check runs: a commit status stands in its place"
                    .to_owned(),
            );
            Ok(Some(format!("status {check} of {}", options.head)))
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
