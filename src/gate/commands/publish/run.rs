//! `gate github publish`, from the artifact to what GitHub shows.

use super::options::{Content, JudgedAnew, PublishOptions, Published, Subject};
use super::payload::{Said, command};
use super::trusted::{Ours, judge_anew};
use super::{artifact, copy, past, post};
use crate::report::{self, Conclusion, Link, Publication};
use crate::session::{Error, rendering};
use github::Sha;
use std::fs;
use std::path::Path;
use verdict::plan::{self, GitHubConfig, Selection};

/// The repository's own template for comments, read from main's checkout.
const TEMPLATE: &str = "gates/comment.md.j2";

/// Settles, keeps, posts. Must be called within a tokio runtime.
///
/// # Errors
/// Only where nothing could be settled or kept: gates that cannot be read, a full disk. What GitHub refuses stands in
/// the remarks.
pub async fn publish(options: &PublishOptions) -> Result<Published, Error> {
    let root = plan::find_root(&options.start)?;
    let config = plan::github_config(&root)?;
    let client = options
        .github
        .as_ref()
        .map(|github| github.client(config.bot_id));
    let client = client.transpose()?;
    if let Subject::SameAs(from) = &options.subject {
        return copy::copy(options, client.as_ref(), &config, from).await;
    }
    let scrub = |text: &str| match &client {
        Some(client) => client.token().redact(text),
        None => text.to_owned(),
    };
    let content = settle(options, &root, &config, &scrub)?;
    let template = fs::read_to_string(root.join(TEMPLATE)).ok();
    let mut remarks = Vec::new();
    let mut publication = publication(options, &config, &content);
    let say = |publication: &Publication<'_>| {
        Said::of(publication, &content, template.as_deref(), &config)
    };
    let mut said = say(&publication);
    let own = || root.join(".gate/publish").join(options.head.as_str());
    let directory = said.keep(&options.keep.clone().unwrap_or_else(own))?;
    let mut posted = post::Posted::default();
    if let Some(client) = &client {
        let live = post::live(client, options, &mut remarks).await;
        let moved_to = live.head.filter(|head| *head != options.head);
        if moved_to.is_some() || !live.notices.is_empty() {
            publication.moved_to = moved_to.map(|head| head.to_string());
            publication.notices.extend(live.notices);
            said = say(&publication);
            said.keep(&directory)?;
        }
        let moved_to = publication.moved_to.as_deref();
        posted = post::post(client, options, &config, &said, moved_to, &mut remarks).await;
    }
    if posted.is_missing {
        remarks.push(format!(
            "what was to be said is kept in {}; the same command posts it later",
            directory.display()
        ));
    }
    tell_actions(options, &publication, &said, &posted, &mut remarks);
    Ok(Published {
        directory,
        comment: said.comment,
        comment_url: posted.comment_url,
        check_url: posted.check_url,
        remarks,
        commands: said.annotations.iter().map(command).collect(),
        end: content.end(),
    })
}

fn settle(
    options: &PublishOptions,
    root: &Path,
    config: &GitHubConfig,
    scrub: &dyn Fn(&str) -> String,
) -> Result<Content, Error> {
    let directory = match &options.subject {
        Subject::Pending => return Ok(Content::Pending),
        Subject::NotRun(why) => return Ok(Content::NotRun(why.clone())),
        Subject::Cancelled => return Ok(Content::Cancelled),
        Subject::NotNeeded => return Ok(Content::NotNeeded),
        // Settled by `copy`, before.
        Subject::SameAs(from) => {
            let why = format!("the verdict of {from} was to be copied");
            return Ok(Content::NotRun(why));
        }
        Subject::From(directory) => directory,
    };
    let selection = Selection {
        profile: options.profile.clone(),
        gates: options.gates.clone(),
    };
    let (plan, inputs) = plan::from_directory(root, &selection)?;
    let artifact = match artifact::read(directory, scrub) {
        Ok(artifact) => artifact,
        Err(refusal) => return Ok(Content::Refused(refusal.to_string())),
    };
    let Some(record) = artifact.record else {
        let nothing = "no result came back: there is neither a finished run.json nor a failure.txt";
        return Ok(Content::NotMeasured(
            artifact.failure.unwrap_or_else(|| nothing.to_owned()),
        ));
    };
    let Some(base) = &options.base else {
        return Err(Error::Usage(
            "a result needs --base-sha: the commit that it was to be compared with".into(),
        ));
    };
    let ours = Ours {
        root,
        plan,
        inputs,
        head_sha: options.head.as_str(),
        base_sha: base.as_str(),
        require_sandbox: config.require_sandbox,
    };
    Ok(match judge_anew(ours, record, artifact.claim.as_ref())? {
        Err(refusal) => Content::Refused(refusal.to_string()),
        Ok(trusted) => {
            let past = past::of(root, &trusted.plan, &trusted.record, &trusted.verdict);
            let cause = rendering::cause(&trusted.plan, &trusted.record, &trusted.verdict);
            Content::Judged(Box::new(JudgedAnew {
                trusted,
                past,
                cause,
            }))
        }
    })
}

fn publication<'a>(
    options: &PublishOptions,
    config: &GitHubConfig,
    content: &'a Content,
) -> Publication<'a> {
    let link = |name: &str, url: String| Link {
        name: name.to_owned(),
        url,
    };
    let run = options.run_url.as_ref();
    let links = run.map(|url| {
        vec![
            link("the run", url.clone()),
            link("its artifacts", format!("{url}#artifacts")),
        ]
    });
    Publication {
        name: config.name.clone(),
        judged_by: options.main.as_ref().map(Sha::to_string),
        head_sha: options.head.to_string(),
        base_sha: options.base.as_ref().map(Sha::to_string),
        profile: options.profile.clone(),
        gates: options.gates.clone(),
        again: None,
        state: content.state(),
        notices: match content {
            Content::Judged(judged) => judged.trusted.notices.clone(),
            _ => Vec::new(),
        },
        moved_to: None,
        links: links.unwrap_or_default(),
        repository: run
            .and_then(|url| url.split_once("/actions/"))
            .map(|(repository, _)| repository.to_owned()),
    }
}

/// Outputs and the step's summary. What cannot be written is told: the verdict stands without it.
fn tell_actions(
    options: &PublishOptions,
    publication: &Publication<'_>,
    said: &Said,
    posted: &post::Posted,
    remarks: &mut Vec<String>,
) {
    if let Some(path) = &options.output {
        let outputs = [
            ("verdict", publication.word()),
            ("conclusion", said.conclusion.map_or("", Conclusion::name)),
            (
                "comment_url",
                posted.comment_url.as_deref().unwrap_or_default(),
            ),
            (
                "check_run_url",
                posted.check_url.as_deref().unwrap_or_default(),
            ),
        ];
        let written = github::actions::set_outputs(path, &outputs);
        remarks.extend(
            written
                .err()
                .map(|error| format!("the outputs are missing: {error}")),
        );
    }
    if let Some(path) = &options.summary {
        let told: String = remarks
            .iter()
            .map(|remark| format!("\n> {}\n", report::inert(remark)))
            .collect();
        let written = github::actions::add_summary(path, &format!("{}\n{told}", said.summary));
        remarks.extend(
            written
                .err()
                .map(|error| format!("the step's summary is missing: {error}")),
        );
    }
}
