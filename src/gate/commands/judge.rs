//! `gate judge DIR`: the verdict again, from the record alone.

use super::check::print;
use crate::cli::Exit;
use crate::cli::format::VerdictFormat;
use crate::session::{self, Error};
use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
pub struct JudgeArgs {
    /// A result directory that holds run.json; its verdict and reports are written anew
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// How to print the verdict
    #[arg(long, value_enum, default_value_t = VerdictFormat::Text)]
    format: VerdictFormat,
}

pub fn run(args: &JudgeArgs) -> anyhow::Result<Exit> {
    let (record, verdict) = session::judge_directory(&args.directory).map_err(Error::from)?;
    print(&record, &verdict, args.format)?;
    Ok(Exit::of(&record, &verdict))
}
