//! `gate dev replay DIR`: stored sessions through the judge.

pub mod cases;
pub mod view;

use crate::cli::{Exit, output};
use anyhow::Context;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use verdict::plan;

#[derive(Args)]
pub struct ReplayArgs {
    /// A replay set: manifest.json, and launches.csv, samples.jsonl and history.csv in a folder a case
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// How the looks share the error budgets [default: as the set says, else bonferroni]
    #[arg(long, value_enum, value_name = "HOW")]
    spending: Option<Spending>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Spending {
    /// Equal parts
    Bonferroni,
    /// More at the first look
    Pocock,
    /// Most at the last look
    ObrienFleming,
}

pub fn run(args: &ReplayArgs) -> anyhow::Result<Exit> {
    let spending = args.spending.map(|spending| match spending {
        Spending::Bonferroni => plan::Spending::Bonferroni,
        Spending::Pocock => plan::Spending::Pocock,
        Spending::ObrienFleming => plan::Spending::ObrienFleming,
    });
    let mut printed = Ok(());
    cases::replay(&args.directory, spending, &mut |line| {
        if printed.is_ok() {
            printed = output::print(&format!("{line}\n"));
        }
    })?;
    printed.context("cannot write to standard output")?;
    // A verdict on each case is what was asked for, whichever it is.
    Ok(Exit::Pass)
}
