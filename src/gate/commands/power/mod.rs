//! `gate power`: how many launches and minutes an effect needs on this machine.

mod cost;
mod view;

use crate::cli::format::TableFormat;
use crate::cli::names::GateArgs;
use crate::cli::percent::{Percent, chance};
use crate::cli::{Exit, output};
use anyhow::Context;
use clap::Args;
use cost::PowerOptions;
use std::env;
use verdict::plan::Selection;

#[derive(Args)]
pub struct PowerArgs {
    /// The change to find, such as 3% [default: each check's ceiling]
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true)]
    effect: Option<Percent>,
    /// The chance to find it
    #[arg(long, value_name = "PERCENT", default_value = "95%", value_parser = chance)]
    power: Percent,
    /// Standard deviation from launch to launch, such as 0.7% [default: by the certificate of `gate calibrate`,
    /// else by main's stored sessions]
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true)]
    sd: Option<Percent>,
    /// Which profile of gates/gate.toml to use
    #[arg(long, default_value = "quick")]
    profile: String,
    #[command(flatten)]
    gates: GateArgs,
    /// How to print the plan
    #[arg(long, value_enum, default_value_t = TableFormat::Text)]
    format: TableFormat,
}

pub fn run(args: PowerArgs) -> anyhow::Result<Exit> {
    let PowerArgs {
        effect,
        power,
        sd,
        profile,
        gates,
        format,
    } = args;
    let plan = cost::power(&PowerOptions {
        start: env::current_dir().context("cannot tell the current directory")?,
        selection: Selection {
            profile,
            gates: gates.names(),
        },
        effect: effect.map(|percent| percent.0),
        power: power.0,
        sd: sd.map(|percent| percent.0),
    })?;
    let text = match format {
        TableFormat::Text => view::power_text(&plan),
        TableFormat::Json => view::power_json(&plan),
    };
    output::print(&text).context("cannot write the plan to standard output")?;
    Ok(Exit::Pass)
}
