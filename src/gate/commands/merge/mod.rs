//! `gate merge DIR… --out DIR`: one verdict for a run that several machines measured.

mod record;

use super::check::print;
use crate::cli::Exit;
use crate::cli::format::VerdictFormat;
use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
pub struct MergeArgs {
    /// Result directories of the shards, each measured with `gate check --gate … --together …`
    #[arg(value_name = "DIR", required = true)]
    directories: Vec<PathBuf>,
    /// Where the run's record, verdict and report go
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// How to print the verdict
    #[arg(long, value_enum, default_value_t = VerdictFormat::Text)]
    format: VerdictFormat,
}

pub fn run(args: &MergeArgs) -> anyhow::Result<Exit> {
    let (record, verdict) = record::merge_directories(&args.directories, &args.out)?;
    print(&record, &verdict, args.format)?;
    Ok(Exit::of(&record, &verdict))
}
