//! `gate github label`: the labels that a pull request's paths need, and the run that they start.

mod labels;
mod local;
mod steps;
mod whose;

use crate::cli::github::{self, GitHubArgs};
use crate::cli::runtime::block_on;
use crate::cli::{Exit, output};
use crate::session::Error;
use anyhow::Context;
use clap::Args;
use labels::{LabelOptions, Trigger};
use std::env;
use std::path::PathBuf;

#[derive(Args)]
pub struct LabelArgs {
    #[command(flatten)]
    github: GitHubArgs,
    /// This pull request, as it is now [default: the one of the event that Actions hands over]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pr: Option<u64>,
    /// Say what would be done, and do none of it
    #[arg(long)]
    dry_run: bool,
    /// Without GitHub: what would this branch's paths need, against its merge base with REF or main?
    #[arg(long, value_name = "REF", conflicts_with_all = ["pr", "dry_run"])]
    diff: Option<Option<String>>,
    /// Profile of gates/gate.toml that the workflow measures with where nobody says another
    #[arg(long, default_value = "full")]
    profile: String,
}

pub fn run(args: LabelArgs) -> anyhow::Result<Exit> {
    let LabelArgs {
        github,
        pr,
        dry_run,
        diff,
        profile,
    } = args;
    let start = env::current_dir().context("cannot tell the current directory")?;
    if let Some(base) = diff {
        let lines = local::label_diff(&start, base.as_deref(), &profile)?;
        github::show(&lines)?;
        return Ok(Exit::Pass);
    }
    let trigger = match pr {
        Some(number) => Trigger::Number(number),
        None => event()?,
    };
    let options = LabelOptions {
        start,
        github: github.options(),
        trigger,
        dry_run,
        profile,
    };
    let labelled = block_on(labels::label(&options))??;
    github::show(&labelled.lines)?;
    for remark in &labelled.remarks {
        output::note(remark);
    }
    github::set_outputs(&labelled.outputs())?;
    match labelled.failure {
        Some(error) => Err(error.into()),
        None => Ok(Exit::Pass),
    }
}

/// What started this job.
fn event() -> anyhow::Result<Trigger> {
    let missing = "no pull request: name one with --pr, or run it in Actions on `pull_request_target` or `merge_group`";
    let path = github::variable("GITHUB_EVENT_PATH");
    let path = path.ok_or_else(|| Error::Usage(missing.into()))?;
    Ok(Trigger::Event {
        name: github::variable("GITHUB_EVENT_NAME").unwrap_or_default(),
        path: PathBuf::from(path),
    })
}
