//! `gate github label` on an event of the merge queue: what ends the required check on the commit that the queue made.
//!
//! That commit holds what main will be, with the entries before its own: GitHub may merge a group by its last entry's checks
//! alone, so everything that main does not have yet is judged. Its paths may need no gate; the pull request's own head may
//! have been measured with the same tree against the same base, and its verdict holds; else a run is started for it. Main
//! function: [`label_queued`]. A commit that the queue dropped needs nothing.

use super::{LabelOptions, Labelled, Mark, running, start};
use crate::commands::authorize::ruling::{foreign_base, needed, ours, unrelated};
use crate::commands::publish::post::check_of;
use crate::session::Error;
use github::{CheckRun, Client, Pull, QueueEvent, Sha, Tip};
use std::collections::BTreeMap;
use verdict::plan::{GitHubConfig, GitHubRules};

/// Fate of the queue's commit.
enum Way {
    /// The queue has dropped it.
    Dropped,
    NotNeeded,
    /// It may not run, and why.
    Refused(String),
    /// This commit of the pull request has a verdict on the same tree and base.
    SameAs(Sha),
    /// A run with these gates, against this commit of main.
    Run {
        gates: String,
        base: Sha,
    },
}

/// Decides, and starts the run where there must be one. An error of GitHub's is told beside what the later steps need to
/// end the check.
pub async fn label_queued(
    options: &LabelOptions,
    client: &Client,
    rules: &GitHubRules,
    event: &QueueEvent,
) -> Labelled {
    let number = event.branch.number;
    let mut labelled = Labelled {
        lines: vec![format!(
            "merge queue's commit {} of #{number}",
            event.head_sha.short()
        )],
        remarks: Vec::new(),
        number: number.to_string(),
        head_sha: event.head_sha.to_string(),
        queue: event.branch.name.clone(),
        same_as: String::new(),
        is_needed: true,
        is_started: false,
        reason: String::new(),
        gates: String::new(),
        failure: None,
    };
    if let Err(error) = settle(options, client, rules, event, &mut labelled).await {
        labelled.failure = Some(error);
    }
    labelled
}

async fn settle(
    options: &LabelOptions,
    client: &Client,
    rules: &GitHubRules,
    event: &QueueEvent,
    labelled: &mut Labelled,
) -> Result<(), Error> {
    let pull = client.pull(event.branch.number).await?;
    let line = match way(client, rules, event, &pull).await? {
        Way::Dropped => "nothing to do: the merge queue dropped it".to_owned(),
        Way::NotNeeded => {
            labelled.is_needed = false;
            "nothing is started: no path needs a gate".to_owned()
        }
        Way::Refused(why) => {
            labelled.reason.clone_from(&why);
            format!("nothing is started: {why}")
        }
        Way::SameAs(head) => {
            labelled.same_as = head.to_string();
            format!(
                "nothing is started: {} has a verdict on the same tree and base",
                head.short()
            )
        }
        Way::Run { gates, base } => {
            labelled.gates = gates;
            labelled.is_started =
                run(options, client, rules, event, &pull, &base, labelled).await?;
            match labelled.is_started || options.dry_run {
                true => format!("start `{}` for this commit", rules.config.workflow),
                false => "nothing is started: this commit has its run already".to_owned(),
            }
        }
    };
    labelled.lines.push(line);
    Ok(())
}

async fn way(
    client: &Client,
    rules: &GitHubRules,
    event: &QueueEvent,
    pull: &Pull,
) -> Result<Way, Error> {
    let Some(tip) = client.tip(&event.branch.name).await? else {
        return Ok(Way::Dropped);
    };
    if tip.sha != event.head_sha {
        return Ok(Way::Dropped);
    }
    if let Some(why) = foreign_base(&rules.config, pull) {
        return Ok(Way::Refused(why));
    }
    let main = event.branch.base_branch.as_str();
    let Some(compared) = client.compare(main, &event.head_sha).await? else {
        return Ok(Way::Refused(unrelated(main)));
    };
    let (needed, base) = (needed(rules, 0, compared.files), compared.merge_base);
    if !needed.is_anything() {
        return Ok(Way::NotNeeded);
    }
    if has_verdict(client, &rules.config, &base, pull, &tip).await? {
        return Ok(Way::SameAs(pull.head_sha.clone()));
    }
    let gates = needed.gates(&rules.of_profile).join(" ");
    Ok(Way::Run { gates, base })
}

/// True if the pull request's head was measured, by this commit of main and against it, with the same tree.
async fn has_verdict(
    client: &Client,
    config: &GitHubConfig,
    base: &Sha,
    pull: &Pull,
    queued: &Tip,
) -> Result<bool, Error> {
    let head = &pull.head_sha;
    let id = check_of(&config.name, pull.number, head);
    let name = id.name();
    let found = client.check(&name).await?;
    let judged = found.filter(|run| is_verdict(run) && name.main_of(run).as_ref() == Some(base));
    if judged.is_none() || client.commit(head).await?.tree != queued.tree {
        return Ok(false);
    }
    // Main stood there when it was judged: with that in it the head was measured against it.
    let compared = client.compare(base.as_str(), head).await?;
    Ok(compared.is_some_and(|compared| compared.merge_base == *base))
}

/// True if it says that the commit passed or failed, not that nothing was shown.
fn is_verdict(run: &CheckRun) -> bool {
    match run.conclusion.as_deref() {
        Some("success") => run.title.starts_with("pass: "),
        Some("failure") => run.title.starts_with("fail: "),
        _ => false,
    }
}

/// Starts the run, once. Runs of commits that the queue dropped for this pull request are cancelled.
async fn run(
    options: &LabelOptions,
    client: &Client,
    rules: &GitHubRules,
    event: &QueueEvent,
    pull: &Pull,
    base: &Sha,
    labelled: &mut Labelled,
) -> Result<bool, Error> {
    let (config, head) = (&rules.config, &event.head_sha);
    let mark = Mark::of(config, pull.number, &labelled.gates, base.as_str());
    let own_id = client.own_id().await?;
    let statuses = client.statuses(head).await?;
    let there = ours(&statuses, &mark.context, own_id);
    if options.dry_run || there.is_some_and(|status| status.description == mark.description) {
        return Ok(false);
    }
    let title = format!("merge queue #{} at ", pull.number);
    let (running, remark) = running(client, &config.workflow, &title).await;
    labelled.remarks.extend(remark);
    for old in running.iter().filter(|run| run.head != *head) {
        if let Err(error) = client.cancel_run(old.id).await {
            labelled
                .remarks
                .push(format!("run {} goes on: {error}", old.id));
        }
    }
    let inputs = BTreeMap::from([
        ("pr", pull.number.to_string()),
        ("head_sha", head.to_string()),
        ("gates", labelled.gates.clone()),
        ("queue", event.branch.name.clone()),
        ("base_sha", base.to_string()),
    ]);
    start(client, config, pull, head, &mark, &inputs).await?;
    Ok(true)
}
