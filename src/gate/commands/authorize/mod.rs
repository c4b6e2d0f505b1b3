//! `gate github authorize`: whether this commit of a pull request may run on the machine, and why.

pub mod ruling;

use crate::cli::Exit;
use crate::cli::github::{self, GitHubArgs};
use crate::cli::runtime::block_on;
use ::github::Sha;
use anyhow::Context;
use clap::Args;
use ruling::{AuthorizeOptions, Queued, RunOrigin};
use std::env;

#[derive(Args)]
pub struct AuthorizeArgs {
    #[command(flatten)]
    github: GitHubArgs,
    /// The pull request
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pr: u64,
    /// The commit that is to run, all 40 digits; any other head means that it is superseded
    #[arg(long, value_name = "SHA")]
    head_sha: String,
    /// Further gates to run beside those that the paths need, else the profile's, with spaces between
    #[arg(
        long,
        value_name = "NAMES",
        default_value = "",
        hide_default_value = true
    )]
    gates: String,
    /// The commit is the merge queue's: this branch's head [default: the pull request's own head]
    #[arg(
        long,
        value_name = "BRANCH",
        default_value = "",
        hide_default_value = true
    )]
    queue: String,
    /// Base of the merge queue's commit, all 40 digits
    #[arg(
        long,
        value_name = "SHA",
        default_value = "",
        hide_default_value = true
    )]
    base_sha: String,
    /// Profile of gates/gate.toml that the run has
    #[arg(long, default_value = "full")]
    profile: String,
}

pub fn run(args: AuthorizeArgs) -> anyhow::Result<Exit> {
    let AuthorizeArgs {
        github,
        pr,
        head_sha,
        gates,
        queue,
        base_sha,
        profile,
    } = args;
    let is_dispatched =
        github::variable("GITHUB_EVENT_NAME").as_deref() == Some("workflow_dispatch");
    // Whoever starts a run again answers for it.
    let actor = ["GITHUB_TRIGGERING_ACTOR", "GITHUB_ACTOR"];
    let actor = actor.into_iter().find_map(github::variable);
    let options = AuthorizeOptions {
        start: env::current_dir().context("cannot tell the current directory")?,
        github: github.options(),
        number: pr,
        head_sha,
        gates: gates.split_whitespace().map(str::to_owned).collect(),
        profile,
        queued: (!queue.is_empty()).then_some(Queued {
            branch: queue,
            base_sha,
        }),
        run: run_origin(),
        starter: actor.filter(|_| is_dispatched),
    };
    let ruling = block_on(ruling::authorize(&options))??;
    github::show(&[ruling.line()])?;
    github::set_outputs(&ruling.outputs())?;
    Ok(if ruling.is_authorized {
        Exit::Pass
    } else {
        Exit::Fail
    })
}

/// Actions' word; of a run that does not say which attempt it is, the first is not assumed.
fn run_origin() -> Option<RunOrigin> {
    let commit = github::variable("GITHUB_SHA")?;
    Some(RunOrigin {
        branch: github::variable("GITHUB_REF"),
        commit: Sha::parse(&commit).ok()?,
        is_first: github::variable("GITHUB_RUN_ATTEMPT").as_deref() == Some("1"),
    })
}
