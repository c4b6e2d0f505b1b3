//! `gate selftest`: plants faults, and says which gates catch them.

mod sessions;
mod view;

use crate::cli::format::TableFormat;
use crate::cli::names::{self, Names};
use crate::cli::progress::ProgressLines;
use crate::cli::runtime::{block_on, interrupted};
use crate::cli::{Exit, output};
use crate::selftest::Row;
use crate::session::Event;
use anyhow::Context;
use clap::Args;
use sessions::{Selftest, SelftestOptions};
use std::env;
use verdict::plan::Selection;

#[derive(Args)]
pub struct SelftestArgs {
    /// Plant this fault only; may be repeated [default: all]
    #[arg(long = "fault", value_name = "NAME")]
    faults: Vec<String>,
    /// Say what can be planted, and by which check it should be caught
    #[arg(long, conflicts_with_all = ["faults", "keep", "project"])]
    list: bool,
    /// Test this project's gates: a proxy before its engine plants the faults
    #[arg(long)]
    project: bool,
    /// With --project: which profile of gates/gate.toml to use
    #[arg(long, default_value = "quick", requires = "project")]
    profile: String,
    /// With --project: gates, separated by commas or spaces; repeatable [default: the profile's]
    #[arg(long = "gate", value_name = "NAME", requires = "project")]
    gates: Vec<Names>,
    /// Keep the sessions' result directories, and say where they are
    #[arg(long)]
    keep: bool,
    /// Seed for launch order and prompts [default: random, recorded]
    #[arg(long)]
    seed: Option<u64>,
    /// How to print the table
    #[arg(long, value_enum, default_value_t = TableFormat::Text)]
    format: TableFormat,
}

pub fn run(args: SelftestArgs) -> anyhow::Result<Exit> {
    if args.list {
        output::print(&view::selftest_list()).context("cannot write the list")?;
        return Ok(Exit::Pass);
    }
    let format = args.format;
    let options = args.options()?;
    let progress = ProgressLines::default();
    let show = |event: Event| {
        if matches!(
            event,
            Event::Planting { .. }
                | Event::Planted(_)
                | Event::Building { .. }
                | Event::Built { .. }
        ) {
            progress.show(&event);
        }
    };
    let done = block_on(async { sessions::selftest(&options, &show, interrupted()).await })??;
    progress.finish();
    if let Some(kept) = &done.kept {
        output::note(&format!("results: {}", kept.display()));
    }
    if let Some(why) = &done.never_ready {
        output::error(&format!("the engine does not start without a fault: {why}"));
    }
    let text = match format {
        TableFormat::Text => view::selftest_text(&done.rows, done.elapsed_s),
        TableFormat::Json => view::selftest_json(&done.rows, done.elapsed_s),
    };
    output::print(&text).context("cannot write the table to standard output")?;
    Ok(exit(&done))
}

impl SelftestArgs {
    fn options(self) -> anyhow::Result<SelftestOptions> {
        let project = match self.project {
            false => None,
            true => {
                let start = env::current_dir().context("cannot tell the current directory")?;
                let selection = Selection {
                    profile: self.profile,
                    gates: names::all(self.gates),
                };
                Some((start, selection))
            }
        };
        Ok(SelftestOptions {
            program: env::current_exe().context("cannot tell where this program is")?,
            faults: self.faults,
            project,
            keep: self.keep,
            seed: self.seed,
        })
    }
}

fn exit(done: &Selftest) -> Exit {
    if done.is_interrupted {
        Exit::Interrupted
    } else if done.never_ready.is_some() {
        Exit::Infrastructure
    } else if done.rows.iter().all(Row::is_good) {
        Exit::Pass
    } else {
        Exit::Fail
    }
}
