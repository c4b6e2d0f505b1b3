//! `gate github publish --same-as`: the merge queue's commit gets the check run of the pull request's head.
//!
//! `gate github label` has seen that tree and base are equal. Here it is seen that the check run that is copied is of the app that
//! this token writes as: another's of the same name and id would otherwise become ours. Main function: [`copy`].

use super::keep;
use super::options::{End, PublishOptions, Published};
use super::post::{check_name, check_of};
use crate::report::Conclusion;
use crate::session::Error;
use github::{CheckRun, CheckText, Client, Sha};
use verdict::plan::GitHubConfig;

/// Bytes of a check run's summary.
const MOST: usize = 65_535;

pub async fn copy(
    options: &PublishOptions,
    client: Option<&Client>,
    config: &GitHubConfig,
    from: &Sha,
) -> Result<Published, Error> {
    let client = client.ok_or_else(|| {
        Error::Usage("--same-as copies a check run from GitHub: leave --dry-run out".into())
    })?;
    let theirs = check_of(&config.name, options.pull, from);
    let there = client.check(&theirs.name()).await?;
    let id = check_of(&config.name, options.pull, &options.head);
    let name = check_name(options, &id);
    let looking = CheckText {
        title: "the pull request's verdict is looked for",
        summary: "",
    };
    // Whose check runs this token makes is told by one of them.
    let begun = client.begin_check(&name, &looking).await?;
    let (conclusion, title, summary) = said(there.filter(|run| run.app == begun.app), from);
    let text = CheckText {
        title: &title,
        summary: &summary,
    };
    let done = client
        .complete_check(&name, &text, &[], conclusion.name())
        .await?;
    let own = || {
        options
            .start
            .join(".gate/publish")
            .join(options.head.as_str())
    };
    let directory = options.keep.clone().unwrap_or_else(own);
    Ok(Published {
        end: End::Said,
        directory: keep::keep(&directory, &[("comment.md", Some(&summary))])?,
        comment: summary,
        comment_url: None,
        check_url: done.url,
        remarks: Vec::new(),
        commands: Vec::new(),
    })
}

/// Conclusion, title and summary of the copy.
fn said(run: Option<CheckRun>, from: &Sha) -> (Conclusion, String, String) {
    let conclusion = run
        .as_ref()
        .and_then(|run| match run.conclusion.as_deref() {
            Some("success") => Some(Conclusion::Success),
            Some("failure") => Some(Conclusion::Failure),
            _ => None,
        });
    let (Some(conclusion), Some(run)) = (conclusion, run) else {
        let why = format!("not run: {from} has no verdict of ours that could be copied");
        return (Conclusion::ActionRequired, why.clone(), why);
    };
    let place = run.url.unwrap_or_default();
    let note = format!(
        "The merge queue's commit has the tree of {from} and the same base: the verdict is that commit's. {place}\n\n"
    );
    let whole = format!("{note}{}", run.summary);
    let summary = if whole.len() <= MOST { whole } else { note };
    (conclusion, run.title, summary)
}
