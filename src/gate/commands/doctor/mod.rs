//! `gate doctor`: is this machine fit to measure on? Asks the machine alone, never the network.

mod readings;
mod view;

use crate::cli::format::TableFormat;
use crate::cli::{Exit, output};
use crate::doctor::Fitness;
use anyhow::Context;
use clap::Args;
use std::env;
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
