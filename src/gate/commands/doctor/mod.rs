//! `gate doctor`: is this machine fit to measure on? Asks the machine alone, never the network.

mod readings;
mod view;

use crate::cli::format::TableFormat;
use crate::cli::{Exit, output};
use crate::doctor::Fitness;
use anyhow::Context;
use clap::Args;
use std::env;
use std::path::Path;
use verdict::plan::Selection;

#[derive(Args)]
pub struct DoctorArgs {
    /// Which profile of gates/gate.toml to read
    #[arg(long, default_value = "quick")]
    profile: String,
    /// How to print what was found
    #[arg(long, value_enum, default_value_t = TableFormat::Text)]
    format: TableFormat,
}

/// Findings that explain no missing verdict.
const TIMELESS: [&str; 2] = ["user", "isolation"];

/// Findings that may explain why a session gives no verdict, one line each; empty if the machine cannot be read.
pub fn doubts(start: &Path, selection: &Selection) -> Vec<String> {
    let found = readings::doctor(start, selection);
    let (findings, _) = found.unwrap_or((Vec::new(), Fitness::Fit));
    let doubted = findings.iter().filter(|finding| {
        finding.fitness != Fitness::Fit && !TIMELESS.contains(&finding.what.as_str())
    });
    doubted
        .map(|finding| format!("{}: {}; {}", finding.what, finding.found, finding.remedy))
        .collect()
}

pub fn run(args: DoctorArgs) -> anyhow::Result<Exit> {
    let DoctorArgs { profile, format } = args;
    let here = env::current_dir().context("cannot tell the current directory")?;
    let selection = Selection {
        profile,
        gates: Vec::new(),
    };
    let (findings, fitness) = readings::doctor(&here, &selection)?;
    let text = match format {
        TableFormat::Text => view::doctor_text(&findings, fitness),
        TableFormat::Json => view::doctor_json(&findings, fitness),
    };
    output::print(&text).context("cannot write what was found to standard output")?;
    Ok(match fitness {
        Fitness::Fit | Fitness::Doubtful => Exit::Pass,
        Fitness::Unfit => Exit::Infrastructure,
    })
}
