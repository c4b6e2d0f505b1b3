//! `gate history`: how main moved, from its stored sessions.

use super::names::{self, Names};
use super::{Exit, Format, output};
use crate::history::Outcome;
use crate::pipeline::{self, HistoryOptions, Told};
use crate::report;
use anyhow::Context;
use clap::Args;
use std::env;

#[derive(Args)]
pub(super) struct HistoryArgs {
    /// Only this gate, or several between commas or spaces; may be repeated [default: all that have stored sessions]
    #[arg(long = "gate", value_name = "NAME")]
    gates: Vec<Names>,
    /// Only this check
    #[arg(long, value_name = "GATE/CHECK", conflicts_with = "gates")]
    check: Option<String>,
    /// Read only the newest N sessions of a series, at least 10: creep is judged by as many [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(10..))]
    last: Option<u32>,
    /// The profile that the sessions were measured with
    #[arg(long, default_value = "quick")]
    profile: String,
    /// How to print the history
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(super) fn run(args: HistoryArgs) -> anyhow::Result<Exit> {
    let options = HistoryOptions {
        start: env::current_dir().context("cannot tell the current directory")?,
        profile: args.profile,
        gates: names::all(args.gates),
        check: args.check,
        last: args.last.map_or(usize::MAX, |last| last as usize),
    };
    let Told {
        history,
        remarks,
        command,
    } = pipeline::history(&options)?;
    let text = match args.format {
        Format::Text => report::history_text(&history, &remarks, &command),
        Format::Json => report::history_json(&history, &remarks, &command),
        Format::Markdown => report::history_markdown(&history, &remarks, &command),
    };
    output::print(&text).context("cannot write the history to standard output")?;
    Ok(match history.outcome() {
        Outcome::Quiet => Exit::Pass,
        Outcome::Worse => Exit::Fail,
        Outcome::Unknown => Exit::Inconclusive,
    })
}
