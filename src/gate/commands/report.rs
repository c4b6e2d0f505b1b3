//! `gate report DIR`: the verdict again, from the record alone.

use crate::cli::Exit;
use crate::cli::format::VerdictArgs;
use crate::cli::verdict::print;
use crate::session::{self, Error};
use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
pub struct ReportArgs {
    /// Result directory with a run.json; its verdict and reports are rewritten
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    shown: VerdictArgs,
}

pub fn run(args: &ReportArgs) -> anyhow::Result<Exit> {
    let (record, verdict) = session::judge_directory(&args.directory).map_err(Error::from)?;
    print(&record, &verdict, args.shown, Some(&args.directory))?;
    Ok(Exit::of(&verdict))
}
