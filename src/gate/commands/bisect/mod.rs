//! `gate bisect`: the commit of a regression.

mod bisection;
pub mod driver;
mod page;
mod search;
mod step;
mod trial;
mod view;

use crate::cli::command_line::command_line;
use crate::cli::format::PageFormat as Format;
use crate::cli::progress::ProgressLines;
use crate::cli::runtime::{block_on, interrupted};
use crate::cli::{Exit, output};
use crate::report::pretty_json;
use anyhow::Context;
use bisection::BisectOptions;
use clap::Args;
use std::env;
use std::path::PathBuf;
use verdict::record::{Bisection, Conclusion, Finding};

#[derive(Args)]
pub struct BisectArgs {
    /// A commit without the regression, on BAD's line of first parents
    #[arg(required_unless_present = "resume")]
    good: Option<String>,
    /// A later commit with it
    #[arg(required_unless_present = "resume")]
    bad: Option<String>,
    /// Gate to bisect by
    #[arg(long, value_name = "NAME", required_unless_present = "resume")]
    gate: Option<String>,
    /// Which profile of gates/gate.toml to use
    #[arg(long, default_value = "quick")]
    profile: String,
    /// Result directory [default: a new one under .gate/runs]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Seed for launch order and prompts [default: random, recorded]
    #[arg(long)]
    seed: Option<u64>,
    /// Resume the search in DIR; refused if gates, builds or machine have changed
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["good", "bad", "gate", "profile", "out", "seed"]
    )]
    resume: Option<PathBuf>,
    /// How to print what was found
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub fn run(args: BisectArgs) -> anyhow::Result<Exit> {
    let BisectArgs {
        good,
        bad,
        gate,
        profile,
        out,
        seed,
        resume,
        format,
    } = args;
    let start = env::current_dir().context("cannot tell the current directory")?;
    let progress = ProgressLines::default();
    let show = |event| progress.show(&event);
    let (bisection, directory) = block_on(async {
        if let Some(directory) = resume {
            return bisection::resume_bisect(&start, &directory, &show, interrupted()).await;
        }
        let options = BisectOptions {
            start,
            // clap asks for these three where nothing is resumed.
            good: good.unwrap_or_default(),
            bad: bad.unwrap_or_default(),
            gate: gate.unwrap_or_default(),
            profile,
            out,
            seed,
        };
        bisection::bisect(&options, &show, interrupted()).await
    })??;
    progress.finish();
    output::note(&format!("results: {}", directory.display()));
    let text = match format {
        Format::Text => view::bisection_text(&bisection),
        Format::Json => pretty_json(&bisection),
        Format::Markdown => view::bisection_markdown(&bisection),
        Format::Html => page::page(&bisection, command_line()),
    };
    output::print(&text).context("cannot write the answer to standard output")?;
    Ok(exit(&bisection))
}

/// A regression that is there ends as a failed check does, also where several commits remain of which it
/// cannot be built to tell; where numbers left it open, it is inconclusive.
fn exit(bisection: &Bisection) -> Exit {
    match &bisection.conclusion {
        Conclusion::NoRegression => Exit::Pass,
        Conclusion::Culprit { .. } => Exit::Fail,
        Conclusion::Among { first, last } => {
            let inside = |commit| (first..last).contains(&&commit);
            let mut trials = bisection.trials.iter().filter(|trial| inside(trial.commit));
            match trials.any(|trial| trial.finding == Finding::Undecided) {
                true => Exit::Inconclusive,
                false => Exit::Fail,
            }
        }
        Conclusion::Unshown => Exit::Inconclusive,
        Conclusion::Invalid => Exit::Invalid,
        Conclusion::Unfinished { .. } => Exit::Interrupted,
    }
}
