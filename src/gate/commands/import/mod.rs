//! `gate dev import`: another tool's result as ours.

pub mod convert;

use crate::cli::format::VerdictFormat;
use crate::cli::verdict::print;
use crate::cli::{Exit, output};
use crate::import::Tool;
use crate::report::pretty_json;
use crate::session;
use anyhow::Context;
use clap::{Args, ValueEnum};
use std::fs;
use std::path::{Path, PathBuf};
use verdict::plural::count;
use verdict::record::{Arm, RunRecord};

#[derive(Args)]
pub struct ImportArgs {
    /// Results of `vllm bench serve --save-result`, guidellm (benchmarks.json) or AIPerf
    /// (profile_export*.json or .jsonl); several with --as, one a launch
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The tool that wrote them [default: told from the file]
    #[arg(long, value_enum, value_name = "TOOL")]
    from: Option<From>,
    /// Which benchmark of a file that holds several (guidellm, vLLM's --append-result), from 0
    #[arg(long, value_name = "N", conflicts_with = "arm")]
    benchmark: Option<usize>,
    /// Make these files the launches of an arm, in a session in --out that `gate report` judges
    #[arg(long = "as", value_enum, value_name = "ARM", requires = "out")]
    arm: Option<ImportArm>,
    /// With --as: the session's directory. Without: where to write the JSON [default: standard output]
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum From {
    Vllm,
    Guidellm,
    Aiperf,
    Samples,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ImportArm {
    Base,
    Head,
}

pub fn run(args: &ImportArgs) -> anyhow::Result<Exit> {
    let ImportArgs {
        files,
        from,
        benchmark,
        arm,
        out,
    } = args;
    let tool = from.map(|from| match from {
        From::Vllm => Tool::Vllm,
        From::Guidellm => Tool::Guidellm,
        From::Aiperf => Tool::Aiperf,
        From::Samples => Tool::Samples,
    });
    if let (Some(arm), Some(out)) = (arm, out) {
        let arm = match arm {
            ImportArm::Base => Arm::Base,
            ImportArm::Head => Arm::Head,
        };
        let record = convert::import_session(files, tool, arm, out)?;
        return judge(&record, out);
    }
    let [file] = files.as_slice() else {
        let text =
            "several files are launches of an arm: say --as base or --as head, and --out DIR";
        return Err(session::Error::Usage(text.into()).into());
    };
    let figures = convert::import_figures(file, tool, *benchmark)?;
    for missing in &figures.missing {
        output::note(&format!("missing: {missing}"));
    }
    let json = pretty_json(&figures);
    match out {
        Some(path) => {
            fs::write(path, json).with_context(|| format!("cannot write {}", path.display()))?
        }
        None => output::print(&json).context("cannot write to standard output")?,
    }
    let unsound = figures.unsound();
    for reason in &unsound {
        output::error(&format!("invalid: {reason}"));
    }
    Ok(match unsound.is_empty() {
        true => Exit::Pass,
        false => Exit::Invalid,
    })
}

/// Judges the session as it stands; while an arm has no launches, says which.
fn judge(record: &RunRecord, directory: &Path) -> anyhow::Result<Exit> {
    let of = |arm| record.launches.iter().filter(|l| l.arm == arm).count();
    let alone = match (of(Arm::Base), of(Arm::Head)) {
        (n, 0) => Some((n, Arm::Base, Arm::Head)),
        (0, n) => Some((n, Arm::Head, Arm::Base)),
        _ => None,
    };
    if let Some((n, arm, other)) = alone {
        let (arm, other, place) = (arm.name(), other.name(), directory.display());
        let launches = count(n, "launch");
        output::print(&format!(
            "{arm}: {launches} put in {place}; none of {other} yet: add them with `gate dev import --as {other} \
             --out {place} FILE…`\n"
        ))
        .context("cannot write to standard output")?;
        return Ok(Exit::Pass);
    }
    let (record, verdict) = session::judge_directory(directory).map_err(session::Error::from)?;
    print(
        &record,
        &verdict,
        VerdictFormat::Text.into(),
        Some(directory),
    )?;
    Ok(Exit::of(&verdict))
}
