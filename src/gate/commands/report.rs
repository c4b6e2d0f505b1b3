//! `gate report [DIR]`: the verdict again, from the record alone.

use crate::cli::format::VerdictArgs;
use crate::cli::verdict::print;
use crate::cli::{Exit, output};
use crate::session::results::{has_verdict, newest};
use crate::session::{self, Error};
use clap::Args;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub struct ReportArgs {
    /// Result directory with a run.json; its verdict and reports are rewritten [default: the newest under .gate/runs]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    #[command(flatten)]
    shown: VerdictArgs,
}

/// The result directory that was given, else the newest one here, which a note names.
pub fn or_newest(given: Option<PathBuf>, doing: &str) -> anyhow::Result<PathBuf> {
    if let Some(given) = given {
        return Ok(given);
    }
    let newest = newest(Path::new("."))?;
    let unfinished = match has_verdict(&newest) {
        true => "",
        false => ", which has no verdict yet: it may be running",
    };
    output::note(&format!("{doing} {}{unfinished}", newest.display()));
    Ok(newest)
}

pub fn run(args: &ReportArgs) -> anyhow::Result<Exit> {
    let directory = or_newest(args.directory.clone(), "reporting")?;
    let (record, verdict) = session::judge_directory(&directory).map_err(Error::from)?;
    print(&record, &verdict, args.shown, Some(&directory))?;
    Ok(Exit::of(&verdict))
}
