//! `gate shard merge DIR… --out DIR`: one verdict for a run that several machines measured.

mod record;

use crate::cli::Exit;
use crate::cli::format::VerdictArgs;
use crate::cli::verdict::print;
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
    #[command(flatten)]
    shown: VerdictArgs,
}

pub fn run(args: &MergeArgs) -> anyhow::Result<Exit> {
    let (record, verdict) = record::merge_directories(&args.directories, &args.out)?;
    print(&record, &verdict, args.shown, Some(&args.out))?;
    Ok(Exit::of(&verdict))
}
