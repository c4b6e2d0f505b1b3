//! `gate github publish`: say on GitHub what became of a pull request's commit.

mod artifact;
mod copy;
mod form;
mod keep;
mod limits;
mod options;
mod past;
pub mod payload;
pub mod post;
mod run;
mod trusted;
mod view;

use crate::cli::github::{GitHubArgs, variable};
use crate::cli::names::{self, Names};
use crate::cli::runtime::block_on;
use crate::cli::{Exit, output};
use crate::session::Error;
use anyhow::Context;
use clap::Args;
use github::{Repository, Sha};
use options::{End, PublishOptions, Published, Subject};
use std::env;
use std::path::PathBuf;

#[derive(Args)]
pub struct PublishArgs {
    #[command(flatten)]
    subject: SubjectArgs,
    /// Number of the pull request
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pr: u64,
    /// The commit that was authorised, all 40 digits
    #[arg(long, value_name = "SHA")]
    head_sha: String,
    /// The commit of main that it is measured against, all 40 digits
    #[arg(long, value_name = "SHA", required_if_eq("pending", "true"))]
    base_sha: Option<String>,
    /// Which profile of main's gates/gate.toml was authorised
    #[arg(long, default_value = "full")]
    profile: String,
    /// Gates that were authorised, separated by commas or spaces; repeatable [default: the profile's]
    #[arg(long = "gate", value_name = "NAME")]
    gates: Vec<Names>,
    /// Keep every text in this directory [default: .gate/publish/SHA]
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// The commit is the merge queue's, the head of this branch: write no comment, only the check run
    #[arg(
        long,
        value_name = "BRANCH",
        default_value = "",
        hide_default_value = true
    )]
    queue: String,
    /// Write no comment, only the check run
    #[arg(long)]
    no_comment: bool,
    /// Post nothing: print the comment. Needs no token
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    github: GitHubArgs,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct SubjectArgs {
    /// Say that it is being measured
    #[arg(long)]
    pending: bool,
    /// Judge the result directory that the machine handed back, and say what came of it
    #[arg(long, value_name = "DIR", requires = "base_sha")]
    from: Option<PathBuf>,
    /// Say that it may not run, and why
    #[arg(long, value_name = "REASON", allow_hyphen_values = true)]
    not_run: Option<String>,
    /// Say that the run was ended before it had a result
    #[arg(long)]
    cancelled: bool,
    /// Say that no path of the pull request needs a run, so that a required check is satisfied
    #[arg(long)]
    not_needed: bool,
    /// Say of the merge queue's commit what was said of this commit of the pull request
    #[arg(long, value_name = "SHA", requires = "queue")]
    same_as: Option<String>,
}

pub fn run(args: PublishArgs) -> anyhow::Result<Exit> {
    let is_dry = args.dry_run;
    let options = options(args)?;
    let published = block_on(run::publish(&options))??;
    if is_dry {
        output::print(&published.comment).context("cannot write the comment to standard output")?;
    } else {
        tell(&published)?;
    }
    Ok(exit(&published.end))
}

fn options(args: PublishArgs) -> anyhow::Result<PublishOptions> {
    let PublishArgs {
        subject,
        pr,
        head_sha,
        base_sha,
        profile,
        gates,
        keep,
        queue,
        no_comment,
        dry_run,
        github,
    } = args;
    let SubjectArgs {
        pending,
        from,
        not_run,
        cancelled: _,
        not_needed,
        same_as,
    } = subject;
    let same_as = same_as.as_deref().map(Sha::parse).transpose();
    let subject = match (pending, from, not_run) {
        _ if let Some(head) = same_as.map_err(Error::from)? => Subject::SameAs(head),
        (true, _, _) => Subject::Pending,
        (_, Some(directory), _) => Subject::From(directory),
        (_, _, Some(why)) => Subject::NotRun(why),
        _ if not_needed => Subject::NotNeeded,
        // One of the six is there.
        _ => Subject::Cancelled,
    };
    let github = github.options();
    Ok(PublishOptions {
        start: env::current_dir().context("cannot tell the current directory")?,
        subject,
        pull: pr,
        head: Sha::parse(&head_sha).map_err(Error::from)?,
        base: base_sha
            .as_deref()
            .map(Sha::parse)
            .transpose()
            .map_err(Error::from)?,
        profile,
        gates: names::all(gates),
        keep,
        is_queued: !queue.is_empty(),
        wants_comment: !no_comment,
        main: variable("GITHUB_SHA").and_then(|sha| Sha::parse(&sha).ok()),
        run_url: run_url(&github.repository),
        is_by_hand: is_by_hand(),
        output: variable("GITHUB_OUTPUT").map(PathBuf::from),
        summary: variable("GITHUB_STEP_SUMMARY").map(PathBuf::from),
        github: (!dry_run).then_some(github),
    })
}

/// True outside of Actions, and where persons started the workflow run and this attempt of it: the bot's own account is an
/// app's, `NAME[bot]`.
fn is_by_hand() -> bool {
    let is_person = |name| variable(name).is_some_and(|actor| !actor.ends_with("[bot]"));
    variable("GITHUB_RUN_ID").is_none()
        || (is_person("GITHUB_ACTOR") && is_person("GITHUB_TRIGGERING_ACTOR"))
}

/// The page of this workflow run, where there is one.
fn run_url(repository: &str) -> Option<String> {
    let (server, run) = (variable("GITHUB_SERVER_URL")?, variable("GITHUB_RUN_ID")?);
    let repository = Repository::parse(repository).ok()?;
    let is_number = run.bytes().all(|b| b.is_ascii_digit());
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-.:/_".contains(c);
    let is_server = server.starts_with("https://") && server.chars().all(is_plain);
    let attempt = variable("GITHUB_RUN_ATTEMPT").filter(|n| n.bytes().all(|b| b.is_ascii_digit()));
    let attempt = attempt.map_or_else(String::new, |n| format!("/attempts/{n}"));
    (is_number && is_server).then(|| format!("{server}/{repository}/actions/runs/{run}{attempt}"))
}

fn tell(published: &Published) -> anyhow::Result<()> {
    for remark in &published.remarks {
        output::error(remark);
    }
    if variable("GITHUB_ACTIONS").is_some() {
        for command in &published.commands {
            output::command(command).context("cannot write to standard output")?;
        }
    }
    let mut lines = Vec::new();
    let place = |what: &str, url: &Option<String>| url.as_ref().map(|url| format!("{what}: {url}"));
    lines.extend(place("comment", &published.comment_url));
    lines.extend(place("check run", &published.check_url));
    lines.push(format!("kept in {}", published.directory.display()));
    let text = format!("{}\n", lines.join("\n"));
    output::print(&text).context("cannot write to standard output")
}

fn exit(end: &End) -> Exit {
    match end {
        End::Said => Exit::Pass,
        End::Judged(judged) => Exit::of(&judged.1),
        End::NotMeasured => Exit::Infrastructure,
        End::Refused => Exit::Invalid,
    }
}
