//! `gate import`: another tool's result as ours.

use super::check::print;
use super::{Exit, VerdictFormat, output};
use crate::import::Tool;
use crate::pipeline;
use crate::record::Arm;
use anyhow::Context;
use clap::{Args, ValueEnum};
use std::fs;
use std::path::PathBuf;

#[derive(Args)]
pub(super) struct ImportArgs {
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
    /// Make these files the launches of an arm, in a session in --out that `gate judge` judges
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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ImportArm {
    Base,
    Head,
}

pub(super) fn run(args: &ImportArgs) -> anyhow::Result<Exit> {
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
    });
    if let (Some(arm), Some(out)) = (arm, out) {
        let arm = match arm {
            ImportArm::Base => Arm::Base,
            ImportArm::Head => Arm::Head,
        };
        let (record, verdict) = pipeline::import_session(files, tool, arm, out)?;
        print(&record, &verdict, VerdictFormat::Text)?;
        // An arm alone cannot be judged yet, and was put where it was to be put.
        let both = Arm::BOTH.map(|arm| record.launches.iter().any(|launch| launch.arm == arm));
        return Ok(match both {
            [true, true] => Exit::of(&record, &verdict),
            _ => Exit::Pass,
        });
    }
    let [file] = files.as_slice() else {
        let text =
            "several files are launches of an arm: say --as base or --as head, and --out DIR";
        return Err(pipeline::Error::Usage(text.into()).into());
    };
    let figures = pipeline::import_figures(file, tool, *benchmark)?;
    for missing in &figures.missing {
        output::note(&format!("missing: {missing}"));
    }
    let mut json = serde_json::to_string_pretty(&figures).context("cannot write the JSON")?;
    json.push('\n');
    match out {
        Some(path) => {
            fs::write(path, json).with_context(|| format!("cannot write {}", path.display()))?
        }
        None => output::print(&json).context("cannot write to standard output")?,
    }
    Ok(Exit::Pass)
}
